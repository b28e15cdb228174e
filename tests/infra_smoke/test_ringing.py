"""Alarms that ring at the journey's end fail it, unless the journey provoked them."""

from datetime import UTC, datetime, timedelta

import boto3
import pytest
from moto import mock_aws

from infra import alarm_names
from infra.localstack import ringing
from infra.stages import STAGES
from infra.steps import StepError

MADE = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON, LATER = MADE + timedelta(seconds=2), MADE + timedelta(minutes=4)
EVERY = sorted(alarm_names.of_stage(STAGES["localstack"]))
QUIET = {
    name: {
        "StateValue": "OK",
        "AlarmConfigurationUpdatedTimestamp": MADE,
        "StateTransitionedTimestamp": SOON,
        "AlarmDescription": f"do this about {name}",
    }
    for name in EVERY
}


def with_ringing(since=LATER, *names):
    rings = {"StateValue": "ALARM", "StateTransitionedTimestamp": since, "StateReason": "so much"}
    return QUIET | {name: QUIET[name] | rings for name in names}


def test_what_the_journey_provokes_may_ring_and_is_reported():
    assert set(EVERY) >= ringing.PROVOKED

    said = ringing.verdict(with_ringing(LATER, *ringing.PROVOKED))

    assert said.startswith(f"{len(EVERY)}, ")
    assert "backlog, no-workers, scheduler-silent, storage" in said
    assert "ringing are none" in ringing.verdict(QUIET)


@pytest.mark.parametrize("name", [each for each in EVERY if each not in ringing.PROVOKED])
def test_any_other_that_rings_fails_the_journey(name):
    with pytest.raises(StepError, match=f"the alarm {name} rings.*so much") as caught:
        ringing.verdict(with_ringing(LATER, name, *ringing.PROVOKED))

    assert caught.value.do == f"do this about {name}"


@pytest.mark.parametrize("name", EVERY)
def test_silence_is_borne_with_from_the_moment_in_which_the_alarm_was_made(name):
    alarms = with_ringing(SOON, name)

    if name in ringing.BORN_RINGING | ringing.PROVOKED:
        assert name in ringing.verdict(alarms)
    else:
        with pytest.raises(StepError):
            ringing.verdict(alarms)


def test_aws_reports_when_an_alarm_was_made_and_when_it_began_to_ring():
    with mock_aws():
        cloudwatch = boto3.client("cloudwatch", region_name="us-east-1")
        cloudwatch.put_metric_alarm(
            AlarmName="a",
            Namespace="N",
            MetricName="M",
            Statistic="Sum",
            Period=60,
            EvaluationPeriods=1,
            Threshold=1,
            ComparisonOperator="LessThanThreshold",
        )
        cloudwatch.set_alarm_state(AlarmName="a", StateValue="ALARM", StateReason="so")
        [alarm] = cloudwatch.describe_alarms()["MetricAlarms"]

    assert "monitor-silent" in ringing.verdict({"monitor-silent": alarm})
