"""What each check says of a deployment that is well, and of each thing that can be wrong with it.

AWS is moto's; what is asked of the API is in tests/journeys/test_smoke.py, on a local cloud.
"""

import dataclasses
import io
import json
import zipfile
from datetime import UTC, datetime

import boto3
import pytest
from moto import mock_aws

from infra import alarm_names
from infra.pools import PoolKind, fleet_of
from infra.smoke import checks
from infra.smoke.aws_access import Access
from infra.smoke.deployment import Deployment, find_deployment, log_group, stack_name
from infra.smoke.logs import tail
from infra.smoke.steps import StepError, Warned
from infra.stages import STAGES, GivenRedis
from tests.kit.kernel import names

STAGE = "aws-small"
REGION = "us-east-1"
_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": REGION,
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
}
_ACCOUNT = "123456789012"


def client(service, region=REGION):
    return boto3.client(service, region_name=region or REGION)


@pytest.fixture
def aws():
    with mock_aws():
        yield


@pytest.fixture
def deployment(aws):
    """Stacks whose outputs lead to what the checks look at."""
    topics = {
        listeners: client("sns").create_topic(Name=names.topic_name(STAGE, listeners))["TopicArn"]
        for listeners in ("people", "phones", "machines")
    }
    queue = client("sqs").create_queue(QueueName="dead")["QueueUrl"]
    key = client("apigateway").create_api_key(name="k", enabled=True, value="k" * 30)["id"]
    outputs = {
        "state": {
            "PeopleTopic": topics["people"],
            "PhonesTopic": topics["phones"],
            "MachinesTopic": topics["machines"],
            "DefaultApiKeyId": key,
        },
        "compute": {"MonitorDeadLetters": queue},
        "api": {"Url": "https://abc.execute-api.us-east-1.amazonaws.com/aws-small/"},
        "events": {},
        "network": {"EgressAddresses": "192.0.2.1"},
    }
    for stack in STAGES[STAGE].stacks:
        template = {
            "Resources": {"Nothing": {"Type": "AWS::SQS::Queue"}},
            "Outputs": {name: {"Value": value} for name, value in outputs[stack].items()},
        }
        client("cloudformation").create_stack(
            StackName=stack_name(STAGE, stack), TemplateBody=json.dumps(template)
        )
    return find_deployment(STAGE, Access(_ENVIRONMENT))


def make_functions(stage=STAGE, **changed):
    role = client("iam").create_role(
        RoleName="r", AssumeRolePolicyDocument="{}", Path="/service-role/"
    )["Role"]["Arn"]
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("handler.py", "")
    for spec in fleet_of(STAGES[stage].pools).functions:
        client("lambda", spec.region).create_function(
            FunctionName=names.function_name(stage, spec.name),
            Runtime="python3.13",
            Role=role,
            Handler=spec.handler,
            Code={"ZipFile": code.getvalue()},
            **{
                "MemorySize": spec.memory_mb,
                "Timeout": spec.timeout_seconds,
                "Environment": {"Variables": dict.fromkeys(spec.environment, "x")},
                **changed,
            },
        )


ALARMS = sorted(alarm_names.of_stage(STAGES[STAGE]))


def make_alarms(given=ALARMS, *, actions=("arn:aws:sns:us-east-1:1:t",)):
    cloudwatch = client("cloudwatch")
    for name in given:
        cloudwatch.put_metric_alarm(
            AlarmName=f"crawlfleet-{STAGE}-{name}",
            AlarmDescription=f"do this about {name}",
            AlarmActions=list(actions),
            Namespace="Crawlfleet",
            MetricName="Looks",
            Statistic="Sum",
            Period=60,
            EvaluationPeriods=1,
            Threshold=1,
            ComparisonOperator="LessThanThreshold",
        )


def failure(check, deployment):
    with pytest.raises(StepError) as caught:
        check(deployment)
    assert caught.value.do
    return str(caught.value)


def test_stacks_that_stand_are_found_with_their_outputs(deployment):
    assert checks.stacks(deployment) == "5 stand"
    assert deployment.api_url == "https://abc.execute-api.us-east-1.amazonaws.com/aws-small"
    assert deployment.api_key == "k" * 30
    assert set(deployment.dead_letters()) == {"Monitor"}


def test_a_stage_that_is_not_deployed_is_told_in_words(aws):
    with pytest.raises(StepError, match=r"crawlfleet-aws-small-network: .*Valid") as it:
        find_deployment(STAGE, Access(_ENVIRONMENT))

    assert "region" in it.value.do


def test_without_a_region_one_is_told_to_set_it(monkeypatch):
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")

    with pytest.raises(StepError, match="region") as caught:
        find_deployment(STAGE, Access())

    assert "AWS_DEFAULT_REGION" in caught.value.do


def test_an_output_that_is_missing_is_of_another_version(deployment):
    with pytest.raises(StepError, match=r"crawlfleet-aws-small-api .*Nothing"):
        deployment.output("api", "Nothing")


def test_a_stack_that_was_rolled_back_is_told(deployment):
    deployment.states["api"] = "UPDATE_ROLLBACK_COMPLETE"

    assert "crawlfleet-aws-small-api is UPDATE_ROLLBACK" in failure(checks.stacks, deployment)


def test_functions_as_they_are_described_are_well(deployment):
    make_functions()

    assert checks.functions(deployment) == "5 active"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"MemorySize": 128}, "128 MB"),
        ({"Timeout": 3}, "3 s"),
        ({"Environment": {"Variables": {}}}, "its environment lacks"),
    ],
)
def test_a_function_that_differs_is_told(deployment, changed, told):
    make_functions(**changed)

    assert told in failure(checks.functions, deployment)


def test_a_function_that_is_not_there_is_told(deployment):
    assert "ResourceNotFound" in failure(checks.functions, deployment)


def test_consumers_may_run_as_many_as_are_reserved(deployment):
    make_functions()
    consumer = names.function_name(STAGE, names.CONSUMER)

    assert "no worker" in failure(checks.concurrency, deployment)
    client("lambda").put_function_concurrency(FunctionName=consumer, ReservedConcurrentExecutions=3)
    assert checks.concurrency(deployment) == "3 consumers at once"
    client("lambda").put_function_concurrency(FunctionName=consumer, ReservedConcurrentExecutions=0)
    assert "concurrency of 0" in failure(checks.concurrency, deployment)
    client("lambda").put_function_concurrency(FunctionName=consumer, ReservedConcurrentExecutions=6)
    assert "6, of 5" in failure(checks.concurrency, deployment)


@pytest.fixture
def with_pools(aws):
    """A stage with a pool, whose functions are all there."""
    make_functions("aws-large")
    return Deployment("aws-large", Access(_ENVIRONMENT), {}, {})


def test_the_functions_of_pools_are_looked_at_too(with_pools):
    assert checks.functions(with_pools) == "6 active"

    pool = names.function_name("aws-large", "consumer-large")
    client("lambda").update_function_configuration(FunctionName=pool, MemorySize=1024)
    assert f"{pool}: it has 1024 MB" in failure(checks.functions, with_pools)
    client("lambda").delete_function(FunctionName=pool)
    assert pool in failure(checks.functions, with_pools)


def test_workers_of_each_pool_may_run_as_many_as_are_reserved(with_pools):
    def reserve(function, count):
        client("lambda").put_function_concurrency(
            FunctionName=names.function_name("aws-large", function),
            ReservedConcurrentExecutions=count,
        )

    reserve("consumer", 50)
    assert "consumer-large" in failure(checks.concurrency, with_pools)
    reserve("consumer-large", 2)
    assert checks.concurrency(with_pools) == "50 consumers, 2 consumers of large at once"
    reserve("consumer-large", 11)
    assert "11, of 10" in failure(checks.concurrency, with_pools)


FAR = "ap-southeast-1"
WIDE = dataclasses.replace(
    STAGES[STAGE],
    name="wide",
    vpc=None,
    redis=GivenRedis(url="rediss://cache.example", has_token=True),
    region=REGION,
    pools=(PoolKind(name="far", memory_mb=512, concurrency=3, region=FAR),),
)


@pytest.fixture
def in_two_regions(aws, monkeypatch):
    """A stage with a pool in another region; whoever looks is in a third one by his environment."""
    monkeypatch.setitem(STAGES, WIDE.name, WIDE)
    make_functions(WIDE.name)
    for stack in WIDE.stacks:
        client("cloudformation", WIDE.region_of(stack)).create_stack(
            StackName=stack_name(WIDE.name, stack),
            TemplateBody=json.dumps({"Resources": {"Nothing": {"Type": "AWS::SQS::Queue"}}}),
        )
    elsewhere = _ENVIRONMENT | {"AWS_DEFAULT_REGION": "eu-north-1"}
    return find_deployment(WIDE.name, Access(elsewhere, WIDE.region))


def test_stacks_and_functions_are_looked_for_where_they_stand(in_two_regions):
    assert checks.stacks(in_two_regions) == "5 stand"
    assert checks.functions(in_two_regions) == "6 active"

    pool = names.function_name(WIDE.name, "consumer-far")
    client("lambda", FAR).update_function_configuration(FunctionName=pool, MemorySize=1024)
    with pytest.raises(StepError, match="it has 1024 MB") as caught:
        checks.functions(in_two_regions)
    assert (caught.value.log_group, caught.value.region) == (f"/aws/lambda/{pool}", FAR)


def test_the_log_of_a_function_is_read_where_it_is(in_two_regions):
    group = log_group(WIDE.name, "consumer-far")
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    logs = client("logs", FAR)
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="s")
    logs.put_log_events(
        logGroupName=group,
        logStreamName="s",
        logEvents=[{"timestamp": now_ms, "message": "why it failed"}],
    )

    assert "why it failed" in tail(in_two_regions.access, group, now_ms, region=FAR)
    assert "cannot be read" in tail(in_two_regions.access, group, now_ms)


def test_workers_of_another_region_are_counted_there(in_two_regions):
    for function, region in (("consumer", REGION), ("consumer-far", FAR)):
        client("lambda", region).put_function_concurrency(
            FunctionName=names.function_name(WIDE.name, function),
            ReservedConcurrentExecutions=2,
        )

    assert checks.concurrency(in_two_regions) == "2 consumers, 2 consumers of far at once"


def test_alarms_are_there_and_tell_somebody(deployment):
    make_alarms()

    assert checks.alarms(deployment) == f"{len(ALARMS)}, none rings"


def test_whichever_alarm_is_missing_is_told(deployment):
    make_alarms()
    cloudwatch = client("cloudwatch")
    for name in ALARMS:
        cloudwatch.delete_alarms(AlarmNames=[f"crawlfleet-{STAGE}-{name}"])

        assert failure(checks.alarms, deployment).endswith(f" {name}")
        make_alarms([name])


def test_an_alarm_that_is_mute_or_rings_is_told(deployment):
    make_alarms()
    client("cloudwatch").set_alarm_state(
        AlarmName=f"crawlfleet-{STAGE}-storage", StateValue="ALARM", StateReason="it is full"
    )
    with pytest.raises(StepError, match=r"storage .*full") as caught:
        checks.alarms(deployment)
    assert caught.value.do == "do this about storage"

    make_alarms(actions=())
    assert "tell nobody" in failure(checks.alarms, deployment)


MACHINE = ("MachinesTopic", "sqs", f"arn:aws:sqs:{REGION}:{_ACCOUNT}:dead")
PHONE = ("PhonesTopic", "sms", "+4915112345678")
EMAIL = ("PeopleTopic", "email", "ops@example.org")


def subscribe(deployment, output, protocol, endpoint):
    client("sns").subscribe(
        TopicArn=deployment.output("state", output), Protocol=protocol, Endpoint=endpoint
    )


class Unconfirmed(Access):
    """AWS where nobody has answered AWS's question yet; moto never asks."""

    def all(self, service, call, key, **arguments):
        found = super().all(service, call, key, **arguments)
        if call != "list_subscriptions_by_topic":
            return found
        return [one | {"SubscriptionArn": "PendingConfirmation"} for one in found]


def unconfirmed(deployment, stage):
    return Deployment(stage, Unconfirmed(_ENVIRONMENT), deployment.outputs, deployment.states)


def test_who_listens_is_counted(deployment):
    for one in (MACHINE, PHONE, EMAIL):
        subscribe(deployment, *one)

    said = checks.topics(deployment)

    assert not isinstance(said, Warned)
    assert said == "1 people, 1 phones, 1 machines listen"


@pytest.mark.parametrize("others", [(), (MACHINE,), (PHONE,), (MACHINE, PHONE)])
def test_where_no_people_listen_one_is_warned_whatever_else_does(deployment, others):
    for one in others:
        subscribe(deployment, *one)

    said = checks.topics(deployment)

    assert isinstance(said, Warned)
    assert "0 people" in said


@pytest.mark.parametrize("others", [(), (MACHINE,), (PHONE,), (MACHINE, PHONE)])
def test_a_stage_that_keeps_its_state_must_have_people_who_listen(deployment, others):
    keeping = Deployment("aws-large", deployment.access, deployment.outputs, deployment.states)
    for one in others:
        subscribe(deployment, *one)

    assert "nobody is told" in failure(checks.topics, keeping)
    subscribe(deployment, *EMAIL)
    assert checks.topics(keeping).startswith("1 people, ")


@pytest.mark.parametrize("stage", ["aws-small", "aws-large"])
def test_who_has_not_confirmed_does_not_listen_and_is_named(deployment, stage):
    subscribe(deployment, *EMAIL)
    waiting = unconfirmed(deployment, stage)

    if STAGES[stage].keep_state:
        said = failure(checks.topics, waiting)
    else:
        said = checks.topics(waiting)
        assert isinstance(said, Warned)

    assert "0 people" in said
    assert "ops@example.org" in said


def test_one_of_two_who_has_not_confirmed_is_warned_of(deployment):
    subscribe(deployment, *EMAIL)
    subscribe(deployment, "PeopleTopic", "email", "late@example.org")

    class OneWaits(Unconfirmed):
        def all(self, service, call, key, **arguments):
            found = Access.all(self, service, call, key, **arguments)
            for one in found:
                if one.get("Endpoint") == "late@example.org":
                    one["SubscriptionArn"] = "PendingConfirmation"
            return found

    access = OneWaits(_ENVIRONMENT)
    said = checks.topics(Deployment("aws-large", access, deployment.outputs, deployment.states))

    assert isinstance(said, Warned)
    assert said.startswith("1 people, 0 phones, 0 machines ")
    assert said.endswith(" late@example.org")


def test_events_that_were_given_up_on_are_told(deployment):
    assert checks.dead_letters(deployment) == "1 queues are empty"
    url = deployment.dead_letters()["Monitor"]
    client("sqs").send_message(QueueUrl=url, MessageBody="{}")

    assert "1 events of the monitor" in failure(checks.dead_letters, deployment)


def test_the_monitors_looks_are_counted_and_their_absence_is_told(deployment):
    assert "5 minutes" in failure(checks.metrics, deployment)
    client("cloudwatch").put_metric_data(
        Namespace=names.METRIC_NAMESPACE,
        MetricData=[
            {
                "MetricName": "Looks",
                "Dimensions": [{"Name": "stage", "Value": STAGE}],
                "Timestamp": datetime.now(UTC),
                "Value": 1,
            }
        ],
    )

    assert checks.metrics(deployment) == "1 looks of the monitor in 5 minutes"


def test_a_configuration_that_was_never_pushed_is_told(deployment):
    with pytest.raises(StepError, match="/crawlfleet/aws-small/revision") as caught:
        checks.pushed_revision(deployment)

    assert "crawlfleet config push FOLDER --stage aws-small" in caught.value.do


def test_the_latest_lines_of_a_log_are_quoted(deployment):
    group, now_ms = log_group(STAGE, names.ROUTER), int(datetime.now(UTC).timestamp() * 1000)
    logs = client("logs")
    assert "cannot be read" in tail(deployment.access, group, now_ms)
    logs.create_log_group(logGroupName=group)
    assert tail(deployment.access, group, now_ms) == "(it is empty)"
    logs.create_log_stream(logGroupName=group, logStreamName="s")
    messages = [*(f"line {n}\n" for n in range(30)), "END RequestId: 1", '{"_aws":{}}']
    events = [{"timestamp": now_ms, "message": message} for message in messages]
    logs.put_log_events(logGroupName=group, logStreamName="s", logEvents=events)

    assert tail(deployment.access, group, now_ms, 2) == "line 28\nline 29"
