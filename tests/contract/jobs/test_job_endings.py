"""Jobs are cancelled, end and are looked after, in memory and in a real MongoDB."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from msgspec.structs import replace

from tests.contract.job_cases import (
    CANCELLED,
    CANCELLING,
    DONE,
    EXPANDING,
    SECOND,
    a_batch,
    a_job,
    expanded,
    names,
)
from tests.contract.store_cases import NOW
from tests.kit.implementations import fixture_over
from tests.kit.jobs import JobState, MongoJobs

jobs = fixture_over(MongoJobs)


def test_a_cancelled_job_closes_its_batch_and_makes_no_other(jobs: MongoJobs, tenant: str) -> None:
    job = jobs.open_batch(jobs.create(a_job(tenant)), a_batch(0, 100))

    cancelled = jobs.cancel(tenant, "docs", "june", NOW + SECOND)

    assert (cancelled.state, cancelled.cancelled_at) == (CANCELLING, NOW + SECOND)
    assert jobs.cancel(tenant, "docs", "june", NOW + 9 * SECOND) == cancelled
    assert names(jobs.expandable(9)) == names(jobs.watched(9)) == ["june"]
    assert jobs.end(cancelled, CANCELLED, {}, NOW) is False  # tasks may not all be stored
    closed = jobs.close_batch(job, job.batch, NOW)
    assert (closed.state, closed.expanded, closed.batch) == (CANCELLING, 100, None)
    assert closed.expanded_at is None
    assert jobs.open_batch(closed, a_batch(100)) == closed
    assert (names(jobs.expandable(9)), names(jobs.watched(9))) == ([], ["june"])
    assert jobs.end(closed, CANCELLED, {"cancelled": 100}, NOW) is True
    assert jobs.watched(9) == []


def test_a_cancelled_job_is_swept_at_its_own_time(jobs: MongoJobs, tenant: str) -> None:
    job = jobs.open_batch(jobs.create(a_job(tenant)), a_batch(0, 100))
    later = NOW + 300 * SECOND
    assert jobs.sweepable(9) == []

    cancelled = jobs.cancel(tenant, "docs", "june", NOW)
    jobs.reschedule(job, NOW, "as it expanded", later)
    assert jobs.get(tenant, "docs", "june") == cancelled
    jobs.reschedule(cancelled, NOW, "cannot be stored", later)

    assert names(jobs.sweepable(9, NOW)) == ["june"]
    assert jobs.expandable(9, NOW) == []
    jobs.swept(cancelled, NOW, NOW + SECOND, "a node is away")
    found = jobs.get(tenant, "docs", "june")
    assert (found.sweep_at, found.due_at) == (NOW + SECOND, later)
    assert (found.trouble, found.troubles) == ("a node is away", 2)
    assert jobs.sweepable(9, NOW) == []
    assert names(jobs.sweepable(9)) == names(jobs.sweepable(9, NOW + SECOND)) == ["june"]

    closed = jobs.close_batch(job, job.batch, NOW)
    assert jobs.end(closed, CANCELLED, {}, NOW) is True
    jobs.swept(closed, NOW, NOW, "too late")
    found = jobs.get(tenant, "docs", "june")
    assert (found.state, found.sweep_at, found.trouble) == (CANCELLED, None, None)
    assert jobs.sweepable(9) == []


def test_the_last_batch_of_a_cancelled_job_does_not_let_it_run(
    jobs: MongoJobs, tenant: str
) -> None:
    job = expanded(jobs, jobs.create(a_job(tenant)), 2_000)
    opened = jobs.open_batch(job, a_batch(2_000, 500))
    jobs.cancel(tenant, "docs", "june", NOW)

    closed = jobs.close_batch(opened, opened.batch, NOW)

    assert (closed.state, closed.expanded) == (CANCELLING, 2_500)


def test_a_job_ends_once_in_the_state_that_was_seen(jobs: MongoJobs, tenant: str) -> None:
    job = jobs.create(a_job(tenant))
    running = expanded(jobs, job, 2_500)
    jobs.reschedule(running, NOW, "a node is away", NOW + SECOND)

    assert jobs.end(job, DONE, {}, NOW) is False
    start = Barrier(5)

    def end(number: int) -> bool:
        start.wait()
        return jobs.end(running, DONE, {"done": number}, NOW + SECOND)

    with ThreadPoolExecutor(5) as pool:
        assert sorted(pool.map(end, range(5))) == [False] * 4 + [True]

    ended = jobs.get(tenant, "docs", "june")
    assert (ended.state, ended.ended_at, ended.trouble) == (DONE, NOW + SECOND, None)
    assert list(ended.counts) == ["done"]
    assert jobs.cancel(tenant, "docs", "june", NOW) == ended
    jobs.reschedule(ended, NOW, "too late")
    assert jobs.get(tenant, "docs", "june") == ended
    assert jobs.expandable(9) == jobs.watched(9) == []


def test_a_cancelled_job_does_not_end_as_one_that_runs(jobs: MongoJobs, tenant: str) -> None:
    running = expanded(jobs, jobs.create(a_job(tenant)), 2_500)
    cancelling = jobs.cancel(tenant, "docs", "june", NOW)

    assert jobs.end(running, DONE, {}, NOW) is False
    assert jobs.end(cancelling, CANCELLED, {}, NOW) is True


def test_a_job_that_waits_for_a_worker_makes_no_tasks(jobs: MongoJobs, tenant: str) -> None:
    placing = jobs.create(a_job(tenant, state=JobState.PLACING))

    assert jobs.expandable(9) == jobs.watched(9) == []
    assert jobs.open_batch(placing, a_batch()) == placing
    assert jobs.count_open(tenant, "docs") == 1
    assert jobs.end(placing, JobState.UNPLACED, {}, NOW) is True
    assert jobs.count_open(tenant, "docs") == 0


# ---- turns -------------------------------------------------------------------------------------


def test_whoever_was_looked_at_longest_ago_comes_first(jobs: MongoJobs, tenant: str) -> None:
    for number, name in enumerate("abc"):
        jobs.create(a_job(tenant, name, created_at=NOW + number * SECOND))
    assert names(jobs.expandable(9)) == ["a", "b", "c"]

    jobs.reschedule(a_job(tenant, "a"), NOW + 9 * SECOND)

    assert names(jobs.expandable(9)) == ["b", "c", "a"]
    assert names(jobs.expandable(2)) == ["b", "c"]
    assert jobs.expandable(0) == []
    kept = jobs.get(tenant, "docs", "a")
    assert (kept.looked_at, kept.due_at) == (NOW + 9 * SECOND, NOW + 9 * SECOND)


def test_tenants_take_turns_however_many_jobs_one_has(jobs: MongoJobs, tenant: str) -> None:
    many, few = f"{tenant}a", f"{tenant}b"
    for number in range(20):
        jobs.create(a_job(many, f"m{number:02}"))
    jobs.create(a_job(few, "f0", created_at=NOW + SECOND))
    jobs.create(a_job(few, "f1", created_at=NOW + SECOND))

    assert names(jobs.expandable(6)) == ["m00", "f0", "m01", "f1", "m02", "m03"]
    assert names(jobs.expandable(1)) == ["m00"]
    for number in range(20):
        jobs.reschedule(a_job(many, f"m{number:02}"), NOW + 2 * SECOND)
    assert names(jobs.expandable(3)) == ["f0", "m00", "f1"]


def test_a_job_in_trouble_says_why_and_is_due_later(jobs: MongoJobs, tenant: str) -> None:
    job = jobs.create(a_job(tenant))
    for number in (1, 2):
        jobs.reschedule(job, NOW, "the biz is full", NOW + 30 * SECOND)
        kept = jobs.get(tenant, "docs", "june")
        assert (kept.trouble, kept.troubles) == ("the biz is full", number)

    assert jobs.expandable(9, NOW + 29 * SECOND) == []
    assert names(jobs.expandable(9, NOW + 30 * SECOND)) == ["june"]
    assert names(jobs.expandable(9)) == ["june"]
    jobs.reschedule(job, NOW + 30 * SECOND)
    kept = jobs.get(tenant, "docs", "june")
    assert (kept.trouble, kept.troubles, kept.due_at) == (None, 0, NOW + 30 * SECOND)


def test_a_tenant_cannot_see_or_touch_the_jobs_of_another(jobs: MongoJobs, tenant: str) -> None:
    other = f"{tenant}b"
    mine = jobs.create(a_job(tenant))

    assert jobs.get(other, "docs", "june") is None
    assert jobs.cancel(other, "docs", "june", NOW) is None
    assert jobs.open_batch(replace(mine, tenant=other), a_batch()) is None
    assert jobs.end(replace(mine, tenant=other), EXPANDING, {}, NOW) is False
    jobs.reschedule(replace(mine, tenant=other), NOW, "not yours")
    assert jobs.get(tenant, "docs", "june") == mine
