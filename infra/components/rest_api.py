"""The REST API: API Gateway in front of the router, with keys, a usage plan and access logs.

REST (v1) rather than HTTP (v2), because keys and usage plans per tenant exist only here and
LocalStack's community edition knows no other (DESIGN.md, decision 12).
"""

from collections.abc import Mapping

from aws_cdk import RemovalPolicy
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from crawlfleet import names
from infra.components.crawl_function import retention
from infra.fleet import FLEET
from infra.stages import Stage


class RestApi(Construct):
    """The routes of ``fleet.py``, each proxied whole to its function.

    Attributes:
        api: The API.
        plan: Usage plan that the default tenant's key is in.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        functions: Mapping[str, lambda_.IFunction],
        default_key: apigateway.IApiKey,
    ) -> None:
        super().__init__(scope, construct_id)
        access_log = logs.LogGroup(
            self,
            "AccessLog",
            log_group_name=f"/aws/apigateway/{names.PRODUCT}-{stage.name}",
            retention=retention(stage.log_retention_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.api = apigateway.RestApi(
            self,
            "Api",
            rest_api_name=f"{names.PRODUCT}-{stage.name}",
            description="Submits requests and reads them back",
            endpoint_types=[apigateway.EndpointType.REGIONAL],
            # The account's one setting that lets API Gateway log at all; other APIs may use it.
            cloud_watch_role=True,
            cloud_watch_role_removal_policy=RemovalPolicy.RETAIN,
            deploy_options=apigateway.StageOptions(
                stage_name=stage.name,
                tracing_enabled=True,
                metrics_enabled=True,
                logging_level=apigateway.MethodLoggingLevel.ERROR,
                data_trace_enabled=False,
                access_log_destination=apigateway.LogGroupLogDestination(access_log),
                access_log_format=_access_log_format(),
                method_options=_open_routes(stage),
            ),
        )
        # API Gateway makes this group itself where there is none, and keeps its lines for ever.
        faults = logs.LogGroup(
            self,
            "ExecutionLog",
            log_group_name=f"API-Gateway-Execution-Logs_{self.api.rest_api_id}/{stage.name}",
            retention=retention(stage.log_retention_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.api.deployment_stage.node.add_dependency(faults)
        for route in FLEET.routes:
            self.api.root.resource_for_path(route.path).add_method(
                route.method,
                apigateway.LambdaIntegration(functions[route.function], allow_test_invoke=False),
                api_key_required=route.api_key_required,
            )
        self.plan = self.api.add_usage_plan(
            "DefaultPlan",
            name=f"{names.PRODUCT}-{stage.name}-{names.DEFAULT_TENANT}",
            description="What the default tenant may ask",
            throttle=apigateway.ThrottleSettings(
                rate_limit=stage.usage_plan.rate_per_second, burst_limit=stage.usage_plan.burst
            ),
            quota=apigateway.QuotaSettings(
                limit=stage.usage_plan.daily_quota, period=apigateway.Period.DAY
            ),
            api_stages=[
                apigateway.UsagePlanPerApiStage(api=self.api, stage=self.api.deployment_stage)
            ],
        )
        self.plan.add_api_key(default_key)


def _open_routes(stage: Stage) -> dict[str, apigateway.MethodDeploymentOptions]:
    """Limits of the routes without a key: no usage plan holds back who needs none.

    API Gateway sets limits for one method at a time, so such a route must name its own. An entry
    replaces the stage's settings for its method, hence it repeats them.
    """
    return {
        f"{route.path}/{route.method}": apigateway.MethodDeploymentOptions(
            throttling_rate_limit=stage.usage_plan.open_rate_per_second,
            throttling_burst_limit=stage.usage_plan.open_rate_per_second,
            metrics_enabled=True,
            logging_level=apigateway.MethodLoggingLevel.ERROR,
            data_trace_enabled=False,
        )
        for route in FLEET.routes
        if not route.api_key_required
    }


def _access_log_format() -> apigateway.AccessLogFormat:
    """One JSON line a request: who by key id, what, how long; never the key itself."""
    return apigateway.AccessLogFormat.custom(
        '{"request_id":"$context.requestId","api_key_id":"$context.identity.apiKeyId",'
        '"source_ip":"$context.identity.sourceIp","method":"$context.httpMethod",'
        '"path":"$context.path","status":"$context.status",'
        '"response_bytes":"$context.responseLength","latency_ms":"$context.responseLatency",'
        '"trace_id":"$context.xrayTraceId","requested_at":"$context.requestTimeEpoch"}'
    )
