"""The API stack: the door of every submission."""

from collections.abc import Mapping

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.components.rest_api import RestApi
from infra.components.tenant_keys import grant_keys
from infra.fleet import FLEET
from infra.stacks.place import place
from infra.stages import Stage as Settings


class ApiStack(Stack):
    """Composes the REST API.

    Attributes:
        rest: The API and its default plan.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Settings,
        functions: Mapping[str, lambda_.IFunction],
        default_key: apigateway.IApiKey,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=place(stage.region),
            description=f"Crawlfleet {stage.name}: REST API",
            termination_protection=stage.protects("api"),
        )
        self.rest = RestApi(self, "Rest", stage=stage, functions=functions, default_key=default_key)
        for spec in FLEET.functions:
            if spec.grants.manages_tenants:
                grant_keys(self, stage=stage, plan=self.rest.plan, role=functions[spec.name].role)
        CfnOutput(self, "Url", value=self.rest.api.url, description="Address of the API")
        CfnOutput(
            self,
            "UsagePlanId",
            value=self.rest.plan.usage_plan_id,
            description="Plan that a further tenant's key may join",
        )
