"""Phones: woken by what is critical, by a topic, a count and a memory of their own."""

import pytest
from msgspec.structs import replace

from tests.kit.config import Stage
from tests.kit.incidents import Severity
from tests.kit.worlds.alarms import BIZS, LIMITS, OPENED, RECOVERED, Stand


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_phones_are_woken_by_what_is_critical_alone(stand: Stand):
    for _ in range(3):
        stand.evaluate("b0", down="no answer")
    for _ in range(4):
        stand.evaluate()

    assert [each.severity for each in stand.sent.woken] == [Severity.CRITICAL] * 2
    assert [each.words for each in stand.sent.woken] == [OPENED, RECOVERED]
    assert len(stand.sent.notifications) == 4


def test_phones_that_cannot_be_reported_are_reported_later_and_people_not_again(stand: Stand):
    stand.notifier.faults = {"notify_phones": "before"}
    evaluations = [stand.evaluate(down="no answer") for _ in range(4)]
    assert [each.failed for each in evaluations] == [0, 1, 1, 1]
    assert (stand.sent.woken, evaluations[-1].owed) == ([], 1)

    stand.notifier.faults = {}
    evaluations = [stand.evaluate(down="no answer", by="another") for _ in range(3)]

    assert [each.words for each in stand.sent.woken] == [OPENED]
    assert stand.words() == [OPENED]
    assert [each.owed for each in evaluations] == [0, 0, 0]


def test_a_storm_wakes_phones_once(stand: Stand):
    stand.tree = replace(stand.tree, stage=Stage(alarms=replace(LIMITS, singly=1)))
    for _ in range(3):
        stand.evaluate(*BIZS, down="no answer")

    [notification], [woken] = stand.sent.notifications, stand.sent.woken
    assert "CRITICAL: 9 new" in notification.subject
    assert "CRITICAL: redis: " in woken.short
