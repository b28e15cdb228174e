"""Parts of the suites of jobs: a job and its batches."""

from datetime import datetime, timedelta

from tests.contract.store_cases import NOW
from tests.kit.jobs import Job, JobState, MongoJobs, TaskBatch
from tests.kit.spiders import Range, Start, size

SECOND = timedelta(seconds=1)
EXPANDING, RUNNING = JobState.EXPANDING, JobState.RUNNING
CANCELLING, CANCELLED, DONE = JobState.CANCELLING, JobState.CANCELLED, JobState.DONE
PATTERN = Start(pattern="https://site.example/{n}", values={"n": Range(last=2_500)})


def a_job(tenant: str, name: str = "june", **changes: object) -> Job:
    facts: dict = {
        "tenant": tenant,
        "biz": "docs",
        "name": name,
        "state": JobState.EXPANDING,
        "rule": "detail",
        "rule_version": "v1",
        "start": PATTERN,
        "created_at": NOW,
        "by": "api",
    }
    facts |= changes
    return Job(**{"size": size(facts["start"]), **facts})


def a_batch(first: int = 0, count: int = 3, at: datetime = NOW, salt: int = 0) -> TaskBatch:
    ids = tuple(2**61 + salt * 2**40 + first + n for n in range(count))
    return TaskBatch(first=first, ids=ids, queued_at=at + timedelta(milliseconds=7))


def names(found: list[Job]) -> list[str]:
    return [job.name for job in found]


def of_biz(jobs: MongoJobs, tenant: str, **changes: object) -> list[str]:
    asked: dict = {"states": (), "spider": None, "schedule": None, "after": None, "limit": 100}
    return names(jobs.of_biz(tenant, "docs", **{**asked, **changes}))


def expanded(jobs: MongoJobs, job: Job, upto: int) -> Job:
    """The job with so many of its tasks stored."""
    while job.expanded < upto:
        batch = a_batch(job.expanded, min(1_000, upto - job.expanded))
        opened = jobs.open_batch(job, batch)
        assert opened is not None
        assert opened.batch == batch
        closed = jobs.close_batch(opened, batch, NOW)
        assert closed is not None
        job = closed
    return job
