"""A worker's part in how many there are: it has the missing started, and leaves when told to."""

import asyncio
from datetime import timedelta

import pytest

from tests.kit.fleet import FLEET_POOL, FRESH_MS, Staff, muster, replace_missing
from tests.kit.fleet import decided as decision
from tests.kit.requests import Submission
from tests.kit.submission import submit
from tests.kit.worker import HAND_BACK, Worker, chores
from tests.unit.flows.world import DOCS, Broken, World, make_tree


def decided(world: World, needed: int, kept: int) -> None:
    standing = world.staffing.read(FLEET_POOL)
    staff = Staff(needed=needed, kept=kept, at_ms=standing.now_ms)
    assert world.staffing.settle(FLEET_POOL, standing, staff)


def beat(world: World, *workers: str, seconds: int = 1) -> None:
    for _ in range(seconds):
        world.now += timedelta(seconds=1)
        for worker in workers:
            world.workers.beat(worker, world.now)


def submitted(world: World, count: int) -> dict[str, bytes]:
    urls = [f"https://example.org/{n}" for n in range(count)]
    pages = [Submission(url=url) for url in urls]
    submit(world.submission(), world.tree, "default", "docs", pages, world.now)
    world.woken.clear()
    return dict.fromkeys(urls, b"<title>one</title>")


def test_those_that_are_missing_of_what_was_decided_are_started_once(world):
    decided(world, needed=3, kept=4)
    beat(world, "a")

    assert replace_missing(world.staff(), world.clock) == 2
    assert replace_missing(world.staff(), world.clock) == 0
    assert world.woken == [2]


def test_nobody_is_started_on_what_is_out_of_date_or_was_never_decided(world):
    assert replace_missing(world.staff(), world.clock) == 0
    decided(world, needed=3, kept=3)
    world.now += timedelta(milliseconds=FRESH_MS + 1)

    assert replace_missing(world.staff(), world.clock) == 0
    assert decision(world.staffing) is None
    assert world.woken == []


def test_what_is_wanted_is_what_stands(world):
    assert decision(world.staffing) is None
    decided(world, needed=3, kept=5)

    assert decision(world.staffing).needed == 3


@pytest.mark.parametrize("part", ["staffing", "workers", "waker"])
def test_a_part_that_is_away_is_no_reason_to_stop(world, part):
    decided(world, needed=3, kept=3)

    assert replace_missing(world.staff(**{part: Broken()}), world.clock) == 0
    assert len(world.warnings) == 1


def test_a_worker_stays_while_nobody_can_say(world):
    assert muster(world.staff(staffing=Broken()), "w", None, world.now) is None
    assert len(world.warnings) == 1


def test_a_worker_that_buries_another_calls_for_one_in_its_place(world):
    """Capacity that has died does not wait for the minute's tick."""
    decided(world, needed=2, kept=2)
    beat(world, "gone", "w", seconds=5)
    beat(world, "w", seconds=8)
    worker = Worker(world.work({}), "w")

    worker._chores.watch()

    assert worker._report.buried == 1
    assert world.woken == [1]


def test_who_finds_nobody_dead_starts_nobody(world):
    decided(world, needed=9, kept=9)
    beat(world, "other", "w", seconds=5)

    Worker(world.work({}), "w")._chores.watch()

    assert world.woken == []


def test_a_worker_whose_time_is_up_calls_for_one_in_its_place(world):
    decided(world, needed=1, kept=1)

    report = asyncio.run(Worker(world.work({}, remaining=lambda: 20.0), "w").run())

    assert report.stopped_because == "time"
    assert world.woken == [1]


def test_workers_of_one_start_end_one_after_the_other(world):
    """The next one of each finds room: another's place is free, as not all are taken till then."""
    ended = {}
    for name in map(str, range(20)):
        work = world.work({}, remaining=lambda: HAND_BACK.total_seconds() + 2)
        ended[name] = asyncio.run(Worker(work, name).run()).stopped_because

    assert set(ended.values()) == {"time", "idle"}


def test_a_worker_that_leaves_for_want_of_work_is_not_replaced(world):
    decided(world, needed=1, kept=1)

    report = asyncio.run(Worker(world.work({}), "w").run())

    assert report.stopped_because == "idle"
    assert world.woken == []


def test_a_worker_too_many_ends_what_it_has_begun_and_leaves_the_rest_to_others(world, monkeypatch):
    monkeypatch.setattr(chores, "MUSTER_SECONDS", 0.01)
    world.tree = make_tree(world.biz, concurrency=1, batch=5, idle_seconds=60.0)
    pages = submitted(world, 5)
    decided(world, needed=1, kept=1)
    world.workers.beat("other", world.now)
    told = []

    class Site:
        """Answers the first page when the worker has been told to leave, and has given back."""

        def __init__(self, worker: Worker) -> None:
            self._worker = worker

        async def attempt(self, held):
            while not self._worker._report.handed_back:  # noqa: ASYNC110  a count is no event
                await asyncio.sleep(0)
            told.append(held)
            return await attempts.attempt(held)

    worker = Worker(world.work(pages), "w")
    attempts = worker._attempts
    worker._attempts = Site(worker)
    report = asyncio.run(worker.run())

    assert report.stopped_because == "surplus"
    assert report.done == len(told) == 1
    assert report.handed_back == report.leased - 1
    depth = world.queue.depth(DOCS)
    assert (depth.queued, depth.leased) == (4, 0)
    assert world.workers.live(world.now) == ["other"]
    assert world.woken == []


def test_what_a_worker_too_many_hands_back_is_taken_though_the_others_have_just_left(
    world, monkeypatch
):
    """They had nothing to do while it held all there was, and looked before it gave that back."""
    monkeypatch.setattr(chores, "MUSTER_SECONDS", 0.01)
    world.tree = make_tree(world.biz, concurrency=1, batch=5, idle_seconds=60.0)
    decided(world, needed=1, kept=1)
    world.workers.beat("other", world.now)
    released = world.store.release

    def release(*args):
        world.workers.leave("other")
        return released(*args)

    monkeypatch.setattr(world.store, "release", release)
    worker = Worker(world.work(submitted(world, 5)), "w")
    attempts = worker._attempts

    class Site:
        """Answers the first page when the worker has been told to leave, and has given back."""

        async def attempt(self, held):
            while not worker._report.handed_back:  # noqa: ASYNC110  a count is no event
                await asyncio.sleep(0)
            return await attempts.attempt(held)

    worker._attempts = Site()
    report = asyncio.run(worker.run())

    assert (report.stopped_because, report.handed_back) == ("surplus", 4)
    assert world.queue.depth(DOCS).queued == 4
    assert world.woken == [1]


def test_the_only_worker_does_not_leave_while_there_is_work(world, monkeypatch):
    monkeypatch.setattr(chores, "MUSTER_SECONDS", 0.0)
    world.tree = make_tree(world.biz, idle_seconds=0.05)
    decided(world, needed=0, kept=0)

    report = asyncio.run(Worker(world.work(submitted(world, 7)), "w").run())

    assert (report.stopped_because, report.done) == ("idle", 7)
