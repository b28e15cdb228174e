"""The alarms: on every kind of finding, and on what the monitor cannot see of itself."""

from typing import Any

import pytest

from infra import alarm_names
from infra.pools import fleet_of
from infra.stages import STAGES
from tests.infra.assembly import Assembly
from tests.kit.incidents import ADVICE, RISING, Kind, evaluations_required
from tests.kit.kernel import metric_names, names

PREFIX = "crawlfleet-aws-large-"
FUNCTIONS = fleet_of(STAGES["aws-large"].pools).functions


@pytest.fixture(scope="module")
def alarms(assembly: Assembly) -> dict[str, dict[str, Any]]:
    """Properties by the name's own part."""
    found = assembly.resources("events", "AWS::CloudWatch::Alarm").values()
    properties = [one["Properties"] for one in found]
    return {one["AlarmName"].removeprefix(PREFIX): one for one in properties}


def topics(alarm: dict[str, Any]) -> str:
    """The topics that an alarm tells when it begins; it tells the same when it is over."""
    reported = [
        action["Fn::ImportValue"] for action in alarm["AlarmActions"] if "Ref" not in action
    ]
    over = [action["Fn::ImportValue"] for action in alarm["OKActions"] if "Ref" not in action]
    assert reported == over
    return " ".join(reported)


def test_a_stage_has_the_alarms_that_whoever_looks_for_them_expects(each_stage: Assembly):
    found = each_stage.resources("events", "AWS::CloudWatch::Alarm").values()

    prefix = alarm_names.prefix(each_stage.stage)
    expected = {f"{prefix}{name}" for name in alarm_names.of_stage(STAGES[each_stage.stage])}
    assert {one["Properties"]["AlarmName"] for one in found} == expected


@pytest.mark.parametrize("kind", Kind)
def test_each_kind_of_finding_has_an_alarm_that_knows_no_threshold(alarms, kind: Kind):
    alarm = alarms[kind.value.replace("_", "-")]

    assert (alarm["Namespace"], alarm["MetricName"]) == (
        names.METRIC_NAMESPACE,
        metric_names.finding(kind.value),
    )
    assert alarm["Dimensions"] == [{"Name": "stage", "Value": "aws-large"}]
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0, "GreaterThanThreshold")
    assert (alarm["Statistic"], alarm["Period"]) == ("Maximum", 60)
    assert alarm["EvaluationPeriods"] == alarm["DatapointsToAlarm"] == evaluations_required(kind, 2)
    assert ADVICE[kind].do[:60] in alarm["AlarmDescription"]


@pytest.mark.parametrize("kind", sorted(RISING))
def test_what_rises_between_two_evaluations_rings_at_once(alarms, kind: Kind):
    assert alarms[kind.value.replace("_", "-")]["EvaluationPeriods"] == 1


@pytest.mark.parametrize("kind", Kind)
def test_findings_notify_machines_alone_as_the_monitor_notifies_people(alarms, kind: Kind):
    reported = topics(alarms[kind.value.replace("_", "-")])

    assert "TopicMachines" in reported
    assert "TopicPeople" not in reported
    assert "TopicPhones" not in reported


def test_everything_else_notifies_people_and_machines(alarms):
    others = alarms.keys() - {kind.value.replace("_", "-") for kind in Kind}

    assert len(others) > 15
    for name in others:
        reported = topics(alarms[name])
        assert "TopicPeople" in reported
        assert "TopicMachines" in reported


def test_what_is_grave_and_not_the_monitors_to_report_wakes_by_phone(alarms):
    woken = {name for name, alarm in alarms.items() if "TopicPhones" in topics(alarm)}

    assert woken == {
        "monitor-silent",
        "scheduler-silent",
        "messages-failed",
        "api-faults",
        *(f"{spec.name}-errors" for spec in FUNCTIONS),
        *(f"redis-{node}-memory" for node in ("001", "002")),
    }


@pytest.mark.parametrize(
    ("name", "metric"),
    [("monitor-silent", metric_names.LOOKS), ("scheduler-silent", metric_names.TICKS)],
)
def test_who_is_silent_is_an_alarm_by_its_silence(alarms, name, metric):
    alarm = alarms[name]

    assert (alarm["Namespace"], alarm["MetricName"]) == (names.METRIC_NAMESPACE, metric)
    assert (alarm["Statistic"], alarm["Dimensions"]) == (
        "Sum",
        [{"Name": "stage", "Value": "aws-large"}],
    )
    assert alarm["TreatMissingData"] == "breaching"
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)
    assert (alarm["Period"], alarm["EvaluationPeriods"]) == (60, 3)


def test_messages_that_fail_are_an_alarm_of_cloudwatchs_own(alarms):
    assert alarms["messages-failed"]["MetricName"] == metric_names.MESSAGES_FAILED


@pytest.mark.parametrize("spec", FUNCTIONS, ids=lambda spec: spec.name)
def test_each_function_is_watched_from_outside(alarms, spec):
    assert alarms[f"{spec.name}-errors"]["MetricName"] == "Errors"
    if spec.name == names.OPERATORS:  # an operator calls it, and sees the rest
        assert f"{spec.name}-throttles" not in alarms
    else:
        assert alarms[f"{spec.name}-throttles"]["MetricName"] == "Throttles"
    if spec.is_worker or spec.name in {names.TRIALS, names.OPERATORS}:
        assert f"{spec.name}-slow" not in alarms
    else:
        slow = alarms[f"{spec.name}-slow"]
        assert slow["Threshold"] == pytest.approx(900 * spec.timeout_seconds)
        assert slow["Statistic"] == "Maximum"
    if spec.keeps_dead_letters:
        depth = alarms[f"{spec.name}-dead-letters"]
        assert depth["MetricName"] == "ApproximateNumberOfMessagesVisible"
    else:
        assert f"{spec.name}-dead-letters" not in alarms


def test_the_api_is_watched(alarms):
    assert alarms["api-faults"]["MetricName"] == "5XXError"
    assert alarms["api-slow"]["MetricName"] == "Latency"


def test_each_node_of_elasticache_is_watched_by_its_own_name(alarms):
    for node in ("001", "002"):
        for name in ("cpu", "memory"):
            alarm = alarms[f"redis-{node}-{name}"]
            assert alarm["Dimensions"] == [{"Name": "CacheClusterId", "Value": f"{PREFIX}{node}"}]
            assert alarm["Namespace"] == "AWS/ElastiCache"


def test_a_given_redis_is_watched_by_the_monitor_alone(localstack: Assembly):
    for one in localstack.resources("events", "AWS::CloudWatch::Alarm").values():
        assert one["Properties"]["Namespace"] != "AWS/ElastiCache"


def test_every_alarm_says_what_to_do_within_what_cloudwatch_takes(alarms):
    for alarm in alarms.values():
        description = alarm["AlarmDescription"]
        if isinstance(description, dict):
            description = "".join(part for part in description["Fn::Join"][1] if part is str(part))
        assert 80 < len(description) <= 1_024
        assert description.rstrip().endswith((".", "..."))


def test_no_alarm_is_of_a_kind_that_localstack_never_judges(each_stage: Assembly):
    for one in each_stage.resources("events", "AWS::CloudWatch::Alarm").values():
        alarm = one["Properties"]
        assert "Metrics" not in alarm
        assert "ExtendedStatistic" not in alarm
        assert "ThresholdMetricId" not in alarm
