"""An event of the scheduler is a tick, or alarms that SNS brings; whatever else it holds."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.apps import Alarm, alarms_in

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


def record(message: object) -> dict[str, object]:
    return {"EventSource": "aws:sns", "Sns": {"Message": message}}


def alarm(**changes: object) -> str:
    said = {
        "AlarmName": "crawlfleet-aws-large-backlog",
        "NewStateValue": "ALARM",
        "StateChangeTime": "2026-03-10T12:00:00.123+0000",
        "Trigger": {"MetricName": "FindingBacklog"},
    }
    return json.dumps(said | changes)


def test_a_tick_is_no_alarm():
    assert alarms_in({"source": "aws.events", "detail-type": "Scheduled Event"}) is None
    assert alarms_in({}) is None


def test_an_alarm_is_read_as_cloudwatch_publishes_it():
    assert alarms_in({"Records": [record(alarm())]}) == [
        Alarm(
            name="crawlfleet-aws-large-backlog",
            state="ALARM",
            at=datetime(2026, 3, 10, 12, 0, 0, 123_000, tzinfo=UTC),
        )
    ]


@pytest.mark.parametrize(
    "message", ["", "hello", "[]", "{}", '{"AlarmName": 7}', None, 7, "\ud800"]
)
def test_what_somebody_published_by_hand_is_left_out(message):
    assert alarms_in({"Records": [record(message), record(alarm())]}) == alarms_in(
        {"Records": [record(alarm())]}
    )


def test_what_goes_to_the_log_is_bounded():
    (found,) = alarms_in({"Records": [record(alarm(AlarmName="x" * 10_000))]})

    assert len(found.name) == 200


@pytest.mark.parametrize("time", ["", "yesterday", "2026-03-10T12:00:00"])
def test_a_time_that_is_none_is_not_guessed(time):
    (found,) = alarms_in({"Records": [record(alarm(StateChangeTime=time))]})

    assert found.at is None


@given(st.dictionaries(st.sampled_from(["Records", "source"]), anything))
def test_no_event_makes_it_fail(event):
    found = alarms_in(event)

    assert found is None or all(isinstance(one, Alarm) for one in found)
