from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import DetectorLimits
from tests.kit.fleet import WorkerStatus
from tests.kit.politeness import HostAsk
from tests.kit.queue import Depth
from tests.kit.recovery import reaper
from tests.kit.requests import State, Submission
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import DOCS, World

SECOND = timedelta(seconds=1)


def submitted(world: World, count: int) -> None:
    pages = [Submission(url=f"https://example.org/{n}") for n in range(count)]
    world.submission().submit(world.tree, "default", "docs", pages, world.now)


def beat(world: World, *workers: str, seconds: int = 1) -> None:
    """Let time pass in which these beat, and nobody else."""
    for _ in range(seconds):
        world.now += SECOND
        for worker in workers:
            world.workers.beat(worker, world.now, WorkerStatus())


def take(world: World, worker: str, count: int, *, claims: bool = True) -> list[int]:
    """Lease requests for a worker, and claim them unless it is killed in between; return ids."""
    token, until = f"{worker}.aa.1", world.now + timedelta(minutes=5)
    entries = world.queue.lease(DOCS, token, count, world.now, until)
    if claims:
        world.store.claim(DOCS, world.biz, entries, worker, world.now, until, token)
    return [entry.id for entry in entries]


def look(world: World, **changes: object):
    return world.reaper(**changes).reap(world.tree, "other", world.now)


def states(world: World, ids: list[int]) -> set[int]:
    return {world.store.get(DOCS, world.biz, one).state for one in ids}


def test_what_a_killed_worker_held_is_back_in_the_queue_within_seconds(world):
    submitted(world, 7)
    beat(world, "gone", "other", seconds=5)
    ids = take(world, "gone", 5)

    beat(world, "other", seconds=6)
    found = look(world)

    assert (found.dead, found.returned) == (("gone",), 5)
    assert states(world, ids) == {State.PENDING}
    depth = world.queue.depth(DOCS)
    assert (depth.queued, depth.leased) == (7, 0)
    [line, *_] = reversed(world.store.get(DOCS, world.biz, ids[0]).timeline)
    assert line.by == "other"
    assert line.why.startswith("worker gone ")
    assert "6.0 s" in line.why


class Away:
    """A queue that cannot be read for the moment."""

    def __init__(self, queue) -> None:
        self._queue = queue

    def depths(self, queues):
        return [Depth(queued=0, leased=0, delayed=0, away=True) for _ in queues]

    def __getattr__(self, name):
        return getattr(self._queue, name)


def test_a_queue_that_could_not_be_seen_for_a_moment_is_not_passed_over(world):
    submitted(world, 7)
    beat(world, "gone", "other", seconds=5)
    ids = take(world, "gone", 5)
    beat(world, "other", seconds=6)

    found = look(world, queue=Away(world.queue))

    assert (found.dead, found.returned) == (("gone",), 5)
    assert states(world, ids) == {State.PENDING}


def test_its_leases_go_back_before_others_that_wait(world):
    submitted(world, 4)
    beat(world, "gone", "other", seconds=5)
    ids = take(world, "gone", 2)
    beat(world, "other", seconds=6)

    look(world)

    assert take(world, "other", 2) == ids


def test_what_was_leased_but_not_yet_claimed_goes_back_too(world):
    submitted(world, 3)
    beat(world, "gone", "other", seconds=5)
    ids = take(world, "gone", 3, claims=False)
    beat(world, "other", seconds=6)

    assert look(world).returned == 3
    assert take(world, "other", 3) == ids


def test_a_slow_worker_keeps_what_it_holds(world):
    submitted(world, 3)
    beat(world, "slow", "other", seconds=10)
    ids = take(world, "slow", 3)

    beat(world, "other", seconds=3)

    assert look(world).dead == ()
    assert states(world, ids) == {State.LEASED}


def test_a_dead_worker_that_comes_back_writes_nothing_and_is_new(world):
    submitted(world, 1)
    beat(world, "gone", "other", seconds=5)
    until = world.now + timedelta(minutes=5)
    [entry] = world.queue.lease(DOCS, "gone.aa.1", 1, world.now, until)
    [claim] = world.store.claim(DOCS, world.biz, [entry], "gone", world.now, until, "gone.aa.1")
    beat(world, "other", seconds=6)
    look(world)

    assert world.store.renew(DOCS, world.biz, [claim], until) == {entry.id}
    assert world.workers.beat("gone", world.now, WorkerStatus()) is False


def test_what_others_hold_is_left_to_them(world):
    submitted(world, 6)
    beat(world, "gone", "other", "third", seconds=5)
    take(world, "gone", 2)
    kept = take(world, "third", 3)
    beat(world, "other", "third", seconds=6)

    assert look(world).returned == 2
    assert states(world, kept) == {State.LEASED}
    assert world.queue.depth(DOCS).leased == 3


def test_one_reaper_runs_at_a_time(world):
    beat(world, "w")
    assert look(world).mine
    assert not look(world).mine, "within the same second"
    world.now += SECOND
    assert look(world).mine


def test_after_redis_was_away_nobody_is_found_dead(world):
    submitted(world, 2)
    beat(world, "w", "other", seconds=10)
    take(world, "w", 2)
    world.now += timedelta(minutes=3)  # nobody could beat, nobody could look

    assert look(world).dead == ()
    beat(world, "w", "other", seconds=2)
    assert look(world).dead == ()


def test_a_part_that_fails_on_the_way_is_gone_on_from_at_the_next_look(world):
    submitted(world, 4)
    beat(world, "gone", "other", seconds=5)
    ids = take(world, "gone", 4)
    beat(world, "other", seconds=6)
    queue = Failing(world.queue, depths=1)
    with pytest.raises(Exception, match="no answer"):
        look(world, queue=queue)
    beat(world, "other")

    assert look(world, queue=queue).returned == 4
    assert states(world, ids) == {State.PENDING}


def test_a_queue_whose_store_is_away_does_not_keep_the_worker_from_being_buried(world):
    submitted(world, 2)
    beat(world, "gone", "other", seconds=5)
    take(world, "gone", 2)
    beat(world, "other", seconds=6)

    found = look(world, revocation=Broken())

    assert (found.dead, found.returned) == (("gone",), 0)
    assert world.queue.depth(DOCS).leased == 2, "recovery and the leases' end see to these"
    assert any("dead worker" in text for text in world.warnings)


def test_a_journal_that_cannot_be_written_keeps_nothing_back(world):
    submitted(world, 2)
    beat(world, "gone", "other", seconds=5)
    take(world, "gone", 2)
    beat(world, "other", seconds=6)

    assert look(world, journal=Broken()).returned == 2


def test_the_journal_says_how_many_were_reclaimed_and_from_whom(world):
    submitted(world, 2)
    beat(world, "gone", "other", seconds=5)
    take(world, "gone", 2)
    beat(world, "other", seconds=6)
    look(world)

    [line] = world.journal.lines(DOCS, world.now - SECOND, world.now + SECOND, 9)
    assert (line.kind, line.count, line.by) == ("taken-back", 2, "other")
    assert line.why.startswith("worker gone ")


# ---- one who stays ------------------------------------------------------------------------------


def stay(world: World, *alive: str) -> tuple[tuple[str, ...], int]:
    """Reap until sure while these go on beating; return the dead, and how long it took."""
    began = world.now

    def pause(seconds: float) -> None:
        beat(world, *alive)

    dead = world.reaper().reap_until_sure(world.tree, "scheduler", world.clock, pause)
    return dead, int((world.now - began).total_seconds())


def test_where_all_workers_died_the_tick_stays_until_it_is_sure(world):
    submitted(world, 3)
    beat(world, "a", "b", seconds=5)
    ids = [*take(world, "a", 2), *take(world, "b", 1)]
    world.now += timedelta(seconds=40)

    dead, seconds = stay(world)

    assert sorted(dead) == ["a", "b"]
    assert seconds <= 8
    assert states(world, ids) == {State.PENDING}


def test_where_all_is_well_the_tick_goes_on_after_a_few_seconds(world):
    submitted(world, 3)
    beat(world, "a", seconds=5)
    take(world, "a", 2)
    world.now += timedelta(seconds=40)

    assert stay(world, "a") == ((), 5)


def test_where_nothing_is_leased_nobody_is_waited_for(world):
    submitted(world, 3)
    beat(world, "a", seconds=5)
    world.now += timedelta(seconds=40)

    assert stay(world) == ((), 0)


def test_where_others_detect_failures_the_tick_does_not(world):
    submitted(world, 3)
    beat(world, "a", seconds=5)
    take(world, "a", 2)
    world.detector.acquire_lock(reaper.LOCK, "a", reaper.EVERY, reaper.TERM)

    assert stay(world, "a") == ((), 1)


@pytest.mark.parametrize("ends", [True, False])
def test_where_the_reaper_was_the_last_to_die_the_tick_stays_until_it_is_sure(world, ends):
    """Killed with the lock, or right after: its lock is no sign that anybody reaps."""
    submitted(world, 3)
    beat(world, "a", seconds=5)
    ids = take(world, "a", 2)
    world.detector.acquire_lock(reaper.LOCK, "a", reaper.EVERY, reaper.TERM)
    if ends:
        world.detector.release_lock(reaper.LOCK, "a")

    dead, seconds = stay(world)

    assert dead == ("a",)
    assert seconds <= 8
    assert states(world, ids) == {State.PENDING}


@pytest.mark.parametrize("limits", [{"beat_seconds": 10.0}, {"pause_seconds": 20.0}])
def test_a_detector_that_takes_longer_is_waited_for_longer(world, limits):
    stage = replace(world.tree.stage, detector=DetectorLimits(**limits))
    world.tree = replace(world.tree, stage=stage)
    submitted(world, 3)
    beat(world, "a", seconds=8)
    ids = take(world, "a", 2)
    world.now += timedelta(seconds=40)

    assert stay(world)[0] == ("a",)
    assert states(world, ids) == {State.PENDING}


def test_several_that_died_at_once_are_reaped_together(world):
    submitted(world, 9)
    beat(world, "a", "b", "c", "other", seconds=5)
    ids = [*take(world, "a", 2), *take(world, "b", 3)]
    kept = take(world, "other", 2)
    beat(world, "other", seconds=6)

    found = look(world)

    assert sorted(found.dead) == ["a", "b", "c"]
    assert found.returned == 5
    assert states(world, ids) == {State.PENDING}
    assert states(world, kept) == {State.LEASED}
    whys = {
        line.why.split(" is ")[0]
        for line in world.journal.lines(DOCS, world.now - SECOND, world.now + SECOND, 9)
    }
    assert whys == {"worker a", "worker b"}


def test_the_permits_of_a_dead_worker_are_anothers_at_once(world):
    def asked(worker: str) -> int:
        ask = HostAsk(
            host="a.example",
            tenant=DOCS.tenant,
            count=8,
            running=0,
            interval_seconds=0.001,
            concurrency=8,
        )
        [grant] = world.hosts.reserve([ask], worker)
        return grant.permits

    submitted(world, 3)
    worker_status = WorkerStatus(hosts=(("a.example", DOCS.tenant),))
    for _ in range(5):
        world.now += SECOND
        world.workers.beat("gone", world.now, worker_status)
        world.workers.beat("other", world.now, WorkerStatus())
    assert asked("gone") == 8
    take(world, "gone", 3)
    beat(world, "other", seconds=6)
    assert asked("other") == 0

    assert look(world).dead == ("gone",)
    assert asked("other") == 8


def test_hosts_that_cannot_be_reported_of_a_death_keep_nobody_from_the_rest(world):
    submitted(world, 3)
    worker_status = WorkerStatus(hosts=(("a.example", DOCS.tenant),))
    for _ in range(5):
        world.now += SECOND
        world.workers.beat("gone", world.now, worker_status)
    take(world, "gone", 3)
    beat(world, "other", seconds=6)

    found = look(world, hosts=Broken())

    assert (found.dead, found.returned) == (("gone",), 3)
    assert any("given to others" in warning for warning in world.warnings)
    assert [beats.worker for beats in world.detector.heartbeats()] == ["other"]
