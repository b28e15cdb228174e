"""Journeys of dead letters: how requests die, and by which rule and worker they are replayed."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from tests.fakes.requests import MemoryRules
from tests.kit.config import Field, Rule
from tests.kit.dead_letters import DeadLetterFilter
from tests.kit.kernel import PageGoneError, UnknownRuleError, to_ms
from tests.kit.requests import CUT_OFFS, Entry, State
from tests.kit.worker import Worker
from tests.kit.worlds.dead_letters import MINUTE, Office
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import DOCS, RULE, make_biz, make_tree


@pytest.fixture
def office(world):
    return Office(world)


# ---- rules -------------------------------------------------------------------------------------

NEW = Rule(fields={"title": Field(css="h1")})


def test_a_replay_reads_with_the_rule_as_it_was_unless_reported_otherwise(office, world):
    kept, renewed = office.kill(2)
    world.tree = make_tree(make_biz(rules={"page": NEW}))

    office.replay_one(kept)
    office.replay_one(renewed, current_rule=True)

    assert office.get(kept).request.body.rule_version == RULE.version
    assert office.get(renewed).request.body.rule_version == NEW.version
    assert world.rules.get_version(DOCS, "page", NEW.version) == NEW
    assert office.get(renewed).timeline[-1].why.endswith(NEW.version)


def test_a_rule_that_is_gone_is_refused_by_name_and_nothing_is_changed(office, world):
    ids = office.kill(3)
    world.tree = make_tree(make_biz(rules={"other": NEW}))

    with pytest.raises(UnknownRuleError, match="'page'"):
        office.replay(current_rule=True)
    with pytest.raises(UnknownRuleError, match="'page'"):
        office.replay_one(ids[0], current_rule=True)

    assert len(office.list().items) == 3
    assert office.replay().count == 3  # as it was, it can still be read


# ---- faults ------------------------------------------------------------------------------------


def test_without_redis_dead_letters_are_replayed_and_recovery_queues_them(world):
    office = Office(world)
    ids = office.kill(3)

    changed = Office(world, queue=Broken()).replay()

    assert changed.count == 3
    [warning] = world.warnings
    assert "requeue: no answer" in warning
    later = world.now + timedelta(minutes=5)
    found = world.store.unqueued(DOCS, world.biz, before=[later] * 11, now=later, limit=10)
    assert sorted(entry.id for entry in found) == ids


# ---- the whole journey -------------------------------------------------------------------------


def test_a_page_that_was_gone_and_came_back_is_read_after_a_replay(office, world):
    (request_id,) = office.submit(1)
    gone = PageGoneError("answered 404", status=404)
    asyncio.run(Worker(world.work({"https://a.example/0": gone}), "w1").run())
    (dead_letter,) = office.list(DeadLetterFilter(reason="PageGone")).items

    office.replay_one(dead_letter.request.id)
    asyncio.run(Worker(world.work({"https://a.example/0": b"back"}), "w2").run())

    found = office.get(request_id)
    assert (found.state, found.attempts, found.records) == (State.DONE, 1, 1)
    states = [event.state for event in found.timeline]
    assert states == [
        State.PENDING,
        State.LEASED,
        State.DEAD,
        State.PENDING,
        State.LEASED,
        State.DONE,
    ]
    assert (world.ledger().done, world.ledger().dead) == (1, 0)


def test_a_page_that_cannot_be_read_is_kept_with_its_beginning(office, world):
    office.submit(1)
    asyncio.run(Worker(world.work({"https://a.example/0": b"bad"}), "w1").run())

    (dead_letter,) = office.list(DeadLetterFilter(reason="Extract", status=200)).items

    assert dead_letter.answer.sample == b"bad"
    assert dead_letter.error.startswith("Extract: title: ")
    assert msgspec.json.encode(dead_letter.answer)


def test_a_page_on_which_the_reader_breaks_is_internal_and_kept_with_its_beginning(office, world):
    class Breaks:
        def harvest(self, rule, page, depth=0, meta=None):
            raise ZeroDivisionError

    office.submit(1)
    ports = world.work({"https://a.example/0": b"odd"}, extractor=Breaks())
    asyncio.run(Worker(ports, "w1").run())

    (dead_letter,) = office.list(DeadLetterFilter(reason="Internal")).items

    assert (dead_letter.answer.status, dead_letter.answer.sample) == (200, b"odd")


def test_a_request_whose_rule_version_is_not_stored_is_an_unknown_rule(office, world):
    office.submit(1)
    ports = world.work({}, rules=MemoryRules())
    asyncio.run(Worker(ports, "w1").run())

    (dead_letter,) = office.list(DeadLetterFilter(reason="UnknownRule", status=0)).items

    assert dead_letter.answer is None


def test_a_request_that_its_workers_did_not_survive_is_cut_off(office, world):
    (request_id,) = office.submit(1)
    for number in range(world.biz.retry.max_attempts + CUT_OFFS):
        until = world.now + MINUTE
        entry = Entry(request_id, "docs", to_ms(office.get(request_id).request.queued_at))
        assert world.store.claim(DOCS, world.biz, [entry], "w", world.now, until, f"w.{number}")
        world.now = until
    asyncio.run(Worker(world.work({"https://a.example/0": b"x"}), "w1").run())

    (dead_letter,) = office.list(DeadLetterFilter(reason="CutOff")).items

    assert dead_letter.request.id == request_id
