"""Offers on a board of jobs that wait for a worker, and how one of them is won."""

from datetime import UTC, datetime, timedelta

from tests.kit.bidding import Applied, Decline, JobListing, ListingResult, WhyNot

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WAIT = timedelta(seconds=30)
WINDOW = timedelta(seconds=1)
SOON = NOW + timedelta(seconds=10)


def a_listing(job, tenant="acme", biz="docs", **fields):
    return JobListing(tenant=tenant, biz=biz, job=job, **fields)


def list_jobs(board, *jobs, now=NOW, **fields):
    for job in jobs:
        assert board.add(a_listing(job, **fields), now, WAIT) is ListingResult.LISTED


def won(board, key, worker, *, until=SOON):
    """The worker applies alone, and is awarded the job."""
    assert board.apply(worker, key, b"{}", NOW, WINDOW) is Applied.APPLIED
    standing, _ = board.read(key)
    return board.award(key, standing.version, worker, until)


def names(board, pool="main", limit=50, first=0):
    return [one.job for one in board.head(pool, limit, first)]


def lacks(why, lowered=0):
    return Decline(kind=WhyNot.LACKS, lowered=lowered, why=why)
