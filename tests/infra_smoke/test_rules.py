"""Checks of a deployment's EventBridge rules: its clocks, and those that start spiders."""

import boto3
import pytest
from moto import mock_aws

from infra.aws_access import Access
from infra.fleet import FLEET
from infra.smoke import rules
from infra.smoke.deployment import Deployment
from infra.spider_rules import QUEUE_OUTPUT, rule_name
from infra.stages import STAGES
from infra.steps import StepError
from tests.kit.kernel import names

#: It has rules of its own, one of them disabled.
STAGE = "localstack"
OWN = STAGES[STAGE].spider_rules
REGION = "us-east-1"
_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": REGION,
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
}
_ACCOUNT = "123456789012"


def client(service):
    return boto3.client(service, region_name=REGION)


@pytest.fixture
def deployment():
    with mock_aws():
        queue = client("sqs").create_queue(QueueName=names.starts_queue(STAGE))["QueueUrl"]
        outputs = {"compute": {QUEUE_OUTPUT: queue}}
        yield Deployment(STAGE, Access(_ENVIRONMENT), outputs, {})


def make(rule, *, state="ENABLED", function=names.SCHEDULER, queue=""):
    client("events").put_rule(Name=rule, ScheduleExpression="rate(1 minute)", State=state)
    name = names.function_name(STAGE, function)
    arn = f"arn:aws:lambda:{REGION}:{_ACCOUNT}:function:{name}"
    targets = [{"Id": "1", "Arn": arn}]
    if queue:
        targets.append({"Id": "2", "Arn": f"arn:aws:sqs:{REGION}:{_ACCOUNT}:{queue}"})
    client("events").put_targets(Rule=rule, Targets=targets)


def make_clocks(state="ENABLED", function=None, again=True):
    for clock in FLEET.clocks:
        rule = f"crawlfleet-{STAGE}-{clock.name}"
        queue = names.again_queue(STAGE, clock.name) if clock.again_seconds and again else ""
        make(rule, state=state, function=function or clock.function, queue=queue)


def make_own(**states):
    """The stage's rules as it says, or as is said otherwise."""
    for rule in OWN:
        state = states.get(rule.name.replace("-", "_"), "ENABLED" if rule.enabled else "DISABLED")
        make(rule_name(STAGE, rule), state=state, queue=names.starts_queue(STAGE))


def failure(check, deployment):
    with pytest.raises(StepError) as caught:
        check(deployment)
    return f"{caught.value.said}; {caught.value.do}"


def test_clocks_run_when_their_rules_are_enabled(deployment):
    make_clocks()

    assert rules.clocks(deployment) == "2 run"


def test_a_clock_that_is_disabled_or_wakes_somebody_else_is_reported(deployment):
    make_clocks(state="DISABLED")
    reported = failure(rules.clocks, deployment)
    assert "is DISABLED" in reported
    assert "aws events enable-rule --name crawlfleet-localstack-" in reported

    make_clocks(function=names.ROUTER)
    assert "crawlfleet-localstack-scheduler" in failure(rules.clocks, deployment)


def test_a_clock_whose_events_do_not_come_again_is_reported(deployment):
    make_clocks(again=False)

    assert "scheduler-tick-again" in failure(rules.clocks, deployment)


def test_rules_of_ones_own_are_there_and_as_enabled_as_the_stage_says(deployment):
    make_own()

    reported = rules.spider_rules(deployment)

    assert reported.startswith("1 start spiders, 1 ")


def test_a_stage_without_rules_of_its_own_asks_for_none(deployment):
    without = Deployment("aws-small", deployment.access, {}, {})

    assert rules.spider_rules(without) == "none"


def test_a_rule_of_ones_own_that_is_not_there_is_reported(deployment):
    reported = failure(rules.spider_rules, deployment)

    assert "crawlfleet-localstack-start-pages-ready" in reported


@pytest.mark.parametrize(
    ("states", "reported", "to_do"),
    [
        ({"pages_ready": "DISABLED"}, "start-pages-ready is DISABLED", "enable-rule"),
        ({"every_minute": "ENABLED"}, "start-every-minute is ENABLED", "disable-rule"),
    ],
)
def test_a_rule_that_somebody_has_switched_by_hand_is_reported(deployment, states, reported, to_do):
    make_own(**states)

    said = failure(rules.spider_rules, deployment)

    assert reported in said
    assert f"aws events {to_do} --name crawlfleet-localstack-start-" in said


def test_a_rule_of_ones_own_that_wakes_somebody_else_is_reported(deployment):
    make_own()
    make_target = rule_name(STAGE, OWN[0])
    make(make_target, function=names.MONITOR)

    reported = failure(rules.spider_rules, deployment)

    assert make_target in reported
    assert "crawlfleet-localstack-scheduler" in reported


def test_a_rule_of_ones_own_that_keeps_no_events_is_reported(deployment):
    make_own()
    client("events").remove_targets(Rule=rule_name(STAGE, OWN[0]), Ids=["2"])

    reported = failure(rules.spider_rules, deployment)

    assert f"does not keep its events in {names.starts_queue(STAGE)}" in reported


def test_events_that_wait_for_their_start_are_counted(deployment):
    make_own()
    url = deployment.output("compute", QUEUE_OUTPUT)
    assert rules.spider_rules(deployment).endswith("0 events wait")
    client("sqs").send_message(QueueUrl=url, MessageBody="{}")
    client("sqs").send_message(QueueUrl=url, MessageBody="{}", DelaySeconds=30)

    assert rules.spider_rules(deployment).endswith("2 events wait")
