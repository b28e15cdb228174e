"""A worker's part in how many there are: it has the missing started, and leaves when told to."""

from datetime import timedelta

import pytest

from tests.fakes.fetching import MemoryFetcher
from tests.kit.fleet import FRESH_MS
from tests.kit.fleet import decided as decision
from tests.kit.worker import HAND_BACK
from tests.kit.worlds import worker as worlds
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import DOCS, World, make_tree
from tests.kit.worlds.worker import Parts, decided, until, work


def beat(world: World, *workers: str, seconds: int = 1) -> None:
    for _ in range(seconds):
        world.now += timedelta(seconds=1)
        for worker in workers:
            world.workers.beat(worker, world.now)


def submitted(world: World, count: int) -> dict[str, bytes]:
    urls = [f"https://example.org/{n}" for n in range(count)]
    worlds.submitted(world, *urls)
    world.woken.clear()
    return dict.fromkeys(urls, b"<title>one</title>")


def test_those_that_are_missing_of_what_was_decided_are_started_once(world):
    decided(world, needed=3, kept=4)
    beat(world, "a")

    assert world.target().replace_missing(world.clock) == 2
    assert world.target().replace_missing(world.clock) == 0
    assert world.woken == [2]


def test_nobody_is_started_on_what_is_out_of_date_or_was_never_decided(world):
    assert world.target().replace_missing(world.clock) == 0
    decided(world, needed=3, kept=3)
    world.now += timedelta(milliseconds=FRESH_MS + 1)

    assert world.target().replace_missing(world.clock) == 0
    assert decision(world.targets) is None
    assert world.woken == []


def test_what_is_wanted_is_what_stands(world):
    assert decision(world.targets) is None
    decided(world, needed=3, kept=5)

    assert decision(world.targets).needed == 3


@pytest.mark.parametrize("part", ["targets", "workers", "waker"])
def test_a_part_that_is_away_is_no_reason_to_stop(world, part):
    decided(world, needed=3, kept=3)

    assert world.target(**{part: Broken()}).replace_missing(world.clock) == 0
    assert len(world.warnings) == 1


def test_a_worker_stays_while_nobody_can_say(world):
    assert world.target(targets=Broken()).report_throughput("w", None, world.now) is None
    assert len(world.warnings) == 1


def test_a_worker_that_reaps_another_starts_its_replacement(world):
    """Capacity that has died does not wait for the next tick."""
    decided(world, needed=2, kept=2)
    beat(world, "gone", "w", seconds=5)
    beat(world, "w", seconds=8)
    mine = Parts(world)

    mine.background.reap()

    assert mine.report.buried == 1
    assert world.woken == [1]


def test_who_finds_nobody_dead_starts_nobody(world):
    decided(world, needed=9, kept=9)
    beat(world, "other", "w", seconds=5)

    Parts(world).background.reap()

    assert world.woken == []


def test_a_worker_whose_time_is_up_calls_for_one_in_its_place(world):
    decided(world, needed=1, kept=1)

    report = work(world, remaining=lambda: 20.0)

    assert report.stopped_because == "time"
    assert world.woken == [1]


def test_workers_of_one_start_end_one_after_the_other(world):
    """The next one of each finds room: another's place is free, as not all are taken till then."""
    ended = {}
    for name in map(str, range(6)):
        report = work(world, {}, name, remaining=lambda: HAND_BACK.total_seconds() + 2)
        ended[name] = report.stopped_because

    assert set(ended.values()) == {"time", "idle"}


def test_a_worker_that_leaves_for_want_of_work_is_not_replaced(world):
    decided(world, needed=1, kept=1)

    report = work(world)

    assert report.stopped_because == "idle"
    assert world.woken == []


class AfterGivingBack(MemoryFetcher):
    """Answers when the worker has been told to leave, and has given back what it had not begun."""

    def __init__(self, world: World, pages: dict[str, bytes]) -> None:
        super().__init__(pages)
        self._world = world

    async def fetch(self, *args):
        await until(lambda: self._world.queue.depth(DOCS).queued == 4)
        return await super().fetch(*args)


def test_a_worker_too_many_ends_what_it_has_begun_and_leaves_the_rest_to_others(world):
    world.tree = make_tree(world.biz, concurrency=1, batch=5, idle_seconds=60.0)
    pages = submitted(world, 5)
    decided(world, needed=1, kept=1)
    world.workers.beat("other", world.now)
    site = AfterGivingBack(world, pages)

    report = work(world, fetcher=site)

    assert report.stopped_because == "surplus"
    assert report.done == len(site.asked) == 1
    assert report.handed_back == report.leased - 1
    depth = world.queue.depth(DOCS)
    assert (depth.queued, depth.leased) == (4, 0)
    assert world.workers.live(world.now) == ["other"]
    assert world.woken == []


def test_what_a_worker_too_many_hands_back_is_taken_though_the_others_have_just_left(world):
    """They had nothing to do while it held all there was, and looked before it gave that back."""
    world.tree = make_tree(world.biz, concurrency=1, batch=5, idle_seconds=60.0)
    decided(world, needed=1, kept=1)
    world.workers.beat("other", world.now)

    class Releasing:
        def release(self, *args):
            world.workers.leave("other")
            return world.store.release(*args)

        def __getattr__(self, name):
            return getattr(world.store, name)

    site = AfterGivingBack(world, submitted(world, 5))

    report = work(world, fetcher=site, store=Releasing())

    assert (report.stopped_because, report.handed_back) == ("surplus", 4)
    assert world.queue.depth(DOCS).queued == 4
    assert world.woken == [1]


def test_the_only_worker_does_not_leave_while_there_is_work(world):
    world.pace(report_throughput=0.0)
    world.tree = make_tree(world.biz, idle_seconds=0.05)
    decided(world, needed=0, kept=0)

    report = work(world, submitted(world, 7))

    assert (report.stopped_because, report.done) == ("idle", 7)
