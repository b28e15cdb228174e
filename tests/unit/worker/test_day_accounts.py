"""What a worker is paid for: its time, shared; accounts of bizs by the day."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.fleet import MemoryReadings
from tests.kit.jobs import RunFigures, RunPart
from tests.kit.kernel import QueueKey
from tests.kit.requests import Dead, Done, Page, Record
from tests.kit.worker import Idle, SharedTime, UsageMeter

NIGHT = datetime(2026, 11, 23, 23, 59, 50, tzinfo=UTC)
DOCS, SHOP = QueueKey("acme", "docs", "main"), QueueKey("acme", "shop", "main")


class Bench:
    """A meter of a worker of 2 GB on a clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.meter = UsageMeter(
            MemoryReadings(), "w1", self.now, Idle(), lambda: self.seconds, gb=2.0
        )

    def now(self) -> datetime:
        return NIGHT + timedelta(seconds=self.seconds)

    def attempt(self, queue_key: QueueKey, job: str | None, seconds: float, end: object) -> None:
        async def work() -> object:
            self.seconds += seconds
            return end

        asyncio.run(self.meter.during(queue_key, job, work()))

    def arrive(self, queue_key: QueueKey, count: int, usd_per_gb: float | None = None) -> None:
        page = Page(url="", status=200, headers={}, body=b"x" * count)
        self.meter.arrived(queue_key, "night", page, usd_per_gb)

    def taken(self, *, last: bool = True) -> dict[tuple[str, str], RunFigures]:
        parts: list[RunPart] = self.meter.take(last=last)
        return {(part.biz, part.job): part.figures for part in parts}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def a_record(text: str) -> object:
    return Record(
        request_id="1",
        index=0,
        biz="docs",
        url="https://a.example/",
        rule="page",
        rule_version="v1",
        stored_at=NIGHT,
        fields={"title": text},
    )


@given(st.lists(st.tuples(st.floats(0, 9), st.booleans()), max_size=30))
def test_all_of_a_workers_time_is_shared_and_no_second_of_it_twice(steps) -> None:
    now, running, paid = 0.0, [], 0.0
    shared = SharedTime(now)

    for seconds, begins in steps:
        now += seconds
        if begins or not running:
            running.append(shared.began(now))
        else:
            paid += shared.ended(running.pop(0), now)
    paid += sum(shared.ended(mark, now) for mark in running)
    now += 1.5

    assert paid + shared.rest(now) == pytest.approx(now)
    assert shared.rest(now) == 0


def test_a_gap_is_paid_by_the_next_one_and_the_last_one_by_whose_attempt_was_last(
    bench: Bench,
) -> None:
    bench.attempt(DOCS, "night", 1.0, Done(()))
    bench.seconds += 4.0  # its host was not to be asked yet
    bench.attempt(SHOP, None, 1.0, Done(()))
    bench.seconds += 2.0  # idle, then it ends

    found = bench.taken()

    assert found["docs", "night"].gb_seconds == pytest.approx(2.0)
    assert found["docs", "/2026-11-23"].gb_seconds == pytest.approx(2.0)
    assert found["shop", "/2026-11-23"].gb_seconds == pytest.approx(2 * (4 + 1 + 2))


def test_a_page_of_a_job_is_in_its_account_and_in_its_bizs_of_the_day(bench: Bench) -> None:
    bench.arrive(DOCS, 1_000)
    bench.attempt(DOCS, "night", 0.5, Done((a_record("x" * 89),), stored=9))
    bench.arrive(DOCS, 2_000_000, usd_per_gb=4.0)
    bench.attempt(DOCS, "night", 0.5, Dead("gone", "PageGone"))

    found = bench.taken()

    job, day = found["docs", "night"], found["docs", "/2026-11-23"]
    assert (day.bytes, day.proxied_bytes) == (2_001_000, 2_000_000)
    assert day.proxy_usd == pytest.approx(0.008)
    assert (day.requests, day.errors, day.records) == (2, 1, 10)
    # Of records that were stored before, the size is that of the others.
    assert day.stored_bytes == 10 * 101
    paid = ("gb_seconds", "proxied_bytes", "proxy_usd", "stored_bytes", "requests", "records")
    assert [getattr(job, name) for name in paid] == [getattr(day, name) for name in paid]


def test_what_ends_after_midnight_is_of_the_next_day(bench: Bench) -> None:
    bench.attempt(DOCS, None, 1.0, Done(()))
    bench.attempt(DOCS, None, 20.0, Done(()))

    found = bench.taken()

    assert found["docs", "/2026-11-23"].requests == 1
    assert found["docs", "/2026-11-24"].requests == 1


def test_an_account_is_reported_at_times_and_again_where_that_failed(bench: Bench) -> None:
    bench.attempt(DOCS, None, 1.0, Done(()))
    assert bench.taken(last=False) == {}

    bench.seconds += 15
    parts = bench.meter.take()
    assert [part.figures.requests for part in parts] == [1]
    assert bench.meter.take() == []
    bench.meter.keep(parts)
    bench.seconds += 15

    assert bench.meter.take() == parts


def test_an_account_that_rests_is_forgotten_and_goes_on_in_another_part(bench: Bench) -> None:
    bench.attempt(DOCS, None, 1.0, Done(()))
    bench.seconds += 15
    [first] = bench.meter.take()
    bench.seconds += 61
    assert bench.meter.take() == []
    bench.attempt(DOCS, None, 1.0, Done(()))
    bench.seconds += 15

    [second] = bench.meter.take()

    assert second.part != first.part
    assert second.figures.requests == 1
