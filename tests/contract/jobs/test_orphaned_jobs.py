"""ports.LostJobs over memory and a real MongoDB."""

from datetime import timedelta

from tests.contract.job_cases import a_batch, a_job
from tests.contract.store_cases import NOW
from tests.kit.implementations import fixture_over
from tests.kit.jobs import JobState, MongoJobs, MongoOrphanedJobs

HOUR = timedelta(hours=1)


both = fixture_over(MongoJobs, MongoOrphanedJobs)


def test_orphaned_jobs_end_as_cancelled_after_the_grace_period(both, tenant):
    jobs, orphaned = both
    made = jobs.create(a_job(tenant, "made"))
    assert jobs.open_batch(made, a_batch(0, 1)).batch is not None
    jobs.create(a_job(tenant, "runs", state=JobState.RUNNING))
    over = jobs.create(a_job(tenant, "over", state=JobState.RUNNING))
    jobs.end(over, JobState.DONE, {"done": 1}, NOW)
    jobs.create(a_job(f"{tenant}b", "theirs"))

    assert (tenant, "docs") in orphaned.bizs()
    assert orphaned.end(tenant, "docs", NOW, NOW - HOUR, 9) == 0
    assert orphaned.end(tenant, "docs", NOW + HOUR, NOW, 9) == 0
    assert orphaned.end(tenant, "docs", NOW + 2 * HOUR, NOW + HOUR, 1) == 1
    assert orphaned.end(tenant, "docs", NOW + 2 * HOUR, NOW + HOUR, 9) == 1

    for name in ("made", "runs"):
        job = jobs.get(tenant, "docs", name)
        assert (job.state, job.ended_at) == (JobState.CANCELLED, NOW + 2 * HOUR)
        assert (job.counts, job.batch, job.due_at) == ({"refused": 0}, None, None)
    assert jobs.get(tenant, "docs", "over").counts == {"done": 1}
    assert jobs.get(f"{tenant}b", "docs", "theirs").state is JobState.EXPANDING
    assert jobs.count_open(tenant, "docs") == 0
    assert (tenant, "docs") not in orphaned.bizs()
    mine = [job for job in (*jobs.expandable(999), *jobs.watched(999)) if job.tenant == tenant]
    assert mine == []


def test_a_biz_that_is_there_again_begins_anew(both, tenant):
    jobs, orphaned = both
    jobs.create(a_job(tenant, "made"))
    orphaned.end(tenant, "docs", NOW, NOW - HOUR, 9)

    orphaned.clear(tenant, "docs")

    assert orphaned.end(tenant, "docs", NOW + HOUR, NOW + HOUR, 9) == 0
    assert jobs.get(tenant, "docs", "made").state is JobState.EXPANDING
