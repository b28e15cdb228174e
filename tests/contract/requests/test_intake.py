"""The contract of Intake: how much a queue takes, and how fast."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.fakes.queue import MemoryQueue
from tests.fakes.submission import MemoryIntake
from tests.kit.config import IntakeLimits
from tests.kit.examples import examples
from tests.kit.implementations import backend_over
from tests.kit.kernel import QueueKey
from tests.kit.queue import RedisQueue
from tests.kit.requests import Entry
from tests.kit.submission import Intake, RedisIntake

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNTIL = NOW + timedelta(seconds=60)


class Time:
    """A server's clock that the test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def time():
    return Time()


backend = backend_over(RedisQueue, Intake)


@pytest.fixture
def both(backend, time):
    """A queue and its intake."""
    return backend[RedisQueue], backend.make(Intake, clock=time)


@pytest.fixture
def ask(both, queue_key, time):
    """Ask for ``many`` more, ``seconds`` after the beginning."""
    _, intake = both

    def asked(many, seconds=0.0, of=queue_key, by_caller=NOW, **limits):
        time.now = NOW + timedelta(seconds=seconds)
        return intake.admit(of, many, IntakeLimits(**limits), 1.0, by_caller)

    return asked


def entries(many):
    return [Entry(n, "docs", n) for n in range(many)]


def test_an_empty_queue_takes_what_comes(ask):
    pressure = ask(1_000)

    assert pressure.admitted
    assert (pressure.backlog, pressure.wait_seconds) == (0, 0.0)


def test_the_backlog_is_what_is_queued_leased_and_delayed(both, queue_key, ask):
    queue, _ = both
    queue.enqueue(queue_key, entries(7), NOW)
    leased = queue.lease(queue_key, "a", 3, NOW, UNTIL)
    queue.delay(queue_key, "a", [(leased[0], UNTIL)])
    queue.finish(queue_key, "a", leased[1:2], 1, NOW)

    assert ask(1).backlog == 6
    assert ask(1).admitted
    assert ask(4, max_backlog=10).admitted
    assert ask(5, max_backlog=10).backlog_full
    assert not ask(5, max_backlog=10).admitted


def test_a_batch_larger_than_the_backlog_may_be_is_taken_by_an_empty_queue_only(
    both, queue_key, ask
):
    queue, _ = both

    assert ask(20, max_backlog=10).admitted
    queue.enqueue(queue_key, entries(1), NOW)
    assert ask(20, max_backlog=10).backlog_full


def test_the_rate_lets_a_burst_through_and_then_asks_to_wait(ask):
    limits = {"per_second": 2.0, "burst": 4}

    assert [ask(1, **limits).admitted for _ in range(5)] == [True] * 4 + [False]
    assert ask(1, **limits).wait_seconds == 0.5
    assert ask(3, **limits).wait_seconds == 1.5
    assert not ask(1, 0.499, **limits).admitted
    assert ask(1, 0.5, **limits).admitted
    assert not ask(1, 0.5, **limits).admitted


def test_the_rate_holds_over_time(ask):
    taken = sum(ask(1, n / 10, per_second=3.0, burst=5).admitted for n in range(1_000))

    assert 3 * 99.9 + 4 <= taken <= 3 * 99.9 + 5


def test_whoever_waits_as_long_as_asked_is_let_in(ask):
    at = 0.0
    for many in (1, 7, 3, 10, 2, 25, 1, 1, 9):
        pressure = ask(many, at, per_second=7.0, burst=10)
        if not pressure.admitted:
            at += pressure.wait_seconds + 0.001
            assert ask(many, at, per_second=7.0, burst=10).admitted


@pytest.mark.parametrize("hours", [1, -1])
def test_a_caller_whose_clock_is_wrong_keeps_nobody_else_out(ask, hours):
    wrong = NOW + timedelta(hours=hours)
    limits = {"per_second": 2.0, "burst": 4}

    assert ask(1, by_caller=wrong, **limits).admitted
    assert ask(3, **limits).admitted
    assert ask(1, **limits).wait_seconds == 0.5
    assert ask(1, by_caller=wrong, **limits).wait_seconds == 0.5


def test_the_clock_is_that_of_redis_where_no_other_is_given(redis_connection, queue_key):
    intake = RedisIntake(redis_connection)
    limits = IntakeLimits(per_second=0.001, burst=1)
    ahead = datetime(2101, 1, 1, tzinfo=UTC)

    assert intake.admit(queue_key, 1, limits, 1.0, ahead).admitted
    assert 990 < intake.admit(queue_key, 1, limits, 1.0, NOW).wait_seconds <= 1_000


def test_a_batch_larger_than_the_burst_is_taken_by_a_full_bucket_and_the_next_waits_for_it(ask):
    limits = {"per_second": 10.0, "burst": 5}

    assert ask(100, **limits).admitted
    assert ask(1, **limits).wait_seconds == pytest.approx(9.6)
    assert ask(100, **limits).wait_seconds == pytest.approx(10.0)
    assert ask(5, 10.0, **limits).admitted
    assert not ask(100, 10.0, **limits).admitted
    assert ask(100, 10.5, **limits).admitted


def test_what_is_refused_does_not_count(both, queue_key, ask):
    queue, _ = both
    limits = {"per_second": 1.0, "burst": 2}
    queue.enqueue(queue_key, entries(3), NOW)
    assert [ask(2, max_backlog=4, **limits).backlog_full for _ in range(5)] == [True] * 5

    assert ask(1, **limits).admitted
    assert [ask(2, **limits).wait_seconds for _ in range(5)] == [1.0] * 5
    assert ask(1, **limits).admitted


def test_no_rate_is_no_limit(ask):
    assert all(ask(1_000_000).admitted for _ in range(5))


def test_the_slowest_rate_asks_to_wait_for_a_month_at_most(ask):
    limits = {"per_second": 1e-300, "burst": 1}

    assert ask(1, **limits).admitted
    assert ask(1, **limits).wait_seconds == 30 * 86_400
    assert ask(10**6, **limits).wait_seconds == 30 * 86_400


def test_the_rate_is_the_bizs_whatever_its_queue_is_called(queue_key, ask):
    second = QueueKey(queue_key.tenant, queue_key.biz, "second")
    other = QueueKey(queue_key.tenant, "news", queue_key.queue)
    stranger = QueueKey(f"{queue_key.tenant}x", queue_key.biz, queue_key.queue)
    limits = {"per_second": 1.0, "burst": 1}

    assert ask(1, **limits).admitted
    assert not ask(1, of=second, **limits).admitted
    assert ask(1, of=other, **limits).admitted
    assert ask(1, of=stranger, **limits).admitted


def test_one_queue_cannot_see_anothers_backlog(both, queue_key, ask):
    queue, _ = both
    queue.enqueue(QueueKey(f"{queue_key.tenant}x", queue_key.biz, queue_key.queue), entries(5), NOW)

    assert ask(1).backlog == 0


def test_no_more_are_let_in_however_many_ask_at_once(both, queue_key):
    _, intake = both
    limits = IntakeLimits(per_second=0.001, burst=10)

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: intake.admit(queue_key, 1, limits, 1.0, NOW), range(64)))

    assert sum(pressure.admitted for pressure in found) == 10


def test_who_asks_without_a_rate_leaves_the_clients_rate_alone(both, queue_key):
    _, intake = both
    limits = IntakeLimits(per_second=0.001, burst=1)
    assert intake.admit(queue_key, 1, limits, 1.0, NOW).admitted

    assert intake.admit(queue_key, 50, IntakeLimits(), 1.0, NOW).admitted

    assert not intake.admit(queue_key, 1, limits, 1.0, NOW).admitted


def test_the_in_memory_fake_is_as_full_as_it_is_reported(queue_key):
    used = [0.5]
    intake = MemoryIntake(MemoryQueue(), memory=lambda: used[0])

    assert not intake.admit(queue_key, 1, IntakeLimits(), 0.85, NOW).memory_full
    used[0] = 0.851
    assert intake.admit(queue_key, 1, IntakeLimits(), 0.85, NOW).memory_full


NUMBERS = count()
RATES = st.floats(0.01, 10_000)
STEPS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 5_000)), max_size=15)


@examples(0.6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(per_second=RATES, burst=st.integers(1, 200), steps=STEPS)
def test_both_answer_alike(redis_connection, tenant, per_second, burst, steps):
    one = QueueKey(tenant, f"b{next(NUMBERS)}", "main")
    time = Time()
    twins = (
        MemoryIntake(MemoryQueue(), clock=time),
        RedisIntake(redis_connection, clock=time),
    )
    limits = IntakeLimits(per_second=per_second, burst=burst)

    for many, ms in steps:
        time.now += timedelta(milliseconds=ms)
        memory, real = (twin.admit(one, many, limits, 1.0, NOW) for twin in twins)
        assert memory == real
