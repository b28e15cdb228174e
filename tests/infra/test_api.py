"""The REST API: routes, keys, limits, logs."""

import json

import pytest

from infra.fleet import FLEET
from infra.stages import STAGES
from tests.infra.assembly import STAGE, Assembly


def methods(assembly: Assembly) -> dict[str, dict]:
    """Method properties by path."""
    resources = assembly.resources("api", "AWS::ApiGateway::Resource")

    def path(reference: dict) -> str:
        if "Fn::GetAtt" in reference:
            return ""
        properties = resources[reference["Ref"]]["Properties"]
        return f"{path(properties['ParentId'])}/{properties['PathPart']}"

    found = [
        one["Properties"] for one in assembly.resources("api", "AWS::ApiGateway::Method").values()
    ]
    return {path(one["ResourceId"]) or "/": one for one in found}


def test_api_has_exactly_the_described_routes(assembly: Assembly):
    found = {(path, method["HttpMethod"]) for path, method in methods(assembly).items()}

    assert found == {(route.path, route.method) for route in FLEET.routes}


def test_everything_asks_for_a_key_but_health_and_the_openapi_document(assembly: Assembly):
    open_paths = {
        path for path, method in methods(assembly).items() if not method["ApiKeyRequired"]
    }

    assert open_paths == {"/health", "/openapi.json"}


def test_every_route_is_proxied_whole_to_the_router(assembly: Assembly):
    for method in methods(assembly).values():
        assert method["Integration"]["Type"] == "AWS_PROXY"
        assert "ExportsOutputFnGetAttrouterFunction" in json.dumps(method["Integration"]["Uri"])


def test_only_this_api_may_invoke_the_router(assembly: Assembly):
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
    assert limited == {("/~1health", "GET"): limit, ("/~1openapi.json", "GET"): limit}


def test_address_and_plan_are_told_to_the_operator(assembly: Assembly):
    outputs = assembly.template("api")["Outputs"]

    (plan,) = assembly.resources("api", "AWS::ApiGateway::UsagePlan")
    assert outputs["UsagePlanId"]["Value"] == {"Ref": plan}
    assert ".execute-api." in json.dumps(outputs["Url"]["Value"])
