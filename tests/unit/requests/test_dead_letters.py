"""Dead letters in memory: what is changed, what is refused and in which words."""

from datetime import timedelta

import pytest

from tests.fakes.dead_letters import MemoryDeadLetters
from tests.fakes.ledger import MemoryJournal
from tests.kit.dead_letters import DeadLetterFilter
from tests.kit.kernel import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    StoreUnavailableError,
    UnknownBizError,
)
from tests.kit.requests import Dead, State
from tests.kit.worlds.dead_letters import ALL, Office
from tests.kit.worlds.memory import DOCS


@pytest.fixture
def office(world):
    return Office(world)


# ---- the list ----------------------------------------------------------------------------------


def test_dead_letters_are_listed_page_by_page(office):
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

    assert [
        one.request.id for one in office.list(DeadLetterFilter(host="RARE.example:80")).items
    ] == [rare]


def test_a_long_look_ends_and_says_where_to_go_on(world):
    office = Office(world, scan=2, search_seconds=-1.0)
    office.kill(9)
    (rare,) = office.kill(1, host="rare.example")

    pages, cursor = [], None
    while True:
        pages.append(office.list(DeadLetterFilter(host="rare.example"), cursor=cursor))
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

    page = office.list(DeadLetterFilter(host="rare.example"))

    assert ([one.request.id for one in page.items], page.more) == ([rare], False)


@pytest.mark.parametrize(
    ("dead_letters", "field"),
    [
        (DeadLetterFilter(text=""), "text"),
        (DeadLetterFilter(text="x" * 256), "text"),
        (DeadLetterFilter(host="\ud800"), "host"),
        (DeadLetterFilter(reason=""), "reason"),
        (DeadLetterFilter(reason="pagegone"), "reason"),
        (DeadLetterFilter(host="a b"), "host"),
    ],
)
def test_a_filter_that_nothing_can_match_is_refused_by_name(office, dead_letters, field):
    for call in (office.list, office.replay, office.purge):
        with pytest.raises(InvalidRequestError) as caught:
            call(dead_letters)
        assert [problem.field for problem in caught.value.problems] == [field]


def test_a_cursor_that_is_none_of_ours_is_refused(office):
    with pytest.raises(InvalidRequestError, match="cursor"):
        office.list(cursor="nonsense")


# ---- one ---------------------------------------------------------------------------------------


def test_one_dead_letter_is_replayed_queued_and_a_worker_is_woken(office, world):
    first, second = office.kill(2)

    found = office.replay_one(first)

    assert (found.state, found.attempts, found.error) == (State.PENDING, 0, None)
    assert found.timeline[-1].by == "api:default"
    assert [claim.request.id for claim in office.take()] == [first]
    assert world.woken == [1]
    assert office.get(second).state == State.DEAD
    assert (world.ledger().dead, world.ledger().submitted) == (1, 2)


def test_one_dead_letter_is_purged_and_shown_for_the_last_time(office, world):
    first, second = office.kill(2)

    assert office.purge_one(first).request.id == first

    assert office.get(first) is None
    assert [one.request.id for one in office.list().items] == [second]
    assert world.ledger().dead == 2


def test_what_is_not_dead_is_refused_by_what_it_is(office):
    (request_id,) = office.submit(1)

    with pytest.raises(ConflictError, match=r"pending.* replayed"):
        office.replay_one(request_id)
    with pytest.raises(ConflictError, match=r"pending.* purged"):
        office.purge_one(request_id)
    for call in (office.replay_one, office.purge_one):
        with pytest.raises(NotFoundError, match="4711"):
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

    slow = Office(world, dead_letters=Slow(world.store.state))
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

    with pytest.raises(ConflictError, match="time to live"):
        office.replay_one(request_id)

    assert office.get(request_id).state == State.DEAD


def test_another_tenants_biz_is_unknown(office, world):
    with pytest.raises(UnknownBizError):
        office.ports.list_dead_letters(
            world.tree, "nobody", "docs", ALL, cursor=None, limit=1, now=world.now
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

    assert office.replay(DeadLetterFilter(host="rare.example", reason="PageGone")).count == 2
    assert office.purge(DeadLetterFilter(reason="FetchTimeout")).count == 0

    assert {one.request.id for one in office.list().items}.isdisjoint(rare)
    assert len(office.list().items) == 3


def test_those_past_their_time_are_skipped_reported_and_do_not_stand_in_the_way(office, world):
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


def test_no_call_changes_more_than_the_most(world):
    office = Office(world, most=2)
    office.kill(5)

    assert office.replay(limit=100).count == 2
    assert office.purge(limit=100).count == 2


def test_a_replayed_dead_letter_that_dies_again_is_not_met_by_the_cursor(office, world):
    ids = office.kill(4)
    first = office.replay(limit=2)
    claims = office.take()
    world.store.settle(
        DOCS, world.biz, [(c, Dead("again", "PageGone")) for c in claims], "w", world.now
    )

    rest = office.replay(limit=10, cursor=first.cursor)

    assert (rest.count, rest.more) == (2, False)
    assert [office.get(i).state for i in ids] == [State.DEAD] * 2 + [State.PENDING] * 2


def test_who_purged_what_is_in_the_journal(office, world):
    first, *_ = office.kill(5)
    office.purge_one(first)
    office.purge(DeadLetterFilter(reason="FetchTimeout"))
    office.purge(limit=3)

    lines = office.journal.lines(DOCS, world.now, world.now + timedelta(seconds=1), 10)

    assert [(line.by, line.kind, line.count) for line in lines] == [
        ("api:default", "purged", 1),
        ("api:default", "purged", 3),
    ]
    assert [line.why for line in lines] == [f"dead letter {first}", "dead letters, all"]


def test_a_purge_whose_line_cannot_be_written_is_done_all_the_same(office, world):
    office.kill(2)
    away = StoreUnavailableError("mongodb", "away")

    class Away(MemoryJournal):
        def note(self, queue_key, line):
            raise away

    done = Office(world, journal=Away()).purge()

    assert done.count == 2
    [warning] = world.warnings
    assert warning.endswith(f": {away}")
