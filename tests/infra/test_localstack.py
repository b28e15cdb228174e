"""The stage `localstack`: nothing in it that LocalStack's community edition only pretends to make.

LocalStack reports every type it does not know as created and does nothing, so a deployment there
proves nothing of such a resource. The list is of what it makes (4.14), from its resource providers
and its authors' notes on what they do.
"""

from infra.stages import STAGES, GivenRedis
from tests.infra.assembly import Assembly
from tests.kit.kernel import names

#: Types that LocalStack makes, and that then do what they are for.
MADE = {
    "AWS::ApiGateway::ApiKey",
    "AWS::ApiGateway::Deployment",
    "AWS::ApiGateway::Method",
    "AWS::ApiGateway::RequestValidator",
    "AWS::ApiGateway::Resource",
    "AWS::ApiGateway::RestApi",
    "AWS::ApiGateway::Stage",
    "AWS::ApiGateway::UsagePlan",
    "AWS::ApiGateway::UsagePlanKey",
    "AWS::CloudWatch::Alarm",
    "AWS::Events::Rule",
    "AWS::IAM::Policy",
    "AWS::IAM::Role",
    "AWS::KMS::Alias",
    "AWS::KMS::Key",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Function",
    "AWS::Lambda::LayerVersion",
    "AWS::Lambda::Permission",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::Subscription",
    "AWS::SNS::Topic",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::Queue",
    "AWS::SQS::QueuePolicy",
    "AWS::SecretsManager::Secret",
}
#: Metrics of AWS's own that an alarm watches and LocalStack never has: there it stays at OK.
UNMEASURED = {
    ("AWS/ApiGateway", "5XXError"),
    ("AWS/ApiGateway", "Latency"),
    ("AWS/Lambda", "Duration"),
    ("AWS/Lambda", "Throttles"),
}
#: Those that it has.
MEASURED = {
    ("AWS/Lambda", "Errors"),
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
}


def test_there_is_nothing_that_localstack_only_pretends_to_make(localstack: Assembly):
    kinds = {resource["Type"] for _, _, resource in localstack.every()}

    assert kinds - MADE == set()


def test_functions_are_in_no_network_and_of_this_machines_processor(localstack: Assembly):
    functions = localstack.functions()

    assert len(functions) == len(STAGES["localstack"].fleet.functions)
    for function in functions.values():
        assert "VpcConfig" not in function
        assert function["Architectures"] == ["x86_64"]
        # LocalStack has no X-Ray.
        assert function.get("TracingConfig", {"Mode": "PassThrough"}) == {"Mode": "PassThrough"}
    assert "network" not in localstack.stacks()


def test_functions_reach_a_redis_on_this_machine_that_asks_for_no_token(localstack: Assembly):
    given = STAGES["localstack"].redis

    assert isinstance(given, GivenRedis)
    assert given.url.startswith("redis://127.0.0.1:")
    for name, function in localstack.functions().items():
        if name.endswith(names.TRIALS):
            continue  # it has no store
        variables = function["Environment"]["Variables"]
        assert variables[names.ENV_REDIS_URL] == given.url
        assert variables[names.ENV_REDIS_SECRET] == ""


def test_it_is_known_which_alarms_localstack_never_judges(localstack: Assembly):
    alarms = [one["Properties"] for _, _, one in localstack.every("AWS::CloudWatch::Alarm")]

    watched = {(alarm["Namespace"], alarm["MetricName"]) for alarm in alarms}
    assert {one for one in watched if one[0] != names.METRIC_NAMESPACE} == MEASURED | UNMEASURED
    for alarm in alarms:
        # Metric math and percentiles are never judged either.
        assert not {"Metrics", "ExtendedStatistic", "ThresholdMetricId"} & set(alarm)
        if (alarm["Namespace"], alarm["MetricName"]) in UNMEASURED:
            assert alarm["TreatMissingData"] == "notBreaching"


def test_everything_can_be_deleted_again(localstack: Assembly):
    for stack in localstack.stacks().values():
        assert stack["properties"].get("terminationProtection", False) is False
    kept = [key for _, key, one in localstack.every() if one.get("DeletionPolicy") == "Retain"]
    assert kept == []
