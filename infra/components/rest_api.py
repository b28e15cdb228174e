"""The REST API: API Gateway in front of the router, with keys, a usage plan and access logs.

REST (v1) rather than HTTP (v2), because keys and usage plans per tenant exist only here and
LocalStack's community edition knows no other (DESIGN.md, decision 12).

**How large a request may be.** API Gateway refuses more than 10 MB and Lambda more than 6 MB; both
are fixed, and REST APIs have no setting below: a request validator knows schemas and not sizes, a
resource policy has no condition for it, and a web ACL sees the first 64 KB, where an honest batch
is larger. What holds the bound is the router: ``BODY_LIMIT`` in ``crawlfleet/api/inputs.py``,
which answers 413.
"""

from collections.abc import Mapping
from typing import Any

from aws_cdk import RemovalPolicy, Size, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from crawlfleet.kernel import names
from infra.components.crawl_function import retention
from infra.fleet import AUTHORIZED_BY, COMPRESSED_FROM_BYTES, FLEET, Route
from infra.stages import ApiLogs, Stage


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
        limits, logged = stage.usage_plan, stage.api_logs is not ApiLogs.NONE
        self._stage_name = stage.name
        own_role = stage.api_logs is ApiLogs.OWN_ROLE
        self.api = apigateway.RestApi(
            self,
            "Api",
            rest_api_name=f"{names.PRODUCT}-{stage.name}",
            description="Submits requests and reads them back",
            endpoint_types=[apigateway.EndpointType.REGIONAL],
            # The account's one setting that lets API Gateway log at all: other APIs may have come
            # to rely on it, so it stays.
            cloud_watch_role=own_role,
            cloud_watch_role_removal_policy=RemovalPolicy.RETAIN if own_role else None,
            # The console's files are text, and as small as their compression makes them.
            min_compression_size=Size.bytes(COMPRESSED_FROM_BYTES),
            deploy_options=apigateway.StageOptions(
                stage_name=stage.name,
                tracing_enabled=stage.tracing,
                throttling_rate_limit=limits.api_rate_per_second,
                throttling_burst_limit=limits.api_rate_per_second,
                method_options=_open_routes(stage),
                **_method_settings(stage),
                **(self._access_log(stage) if logged else {}),
            ),
        )
        if logged:
            # API Gateway makes this group itself where there is none, and keeps its lines for ever.
            faults = self._log_group(
                "ExecutionLog",
                f"API-Gateway-Execution-Logs_{self.api.rest_api_id}/{stage.name}",
                stage,
            )
            self.api.deployment_stage.node.add_dependency(faults)
        for route in FLEET.routes:
            if route.leads_to and not stage.console:
                continue
            resource = self.api.root.resource_for_path(route.path)
            if route.leads_to:
                self._pass_on(resource, route, functions[route.function])
                continue
            resource.add_method(
                route.method,
                apigateway.LambdaIntegration(functions[route.function], allow_test_invoke=False),
                api_key_required=route.api_key_required,
            )
        self.plan = self.api.add_usage_plan(
            "DefaultPlan",
            name=f"{names.PRODUCT}-{stage.name}-{names.DEFAULT_TENANT}",
            description="What the default tenant may ask",
            throttle=apigateway.ThrottleSettings(
                rate_limit=limits.rate_per_second, burst_limit=limits.burst
            ),
            quota=apigateway.QuotaSettings(limit=limits.daily_quota, period=apigateway.Period.DAY),
            api_stages=[
                apigateway.UsagePlanPerApiStage(api=self.api, stage=self.api.deployment_stage)
            ],
        )
        self.plan.add_api_key(default_key)

    def _pass_on(
        self, resource: apigateway.Resource, route: Route, function: lambda_.IFunction
    ) -> None:
        """Passes calls with a session on to the API itself, with the session's key.

        So usage plans count and limit them like any other call, and calls with a key pay nothing
        for it: were the key the authorizer's to say (``apiKeySource``), each call to the API would
        wait for one. Its answer is not cached, so that a session ends when it is ended.
        """
        stack = Stack.of(self)
        # By hand: CDK's own lets itself in where the function stands, which is an earlier stack.
        authorizer = apigateway.CfnAuthorizer(
            self,
            "Sessions",
            name="sessions",
            rest_api_id=self.api.rest_api_id,
            type="REQUEST",
            authorizer_uri=(
                f"arn:{stack.partition}:apigateway:{stack.region}:lambda:path/2015-03-31"
                f"/functions/{function.function_arn}/invocations"
            ),
            identity_source=",".join(f"method.request.header.{name}" for name in AUTHORIZED_BY),
            authorizer_result_ttl_in_seconds=0,
        )
        lambda_.CfnPermission(
            self,
            "AskedForSessions",
            action="lambda:InvokeFunction",
            function_name=function.function_arn,
            principal="apigateway.amazonaws.com",
            source_arn=stack.format_arn(
                service="execute-api",
                resource=self.api.rest_api_id,
                resource_name=f"authorizers/{authorizer.ref}",
            ),
        )
        host = f"{self.api.rest_api_id}.execute-api.{stack.region}.{stack.url_suffix}"
        method = resource.add_method(
            route.method,
            apigateway.HttpIntegration(
                f"https://{host}/{self._stage_name}{route.leads_to.replace('{proxy+}', '{proxy}')}",
                http_method=route.method,
                proxy=True,
                options=apigateway.IntegrationOptions(
                    request_parameters={
                        "integration.request.path.proxy": "method.request.path.proxy",
                        "integration.request.header.x-api-key": "context.authorizer.key",
                        # The half of the key that the cookie is stays here.
                        "integration.request.header.Cookie": "'none'",
                        # It is compressed once, on the way to the browser.
                        "integration.request.header.Accept-Encoding": "'identity'",
                    }
                ),
            ),
            request_parameters={"method.request.path.proxy": True},
            api_key_required=False,
        )
        of_method = method.node.default_child
        assert isinstance(of_method, apigateway.CfnMethod)  # noqa: S101  for the type checker
        of_method.authorization_type, of_method.authorizer_id = "CUSTOM", authorizer.ref
        # Nothing else is denied here: a policy of the API's own there is none.
        self.api.add_gateway_response(
            "NotSignedIn",
            type=apigateway.ResponseType.ACCESS_DENIED,
            status_code="401",
            templates={"application/json": '{"message":"nobody is signed in"}'},
        )

    def _access_log(self, stage: Stage) -> dict[str, Any]:
        group = self._log_group("AccessLog", f"/aws/apigateway/{names.PRODUCT}-{stage.name}", stage)
        return {
            "access_log_destination": apigateway.LogGroupLogDestination(group),
            "access_log_format": _access_log_format(),
        }

    def _log_group(self, construct_id: str, name: str, stage: Stage) -> logs.LogGroup:
        return logs.LogGroup(
            self,
            construct_id,
            log_group_name=name,
            retention=retention(stage.log_retention_days),
            removal_policy=RemovalPolicy.DESTROY,
        )


def _open_routes(stage: Stage) -> dict[str, apigateway.MethodDeploymentOptions]:
    """Limits of the routes without a key: no usage plan holds back who needs none.

    API Gateway sets limits for one method at a time, so such a route must name its own. An entry
    replaces the stage's settings for its method, hence it repeats them.
    """
    return {
        f"{route.path}/{route.method}": apigateway.MethodDeploymentOptions(
            throttling_rate_limit=stage.usage_plan.open_rate_per_second,
            throttling_burst_limit=stage.usage_plan.open_rate_per_second,
            **_method_settings(stage),
        )
        for route in FLEET.routes
        if not route.api_key_required and not route.leads_to
    }


def _method_settings(stage: Stage) -> dict[str, Any]:
    """Measure and log faults of a method, and never what callers send."""
    logged = stage.api_logs is not ApiLogs.NONE
    level = apigateway.MethodLoggingLevel
    return {
        "metrics_enabled": True,
        "logging_level": level.ERROR if logged else level.OFF,
        "data_trace_enabled": False,
    }


def _access_log_format() -> apigateway.AccessLogFormat:
    """Return the access log's format: a JSON line a request, with the key's id, never the key."""
    return apigateway.AccessLogFormat.custom(
        '{"request_id":"$context.requestId","api_key_id":"$context.identity.apiKeyId",'
        '"source_ip":"$context.identity.sourceIp","method":"$context.httpMethod",'
        '"path":"$context.path","status":"$context.status",'
        '"response_bytes":"$context.responseLength","latency_ms":"$context.responseLatency",'
        '"trace_id":"$context.xrayTraceId","requested_at":"$context.requestTimeEpoch"}'
    )
