"""Decisions about readers on AWS: how many, when a successor starts, who may leave.

The machine has a fleet in small: a scheduler that ticks each half minute, and readers that live for
a quarter of an hour, of whom some are cut off. Whenever somebody subscribes there is a reader after
the time that a start takes; nobody leaves before another one has run for the overlap.
"""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.streams import (
    Demand,
    Tenure,
    may_leave,
    readers_needed,
    readers_wanted,
)

NOW = datetime(2026, 11, 24, tzinfo=UTC)
OVERLAP = timedelta(seconds=10)
LIFE = timedelta(seconds=860)


def tenure(worker, age=0.0):
    began = NOW - timedelta(seconds=age)
    return Tenure(worker, began, began + LIFE)


def test_nobody_is_needed_while_nothing_is_asked_for():
    assert readers_needed(Demand(), 20, 5) == 0
    assert readers_wanted(0, [tenure("a", 850)], OVERLAP, NOW) == 0


@given(st.integers(0, 5_000), st.booleans(), st.booleans(), st.integers(1, 50), st.integers(1, 9))
def test_readers_are_as_few_as_sources_allow_and_never_more_than_there_may_be(
    sources, feeds, due, each, most
):
    found = readers_needed(Demand(sources, feeds, due), each, most)

    assert 0 <= found <= most
    assert (found == 0) is not (sources > 0 or feeds or due)
    assert found == most or found * each >= sources


@pytest.mark.parametrize(
    ("ages", "wanted"),
    [
        ([], 1),
        ([0], 1),
        ([700], 1),
        ([799], 1),
        ([800], 2),
        ([859], 2),
        ([859, 10], 2),
    ],
)
def test_a_successor_is_wanted_before_the_end_by_a_tick_a_start_and_the_overlap(ages, wanted):
    readers = [tenure(f"r{number}", age) for number, age in enumerate(ages)]

    # 860 s of life, less 10 s of overlap, 35 s between ticks and 15 s of a start
    assert readers_wanted(1, readers, OVERLAP, NOW) == wanted


def test_a_reader_leaves_once_its_successor_has_run_for_the_overlap():
    old = tenure("old", 840)

    assert not may_leave("old", [old], 1, OVERLAP, NOW)
    assert not may_leave("old", [old, tenure("new", 9)], 1, OVERLAP, NOW)
    assert may_leave("old", [old, tenure("new", 10)], 1, OVERLAP, NOW)
    assert not may_leave("new", [old, tenure("new", 10)], 1, OVERLAP, NOW)


def test_of_two_that_were_started_for_one_the_older_goes():
    readers = [tenure("a", 200), tenure("b", 170)]

    assert [may_leave(one.worker, readers, 1, OVERLAP, NOW) for one in readers] == [True, False]


def test_of_two_with_the_same_end_one_goes():
    readers = [tenure("a", 200), tenure("b", 200)]

    assert [may_leave(one.worker, readers, 1, OVERLAP, NOW) for one in readers] == [True, False]


@given(st.lists(st.integers(0, 860), max_size=12), st.integers(1, 6), st.integers(0, 60))
def test_however_many_leave_at_once_enough_stay_who_have_run_for_the_overlap(ages, needed, overlap):
    readers = [tenure(f"r{number}", age) for number, age in enumerate(ages)]
    spent = timedelta(seconds=overlap)

    leaving = {one.worker for one in readers if may_leave(one.worker, readers, needed, spent, NOW)}
    staying = [one for one in readers if one.worker not in leaving]

    assert not leaving or len(staying) == needed
    assert not leaving or all(one.began_at + spent <= NOW for one in staying)


@given(st.data())
def test_while_somebody_subscribes_a_reader_runs_but_for_a_tick_and_a_start(data):
    """Ticks each half minute start who is missing; of two readers one dies now and then."""
    second, readers, starting, unread = 0, [], [], 0
    most_unread = 0
    deaths = data.draw(st.sets(st.integers(0, 3_000), max_size=3))
    while second < 3_000:
        now = NOW + timedelta(seconds=second)
        readers = [one for one in readers if one.ends_at > now]
        readers += [Tenure(f"r{at}", now, now + LIFE) for at, ready in starting if ready <= second]
        starting = [(at, ready) for at, ready in starting if ready > second]
        if second in deaths and readers:
            readers.pop(0)
            unread = 0  # the one who has just come may be cut off, too
        readers = [one for one in readers if not may_leave(one.worker, readers, 1, OVERLAP, now)]
        if second % 30 == 0:
            missing = readers_wanted(1, readers, OVERLAP, now) - len(readers) - len(starting)
            starting += [(f"{second}.{number}", second + 10) for number in range(missing)]
        unread = 0 if readers else unread + 1
        most_unread = max(most_unread, unread)
        assert len(readers) + len(starting) <= 2
        second += 1

    assert most_unread <= 30 + 10
    assert deaths or most_unread <= 10  # of the first start alone
