"""The throughput report of a worker."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.fleet import Throughput
from tests.kit.kernel import QueueKey
from tests.kit.politeness import Waiting
from tests.kit.requests import Dead, Done, Retry
from tests.kit.worker import QUEUES, ThroughputMeter
from tests.kit.worlds.memory import DOCS, OTHER, START
from tests.kit.worlds.worker import submitted, work


def at(shown: Throughput | None) -> float | None:
    """The pace of a worker that was busy enough to have shown it."""
    assert shown is None or not shown.is_least
    return None if shown is None else shown.per_second


def each(shown: dict[str, Throughput]) -> dict[str, float | None]:
    return {queue_key: at(one) for queue_key, one in shown.items()}


class Steady:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def steady() -> Steady:
    return Steady()


def test_a_worker_that_is_half_busy_could_do_twice_as_much(steady):
    throughput_meter = ThroughputMeter(4, steady)
    for _ in range(10):
        throughput_meter.began(DOCS)
        throughput_meter.began(DOCS)
        steady.now += 1.0
        throughput_meter.ended(DOCS, is_final=True)
        throughput_meter.ended(DOCS, is_final=True)

    assert at(throughput_meter.throughput()) == pytest.approx(4.0)


def test_one_that_is_full_does_what_it_can(steady):
    throughput_meter = ThroughputMeter(1, steady)
    for _ in range(10):
        throughput_meter.began(DOCS)
        steady.now += 0.5
        throughput_meter.ended(DOCS, is_final=True)

    assert at(throughput_meter.throughput()) == pytest.approx(2.0)


def test_each_report_is_of_what_came_since_the_last(steady):
    throughput_meter = ThroughputMeter(1, steady)
    for seconds in (1.0, 0.1):
        for _ in range(50):
            throughput_meter.began(DOCS)
            steady.now += seconds
            throughput_meter.ended(DOCS, is_final=True)
        assert at(throughput_meter.throughput()) == pytest.approx(1 / seconds)


def test_little_is_kept_for_the_next_time(steady):
    throughput_meter = ThroughputMeter(1, steady)
    throughput_meter.began(DOCS)
    steady.now += 2.0
    throughput_meter.ended(DOCS, is_final=True)

    assert throughput_meter.throughput() is None
    for _ in range(3):
        throughput_meter.began(DOCS)
        steady.now += 2.0
        throughput_meter.ended(DOCS, is_final=True)
    assert at(throughput_meter.throughput()) == pytest.approx(0.5)


def test_what_is_under_way_counts_for_as_long_as_it_has_run(steady):
    throughput_meter = ThroughputMeter(2, steady)
    throughput_meter.began(DOCS)
    for _ in range(10):
        throughput_meter.began(DOCS)
        steady.now += 1.0
        throughput_meter.ended(DOCS, is_final=True)

    assert at(throughput_meter.throughput()) == pytest.approx(1.0)


def test_who_is_nearly_idle_shows_only_that_it_can_do_what_it_did(steady):
    throughput_meter = ThroughputMeter(64, steady)
    for _ in range(10):
        throughput_meter.began(DOCS)
        steady.now += 0.5
        throughput_meter.ended(DOCS, is_final=True)
        steady.now += 0.5

    assert throughput_meter.throughput() == Throughput(per_second=1.0, is_least=True)
    assert throughput_meter.throughputs() == {DOCS.path: Throughput(per_second=1.0, is_least=True)}


def test_who_waits_shows_nothing(steady):
    throughput_meter = ThroughputMeter(2, steady)
    steady.now += 100.0

    assert throughput_meter.throughput() is None


def ran(
    throughput_meter: ThroughputMeter,
    steady: Steady,
    queue_key: QueueKey,
    seconds: float,
    count: int,
    *,
    final=True,
):
    for _ in range(count):
        throughput_meter.began(queue_key)
        steady.now += seconds
        throughput_meter.ended(queue_key, is_final=final)


def attempted(throughput_meter: ThroughputMeter, queue_key: QueueKey, end: object) -> object:
    async def attempt() -> object:
        if isinstance(end, Exception):
            raise end
        return end

    return asyncio.run(throughput_meter.timed(queue_key, attempt()))


def test_only_what_is_dealt_with_for_good_counts(steady):
    """A pool without proxies has hundreds deferred in a second: that is no page done."""
    throughput_meter = ThroughputMeter(1, steady)
    unfinished = [Waiting("h", [], START, "proxies"), Retry(START, "slow")]
    for end in unfinished * 20:
        assert attempted(throughput_meter, DOCS, end) is end
        steady.now += 0.25
    assert throughput_meter.throughput() is None

    for end in [Done(()), Dead("gone", "PageGone"), Done(())]:
        assert attempted(throughput_meter, OTHER, end) is end
    with pytest.raises(ValueError, match="nobody foresaw"):
        attempted(throughput_meter, OTHER, ValueError("nobody foresaw"))
    # Four in fifteen seconds of which it worked for one: nothing is counted as under way still.
    ran(throughput_meter, steady, DOCS, 1.0, 1)
    steady.now += 4.0
    assert throughput_meter.throughput() == Throughput(
        per_second=pytest.approx(4 / 15), is_least=True
    )


def test_each_queue_shows_what_could_be_done_of_it_alone(steady):
    throughput_meter = ThroughputMeter(2, steady)
    for _ in range(10):
        ran(throughput_meter, steady, DOCS, 0.01, 30)
        ran(throughput_meter, steady, OTHER, 1.0, 1)

    # One of two runners was at work, so that twice as much could be done.
    assert each(throughput_meter.throughputs()) == pytest.approx(
        {DOCS.path: 200.0, OTHER.path: 2.0}
    )
    assert throughput_meter.throughputs() == {}


def test_what_costs_time_and_comes_to_nothing_makes_its_own_queue_slow_and_no_other(steady):
    throughput_meter = ThroughputMeter(1, steady)
    for _ in range(10):
        ran(throughput_meter, steady, DOCS, 0.9, 1, final=False)
        ran(throughput_meter, steady, DOCS, 0.1, 1)
        ran(throughput_meter, steady, OTHER, 0.1, 10)

    assert each(throughput_meter.throughputs()) == pytest.approx({DOCS.path: 1.0, OTHER.path: 10.0})


def test_what_a_queue_has_shown_too_little_of_is_forgotten_after_a_while(steady):
    throughput_meter = ThroughputMeter(1, steady)
    ran(throughput_meter, steady, DOCS, 0.1, 2)
    steady.now += 50
    assert throughput_meter.throughputs() == {}
    steady.now += 50
    assert throughput_meter.throughputs() == {}
    ran(throughput_meter, steady, DOCS, 1.0, 10)

    assert each(throughput_meter.throughputs()) == pytest.approx({DOCS.path: 1.0})


@given(
    st.lists(st.tuples(st.integers(0, 2 * QUEUES), st.booleans(), st.floats(0, 5)), max_size=400)
)
def test_account_is_kept_of_a_bounded_number_of_queues_and_never_of_less_than_none(steps):
    steady = Steady()
    throughput_meter, running = ThroughputMeter(4, steady), []
    for number, begins, seconds in steps:
        steady.now += seconds
        if begins:
            running.append(QueueKey("acme", f"b{number}", "main"))
            throughput_meter.began(running[-1])
        elif running:
            throughput_meter.ended(running.pop(number % len(running)), is_final=True)
        throughputs = throughput_meter.throughputs()
        assert len(throughputs) <= QUEUES
        assert all(shown.per_second > 0 for shown in throughputs.values())


def test_queues_beyond_those_of_which_account_is_kept_are_reported_of_when_there_is_room(steady):
    throughput_meter = ThroughputMeter(1, steady)
    queues = [QueueKey("acme", f"b{number}", "main") for number in range(QUEUES + 1)]
    for queue_key in queues:
        throughput_meter.began(queue_key)
    for _ in range(3):
        for queue_key in queues:
            steady.now += 0.1
            throughput_meter.ended(queue_key, is_final=True)
            throughput_meter.began(queue_key)

    assert set(throughput_meter.throughputs()) == {queue_key.path for queue_key in queues[:QUEUES]}


def test_a_worker_reads_the_meter_in_its_event_loop_alone(world, monkeypatch):
    readers = []
    for name in ("throughput", "throughputs"):
        read = getattr(ThroughputMeter, name)

        def noted(meter, read=read):
            readers.append(threading.get_ident())
            return read(meter)

        monkeypatch.setattr(ThroughputMeter, name, noted)
    urls = [f"https://example.org/{n}" for n in range(3)]
    submitted(world, *urls)

    work(world, dict.fromkeys(urls, b"<title>one</title>"))

    assert len(readers) >= 2
    assert set(readers) == {threading.get_ident()}
