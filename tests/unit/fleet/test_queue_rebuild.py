from datetime import timedelta

import pytest

from tests.kit.kernel import to_ms
from tests.kit.recovery import recovery
from tests.kit.requests import Entry, JournalLine, Retry, Submission
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.memory import DOCS, World


def submitted(world: World, count: int) -> list[Entry]:
    """Requests, one a millisecond."""
    entries = []
    for number in range(count):
        world.now += timedelta(milliseconds=1)
        page = Submission(url=f"https://example.org/{number}")
        [receipt] = world.submission().submit(world.tree, "default", "docs", [page], world.now)
        entries.append(Entry(receipt.id, "docs", to_ms(world.now)))
    return entries


def run(world: World, time_left: float = 600.0, **changes: object):
    world.now += recovery.EVERY
    ports = world.recovery(**({"fill_chunk": 7} | changes))
    return ports.recover(world.tree, "scheduler", world.now, lambda: time_left)


def in_queue(world: World) -> list[Entry]:
    """Return the entries of the queue, in the order in which it is served."""
    until = world.now + timedelta(seconds=9)
    entries = world.queue.lease(DOCS, "look.aa.1", 1_000_000, world.now, until)
    world.queue.give_back(DOCS, "look.aa.1", entries)
    return entries


def kinds(world: World) -> list[tuple[str, int]]:
    return [(line.kind, line.count) for line in journal(world)]


def journal(world: World) -> list[JournalLine]:
    day = timedelta(days=1)
    return world.journal.lines(DOCS, world.now - day, world.now + day, 99)


def lose(world: World, keep: int = 0) -> None:
    """Replace the queue's server by one that has only the oldest ``keep`` entries."""
    kept = in_queue(world)[:keep]
    world.queue.flush()
    world.queue.restart()
    world.queue.requeue(DOCS, kept)


def test_a_queue_that_was_lost_is_filled_with_all_of_it_oldest_first(world):
    entries = submitted(world, 40)
    run(world)

    lose(world)
    assert world.queue.depth(DOCS).queued == 0
    run(world)

    assert in_queue(world) == entries


def test_a_queue_that_was_rolled_back_is_complete_again_with_each_entry_once(world):
    """The newest would else be missed until their turn comes."""
    entries = submitted(world, 40)
    run(world)

    lose(world, keep=15)
    run(world)

    assert in_queue(world) == entries


def test_a_queue_that_is_what_it_was_is_left_alone(world):
    submitted(world, 9)
    run(world)
    before = kinds(world)

    assert run(world).requeued == 0
    assert kinds(world) == before


def test_what_workers_hold_is_not_queued_a_second_time(world):
    entries = submitted(world, 20)
    run(world)
    until = world.now + timedelta(minutes=5)
    held = world.queue.lease(DOCS, "w.aa.1", 5, world.now, until)
    world.store.claim(DOCS, world.biz, held, "w", world.now, until, "w.aa.1")

    lose(world)
    run(world)

    assert in_queue(world) == [entry for entry in entries if entry not in held]


def test_what_waits_for_its_next_attempt_waits_on(world):
    entries = submitted(world, 2)
    run(world)
    until = world.now + timedelta(minutes=5)
    held = world.queue.lease(DOCS, "w.aa.1", 1, world.now, until)
    [claim] = world.store.claim(DOCS, world.biz, held, "w", world.now, until, "w.aa.1")
    due_at = world.now + timedelta(minutes=10)
    world.store.settle(DOCS, world.biz, [(claim, Retry(due_at, "later"))], "w", world.now)

    lose(world)
    run(world)

    depth = world.queue.depth(DOCS)
    assert (depth.queued, depth.delayed) == (1, 1)
    world.now = due_at
    assert in_queue(world)[0] == entries[0]


@pytest.mark.parametrize("method", ["fill", "filled"])
def test_a_filling_that_broke_off_is_gone_on_with(world, method):
    entries = submitted(world, 40)
    run(world)
    lose(world)
    broken = Failing(world.rebuild, **{method: 1})
    run(world, rebuild=broken)
    run(world, rebuild=broken)

    found = in_queue(world)
    assert list(dict.fromkeys(found)) == entries
    assert len(found) == len(entries)


def test_a_filling_without_time_is_gone_on_with(world):
    entries = submitted(world, 40)
    run(world)
    lose(world)
    left = iter([600.0] * 5)  # for one step at least, not for all of them

    world.now += recovery.EVERY
    world.recovery(fill_chunk=7).recover(world.tree, "one", world.now, lambda: next(left, 5.0))
    assert 0 < world.queue.depth(DOCS).queued < 40
    run(world)

    assert in_queue(world) == entries


def test_another_loss_in_the_middle_of_a_filling_begins_anew(world):
    entries = submitted(world, 40)
    run(world)
    lose(world)
    run(world, rebuild=Failing(world.rebuild, filled=1))

    lose(world)
    run(world)

    assert in_queue(world) == entries


def test_the_journal_says_that_and_why_a_queue_was_filled(world):
    submitted(world, 12)
    run(world)
    lose(world)
    run(world)

    assert kinds(world)[-1] == ("filled", 12)
    assert "Redis was restarted" in journal(world)[-1].why


def test_a_queue_that_was_emptied_on_the_same_server_is_filled(world):
    entries = submitted(world, 12)
    run(world)
    world.queue.flush()

    run(world)

    assert in_queue(world) == entries
    assert kinds(world)[-1] == ("filled", 12)
