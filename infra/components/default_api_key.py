"""The default tenant's API key. Its value is made by API Gateway and read there by the operator."""

from aws_cdk import aws_apigateway as apigateway
from constructs import Construct

from crawlfleet.kernel import names
from infra.components.keeping import kept
from infra.stages import Stage


class DefaultApiKey(Construct):
    """An API key that is kept with the state: a replaced key locks its holders out.

    Attributes:
        key: The key; the REST API's usage plan admits it, the router knows its id.
    """

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(scope, construct_id)
        resource = apigateway.CfnApiKey(
            self,
            "Key",
            name=f"{names.PRODUCT}-{stage.name}-{names.DEFAULT_TENANT}",
            description="Key of the default tenant",
            enabled=True,
        )
        resource.apply_removal_policy(kept(stage))
        resource.override_logical_id("DefaultApiKey")
        self.key = apigateway.ApiKey.from_api_key_id(self, "Imported", resource.ref)
