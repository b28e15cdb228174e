"""What becomes of a job for which nobody has applied: by what pools say of it, and since when."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model.bidding import BiddingTerms
from crawlfleet.model.board import Note, WhyNot
from crawlfleet.policy.bidding import lowered
from crawlfleet.policy.declining import LONGEST_WAIT, Step, decide

AT = datetime(2026, 3, 1, tzinfo=UTC)
TERMS = BiddingTerms(wait_seconds=30.0, patience_seconds=3_600.0)
LACKS, BUSY, AWAY, UNJUDGED = WhyNot.LACKS, WhyNot.BUSY, WhyNot.AWAY, WhyNot.UNJUDGED
BOTH = ("far", "main")
HOUR = timedelta(hours=1)


def note(kind, lowered=0, minutes=0):
    since = AT - timedelta(minutes=minutes)
    return Note(kind=kind, lowered=lowered, why="why", since=since, at=AT)


def step(notes, times=0, pools=BOTH, waited=timedelta(0)):
    return decide(notes, times, pools, waited, TERMS)


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

    assert step({"main": lacks}, 6, ("main",)).why == "no worker suits it"
    told = step({"main": busy}, 6, ("main",))
    assert (told.step, told.why) == (Step.GIVE_UP, "those that suit it were busy for 61 min")


def test_a_job_that_waits_for_a_look_keeps_its_place_for_as_long_as_there_is_patience():
    assert step({}, waited=HOUR - timedelta(seconds=1)).step is Step.STAY
    assert step({}, waited=HOUR).step is Step.TAIL
    assert step({"main": note(LACKS)}, waited=30 * HOUR).step is Step.TAIL


def test_a_site_without_an_answer_is_looked_at_more_and_more_seldom():
    waits = [step({"main": note(AWAY, minutes=n)}, pools=("main",)).wait for n in (0, 1, 4, 59)]

    minutes = [wait.total_seconds() / 60 for wait in waits]
    assert minutes == [0.5, 1, 4, LONGEST_WAIT.total_seconds() / 60]


notes_of = st.builds(note, st.sampled_from(WhyNot), st.integers(0, 6), st.integers(0, 5_000))


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
    if decided.step in {Step.LOWER, Step.GIVE_UP}:
        assert all(one and (one.lowered == times or one.kind in {AWAY, UNJUDGED}) for one in seen)
        assert (decided.step is Step.LOWER) <= (lowered(times + 1) is not None)
    elif all(one and one.lowered == times for one in seen):
        assert min(one.lasted for one in seen if one.kind is not LACKS) < HOUR
    assert bool(decided.why) == (decided.step is Step.GIVE_UP)
    assert decided.wait >= timedelta(seconds=30)
