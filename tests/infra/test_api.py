"""The REST API: routes, keys, limits, logs."""

import dataclasses
import json
from collections.abc import Callable

import pytest

from infra.fleet import AUTHORIZED_BY, FLEET
from infra.stages import STAGES, ApiLogs, Stage
from tests.infra.assembly import STAGE, Assembly
from tests.kit.api import inputs
from tests.kit.kernel import names

#: What the console calls: the API behind it, by a session.
PASSED_ON = ("/console/api/{proxy+}", "ANY")
#: What AWS allows, and no setting changes: requests a second of all APIs of an account, bytes.
ACCOUNTS_RATE = 10_000
API_GATEWAYS_BODY = 10 * 1024 * 1024
LAMBDAS_BODY = 6 * 1024 * 1024


@pytest.fixture
def each_log_setting(composed: Callable[[Stage], Assembly]) -> dict[ApiLogs, Assembly]:
    """The stage under each setting of its API's logs."""
    return {
        setting: composed(dataclasses.replace(STAGES[STAGE], api_logs=setting))
        for setting in ApiLogs
    }


def methods(assembly: Assembly) -> dict[tuple[str, str], dict]:
    """Method properties by path and verb."""
    resources = assembly.resources("api", "AWS::ApiGateway::Resource")

    def path(reference: dict) -> str:
        if "Fn::GetAtt" in reference:
            return ""
        properties = resources[reference["Ref"]]["Properties"]
        return f"{path(properties['ParentId'])}/{properties['PathPart']}"

    found = [
        one["Properties"] for one in assembly.resources("api", "AWS::ApiGateway::Method").values()
    ]
    return {(path(one["ResourceId"]) or "/", one["HttpMethod"]): one for one in found}


def test_api_has_exactly_the_described_routes(assembly: Assembly):
    assert set(methods(assembly)) == {(route.path, route.method) for route in FLEET.routes}


def test_everything_asks_for_a_key_but_health_the_openapi_document_and_the_console(
    assembly: Assembly,
):
    open_methods = {
        at for at, method in methods(assembly).items() if not method.get("ApiKeyRequired")
    }

    assert open_methods == {
        ("/health", "GET"),
        ("/openapi.json", "GET"),
        ("/hubs/{proxy+}", "ANY"),
        ("/console", "GET"),
        ("/console/{proxy+}", "GET"),
        ("/console/session", "GET"),
        ("/console/session", "DELETE"),
        PASSED_ON,
    }


def test_every_route_is_proxied_whole_to_its_function(assembly: Assembly):
    functions = {(route.path, route.method): route.function for route in FLEET.routes}
    found = methods(assembly)
    del found[PASSED_ON]
    for at, method in found.items():
        assert method["Integration"]["Type"] == "AWS_PROXY"
        export = f"ExportsOutputFnGetAtt{functions[at]}Function"
        assert export in json.dumps(method["Integration"]["Uri"])


def test_calls_of_a_session_go_to_the_api_itself_with_the_sessions_key_and_no_cookie(
    assembly: Assembly,
):
    method, integration = (
        methods(assembly)[PASSED_ON],
        methods(assembly)[PASSED_ON]["Integration"],
    )
    [(authorizer, asked)] = assembly.resources("api", "AWS::ApiGateway::Authorizer").items()

    assert method["AuthorizationType"] == "CUSTOM"
    assert method["AuthorizerId"] == {"Ref": authorizer}
    assert asked["Properties"]["AuthorizerResultTtlInSeconds"] == 0
    assert asked["Properties"]["IdentitySource"].split(",") == [
        f"method.request.header.{name}" for name in AUTHORIZED_BY
    ]
    assert "routerFunction" in json.dumps(asked["Properties"]["AuthorizerUri"])
    assert integration["Type"] == "HTTP_PROXY"
    assert json.dumps(integration["Uri"]).endswith(f'/{STAGE}/v1/{{proxy}}"]]}}')
    assert integration["RequestParameters"] == {
        "integration.request.path.proxy": "method.request.path.proxy",
        "integration.request.header.x-api-key": "context.authorizer.key",
        "integration.request.header.Cookie": "'none'",
        "integration.request.header.Accept-Encoding": "'identity'",
    }


def test_who_has_no_session_is_told_so_as_who_is_not_signed_in(assembly: Assembly):
    answer = assembly.only("api", "AWS::ApiGateway::GatewayResponse")["Properties"]

    assert (answer["ResponseType"], answer["StatusCode"]) == ("ACCESS_DENIED", "401")


def test_what_manages_tenants_may_touch_their_keys_and_the_stages_plan_alone(assembly: Assembly):
    policy = assembly.only("api", "AWS::IAM::Policy")["Properties"]
    [(plan, _)] = assembly.resources("api", "AWS::ApiGateway::UsagePlan").items()
    [role] = policy["Roles"]

    def paths(statement: dict) -> list[str]:
        found = statement["Resource"]
        each = found if isinstance(found, list) else [found]
        return [json.dumps(one).rpartition("::")[2] for one in each]

    assert "operatorsRole" in role["Fn::ImportValue"]
    for statement in policy["PolicyDocument"]["Statement"]:
        conditions = statement.get("Condition", {}).get("StringEquals", {})
        for path in paths(statement):
            is_of_the_plan = plan in path or path.startswith('/usageplans"')
            assert is_of_the_plan or list(conditions.values()) == [STAGE], statement
    of_keys = [one for one in policy["PolicyDocument"]["Statement"] if "/apikeys" in paths(one)[0]]
    tags = {one["Action"]: list(one["Condition"]["StringEquals"]) for one in of_keys}
    assert tags == {
        "apigateway:POST": [f"aws:RequestTag/{names.KEYS_TAG}"],
        "apigateway:DELETE": [f"aws:ResourceTag/{names.KEYS_TAG}"],
    }
    # The deployment's key has no such tag, so it is none of those that may go.
    [default] = assembly.resources("state", "AWS::ApiGateway::ApiKey").values()
    assert names.KEYS_TAG not in {tag["Key"] for tag in default["Properties"].get("Tags", [])}


def test_only_this_api_may_invoke_the_functions_behind_it(assembly: Assembly):
    permissions = assembly.resources("api", "AWS::Lambda::Permission").values()

    assert len(permissions) == len(FLEET.routes)
    for permission in permissions:
        assert permission["Properties"]["Principal"] == "apigateway.amazonaws.com"
        assert "RestApi" in json.dumps(permission["Properties"]["SourceArn"])


def test_default_key_is_in_a_plan_with_throttle_and_quota(assembly: Assembly):
    plan = assembly.only("api", "AWS::ApiGateway::UsagePlan")["Properties"]
    membership = assembly.only("api", "AWS::ApiGateway::UsagePlanKey")["Properties"]

    limits = STAGES[STAGE].usage_plan
    assert plan["Throttle"] == {"RateLimit": limits.rate_per_second, "BurstLimit": limits.burst}
    assert plan["Quota"] == {"Limit": limits.daily_quota, "Period": "DAY"}
    assert "DefaultApiKey" in json.dumps(membership["KeyId"])


def test_router_knows_the_very_key_that_is_in_the_plan(assembly: Assembly):
    membership = assembly.only("api", "AWS::ApiGateway::UsagePlanKey")["Properties"]
    variables = assembly.function("router")["Environment"]["Variables"]

    assert variables["CRAWLFLEET_DEFAULT_API_KEY_ID"] == membership["KeyId"]


def test_accesses_are_logged_as_json_without_the_key(assembly: Assembly):
    deployed = assembly.only("api", "AWS::ApiGateway::Stage")["Properties"]

    line = json.loads(deployed["AccessLogSetting"]["Format"])
    assert line["api_key_id"] == "$context.identity.apiKeyId"
    assert "$context.identity.apiKey" not in line.values()
    assert deployed["TracingEnabled"] is True


def test_request_bodies_are_not_logged(assembly: Assembly):
    deployed = assembly.only("api", "AWS::ApiGateway::Stage")["Properties"]

    assert {one["DataTraceEnabled"] for one in deployed["MethodSettings"]} == {False}


def test_the_gateways_own_log_stands_before_the_stage_that_writes_it(assembly: Assembly):
    groups = assembly.resources("api", "AWS::Logs::LogGroup")
    deployed = assembly.only("api", "AWS::ApiGateway::Stage")

    (own,) = [
        key
        for key, group in groups.items()
        if "API-Gateway-Execution-Logs_" in json.dumps(group["Properties"]["LogGroupName"])
    ]
    assert own in deployed["DependsOn"]
    name = groups[own]["Properties"]["LogGroupName"]["Fn::Join"][1]
    assert name == ["API-Gateway-Execution-Logs_", deployed["Properties"]["RestApiId"], f"/{STAGE}"]


@pytest.mark.parametrize("stack", ["compute", "api"])
def test_every_log_group_forgets(assembly: Assembly, stack: str):
    groups = assembly.resources(stack, "AWS::Logs::LogGroup").values()

    assert groups
    assert {group["Properties"]["RetentionInDays"] for group in groups} == {
        STAGES[STAGE].log_retention_days
    }


def test_routes_without_a_key_have_limits_of_their_own(assembly: Assembly):
    deployed = assembly.only("api", "AWS::ApiGateway::Stage")["Properties"]

    limited = {
        (one["ResourcePath"], one["HttpMethod"]): one["ThrottlingRateLimit"]
        for one in deployed["MethodSettings"]
        if "ThrottlingRateLimit" in one
    }
    limit = STAGES[STAGE].usage_plan.open_rate_per_second
    assert limited.pop(("/*", "*")) == STAGES[STAGE].usage_plan.api_rate_per_second
    open_methods = {
        ("/~1health", "GET"),
        ("/~1openapi.json", "GET"),
        ("/~1hubs~1{proxy+}", "ANY"),
        ("/~1console", "GET"),
        ("/~1console~1{proxy+}", "GET"),
        ("/~1console~1session", "GET"),
        ("/~1console~1session", "DELETE"),
    }
    assert limited == dict.fromkeys(open_methods, limit)


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_one_tenant_cannot_use_up_what_all_have_together(stage: Stage):
    limits = stage.usage_plan

    assert limits.rate_per_second < limits.api_rate_per_second < ACCOUNTS_RATE
    assert limits.open_rate_per_second < limits.api_rate_per_second


def test_a_request_that_the_router_takes_passes_api_gateway_and_lambda():
    assert inputs.BODY_LIMIT <= LAMBDAS_BODY < API_GATEWAYS_BODY


def test_a_stage_that_may_not_set_the_accounts_role_sets_none(
    each_log_setting: dict[ApiLogs, Assembly],
):
    roles = {
        setting: made.resources("api", "AWS::ApiGateway::Account")
        for setting, made in each_log_setting.items()
    }

    assert [setting for setting, found in roles.items() if found] == [ApiLogs.OWN_ROLE]
    [account] = roles[ApiLogs.OWN_ROLE].values()
    assert account["DeletionPolicy"] == "Retain"
    role = each_log_setting[ApiLogs.OWN_ROLE].only("api", "AWS::IAM::Role")
    # Other APIs of the account write by it too.
    assert role["DeletionPolicy"] == "Retain"


def test_accesses_and_faults_are_logged_unless_the_stage_wants_no_logs(
    each_log_setting: dict[ApiLogs, Assembly],
):
    for setting, made in each_log_setting.items():
        deployed = made.only("api", "AWS::ApiGateway::Stage")
        logged = setting is not ApiLogs.NONE
        assert ("AccessLogSetting" in deployed["Properties"]) is logged
        assert len(made.resources("api", "AWS::Logs::LogGroup")) == (2 if logged else 0)
        levels = {one["LoggingLevel"] for one in deployed["Properties"]["MethodSettings"]}
        assert levels == {"ERROR" if logged else "OFF"}


def test_address_and_plan_are_reported_to_the_operator(assembly: Assembly):
    outputs = assembly.template("api")["Outputs"]

    (plan,) = assembly.resources("api", "AWS::ApiGateway::UsagePlan")
    assert outputs["UsagePlanId"]["Value"] == {"Ref": plan}
    assert ".execute-api." in json.dumps(outputs["Url"]["Value"])
