from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.jobs import (
    FURTHEST,
    LONGEST,
    LONGEST_IDLE_POLL,
    LONGEST_POLL,
    Job,
    JobState,
    backlog_backoff,
    backoff_after,
    next_poll_interval,
    poll_interval,
    progress_of,
)
from tests.kit.requests import Ledger
from tests.kit.spiders import Range, Start

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
COUNT = st.integers(0, 10**8)


def a_job(**changes: object) -> Job:
    facts: dict = {
        "tenant": "acme",
        "biz": "docs",
        "name": "june",
        "state": JobState.EXPANDING,
        "rule": "page",
        "rule_version": "v1",
        "start": Start(pattern="https://a.example/{n}", values={"n": Range(last=1_000)}),
        "size": 1_000,
        "created_at": NOON,
        "by": "api",
    }
    return Job(**{**facts, **changes})


def test_a_new_job_is_nowhere_and_nobody_knows_when_it_ends():
    found = progress_of(a_job(), Ledger(), NOON)

    assert (found.tasks, found.expanded_share, found.ended, found.ended_share) == (1_000, 0, 0, 0)
    assert (found.per_second, found.ends_at) == (None, None)


def test_a_job_half_made_and_a_quarter_done_ends_at_its_rate():
    job = a_job(expanded=500)
    ledger = Ledger(submitted=500, done=200, dead=50)

    found = progress_of(job, ledger, NOON + timedelta(seconds=100))

    assert (found.tasks, found.expanded_share, found.ended_share) == (1_000, 0.5, 0.25)
    assert found.per_second == 2.5
    assert found.ends_at == NOON + timedelta(seconds=400)


def test_what_pages_lead_to_is_part_of_the_job_and_what_was_refused_is_not():
    job = a_job(state=JobState.RUNNING, expanded=1_000, refused=100)
    ledger = Ledger(submitted=1_900, done=950)

    found = progress_of(job, ledger, NOON + timedelta(seconds=10))

    assert (found.tasks, found.expanded_share, found.ended_share) == (1_900, 1.0, 0.5)


def test_a_job_that_has_ended_has_no_end_ahead_and_its_rate_stays():
    ended_at = NOON + timedelta(seconds=10)
    job = a_job(state=JobState.DONE, expanded=1_000, ended_at=ended_at)
    ledger = Ledger(submitted=1_000, done=1_000)

    found = progress_of(job, ledger, NOON + timedelta(days=3))

    assert (found.ended_share, found.per_second, found.ends_at) == (1.0, 100.0, None)


def test_a_cancelled_job_does_not_count_what_was_never_made():
    job = a_job(state=JobState.CANCELLED, expanded=100, ended_at=NOON)

    assert progress_of(job, Ledger(submitted=100, cancelled=100), NOON).ended_share == 1.0


def test_a_job_without_tasks_is_at_its_end():
    found = progress_of(a_job(size=0, state=JobState.RUNNING), Ledger(), NOON)

    assert (found.expanded_share, found.ended_share) == (1.0, 1.0)


@given(
    state=st.sampled_from(JobState),
    size=COUNT,
    expanded=COUNT,
    refused=COUNT,
    terms=st.lists(COUNT, min_size=5, max_size=5),
    seconds=st.floats(-(10**9), 10**9),
    late=st.booleans(),
)
def test_whatever_is_counted_shares_are_shares_and_ends_are_ahead(
    state, size, expanded, refused, terms, seconds, late
):
    submitted, done, dead, cancelled, expired = terms
    ledger = Ledger(submitted=submitted, done=done, dead=dead, cancelled=cancelled, expired=expired)
    job = a_job(state=state, size=size, expanded=expanded, refused=refused)
    now = NOON + timedelta(seconds=seconds)

    found = progress_of(replace(job, ended_at=NOON if late else None), ledger, now)

    assert 0 <= found.expanded_share <= 1
    assert 0 <= found.ended_share <= 1
    assert 0 <= found.ended <= found.tasks
    assert found.per_second is None or found.per_second > 0
    assert found.ends_at is None or now <= found.ends_at <= now + FURTHEST + timedelta(days=1)


@given(n=COUNT, seconds=st.floats(allow_nan=False))
def test_every_backoff_is_above_zero_and_within_its_bound(n, seconds):
    assert timedelta() < backoff_after(n) <= LONGEST
    assert backoff_after(n) <= backoff_after(n + 1)
    assert timedelta() < poll_interval(n) <= LONGEST_POLL
    assert timedelta(seconds=1) <= backlog_backoff(seconds) <= timedelta(seconds=30)
    assert poll_interval(-n) == poll_interval(0)


def test_the_end_of_time_is_nobodys_end():
    now = datetime.max.replace(tzinfo=UTC) - timedelta(seconds=5)
    job = a_job(created_at=now - timedelta(seconds=10), expanded=1_000)

    assert progress_of(job, Ledger(submitted=1_000, done=1), now).ends_at is None


#: What two times may be apart, where the clock was set back in between.
WAITED = st.timedeltas(min_value=-timedelta(days=3_652_059), max_value=timedelta(days=9))


@given(n=COUNT, before=st.none() | COUNT, waited=WAITED)
def test_a_stalled_job_is_polled_within_a_minute(n, before, waited):
    assert poll_interval(n) <= next_poll_interval(n, before, waited) <= LONGEST_IDLE_POLL
