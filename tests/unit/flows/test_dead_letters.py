"""Dead letters in memory: what is changed, what is refused and in which words, who works on it."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from crawlfleet.adapters.memory.dead_letters import MemoryDeadLetters
from crawlfleet.adapters.memory.rules import MemoryRules
from crawlfleet.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PageGoneError,
    UnknownBizError,
    UnknownRuleError,
)
from crawlfleet.flows import dead_letters as flow
from crawlfleet.flows.dead_letters import DeadLetterPorts
from crawlfleet.flows.execution import Worker
from crawlfleet.flows.submission import submit
from crawlfleet.model.letter import LetterFilter
from crawlfleet.model.outcome import Dead
from crawlfleet.model.request import Entry, State
from crawlfleet.model.rule import Field, Rule
from crawlfleet.model.submission import Submission
from crawlfleet.model.times import to_ms
from crawlfleet.policy.retry import CUT_OFFS
from tests.unit.flows.world import DOCS, RULE, Broken, World, make_biz, make_tree

ALL = LetterFilter()
MINUTE = timedelta(minutes=1)


class Office:
    """A world, and the dead letters in it with the arguments that every call repeats."""

    def __init__(self, world: World, scan: int = 10_000, **changes: object) -> None:
        self.world = world
        ports = {
            "letters": MemoryDeadLetters(world.store.state, scan),
            "store": world.store,
            "queue": world.queue,
            "workers": world.workers,
            "waker": world,
            "rules": world.rules,
            "warn": world.warn,
        }
        self.ports = DeadLetterPorts(**(ports | changes))

    def place(self):
        return self.ports, self.world.tree, "default", "docs"

    def list(self, letters=ALL, *, cursor=None, limit=100):
        return flow.list_letters(
            *self.place(), letters, cursor=cursor, limit=limit, now=self.world.now
        )

    def replay(self, letters=ALL, *, current_rule=False, limit=100, cursor=None):
        return flow.replay(
            *self.place(),
            letters,
            current_rule=current_rule,
            by="api:default",
            limit=limit,
            now=self.world.now,
            cursor=cursor,
        )

    def purge(self, letters=ALL, *, limit=100, cursor=None):
        return flow.purge(
            *self.place(), letters, by="api:default", limit=limit, now=self.world.now, cursor=cursor
        )

    def replay_one(self, text_id, *, current_rule=False):
        return flow.replay_one(
            *self.place(),
            str(text_id),
            current_rule=current_rule,
            by="api:default",
            now=self.world.now,
        )

    def purge_one(self, text_id):
        return flow.purge_one(*self.place(), str(text_id), by="api:default", now=self.world.now)

    def submit(self, number, host="a.example"):
        """That many requests, submitted and queued; their ids."""
        pages = [Submission(url=f"https://{host}/{n}", rule="page") for n in range(number)]
        world = self.world
        receipts = submit(world.submission(), world.tree, "default", "docs", pages, world.now)
        return [receipt.id for receipt in receipts]

    def take(self, count=1_000):
        """Lease and claim what is served next."""
        world = self.world
        until = world.now + MINUTE
        entries = world.queue.lease(DOCS, f"w.{world.now}", count, world.now, until)
        return world.store.claim(DOCS, world.biz, entries, "w", world.now, until, "token")

    def kill(self, number, **options):
        """That many dead letters; their ids."""
        ids = self.submit(number, **options)
        claims = self.take()
        assert [claim.request.id for claim in claims] == ids
        dead = [(claim, Dead("PageGoneError: answered 404", "PageGone")) for claim in claims]
        self.world.store.settle(DOCS, self.world.biz, dead, "w", self.world.now)
        self.world.queue.finish(
            DOCS, f"w.{self.world.now}", [c.entry for c in claims], 0, self.world.now
        )
        self.world.now += MINUTE  # nobody lives any more
        self.world.woken.clear()
        return ids

    def get(self, request_id):
        return self.world.store.get(DOCS, self.world.biz, request_id)


@pytest.fixture
def world():
    return World()


@pytest.fixture
def office(world):
    return Office(world)


# ---- the list ----------------------------------------------------------------------------------


def test_letters_are_listed_page_by_page(office):
    ids = office.kill(5)

    first = office.list(limit=2)
    second = office.list(limit=2, cursor=first.cursor)
    last = office.list(limit=2, cursor=second.cursor)

    assert [one.request.id for page in (first, second, last) for one in page.items] == ids
    assert [page.more for page in (first, second, last)] == [True, True, False]
    assert last.cursor is None


def test_a_host_is_found_however_it_is_written(office):
    office.kill(2)
    (rare,) = office.kill(1, host="Rare.Example")

    assert [one.request.id for one in office.list(LetterFilter(host="RARE.example")).items] == [
        rare
    ]


def test_a_long_look_ends_and_says_where_to_go_on(world, monkeypatch):
    office = Office(world, scan=2)
    office.kill(9)
    (rare,) = office.kill(1, host="rare.example")
    monkeypatch.setattr(flow, "LOOK_SECONDS", -1.0)

    pages, cursor = [], None
    while True:
        pages.append(office.list(LetterFilter(host="rare.example"), cursor=cursor))
        cursor = pages[-1].cursor
        if cursor is None:
            break

    assert [len(page.items) for page in pages] == [0, 0, 0, 0, 1]
    assert pages[-1].items[0].request.id == rare
    assert pages[0].more


def test_a_list_looks_on_by_itself_while_there_is_time(world):
    office = Office(world, scan=2)
    office.kill(9)
    (rare,) = office.kill(1, host="rare.example")

    page = office.list(LetterFilter(host="rare.example"))

    assert ([one.request.id for one in page.items], page.more) == ([rare], False)


@pytest.mark.parametrize(
    ("letters", "field"),
    [
        (LetterFilter(text=""), "text"),
        (LetterFilter(text="x" * 256), "text"),
        (LetterFilter(host="\ud800"), "host"),
        (LetterFilter(reason=""), "reason"),
    ],
)
def test_a_filter_that_nothing_can_match_is_refused_by_name(office, letters, field):
    for call in (office.list, office.replay, office.purge):
        with pytest.raises(InvalidRequestError) as caught:
            call(letters)
        assert [problem.field for problem in caught.value.problems] == [field]


def test_a_cursor_that_is_none_of_ours_is_refused(office):
    with pytest.raises(InvalidRequestError, match="cursor"):
        office.list(cursor="nonsense")


# ---- one ---------------------------------------------------------------------------------------


def test_one_letter_is_replayed_queued_and_somebody_is_woken(office, world):
    first, second = office.kill(2)

    found = office.replay_one(first)

    assert (found.state, found.attempts, found.error) == (State.PENDING, 0, None)
    assert found.timeline[-1].by == "api:default"
    assert [claim.request.id for claim in office.take()] == [first]
    assert world.woken == [1]
    assert office.get(second).state == State.DEAD
    assert (world.ledger().dead, world.ledger().submitted) == (1, 2)


def test_one_letter_is_purged_and_shown_for_the_last_time(office, world):
    first, second = office.kill(2)

    assert office.purge_one(first).request.id == first

    assert office.get(first) is None
    assert [one.request.id for one in office.list().items] == [second]
    assert world.ledger().dead == 2


def test_what_is_not_dead_is_refused_by_what_it_is(office):
    (request_id,) = office.submit(1)

    with pytest.raises(ConflictError, match="the request is pending: only dead ones are replayed"):
        office.replay_one(request_id)
    with pytest.raises(ConflictError, match="the request is pending: only dead ones are purged"):
        office.purge_one(request_id)
    for call in (office.replay_one, office.purge_one):
        with pytest.raises(NotFoundError, match="there is no request 4711"):
            call(4711)


def test_what_another_caller_changed_meanwhile_is_refused_by_what_it_is_then(world):
    office = Office(world)
    (request_id,) = office.kill(1)

    class Slow(MemoryDeadLetters):
        def replay(self, *args):
            super().replay(*args)
            return super().replay(*args)

        def purge(self, *args):
            super().purge(*args)
            return super().purge(*args)

    slow = Office(world, letters=Slow(world.store.state))
    with pytest.raises(ConflictError, match="is pending"):
        slow.replay_one(request_id)
    claims = office.take()
    assert claims == []  # the one who was quicker queues it
    world.store.cancel(DOCS, world.biz, request_id, "x", world.now)
    (other,) = office.kill(1)
    with pytest.raises(NotFoundError):
        slow.purge_one(other)


def test_what_has_passed_its_time_is_not_replayed(office, world):
    (request_id,) = office.kill(1)
    world.now += timedelta(seconds=world.biz.ttl_seconds)

    with pytest.raises(ConflictError, match="time to live has passed: submit the page anew"):
        office.replay_one(request_id)

    assert office.get(request_id).state == State.DEAD


def test_another_tenants_biz_is_unknown(office, world):
    with pytest.raises(UnknownBizError):
        flow.list_letters(
            office.ports, world.tree, "nobody", "docs", ALL, cursor=None, limit=1, now=world.now
        )


# ---- many --------------------------------------------------------------------------------------


def test_many_are_replayed_in_calls_that_go_on(office, world):
    ids = office.kill(7)

    first = office.replay(limit=3)
    second = office.replay(limit=3, cursor=first.cursor)
    last = office.replay(limit=3, cursor=second.cursor)

    assert [(c.count, c.more) for c in (first, second, last)] == [(3, True), (3, True), (1, False)]
    assert sorted(claim.request.id for claim in office.take()) == ids
    assert world.ledger().dead == 0
    assert world.woken == [1]


def test_many_are_purged_in_calls_that_begin_anew(office, world):
    office.kill(7)

    calls = [office.purge(limit=3) for _ in range(3)]

    assert [(c.count, c.more) for c in calls] == [(3, True), (3, True), (1, False)]
    assert office.list().items == []
    assert world.ledger().dead == 7


def test_only_those_that_are_meant_are_changed(office):
    office.kill(3)
    rare = office.kill(2, host="rare.example")

    assert office.replay(LetterFilter(host="rare.example", reason="PageGone")).count == 2
    assert office.purge(LetterFilter(reason="FetchTimeout")).count == 0

    assert {one.request.id for one in office.list().items}.isdisjoint(rare)
    assert len(office.list().items) == 3


def test_those_past_their_time_are_skipped_told_and_do_not_stand_in_the_way(office, world):
    old = office.kill(5)
    world.now += timedelta(seconds=world.biz.ttl_seconds)
    fresh = office.kill(3)

    first = office.replay(limit=2)
    second = office.replay(limit=2, cursor=first.cursor)

    assert (first.count, first.skipped, first.more) == (2, 2, True)  # told up to the limit
    assert (second.count, second.skipped, second.more) == (1, 0, False)
    assert office.replay(limit=10).skipped == 5
    assert sorted(claim.request.id for claim in office.take()) == fresh
    assert all(office.get(i).state == State.DEAD for i in old)


def test_no_call_changes_more_than_the_most(office, monkeypatch):
    monkeypatch.setattr(flow, "MOST", 2)
    office.kill(5)

    assert office.replay(limit=100).count == 2
    assert office.purge(limit=100).count == 2


def test_a_replayed_letter_that_dies_again_is_not_met_by_the_cursor(office, world):
    ids = office.kill(4)
    first = office.replay(limit=2)
    claims = office.take()
    world.store.settle(
        DOCS, world.biz, [(c, Dead("again", "PageGone")) for c in claims], "w", world.now
    )

    rest = office.replay(limit=10, cursor=first.cursor)

    assert (rest.count, rest.more) == (2, False)
    assert [office.get(i).state for i in ids] == [State.DEAD] * 2 + [State.PENDING] * 2


# ---- rules -------------------------------------------------------------------------------------

NEW = Rule(fields={"title": Field(css="h1")})


def test_a_replay_reads_with_the_rule_as_it_was_unless_told_otherwise(office, world):
    kept, renewed = office.kill(2)
    world.tree = make_tree(make_biz(rules={"page": NEW}))

    office.replay_one(kept)
    office.replay_one(renewed, current_rule=True)

    assert office.get(kept).request.body.rule_version == RULE.version
    assert office.get(renewed).request.body.rule_version == NEW.version
    assert world.rules.frozen(DOCS, "page", NEW.version) == NEW
    assert office.get(renewed).timeline[-1].why == f"replayed with rule version {NEW.version}"


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


def test_without_redis_letters_are_replayed_and_recovery_queues_them(world):
    office = Office(world)
    ids = office.kill(3)

    changed = Office(world, queue=Broken()).replay()

    assert changed.count == 3
    assert world.warnings == ["replayed, to be queued by recovery: test: requeue: no answer"]
    later = world.now + timedelta(minutes=5)
    found = world.store.unqueued(DOCS, world.biz, before=later, now=later, limit=10)
    assert sorted(entry.id for entry in found) == ids


# ---- the whole journey -------------------------------------------------------------------------


def test_a_page_that_was_gone_and_came_back_is_read_after_a_replay(office, world):
    (request_id,) = office.submit(1)
    gone = PageGoneError("answered 404", status=404)
    asyncio.run(Worker(world.work({"https://a.example/0": gone}), "w1").run())
    (letter,) = office.list(LetterFilter(reason="PageGone")).items

    office.replay_one(letter.request.id)
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

    (letter,) = office.list(LetterFilter(reason="Extract", status=200)).items

    assert letter.answer.sample == b"bad"
    assert letter.error == "ExtractError: title: is missing"
    assert msgspec.json.encode(letter.answer)


def test_a_page_on_which_the_reader_breaks_is_internal_and_kept_with_its_beginning(office, world):
    class Breaks:
        def extract(self, rule, page):
            raise ZeroDivisionError

    office.submit(1)
    ports = world.work({"https://a.example/0": b"odd"}, extractor=Breaks())
    asyncio.run(Worker(ports, "w1").run())

    (letter,) = office.list(LetterFilter(reason="Internal")).items

    assert (letter.answer.status, letter.answer.sample) == (200, b"odd")


def test_a_request_whose_rule_was_never_frozen_is_an_unknown_rule(office, world):
    office.submit(1)
    ports = world.work({}, rules=MemoryRules())
    asyncio.run(Worker(ports, "w1").run())

    (letter,) = office.list(LetterFilter(reason="UnknownRule", status=0)).items

    assert letter.answer is None


def test_a_request_that_its_workers_did_not_survive_is_cut_off(office, world):
    (request_id,) = office.submit(1)
    for number in range(world.biz.retry.max_attempts + CUT_OFFS):
        until = world.now + MINUTE
        entry = Entry(request_id, "docs", to_ms(office.get(request_id).request.queued_at))
        assert world.store.claim(DOCS, world.biz, [entry], "w", world.now, until, f"w.{number}")
        world.now = until
    asyncio.run(Worker(world.work({"https://a.example/0": b"x"}), "w1").run())

    (letter,) = office.list(LetterFilter(reason="CutOff")).items

    assert letter.request.id == request_id
