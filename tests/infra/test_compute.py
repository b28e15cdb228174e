"""The functions as deployed: settings, permissions, dead letters, logs."""

import json
from typing import Any

import pytest

from infra.fleet import PYTHON_VERSION, FunctionSpec
from infra.pools import fleet_of
from infra.stages import STAGES
from tests.infra.assembly import STAGE, Assembly
from tests.kit.kernel import names

#: Of the stage that has everything, pools among it.
FLEET = fleet_of(STAGES[STAGE].pools)
POOLS = {names.consumer(pool.name): pool for pool in STAGES[STAGE].pools}
EACH_FUNCTION = pytest.mark.parametrize("spec", FLEET.functions, ids=lambda spec: spec.name)
INSIDE = [spec for spec in FLEET.functions if spec.in_network]
EACH_INSIDE = pytest.mark.parametrize("spec", INSIDE, ids=lambda spec: spec.name)

#: Actions for which AWS knows no narrower resource: interfaces of the VPC do not exist before they
#: are asked for, and X-Ray has no resources to name.
ONLY_FOR_ALL = {
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
}
OF_TRACES = {action for action in ONLY_FOR_ALL if action.startswith("xray:")}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def allowed(assembly: Assembly, name: str) -> dict[str, list[Any]]:
    """Resources by action, of everything that is allowed."""
    found: dict[str, list[Any]] = {}
    for statement in assembly.statements(name):
        if statement["Effect"] == "Allow":
            for action in listed(statement["Action"]):
                found.setdefault(action, []).extend(listed(statement["Resource"]))
    return found


def text(value: Any) -> str:
    """A resource's ARN with its references left out: what is said literally."""
    match value:
        case str():
            return value
        case {"Fn::Join": [separator, parts]}:
            return separator.join(text(part) for part in parts)
        case {"Ref": reference}:
            return f"<{reference}>"
        case {"Fn::GetAtt": [reference, attribute]}:
            return f"<{reference}.{attribute}>"
        case {"Fn::ImportValue": export}:
            return f"<{export}>"
    raise AssertionError(f"unknown reference {value}")


def test_fleet_is_exactly_the_functions_in_the_templates(assembly: Assembly):
    expected = {names.function_name(STAGE, spec.name) for spec in FLEET.functions}

    assert set(assembly.functions()) == expected


@EACH_FUNCTION
def test_function_is_as_described(assembly: Assembly, spec: FunctionSpec):
    function = assembly.function(spec.name)

    assert function["Handler"] == f"functions.{spec.package}.handler.lambda_handler"
    assert function["MemorySize"] == spec.memory_mb
    assert function["Timeout"] == spec.timeout_seconds
    assert function["Runtime"] == f"python{PYTHON_VERSION}"
    assert function["Architectures"] == ["arm64"]
    assert function["TracingConfig"] == {"Mode": "Active"}
    assert len(function["Layers"]) == 1 + len(spec.vendor)


@EACH_FUNCTION
def test_function_receives_exactly_the_described_environment(
    assembly: Assembly, spec: FunctionSpec
):
    variables = assembly.function(spec.name)["Environment"]["Variables"]

    assert set(variables) - {"AWS_USE_DUALSTACK_ENDPOINT"} == set(spec.environment)


def test_environment_says_where_things_are(assembly: Assembly):
    variables = assembly.function(names.ROUTER)["Environment"]["Variables"]

    assert variables[names.ENV_STAGE] == STAGE
    assert variables[names.ENV_NODE_SECRET] == names.node_secret(STAGE, "{node}")
    assert text(variables[names.ENV_REDIS_URL]).startswith("rediss://")
    assert "DefaultApiKey" in text(variables[names.ENV_DEFAULT_API_KEY_ID])
    assert "RedisToken" in text(variables[names.ENV_REDIS_SECRET])
    assert text(variables[names.ENV_CONSUMER_FUNCTION]).startswith("<consumerFunction")
    assert text(variables[names.ENV_ID_ISSUER_FUNCTION]).startswith("<idissuerFunction")


def test_what_tries_rules_stands_outside_of_the_network(assembly: Assembly):
    function = assembly.function(names.TRIALS)

    assert "VpcConfig" not in function
    assert not any(action.startswith("ec2:") for action in allowed(assembly, names.TRIALS))


def test_what_tries_rules_may_write_its_log_and_traces_and_nothing_else(assembly: Assembly):
    assert set(allowed(assembly, names.TRIALS)) == {
        *("logs:CreateLogStream", "logs:PutLogEvents"),
        *("xray:PutTelemetryRecords", "xray:PutTraceSegments"),
    }


@EACH_INSIDE
def test_function_stands_in_the_private_dual_stack_subnets(assembly: Assembly, spec: FunctionSpec):
    vpc = assembly.function(spec.name)["VpcConfig"]

    assert vpc["Ipv6AllowedForDualStack"] is True
    assert len(vpc["SubnetIds"]) == 2
    assert all("functionsSubnet" in text(subnet) for subnet in vpc["SubnetIds"])
    assert len(vpc["SecurityGroupIds"]) == 1


@EACH_INSIDE
def test_functions_talk_to_aws_past_the_nat(assembly: Assembly, spec: FunctionSpec):
    variables = assembly.function(spec.name)["Environment"]["Variables"]

    assert variables["AWS_USE_DUALSTACK_ENDPOINT"] == "true"


def test_workers_and_what_must_run_whatever_the_router_does_have_reserved_concurrency(
    assembly: Assembly,
):
    reserved = {
        name: function.get("ReservedConcurrentExecutions")
        for name, function in assembly.functions().items()
    }

    consumer = names.function_name(STAGE, names.CONSUMER)
    assert reserved.pop(consumer) == STAGES[STAGE].consumer_concurrency
    for function, pool in POOLS.items():
        assert reserved.pop(names.function_name(STAGE, function)) == pool.concurrency
    kept = {names.SCHEDULER: 5, names.MONITOR: 2, names.ID_ISSUER: 20}
    for function, most in kept.items():
        assert reserved.pop(names.function_name(STAGE, function)) == most
    trials = names.function_name(STAGE, names.TRIALS)
    assert reserved.pop(trials) == STAGES[STAGE].trials_concurrency
    # The router has what the account has besides: a flood of calls takes nobody else's.
    others = (names.ROUTER, names.OPERATORS)
    assert reserved == dict.fromkeys(names.function_name(STAGE, name) for name in others)


@EACH_FUNCTION
def test_only_what_aws_has_no_narrower_word_for_is_allowed_on_everything(
    assembly: Assembly, spec: FunctionSpec
):
    on_everything = {
        action for action, resources in allowed(assembly, spec.name).items() if "*" in resources
    }

    # Secrets Manager lists an account's names or none.
    lists = {"secretsmanager:ListSecrets"} if spec.grants.manages_tenants else set()
    assert on_everything == lists | (ONLY_FOR_ALL if spec.in_network else OF_TRACES)
    assert not any("*" in action for action in allowed(assembly, spec.name))


@EACH_INSIDE
def test_code_itself_may_not_touch_network_interfaces(assembly: Assembly, spec: FunctionSpec):
    (denied,) = [one for one in assembly.statements(spec.name) if one["Effect"] == "Deny"]

    assert set(denied["Action"]) == {one for one in ONLY_FOR_ALL if one.startswith("ec2:")}
    arn = text(denied["Condition"]["ArnEquals"]["lambda:SourceFunctionArn"])
    assert arn.endswith(f":function:{names.function_name(STAGE, spec.name)}")


@EACH_FUNCTION
def test_function_has_no_permission_beyond_its_description(assembly: Assembly, spec: FunctionSpec):
    expected = {"logs:CreateLogStream", "logs:PutLogEvents", *OF_TRACES}
    if spec.in_network:
        expected |= ONLY_FOR_ALL
    if spec.grants.reads_config:
        expected |= {"ssm:GetParameter", "ssm:GetParameters", "ssm:GetParametersByPath"}
        expected |= {"kms:Decrypt"}
    if spec.grants.reads_redis_secret or spec.grants.reads_node_secrets:
        expected |= {"secretsmanager:GetSecretValue"}
    if spec.grants.invokes:
        expected |= {"lambda:InvokeFunction"}
    if spec.grants.limits:
        expected |= {"lambda:GetFunctionConcurrency", "lambda:PutFunctionConcurrency"}
    if spec.grants.manages_tenants:
        expected |= {"ssm:PutParameter", "ssm:DeleteParameters", "kms:Encrypt"}
        expected |= {"secretsmanager:ListSecrets", "secretsmanager:DeleteSecret"}
    if spec.grants.notifies:
        expected |= {"sns:Publish", "kms:Decrypt", "kms:GenerateDataKey"}
    if spec.keeps_dead_letters:
        expected |= {"sqs:SendMessage"}
    if any(clock.function == spec.name and clock.again_seconds for clock in FLEET.clocks):
        expected |= {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}

    assert set(allowed(assembly, spec.name)) == expected


@EACH_INSIDE
def test_configuration_is_decrypted_by_parameter_store_alone_and_with_the_stages_key(
    assembly: Assembly, spec: FunctionSpec
):
    uses = {"kms:Decrypt"} | ({"kms:Encrypt"} if spec.grants.manages_tenants else set())
    of_the_key = [
        one
        for one in assembly.statements(spec.name)
        if "Condition" in one and all(each.startswith("kms:") for each in listed(one["Action"]))
    ]
    conditions = {json.dumps(one["Condition"], sort_keys=True) for one in of_the_key}

    assert {each for one in of_the_key for each in listed(one["Action"])} == uses
    assert len(conditions) == 1
    condition = of_the_key[0]["Condition"]
    (via,) = condition["StringEquals"].values()
    assert text(via).startswith("ssm.")
    assert condition["ForAnyValue:StringEquals"] == {
        "kms:ResourceAliases": f"alias/crawlfleet/{STAGE}"
    }
    (alias,) = assembly.resources("state", "AWS::KMS::Alias").values()
    assert alias["Properties"]["AliasName"] == f"alias/crawlfleet/{STAGE}"


def test_documents_of_tenants_are_written_and_deleted_and_no_others(assembly: Assembly):
    found = allowed(assembly, names.OPERATORS)

    root = names.config_root(STAGE)
    ends = {
        action: sorted(text(arn).partition(f":parameter{root}/")[2] for arn in found[action])
        for action in ("ssm:PutParameter", "ssm:DeleteParameters")
    }
    assert ends == {
        "ssm:PutParameter": [names.CONFIG_REVISION, f"{names.CONFIG_SNAPSHOT}/*", "tenants/*"],
        "ssm:DeleteParameters": ["bizs/*", f"{names.CONFIG_SNAPSHOT}/*", "tenants/*"],
    }
    [deleted] = found["secretsmanager:DeleteSecret"]
    assert text(deleted).endswith(f":secret:{names.tenant_secrets(STAGE)}/*")


def test_roles_carry_no_managed_policies(assembly: Assembly):
    for role in assembly.resources("compute", "AWS::IAM::Role").values():
        assert "ManagedPolicyArns" not in role["Properties"]
        assert "Policies" not in role["Properties"]


@EACH_INSIDE
def test_parameters_are_readable_below_the_stages_root_only(assembly: Assembly, spec: FunctionSpec):
    found = allowed(assembly, spec.name)

    root = names.config_root(STAGE)
    ends = {
        action: sorted(text(arn).partition(":parameter")[2] for arn in found[action])
        for action in ("ssm:GetParameter", "ssm:GetParameters", "ssm:GetParametersByPath")
    }
    assert ends == {
        "ssm:GetParameter": [f"{root}/{names.CONFIG_REVISION}"],  # by older versions
        "ssm:GetParameters": [
            f"{root}/{names.CONFIG_REVISION}",
            f"{root}/{names.CONFIG_SNAPSHOT}/*",
        ],
        "ssm:GetParametersByPath": [root, f"{root}/*"],
    }


@EACH_INSIDE
def test_secrets_are_readable_of_this_stage_only(assembly: Assembly, spec: FunctionSpec):
    arns = [text(arn) for arn in allowed(assembly, spec.name)["secretsmanager:GetSecretValue"]]

    nodes = [arn for arn in arns if arn.endswith(f":secret:{names.node_secret(STAGE, '*')}")]
    redis = [arn for arn in arns if "RedisToken" in arn]
    proxies = [arn for arn in arns if arn.endswith(f":secret:{names.proxy_secret(STAGE, '*')}")]
    tenants = [arn for arn in arns if arn.endswith(f":secret:{names.tenant_secrets(STAGE)}/*")]
    traces = [arn for arn in arns if arn.endswith(f":secret:{names.collector_secret(STAGE, '*')}")]
    # Workers ask for pages; the router reads for a trial what that needs.
    many = int(spec.is_worker or spec.name == names.ROUTER)
    sends = int(spec.is_worker or spec.name in {names.ROUTER, names.SCHEDULER})
    found = len(nodes), len(redis), len(proxies), len(tenants), len(traces), len(arns)
    assert found == (1, 1, many, many, sends, 2 + 2 * many + sends)


@EACH_FUNCTION
def test_function_invokes_the_described_functions_only(assembly: Assembly, spec: FunctionSpec):
    arns = [text(arn) for arn in allowed(assembly, spec.name).get("lambda:InvokeFunction", [])]

    # Nothing can refer to itself, nor to what is made after it: these rights name the function.
    named = {arn.rpartition(":")[2] for arn in arns if not arn.startswith("<")}
    referred = {arn.split("Function")[0].removeprefix("<") for arn in arns if arn.startswith("<")}
    order = [one.name for one in FLEET.functions]
    made = order[: order.index(spec.name)]
    assert referred == {n.replace("-", "") for n in spec.grants.invokes if n in made}
    assert named == {
        names.function_name(STAGE, name) for name in spec.grants.invokes if name not in made
    }
    assert "*" not in arns


def test_only_the_scheduler_changes_how_many_consumers_there_may_be(assembly: Assembly):
    for spec in FLEET.functions:
        for action in ("lambda:GetFunctionConcurrency", "lambda:PutFunctionConcurrency"):
            arns = [text(arn) for arn in allowed(assembly, spec.name).get(action, [])]
            assert len(arns) == (1 + len(POOLS)) * (spec.name == names.SCHEDULER)
            assert all(arn.startswith("<consumer") for arn in arns)

    variables = assembly.function(names.SCHEDULER)["Environment"]["Variables"]
    ceiling = str(STAGES[STAGE].consumer_concurrency)
    assert variables[names.ENV_CONSUMER_CEILING] == ceiling


@EACH_FUNCTION
def test_function_writes_its_own_log_only(assembly: Assembly, spec: FunctionSpec):
    (log,) = allowed(assembly, spec.name)["logs:PutLogEvents"]

    groups = assembly.resources("compute", "AWS::Logs::LogGroup")
    group = groups[log["Fn::GetAtt"][0]]["Properties"]
    assert group["LogGroupName"] == f"/aws/lambda/{names.function_name(STAGE, spec.name)}"
    assert group["RetentionInDays"] == STAGES[STAGE].log_retention_days


@EACH_FUNCTION
def test_dead_letters_are_kept_where_they_are_worth_something(
    assembly: Assembly, spec: FunctionSpec
):
    function = assembly.function(spec.name)

    if not spec.keeps_dead_letters:
        assert "DeadLetterConfig" not in function
        assert "sqs:SendMessage" not in allowed(assembly, spec.name)
        return
    queue_id = function["DeadLetterConfig"]["TargetArn"]["Fn::GetAtt"][0]
    queue = assembly.resources("compute", "AWS::SQS::Queue")[queue_id]["Properties"]
    assert queue["SqsManagedSseEnabled"] is True
    assert queue["MessageRetentionPeriod"] == 3600 * spec.asynchronous.dead_letters_kept_hours
    assert allowed(assembly, spec.name)["sqs:SendMessage"] == [{"Fn::GetAtt": [queue_id, "Arn"]}]


def test_dead_letters_of_a_tick_are_gone_soon_so_that_their_alarm_ends_by_itself():
    ticking = {FLEET.function(clock.function) for clock in FLEET.clocks}

    kept = {spec.asynchronous.dead_letters_kept_hours for spec in ticking if spec.asynchronous}
    assert len(ticking) == 2
    assert kept == {1}


@EACH_FUNCTION
def test_logs_and_dead_letters_are_reported_to_the_operator(assembly: Assembly, spec: FunctionSpec):
    outputs = assembly.template("compute")["Outputs"]
    words = spec.name.title().replace("-", "")

    log = assembly.function(spec.name)["LoggingConfig"]["LogGroup"]
    assert outputs[f"{words}LogGroup"]["Value"] == log
    if spec.keeps_dead_letters:
        queue = assembly.function(spec.name)["DeadLetterConfig"]["TargetArn"]["Fn::GetAtt"][0]
        assert outputs[f"{words}DeadLetters"]["Value"] == {"Ref": queue}
    else:
        assert f"{words}DeadLetters" not in outputs


@EACH_FUNCTION
def test_a_function_that_invokes_itself_is_not_stopped_as_a_loop(
    assembly: Assembly, spec: FunctionSpec
):
    expected = "Allow" if spec.is_worker else None

    assert assembly.function(spec.name).get("RecursiveLoop") == expected


def test_asynchronous_invocations_are_tried_and_aged_as_described(assembly: Assembly):
    configured = {}
    for resource in assembly.resources("compute", "AWS::Lambda::EventInvokeConfig").values():
        properties = resource["Properties"]
        limits = (properties["MaximumRetryAttempts"], properties["MaximumEventAgeInSeconds"])
        configured[text(properties["FunctionName"]).split("Function")[0]] = limits

    assert configured == {
        f"<{spec.name.replace('-', '')}": (
            spec.asynchronous.retry_attempts,
            spec.asynchronous.max_event_age_seconds,
        )
        for spec in FLEET.functions
        if spec.asynchronous
    }


def test_dead_letter_queues_refuse_unencrypted_transport(assembly: Assembly):
    queues = assembly.resources("compute", "AWS::SQS::Queue")
    guarded = {
        queue["Ref"]
        for policy in assembly.resources("compute", "AWS::SQS::QueuePolicy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for queue in policy["Properties"]["Queues"]
    }

    assert guarded == set(queues)
