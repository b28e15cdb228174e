from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.queue import MemoryQueue
from tests.fakes.recovery import MemoryQueueRebuild
from tests.kit.fleet import WorkerStatus
from tests.kit.kernel import QueueKey
from tests.kit.recovery import recovery
from tests.kit.requests import Entry, JournalLine, State, Submission
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import DOCS, START, World
from tests.kit.worlds.recovery import run, submitted


@pytest.fixture(autouse=True)
def _whole_queues(world):
    """Queues that were filled before: what recovery does then is what these tests are about."""
    run(world)


def test_what_is_persisted_but_not_queued_is_queued(world):
    entries = submitted(world, 3, queue=Broken())
    world.now += timedelta(seconds=30)

    assert run(world).requeued == 3

    leased = world.queue.lease(DOCS, "t", 10, world.now, world.now + timedelta(seconds=9))
    assert sorted(entry.id for entry in leased) == [entry.id for entry in entries]


def test_a_submission_on_its_way_to_the_queue_is_left_alone(world):
    submitted(world, 3, queue=Broken())
    world.now += timedelta(seconds=2)

    assert run(world).requeued == 0


def test_what_is_queued_is_not_queued_again(world):
    submitted(world, 3)
    world.now += timedelta(seconds=30)

    assert run(world).requeued == 0
    assert world.queue.depth(DOCS).queued == 3


def test_a_hole_in_the_middle_is_found_when_its_turn_comes(world):
    submitted(world, 1)
    world.now += timedelta(seconds=10)
    [lost] = submitted(world, 1, queue=Broken())
    world.now += timedelta(seconds=10)
    submitted(world, 1)
    world.now += timedelta(seconds=10)
    assert run(world).requeued == 0
    world.workers.beat("w", world.now, WorkerStatus())
    until = world.now + timedelta(seconds=9)
    [first] = world.queue.lease(DOCS, "w.aa.1", 1, world.now, until)
    world.store.claim(DOCS, world.biz, [first], "w", world.now, until, "w.aa.1")

    assert run(world).requeued == 1

    [next_one] = world.queue.lease(DOCS, "u", 1, world.now, world.now + timedelta(seconds=9))
    assert next_one.id == lost.id


def test_a_lease_that_ended_long_ago_is_queued_again(world):
    entries = submitted(world, 1, queue=Broken())
    until = world.now + timedelta(seconds=9)
    world.store.claim(DOCS, world.biz, entries, "w", world.now, until, "t")
    world.now += timedelta(minutes=2)

    assert run(world).requeued == 1


def test_what_no_worker_takes_is_not_queued_again_in_each_round(world):
    entries = submitted(world, 3, queue=Broken())
    until = world.now + timedelta(seconds=9)
    world.store.claim(DOCS, world.biz, entries, "w", world.now, until, "t")
    world.now += timedelta(minutes=2)

    assert [run(world).requeued for _ in range(3)] == [3, 0, 0]
    assert world.queue.depth(DOCS).queued == 3


def test_what_passed_its_time_to_live_is_counted_once_and_not_queued(world):
    submitted(world, 4, queue=Broken())
    world.now += timedelta(seconds=world.biz.ttl_seconds + 1)

    first, second = run(world), run(world)

    assert (first.expired, first.requeued, second.expired) == (4, 0, 0)
    assert world.ledger().expired == 4


def test_a_queue_that_fails_in_a_way_nobody_foresaw_does_not_stop_the_others(world):
    submitted(world, 3, queue=Broken())
    world.now += timedelta(seconds=30)
    expire = world.store.expire

    def odd(queue_key, biz, now):
        if queue_key.tenant == "acme":
            raise KeyError("ts")
        return expire(queue_key, biz, now)

    world.store.expire = odd

    assert run(world).requeued == 3
    assert "acme/docs" in world.warnings[-1]


def test_a_queue_that_does_not_answer_does_not_stop_the_others(world):
    assert run(world, queue=Broken()).requeued == 0
    said = [one for one in world.warnings if "could not be recovered" in one]
    assert len(said) == len(world.tree.queues())


def test_what_an_older_version_has_put_in_is_announced_however_few_queues_there_are(
    world, monkeypatch
):
    submitted(world, 1)
    announced: list[QueueKey] = []
    monkeypatch.setattr(world.queue.open, "listed", dict)
    monkeypatch.setattr(world.queue, "announce", announced.extend)

    run(world)

    assert announced == [DOCS]


def test_a_round_ends_before_its_time_does_and_others_begin_elsewhere(world):
    asked = []

    class Reaped:
        def depth(self, queue_key):
            asked.append(queue_key)
            return world.queue.depth(queue_key)

    run(world, time_left=5.0, queue=Reaped())
    assert asked == []
    begun = set()
    for _ in range(5):
        run(world, queue=Reaped())
        begun.add(asked[0])
        assert set(asked) == set(world.tree.queues())
        asked.clear()
        world.now += timedelta(minutes=1)

    assert begun == set(world.tree.queues())


@pytest.mark.parametrize("seconds", [20, 60])
def test_where_rounds_get_no_further_than_a_few_queues_each_queue_has_its_turn_all_the_same(
    world, seconds
):
    """Twenty rounds at least; with the tick alone that is twenty minutes."""
    world.tree = replace(world.tree, bizs={"default": {f"b{n}": world.biz for n in range(60)}})
    recovered: set[QueueKey] = set()

    class Counting:
        def __init__(self) -> None:
            self.left = 3

        def expire(self, queue_key, *args):
            self.left -= 1
            recovered.add(queue_key)
            return world.store.expire(queue_key, *args)

        def __getattr__(self, name):
            return getattr(world.store, name)

    for _ in range(60):
        store = Counting()
        ports = world.recovery(store=store)
        ports.recover(world.tree, "scheduler", world.now, lambda it=store: 40.0 * it.left)
        world.now += timedelta(seconds=seconds)

    assert recovered == set(world.tree.queues())


@pytest.mark.parametrize("broken", ["ledgers", "expire"])
def test_an_account_that_cannot_be_drawn_up_keeps_no_queue_from_being_filled(world, broken):
    """This part may exceed its time in every round, on a very long queue."""
    entries = submitted(world, 3)
    world.queue = MemoryQueue()
    world.rebuild = MemoryQueueRebuild(world.queue)
    changes = {"ledgers": Broken()}
    if broken == "expire":
        changes = {"store": Failing(world.store, expire=9)}

    assert run(world, **changes).requeued == len(entries)
    assert world.queue.depth(DOCS).queued == len(entries)


def test_a_lock_that_cannot_be_released_does_not_undo_the_round(world):
    entries = submitted(world, 3)
    world.queue = MemoryQueue()
    world.rebuild = MemoryQueueRebuild(world.queue)

    done = run(world, detector=Failing(world.detector, release_lock=1))

    assert done.requeued == len(entries)
    assert any("release_lock" in warning for warning in world.warnings)


def test_a_stage_without_bizs_has_nothing_to_recover(world):
    world.tree = replace(world.tree, bizs={})

    assert run(world).requeued == 0


def test_more_than_one_call_carries_comes_back_in_its_order(world):
    entries = []
    for _ in range(5):
        entries += submitted(world, 1, queue=Broken())
        world.now += timedelta(seconds=1)
    world.now += timedelta(seconds=30)

    assert run(world, chunk=2).requeued == 5
    assert run(world).requeued == 0
    until = world.now + timedelta(seconds=9)
    assert world.queue.lease(DOCS, "t", 9, world.now, until) == entries


# ---- what belongs to nobody ---------------------------------------------------------------------


@pytest.fixture
def _watched(world):
    """Somebody has looked for long enough to know who lives."""
    for _ in range(6):
        world.now += timedelta(seconds=1)
        world.detector.heartbeats()


def held(world: World, worker: str, count: int) -> list[Entry]:
    token, until = f"{worker}.aa.1", world.now + timedelta(minutes=5)
    entries = world.queue.lease(DOCS, token, count, world.now, until)
    world.store.claim(DOCS, world.biz, entries, worker, world.now, until, token)
    return entries


@pytest.mark.usefixtures("_watched")
def test_leases_of_an_unknown_worker_are_reclaimed(world):
    entries = submitted(world, 3)
    held(world, "unheard-of", 3)

    assert run(world).orphans == 3

    assert {world.store.get(DOCS, world.biz, entry.id).state for entry in entries} == {0}
    assert world.queue.depth(DOCS).queued == 3
    [line] = [one for one in lines(world) if one.kind == "taken-back"]
    assert line.count == 3
    assert "unheard-of" in line.why


def test_what_a_known_worker_holds_is_left_to_it_however_silent_it_is(world):
    submitted(world, 3)
    world.workers.beat("w", world.now, WorkerStatus())
    held(world, "w", 3)
    world.now += timedelta(minutes=4)

    assert run(world).orphans == 0


# ---- locks --------------------------------------------------------------------------------------


def test_two_rounds_at_once_are_one(world):
    submitted(world, 3, queue=Broken())
    world.now += timedelta(seconds=30)

    rounds = [world.recovery().recover(world.tree, name, world.now, lambda: 120.0) for name in "ab"]

    assert [(one.mine, one.requeued) for one in rounds] == [(True, 3), (False, 0)]


def test_without_redis_what_expires_is_counted_all_the_same(world):
    submitted(world, 3)
    world.now += timedelta(seconds=world.biz.ttl_seconds + 1)

    assert run(world, detector=Broken(), queue=Broken(), rebuild=Broken()).expired == 3


def test_what_was_corrected_in_the_ledger_stands_in_the_journal(world):
    submitted(world, 3)
    world.now += timedelta(seconds=world.biz.ttl_seconds + world.biz.expiry_grace_seconds + 61)
    world.store.state.of(DOCS).requests.clear()  # as the TTL monitor does

    assert run(world).corrected == 1

    [line] = [one for one in lines(world) if one.kind == "corrected"]
    assert line.count == 3


def lines(world: World) -> list[JournalLine]:
    return world.journal.lines(DOCS, START, world.now + timedelta(days=1), 99)


@pytest.mark.usefixtures("_watched")
def test_a_claim_that_came_after_its_worker_was_reaped_is_reclaimed(world):
    """MongoDB has a lease that Redis does not list."""
    [entry] = submitted(world, 1)
    until = world.now + timedelta(minutes=5)
    world.queue.lease(DOCS, "gone.aa.1", 1, world.now, until)
    world.queue.finish(DOCS, "gone.aa.1", [entry], 0, world.now)
    world.store.claim(DOCS, world.biz, [entry], "gone", world.now, until, "gone.aa.1")

    assert run(world).orphans == 1

    assert world.store.get(DOCS, world.biz, entry.id).state == State.PENDING
    assert world.queue.depth(DOCS).queued == 1
    assert run(world).orphans == 0


def test_right_after_redis_was_emptied_nobodys_work_is_taken(world):
    """Live workers have yet to send a heartbeat: all would look unknown."""
    submitted(world, 3)
    held(world, "alive", 3)

    assert run(world).orphans == 0
    assert world.queue.depth(DOCS).leased == 3


def test_what_is_lost_of_a_priority_is_found_although_older_ones_of_another_wait(world):
    pages = [Submission(url=f"https://example.org/{n}", priority=0) for n in range(3)]
    world.submission().submit(world.tree, "default", "docs", pages, world.now)
    world.now += timedelta(seconds=30)
    urgent = [Submission(url="https://example.org/now", priority=10)]
    ports = world.submission(queue=Broken())
    [receipt] = ports.submit(world.tree, "default", "docs", urgent, world.now)
    world.now += timedelta(seconds=30)

    assert [run(world).requeued for _ in range(2)] == [1, 0]

    [first] = world.queue.lease(DOCS, "t", 1, world.now, world.now + timedelta(seconds=9))
    assert (first.id, first.priority) == (receipt.id, 10)
    assert world.queue.depth(DOCS).queued == 3


def test_a_queue_that_was_lost_is_filled_again_with_every_priority(world):
    pages = [Submission(url=f"https://example.org/{n}", priority=n % 11) for n in range(22)]
    world.submission().submit(world.tree, "default", "docs", pages, world.now)
    world.queue.flush()

    assert run(world).requeued == 22

    until = world.now + timedelta(seconds=9)
    leased = world.queue.lease(DOCS, "t", 99, world.now, until)
    assert [entry.priority for entry in leased] == [n // 2 for n in range(21, -1, -1)]


def test_indexes_are_built_after_all_queues_with_the_time_that_is_left(world):
    world.tree = replace(world.tree, bizs={"default": {f"b{n}": world.biz for n in range(3)}})
    done = []

    class Indexing:
        def expire(self, queue_key, *args):
            done.append("lane")
            return world.store.expire(queue_key, *args)

        def index(self, queue_key, biz, now, time_left):
            done.append(time_left())
            if queue_key.biz == "b1":
                raise OSError("down")
            return ["by hand"]

        def __getattr__(self, name):
            return getattr(world.store, name)

    changes = {"store": Indexing()}
    run(world, **changes)

    assert done == ["lane"] * 3 + [recovery.INDEX_SECONDS] * 3
    assert sorted(reason for _, reason in world.warned.errors) == ["by hand", "by hand", "down"]
    done.clear()
    run(world, time_left=recovery.MARGIN_SECONDS, **changes)
    assert done == ["lane"] * 3
