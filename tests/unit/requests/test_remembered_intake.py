from datetime import UTC, datetime

import pytest

from tests.kit.config import IntakeLimits
from tests.kit.kernel import QueueKey
from tests.kit.queue import Pressure
from tests.kit.submission import GOOD_SECONDS, RememberedIntake

QUEUE_KEY, OTHER = QueueKey("t", "a", "main"), QueueKey("t", "b", "main")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Asked:
    """An intake that says what the test wants, and counts how often it was asked."""

    def __init__(self) -> None:
        self.answer = Pressure(backlog=0)
        self.times = 0

    def admit(self, queue_key, count, limits, memory_ratio, now, beside=()) -> Pressure:
        self.times += 1
        return self.answer


class Steady:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def asked():
    return Asked()


@pytest.fixture
def steady():
    return Steady()


@pytest.fixture
def intake(asked, steady):
    return RememberedIntake(asked, steady=steady)


def admit(intake, count=1, queue_key=QUEUE_KEY, ratio=0.8, **limits) -> Pressure:
    return intake.admit(queue_key, count, IntakeLimits(**limits), ratio, NOW)


def test_within_a_second_it_is_asked_once_for_each_queue(intake, asked, steady):
    for _ in range(5):
        assert admit(intake).admitted
        assert admit(intake, queue_key=OTHER).admitted
    assert asked.times == 2

    steady.seconds += GOOD_SECONDS
    admit(intake)
    assert asked.times == 3


def test_what_was_taken_since_counts_towards_the_limit(intake, asked):
    asked.answer = Pressure(backlog=90)
    admit(intake, 5, max_backlog=100)
    admit(intake, 5, max_backlog=100)
    assert asked.times == 1

    asked.answer = Pressure(backlog=100, backlog_full=True)

    assert not admit(intake, 1, max_backlog=100).admitted
    assert asked.times == 2


def test_a_refusal_is_not_remembered(intake, asked):
    asked.answer = Pressure(backlog=5, memory_full=True)
    assert not admit(intake).admitted
    asked.answer = Pressure(backlog=5)

    assert admit(intake).admitted


def test_a_rate_is_counted_each_time(intake, asked):
    for _ in range(3):
        admit(intake, per_second=5.0)

    assert asked.times == 3


def test_another_configuration_is_asked_about_anew(intake, asked):
    admit(intake, ratio=0.8)
    admit(intake, ratio=0.5)

    assert asked.times == 2
