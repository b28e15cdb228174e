"""Outcomes of a job without applications: by what pools note of it, and since when."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.bidding import (
    CATCH_UP,
    LONGEST_WAIT,
    Note,
    Step,
    WhyNot,
    decide,
    explain_declines,
    lowered,
)
from tests.kit.config import BiddingTerms

AT = datetime(2026, 3, 1, tzinfo=UTC)
TERMS = BiddingTerms(wait_seconds=30.0, patience_seconds=3_600.0)
LACKS, BUSY, AWAY, UNJUDGED = WhyNot.LACKS, WhyNot.BUSY, WhyNot.AWAY, WhyNot.UNJUDGED
BOTH = ("far", "main")
HOUR = timedelta(hours=1)


def note(kind, lowered=0, minutes=0, ago=0):
    """Return a note that stood for ``minutes`` and was last made ``ago`` minutes ago."""
    at = AT - timedelta(minutes=ago)
    since = at - timedelta(minutes=minutes)
    return Note(kind=kind, lowered=lowered, why="why", since=since, at=at)


def step(notes, times=0, pools=BOTH, waited=timedelta(0)):
    return decide(notes, times, pools, AT - waited, AT, TERMS)


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ({"main": note(LACKS), "far": note(LACKS)}, Step.LOWER),
        ({"main": note(LACKS), "far": note(AWAY, minutes=90)}, Step.LOWER),
        # Not all have looked, at it as it is, and what has no worker any more is none of them.
        ({}, Step.STAY),
        ({"main": note(LACKS)}, Step.STAY),
        ({"main": note(AWAY, minutes=90)}, Step.STAY),
        ({"main": note(LACKS), "far": note(LACKS, lowered=1)}, Step.STAY),
        ({"main": note(LACKS), "gone": note(BUSY)}, Step.STAY),
        # Who suits it is busy.
        ({"main": note(LACKS, minutes=90), "far": note(BUSY, minutes=59)}, Step.TAIL),
        ({"main": note(LACKS), "far": note(BUSY, minutes=60)}, Step.LOWER),
        ({"main": note(BUSY, minutes=5), "far": note(BUSY, minutes=90)}, Step.TAIL),
        ({"main": note(LACKS), "far": note(LACKS), "gone": note(BUSY)}, Step.LOWER),
        # Its site gives nobody an answer.
        ({"main": note(AWAY, minutes=59), "far": note(UNJUDGED, minutes=90)}, Step.TAIL),
        ({"main": note(AWAY, minutes=60), "far": note(UNJUDGED, minutes=90)}, Step.GIVE_UP),
    ],
)
def test_a_job_wants_less_where_all_have_looked_and_some_lack_it(notes, expected):
    assert step(notes).step is expected


def test_what_is_lacked_of_the_least_that_it_may_want_ends_its_wait():
    lacks, busy = note(LACKS, lowered=6), note(BUSY, lowered=6, minutes=61)

    assert "suits it" in step({"main": lacks}, 6, ("main",)).why
    decision = step({"main": busy}, 6, ("main",))
    assert decision.step is Step.GIVE_UP
    assert "busy for 61 min" in decision.why


def test_a_job_at_which_nobody_looks_keeps_its_place_for_as_long_as_there_is_patience():
    assert step({}, waited=HOUR - timedelta(seconds=1)).step is Step.STAY
    assert step({}, waited=HOUR).step is Step.TAIL
    # Nothing is known of it, however long that lasts: it is not lost, and reported.
    assert step({}, waited=300 * HOUR).step is Step.TAIL


@pytest.mark.parametrize(
    ("notes", "waited", "expected"),
    [
        # A pool of which nothing was heard for an hour is waited for no more: it cannot start, or
        # nobody would ever find a worker for what no pool suits that can.
        ({"main": note(LACKS, minutes=30)}, HOUR - timedelta(seconds=1), Step.STAY),
        ({"main": note(LACKS, minutes=30)}, HOUR, Step.LOWER),
        ({"main": note(LACKS)}, 30 * HOUR, Step.TAIL),
        ({"main": note(LACKS, minutes=2)}, 30 * HOUR, Step.LOWER),
        ({"main": note(LACKS, minutes=5), "far": note(LACKS, ago=60)}, 2 * HOUR, Step.LOWER),
        ({"main": note(LACKS, minutes=5), "far": note(BUSY, ago=60)}, 2 * HOUR, Step.LOWER),
        ({"main": note(AWAY, minutes=60), "far": note(BUSY, ago=61)}, 2 * HOUR, Step.GIVE_UP),
        ({"main": note(BUSY, minutes=59)}, 2 * HOUR, Step.TAIL),
        ({"main": note(BUSY, minutes=60)}, 2 * HOUR, Step.LOWER),
        # One that was heard of since may come and look at it as it is by now.
        ({"main": note(LACKS, minutes=5), "far": note(BUSY, ago=59)}, 2 * HOUR, Step.TAIL),
        ({"main": note(LACKS, 1, 5), "far": note(LACKS, ago=59)}, 2 * HOUR, Step.TAIL),
        ({"main": note(LACKS, 1, 5), "far": note(LACKS, ago=60)}, 2 * HOUR, Step.LOWER),
        # Nobody is heard of any more.
        ({"main": note(LACKS, ago=60), "far": note(BUSY, ago=90)}, 2 * HOUR, Step.TAIL),
    ],
)
def test_a_pool_of_which_nobody_hears_is_waited_for_only_so_long(notes, waited, expected):
    times = max(one.lowered for one in notes.values())

    assert step(notes, times, waited=waited).step is expected


def test_who_looks_at_a_job_decides_alone_only_when_the_others_have_had_the_time_to_come():
    short = replace(TERMS, patience_seconds=60.0)
    for terms, least in ((TERMS, CATCH_UP), (short, timedelta(seconds=60))):
        for seen, expected in ((least - timedelta(seconds=1), Step.TAIL), (least, Step.LOWER)):
            notes = {"main": note(LACKS, minutes=seen.total_seconds() / 60)}
            assert decide(notes, 0, BOTH, AT - 2 * HOUR, AT, terms).step is expected


def test_silent_pools_are_named():
    notes = {"main": note(LACKS), "far": note(BUSY, ago=60)}

    decided = step(notes, pools=("far", "main", "west"), waited=2 * HOUR)

    assert decided.silent == ("far", "west")
    assert explain_declines(notes, decided.silent) == (
        "main: at 100 % of its demand: why; no worker of far, west has looked at it lately"
    )
    assert explain_declines({"far": note(BUSY, ago=60)}, ["far"]).startswith("no worker has")
    many = explain_declines({"main": replace(note(LACKS), why="x" * 900)}, [*"edcba"])
    assert "a, b, c and 2 more" in many
    assert len(many) == 400


def test_a_site_without_an_answer_is_probed_less_and_less_often():
    waits = [step({"main": note(AWAY, minutes=n)}, pools=("main",)).wait for n in (0, 1, 4, 59)]

    minutes = [wait.total_seconds() / 60 for wait in waits]
    assert minutes == [0.5, 1, 4, LONGEST_WAIT.total_seconds() / 60]


notes_of = st.builds(
    note, st.sampled_from(WhyNot), st.integers(0, 6), st.integers(0, 5_000), st.integers(0, 120)
)


@given(
    st.dictionaries(st.sampled_from(["main", "far", "gone"]), notes_of),
    st.integers(0, 6),
    st.integers(0, 10**6),
)
def test_no_job_is_lowered_or_ended_before_all_have_looked_nor_waits_beyond_patience(
    notes, times, seconds
):
    decided = step(notes, times, waited=timedelta(seconds=seconds))

    seen = [notes.get(pool) for pool in BOTH]
    heard = [one for one in seen if one and AT - one.at < HOUR]
    if decided.step in {Step.LOWER, Step.GIVE_UP}:
        assert heard
        assert all(one.lowered == times or one.kind in {AWAY, UNJUDGED} for one in heard)
        assert heard == seen or seconds >= 3_600
        assert (decided.step is Step.LOWER) <= (lowered(times + 1) is not None)
    elif heard == seen and all(one.lowered == times for one in seen):
        assert min(one.lasted for one in seen if one.kind is not LACKS) < HOUR
    elif decided.step is Step.STAY:
        assert seconds < 3_600
    assert bool(decided.why) == (decided.step is Step.GIVE_UP)
    assert decided.wait >= timedelta(seconds=30)
