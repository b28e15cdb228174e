"""Smoke checks report a healthy deployment, and each fault that one can have.

AWS is moto's; what is asked of the API is in tests/journeys/test_smoke.py, on a local cloud, but
for what the doctor finds wrong.
"""

from datetime import UTC, datetime

import pytest

from infra import alarm_names
from infra.aws_access import Access
from infra.smoke import checks
from infra.smoke.deployment import Deployment, find_deployment, log_group
from infra.smoke.logs import tail
from infra.stages import STAGES
from infra.steps import StepError
from tests.infra_smoke.deployed import ENVIRONMENT, STAGE, client, failure, make_functions
from tests.kit.api_server import KEY, ApiServer
from tests.kit.kernel import names

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


def test_stacks_that_stand_are_found_with_their_outputs(deployment):
    assert checks.stacks(deployment) == "5 stand"
    assert deployment.api_url == "https://abc.execute-api.us-east-1.amazonaws.com/aws-small"
    assert deployment.api_key == "k" * 30
    assert set(deployment.dead_letters()) == {"Monitor"}


def test_a_stage_that_is_not_deployed_is_reported_in_words(aws):
    with pytest.raises(StepError, match=r"crawlfleet-aws-small-network: .*Valid") as it:
        find_deployment(STAGE, Access(ENVIRONMENT))

    assert "region" in it.value.do


def test_without_a_region_one_is_asked_to_set_it(monkeypatch):
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


def test_a_stack_that_was_rolled_back_is_reported(deployment):
    deployment.states["api"] = "UPDATE_ROLLBACK_COMPLETE"

    assert "crawlfleet-aws-small-api is UPDATE_ROLLBACK" in failure(checks.stacks, deployment)


def test_functions_as_they_are_described_are_well(deployment):
    make_functions()

    assert checks.functions(deployment) == "7 active"


@pytest.mark.parametrize(
    ("changed", "reported"),
    [
        ({"MemorySize": 128}, "128 MB"),
        ({"Timeout": 3}, "3 s"),
        ({"Environment": {"Variables": {}}}, "its environment lacks"),
    ],
)
def test_a_function_that_differs_is_reported(deployment, changed, reported):
    make_functions(**changed)

    assert reported in failure(checks.functions, deployment)


def test_a_function_that_is_not_there_is_reported(deployment):
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


def test_alarms_are_there_and_report_somebody(deployment):
    make_alarms()

    assert checks.alarms(deployment) == f"{len(ALARMS)}, none rings"


def test_whichever_alarm_is_missing_is_reported(deployment):
    make_alarms()
    cloudwatch = client("cloudwatch")
    for name in ALARMS:
        cloudwatch.delete_alarms(AlarmNames=[f"crawlfleet-{STAGE}-{name}"])

        assert failure(checks.alarms, deployment).endswith(f" {name}")
        make_alarms([name])


def test_an_alarm_that_is_mute_or_rings_is_reported(deployment):
    make_alarms()
    client("cloudwatch").set_alarm_state(
        AlarmName=f"crawlfleet-{STAGE}-backlog", StateValue="ALARM", StateReason="it is deep"
    )
    with pytest.raises(StepError, match=r"backlog .*deep") as caught:
        checks.alarms(deployment)
    assert caught.value.do == "do this about backlog"

    make_alarms(actions=())
    assert "tell nobody" in failure(checks.alarms, deployment)


def test_events_that_were_given_up_on_are_reported(deployment):
    assert checks.dead_letters(deployment) == "1 queues are empty"
    url = deployment.dead_letters()["Monitor"]
    client("sqs").send_message(QueueUrl=url, MessageBody="{}")

    assert "1 events of the monitor" in failure(checks.dead_letters, deployment)


def test_the_monitors_evaluations_are_counted_and_their_absence_is_reported(deployment):
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


def test_a_configuration_that_was_never_pushed_is_reported(deployment):
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


def test_what_the_doctor_finds_wrong_is_reported_with_the_check_that_found_it():
    api = ApiServer()
    api.platform.running["tick"] = {"seconds_ago": None, "took_seconds": 0.0, "faults": {}}
    asked = Deployment(STAGE, Access(ENVIRONMENT), {"api": {"Url": api.url}}, {})
    asked.__dict__["api_key"] = KEY
    try:
        with pytest.raises(StepError, match=r"scheduler: .*broken") as caught:
            checks.doctor(asked)
    finally:
        api.close()

    assert caught.value.do
