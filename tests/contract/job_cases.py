"""What suites of jobs are made of: a job and its batches."""

from datetime import datetime, timedelta

from tests.contract.store_cases import NOW
from tests.kit.jobs import Job, JobState, TaskBatch
from tests.kit.spiders import Range, Start, size

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
