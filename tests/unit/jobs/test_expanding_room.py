"""A job is made so far ahead, and leaves room to clients."""

from datetime import timedelta
from functools import partial

import pytest

from tests.fakes.submission import MemoryIntake
from tests.kit.jobs import JobState
from tests.kit.queue import Rates
from tests.kit.requests import Accepted, Entry, Submission
from tests.kit.worlds.crashes import Kill, KilledError
from tests.kit.worlds.jobs import (
    assert_exact,
    begin,
    bounded,
    job_of,
    run,
)
from tests.kit.worlds.memory import DOCS, World

in_fours = partial(run, batch=4)


def test_a_crowded_biz_pauses_its_job_and_no_other(world):
    bounded(world, max_backlog=1_500)
    begin(world, 2_000)
    begin(world, 1_200, "theirs", tenant="acme")

    run(world)

    job = job_of(world)
    assert (job.expanded, job.state) == (750, JobState.EXPANDING)
    assert job.trouble is None  # it is as it should be
    assert job.due_at - world.now <= timedelta(seconds=30)
    assert world.warnings == []
    theirs = job_of(world, "theirs", "acme")
    assert (theirs.expanded, theirs.trouble) == (750, None)
    bounded(world, max_backlog=5_000)
    world.now += timedelta(seconds=30)
    run(world)
    assert_exact(world)
    assert job_of(world).trouble is None


def test_a_biz_that_takes_little_at_once_gets_little_at_once(world):
    bounded(world, max_backlog=300)
    begin(world, 1_000)

    run(world)

    assert job_of(world).expanded == 150


def clients_submit(world: World, count: int) -> None:
    """Queued by others before."""
    entries = [Entry(10**9 + number, "docs", 1) for number in range(count)]
    world.queue.enqueue(DOCS, entries, world.now)


def test_clients_of_a_biz_find_room_while_a_large_job_is_made(world):
    bounded(world, max_backlog=10_000)
    begin(world, 20_000)

    run(world, rounds=3)

    assert job_of(world).expanded == 5_000
    pages = [Submission(url=f"https://a.example/{n}") for n in range(1_000)]
    receipts = world.submission().submit(world.tree, "default", "docs", pages, world.now)
    assert all(isinstance(one, Accepted) for one in receipts)


def test_a_job_is_made_ahead_as_far_as_its_biz_wants_and_further_as_that_is_worked_off(world):
    bounded(world, jobs_ahead=3_000)
    begin(world, 10_000)

    run(world, rounds=2)
    assert job_of(world).expanded == 3_000
    leased = world.queue.lease(DOCS, "t", 1_000, world.now, world.now + timedelta(hours=1))
    world.queue.finish(DOCS, "t", leased, len(leased), world.now)
    run(world, rounds=2)

    assert job_of(world).expanded == 4_000


def test_a_biz_that_works_off_much_has_a_minute_of_work_ahead(world):
    bounded(world, jobs_ahead=1_000)
    begin(world, 5_000)

    class Busy:
        def rates(self, *_):
            return None, Rates(per_1s=50.0, per_5s=50.0, per_60s=50.0)

        def __getattr__(self, name):
            return getattr(world.queue, name)

    run(world, queue=Busy(), rounds=2)

    assert job_of(world).expanded == 3_000


def test_a_job_has_some_tasks_however_many_of_others_are_queued(world):
    bounded(world, jobs_ahead=10_000)
    clients_submit(world, 50_000)
    begin(world, 5_000)

    run(world, rounds=3)

    assert (job_of(world).expanded, job_of(world).trouble) == (2_000, None)


def test_where_clients_have_filled_the_biz_that_is_reported(world):
    bounded(world, max_backlog=2_000)
    clients_submit(world, 1_900)
    begin(world, 5_000)

    run(world)

    assert job_of(world).expanded == 0
    assert "max_backlog is 2,000" in job_of(world).trouble


@pytest.mark.parametrize(("used", "made"), [(0.74, 500), (0.78, 0)])
def test_jobs_stop_before_the_memory_is_full_for_clients(world, used, made):
    begin(world, 500)
    intake = MemoryIntake(world.queue, memory=lambda: used)

    run(world, intake=intake)

    assert job_of(world).expanded == made
    pages = [Submission(url="https://a.example/")]
    ports = world.submission(intake=intake)
    assert isinstance(ports.submit(world.tree, "default", "docs", pages, world.now)[0], Accepted)
    if not made:
        assert "75% of its memory" in job_of(world).trouble


def test_the_rate_of_clients_does_not_hold_up_a_job(world):
    bounded(world, per_second=0.001, burst=1)
    begin(world, 3_000)

    run(world)

    assert_exact(world)


def test_a_batch_that_stands_waits_for_room_as_well(world):
    begin(world, 500)
    with pytest.raises(KilledError):
        run(world, store=Kill(1, "dies before", lambda: None).around(world.store))
    world.queue.enqueue(DOCS, [Entry(1, "docs", 1)], world.now)
    bounded(world, max_backlog=1)

    run(world)

    assert job_of(world).batch is not None
    assert "max_backlog is 1" in job_of(world).trouble
    # Less than the batch has: it goes when there is nothing else.
    world.queue.lease(DOCS, "t", 1, world.now, world.now)
    world.queue.finish(DOCS, "t", [Entry(1, "docs", 1)], 1, world.now)
    run(world, rounds=2)
    assert_exact(world)
