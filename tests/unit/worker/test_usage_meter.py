"""The usage meter: each run's share of a worker's process by the second; nothing without a run."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.fleet import MemoryReadings
from tests.kit.jobs import RunPart, together, usage_of
from tests.kit.kernel import QueueKey
from tests.kit.politeness import Waiting
from tests.kit.requests import Dead, Done, Page, Retry
from tests.kit.worker import FORGET_SECONDS, Idle, UsageMeter, travelled

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
DOCS, SHOP = QueueKey("acme", "docs", "main"), QueueKey("acme", "shop", "main")
IDLE_BYTES = 100_000_000


class Attempt:
    """An attempt at a task, held until it is ended."""

    def __init__(self, meter: UsageMeter, queue_key: QueueKey, job: str | None) -> None:
        self._end = Dead("gone", "PageGone")
        self._running = meter.during(queue_key, job, self)
        self._running.send(None)

    def __await__(self):
        yield
        return self._end

    def end(self, outcome: object) -> None:
        self._end = outcome
        with suppress(StopIteration):
            self._running.send(None)

    def cancel(self) -> None:
        self._running.close()


class Bench:
    """A meter on a clock and readings that are moved by hand."""

    def __init__(self, most: int = 200) -> None:
        self.readings = MemoryReadings()
        self.readings.memory_bytes = IDLE_BYTES
        self.readings.frequency = 2.0
        self.seconds = 1_000.0
        self.idle = Idle()
        self.attempts: list[Attempt] = []
        self.meter = UsageMeter(
            self.readings, "w1", self.now, self.idle, lambda: self.seconds, most
        )

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds - 1_000)

    def begin(self, job: str | None = "night", queue_key: QueueKey = DOCS) -> Attempt:
        # Kept, as one that nobody holds ends whenever rubbish is looked for.
        self.attempts.append(Attempt(self.meter, queue_key, job))
        return self.attempts[-1]

    def arrive(self, count: int, job: str | None = "night", seconds: float = 0.0) -> None:
        self.meter.arrived(DOCS, job, page(count, seconds=seconds))

    def passes(self, seconds: float = 1.0, cpu: float = 0.0) -> None:
        self.seconds += seconds
        self.readings.cpu_seconds += cpu
        self.meter.tick()

    def reported(self) -> dict[str, RunPart]:
        return {part.job: part for part in self.runs(last=True)}

    def runs(self, *, last: bool = False) -> list[RunPart]:
        """The parts of jobs; accounts of days are in test_day_accounts."""
        return [part for part in self.meter.take(last=last) if not part.job.startswith("/")]


def page(count: int, headers: dict[str, str] | None = None, seconds: float = 0.0) -> Page:
    return Page(url="", status=200, headers=headers or {}, body=b"x" * count, seconds=seconds)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_job_alone_takes_all_that_the_process_takes_above_its_idle_memory(bench: Bench) -> None:
    task = bench.begin()
    bench.readings.memory_bytes += 30
    bench.passes(1, cpu=0.5)
    bench.readings.memory_bytes += 60
    bench.arrive(1_000)
    bench.passes(1, cpu=1.0)
    task.end(Done((), stored=2))

    figures = bench.reported()["night"].figures
    assert (figures.seconds, figures.memory_seconds, figures.memory_max) == (2, 120, 90)
    assert (figures.cpu_seconds, figures.cpu_max) == (3.0, 2.0)  # at 2 GHz
    assert (figures.bytes, figures.bandwidth_max) == (1_000, 1_000)
    assert (figures.requests, figures.records, figures.errors, figures.workers) == (1, 2, 0, 1)
    assert (figures.began_at, figures.ended_at) == (START, START + timedelta(seconds=2))
    usage = usage_of(figures)
    assert (usage.memory, usage.cpu, usage.bandwidth) == (60, 1.5, 500)


def test_what_runs_at_once_shares_by_time_and_bytes_and_requests_without_a_job_pay_too(
    bench: Bench,
) -> None:
    tasks = [bench.begin("one"), bench.begin("two"), bench.begin("two"), bench.begin(None)]
    bench.readings.memory_bytes += 400
    bench.arrive(300, "one")
    bench.arrive(100, None)
    bench.passes(1, cpu=1.0)
    for task in tasks:
        task.end(Retry(START, "again"))

    reported = bench.reported()
    assert sorted(reported) == ["one", "two"]
    one, two = reported["one"].figures, reported["two"].figures
    assert (one.memory_max, two.memory_max) == (100, 200)
    # Of 2 GHz seconds: a quarter of the time and three of the bytes; half of the time and none.
    assert (one.cpu_seconds, two.cpu_seconds) == (1.0, 0.5)
    assert (one.errors, two.errors, two.requests) == (1, 2, 2)


def test_without_a_job_nothing_is_read(bench: Bench) -> None:
    before = bench.readings.read
    task = bench.begin(None)
    for _ in range(100):
        bench.arrive(10, None)
        bench.passes()
    task.end(Done(()))

    assert bench.readings.read == before
    assert bench.runs(last=True) == []


def test_the_process_is_read_once_a_second_however_many_tasks_there_are(bench: Bench) -> None:
    bench.begin("long")
    before = bench.readings.read
    for _ in range(20):
        for task in [bench.begin() for _ in range(50)]:
            task.end(Done(()))
        bench.passes(0.5)

    assert bench.readings.read - before == 10


def test_a_run_that_is_over_before_the_first_reading_is_measured_too(bench: Bench) -> None:
    task = bench.begin()
    bench.arrive(500)
    bench.seconds += 0.2
    bench.readings.cpu_seconds += 0.1
    task.end(Done(()))
    bench.passes(0.1)

    figures = bench.reported()["night"].figures
    assert figures.seconds == pytest.approx(0.2)
    assert (figures.cpu_seconds, figures.cpu_max, figures.bytes) == (0.2, 0.2, 500)


def test_what_is_taken_between_two_jobs_is_nobodys(bench: Bench) -> None:
    bench.begin().end(Done(()))
    bench.passes(0.1)
    bench.passes(30, cpu=25.0)
    task = bench.begin("late")
    bench.passes(1, cpu=0.5)
    task.end(Done(()))

    reported = bench.reported()
    assert (reported["night"].figures.cpu_seconds, reported["late"].figures.cpu_seconds) == (0, 1.0)


def test_idle_memory_is_the_least_seen_while_nothing_ran_and_stays_with_the_process(
    bench: Bench,
) -> None:
    bench.readings.memory_bytes = IDLE_BYTES + 50
    later = UsageMeter(bench.readings, "w2", bench.now, bench.idle, lambda: bench.seconds)
    task = Attempt(later, DOCS, "night")
    bench.seconds += 1
    later.tick()
    task.end(Done(()))

    [found] = [part for part in later.take(last=True) if part.job == "night"]
    assert found.figures.memory_max == 50
    bench.idle.seen(0)  # what could not be read is no memory
    assert bench.idle.memory_bytes == IDLE_BYTES


def test_a_download_counts_over_the_seconds_that_it_took(bench: Bench) -> None:
    bench.begin()
    bench.passes(20)
    bench.arrive(10_000, seconds=9.0)
    bench.passes(1)
    assert bench.reported()["night"].figures.bandwidth_max == 1_000

    bench.passes(300)
    bench.arrive(1_000)
    bench.passes(300)
    figures = bench.reported()["night"].figures
    assert (figures.bandwidth_max, figures.bytes) == (1_000, 11_000)


def test_what_was_measured_is_reported_at_times_and_at_once_when_a_job_goes_quiet(
    bench: Bench,
) -> None:
    task = bench.begin()
    bench.passes(5)
    assert bench.runs() == []
    bench.passes(10)
    assert [part.figures.seconds for part in bench.runs()] == [15]
    assert bench.runs() == []
    task.end(Done(()))
    bench.passes(0.5)
    assert bench.runs() == []
    bench.passes(0.5)

    (part,) = bench.runs()
    assert (part.figures.requests, part.part) == (1, "w1.1")
    assert bench.runs() == []
    assert [part.figures.gb_seconds for part in bench.runs(last=True)] == [16]
    assert bench.runs(last=True) == []


def test_what_could_not_be_reported_is_reported_again(bench: Bench) -> None:
    bench.begin().end(Done(()))
    bench.passes(2)
    parts = bench.runs()
    bench.meter.keep(parts)

    assert bench.runs() == parts


def test_a_job_that_comes_back_after_it_was_forgotten_is_another_part(bench: Bench) -> None:
    bench.begin().end(Done(()))
    bench.passes(2)
    first = bench.runs()
    bench.passes(FORGET_SECONDS)
    assert bench.runs() == []
    bench.meter.keep(first)  # of what is forgotten nothing is told again
    bench.begin().end(Done(()))

    second = bench.reported()["night"]
    assert second.part != first[0].part
    assert together([first[0].figures, second.figures]).requests == 2


def test_more_jobs_than_are_measured_at_once_count_as_none() -> None:
    bench = Bench(most=2)
    first = bench.begin("one")
    bench.begin("two")
    third = bench.begin("three")
    bench.arrive(10, "three")
    bench.passes(1)
    third.end(Done(()))
    first.end(Done(()))
    assert sorted(bench.reported()) == ["one", "two"]

    bench.begin("four").end(Done(()))  # the first is quiet, and told
    assert sorted(bench.reported()) == ["four"]


def test_what_is_deferred_or_given_up_in_the_middle_is_no_request(bench: Bench) -> None:
    bench.begin().end(Waiting("a.example", [], START, "robots"))
    bench.begin().cancel()
    bench.passes(1)

    figures = bench.reported()["night"].figures
    assert (figures.requests, figures.errors) == (0, 0)


def test_bizs_that_call_a_job_the_same_are_apart(bench: Bench) -> None:
    bench.begin("night", DOCS).end(Done(()))
    bench.begin("night", SHOP).end(Dead("gone"))

    reported = bench.runs(last=True)
    assert sorted((part.biz, part.figures.errors) for part in reported) == [
        ("docs", 0),
        ("shop", 1),
    ]


@pytest.mark.parametrize(
    ("headers", "count"),
    [
        ({}, 100),
        ({"content-encoding": "gzip", "content-length": "40"}, 40),
        ({"content-encoding": "gzip"}, 100),
        ({"content-encoding": "br", "content-length": "-4"}, 100),
        ({"content-encoding": "br", "content-length": "9" * 30}, 100),
        ({"content-length": "7"}, 100),
    ],
)
def test_bytes_are_those_that_travelled_where_the_site_says_how_many(
    headers: dict[str, str], count: int
) -> None:
    assert travelled(page(100, headers)) == count


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "two", None]),
            st.floats(0, 3),
            st.floats(0, 3),
            st.integers(0, 1_000),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_jobs_never_take_more_than_the_process_did_and_never_less_than_nothing(steps) -> None:
    bench, running = Bench(), []
    for job, seconds, cpu, count, ends in steps:
        running.append(bench.begin(job))
        bench.readings.memory_bytes = IDLE_BYTES - 500 + count
        bench.arrive(count, job)
        bench.passes(seconds, cpu)
        if ends:
            running.pop(0).end(Done(()))
    for task in running:
        task.end(Done(()))

    parts = bench.reported().values()
    whole = together(part.figures for part in parts)
    assert whole.cpu_seconds <= 2.0 * bench.readings.cpu_seconds * (1 + 1e-9)
    assert whole.requests == sum(job is not None for job, *_ in steps)
    # One that ended after its last reading was taken may have come after the page.
    assert whole.bytes <= sum(count for job, *_, count, _ in steps if job is not None)
    for part in parts:
        assert min(part.figures.memory_seconds, part.figures.seconds) >= 0
        assert part.figures.seconds <= bench.seconds - 1_000 + 1e-6
