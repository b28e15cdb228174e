"""People's handling of incidents, over a book and a notifier in memory."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.incidents import (
    HandledIncident,
    Incident,
    Life,
    Word,
    acknowledge,
    list_incidents,
    silence,
    unsilence,
)
from tests.kit.kernel import ConflictError, NotFoundError
from tests.kit.worlds.alarms import OPENED, RECOVERED, Stand
from tests.kit.worlds.incidents import MINUTE

REMINDER: Final = (Word.REMINDER,)
HOUR: Final = timedelta(hours=1)


@pytest.fixture
def stand() -> Stand:
    """A stage of which one biz is late, and people know."""
    stand = Stand()
    stand.evaluate("b0")
    stand.evaluate("b0")
    assert stand.words() == [OPENED]
    return stand


def listed(stand: Stand, tenant: str = "acme", *, open_only: bool = True) -> Sequence[Incident]:
    page = list_incidents(stand.book, stand.tree, tenant, open_only=open_only, cursor=None, limit=9)
    return [one.incident for one in page.items]


def acknowledged(stand: Stand) -> HandledIncident:
    [one] = listed(stand)
    return acknowledge(stand.book, stand.tree, "acme", one.id, why="at it", now=stand.now)


def silenced(stand: Stand, minutes: float) -> HandledIncident:
    [one] = listed(stand)
    until = stand.now + minutes * MINUTE
    return silence(stand.book, stand.tree, "acme", one.id, why="", now=stand.now, until=until)


def test_people_are_not_reminded_of_what_is_acknowledged_and_are_told_of_its_end(stand: Stand):
    acknowledged(stand)

    for _ in range(3):
        stand.now += 5 * HOUR
        stand.evaluate("b0")
    assert stand.words() == [OPENED]

    stand.evaluate()
    stand.evaluate()
    assert stand.words() == [OPENED, RECOVERED]


def test_people_are_told_and_reminded_of_what_comes_back_after_it_was_acknowledged(stand: Stand):
    acknowledged(stand)
    for late in ([], [], ["b0"], ["b0"]):
        stand.evaluate(*late)
    stand.now += 2 * HOUR
    stand.evaluate("b0")

    assert stand.words() == [OPENED, RECOVERED, OPENED, REMINDER]


def test_people_are_reminded_of_what_nobody_acknowledged(stand: Stand):
    stand.now += 2 * HOUR
    stand.evaluate("b0")

    assert stand.words() == [OPENED, REMINDER]


def test_nobody_but_machines_is_told_of_what_is_silenced(stand: Stand):
    silenced(stand, minutes=60)
    before = len(stand.sent.bulletins)

    for late in ([], [], ["b0"], ["b0"], [], [], [], []):
        stand.evaluate(*late)

    assert stand.words() == [OPENED]
    assert len(stand.sent.bulletins) == before + 3
    assert stand.evaluate().owed == 0


def test_what_ended_and_came_back_within_a_silence_is_open_to_people_all_the_time(stand: Stand):
    stand.evaluate()
    silenced(stand, minutes=12)
    for late in ([], [], ["b0"], ["b0"]):
        stand.evaluate(*late)
    assert stand.words() == [OPENED]

    for _ in range(10):
        stand.evaluate("b0")

    # They were never told of its end, so that to them it has been open all the time.
    assert stand.words() == [OPENED]
    [one] = listed(stand)
    assert one.people.notified is Word.OPENED


def test_what_opened_and_ended_within_a_silence_is_never_told():
    stand = Stand()
    for late in (["b0"], ["b0"], [], []):
        stand.evaluate(*late)
    assert stand.words() == [OPENED, RECOVERED]
    for late in (["b0"], ["b0"]):
        stand.evaluate(*late)
    assert stand.words() == [OPENED, RECOVERED, OPENED]

    silenced(stand, minutes=30)
    for late in (*[[]] * 4, ["b0"], ["b0"], *[[]] * 8):
        stand.evaluate(*late)
    stand.now += HOUR
    stand.evaluate()

    assert stand.words() == [OPENED, RECOVERED, OPENED]


def test_a_silence_that_is_taken_back_tells_people_of_what_opened_within_it():
    stand = Stand()
    stand.evaluate("b0", "b1")
    stand.notifier.faults["notify_people"] = "before"
    stand.evaluate("b0", "b1")
    assert stand.words() == []
    first, second = listed(stand)
    until = stand.now + HOUR
    for one in (first, second):
        silence(stand.book, stand.tree, "acme", one.id, why="", now=stand.now, until=until)
    stand.notifier.faults.clear()
    stand.evaluate("b0", "b1")
    assert stand.words() == []

    unsilence(stand.book, stand.tree, "acme", first.id, stand.now)
    stand.evaluate("b0", "b1")

    assert stand.words() == [OPENED]
    assert first.place.biz in stand.subjects[0]


def test_another_environment_obeys_a_handling_and_one_without_a_book_remembers_it(stand: Stand):
    acknowledged(stand)
    stand.now += 2 * HOUR
    stand.evaluate("b0", by="another")
    stand.book.faults["*"] = "before"
    stand.now += 9 * HOUR
    stand.evaluate("b0", by="another")

    assert stand.words() == [OPENED]


def test_a_handling_is_shown_while_it_holds(stand: Stand):
    given = acknowledged(stand)
    both = silenced(stand, minutes=2)
    assert given.handling is not None
    assert both.handling is not None

    for one in (given, both):
        acknowledgement = one.handling.acknowledgement(one.incident)
        assert (acknowledgement.by, acknowledgement.why) == ("acme", "at it")
    assert both.handling.silence(stand.now + MINUTE) is not None
    assert both.handling.silence(stand.now + 2 * MINUTE) is None
    taken_back = unsilence(stand.book, stand.tree, "acme", both.incident.id, stand.now)
    assert taken_back.handling.acknowledgement(taken_back.incident) is None
    assert taken_back.handling.silence(stand.now) is None


def test_taking_back_what_was_never_said_is_no_mistake(stand: Stand):
    [one] = listed(stand)

    assert unsilence(stand.book, stand.tree, "acme", one.id, stand.now).handling is None


def test_an_incident_of_another_tenant_is_not_found(stand: Stand):
    [one] = listed(stand)

    with pytest.raises(NotFoundError, match="there is no incident"):
        acknowledge(stand.book, stand.tree, "rival", one.id, why="", now=stand.now)


def test_what_is_over_is_not_acknowledged(stand: Stand):
    stand.evaluate()
    stand.evaluate()
    [one] = listed(stand, open_only=False)
    assert one.life is Life.OVER

    with pytest.raises(ConflictError, match="is over"):
        acknowledge(stand.book, stand.tree, "acme", one.id, why="", now=stand.now)


@given(
    # Evaluations that find it or not, with a silence of some minutes before some.
    st.lists(st.tuples(st.booleans(), st.sampled_from([0, 0, 0, 1, 3, 7])), max_size=40)
)
def test_people_hear_nothing_within_a_silence_and_soon_after_it_know_how_it_stands(steps):
    stand = Stand()
    until = stand.now
    for is_late, minutes in steps:
        found = listed(stand)
        if minutes and found:
            silenced(stand, minutes)
            until = stand.now + minutes * MINUTE
        before = len(stand.words())
        stand.evaluate(*(["b0"] if is_late else []))
        if stand.now < until:
            assert len(stand.words()) == before
    while stand.now < until:
        stand.evaluate("b0")
    for _ in range(4):
        stand.evaluate("b0")

    [one] = listed(stand)
    assert one.people.owed is None
    assert one.people.notified in (Word.OPENED, Word.REMINDER)
