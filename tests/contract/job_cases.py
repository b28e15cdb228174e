"""What suites of jobs are made of: a job, and a store in which no other test has any."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import uuid4

from pymongo.collection import Collection

from tests.contract.store_cases import NOW
from tests.kit.fakes import MemoryJobs
from tests.kit.jobs import Job, JobState, JobStore, MongoJobs, TaskBatch
from tests.kit.mongo import MAJORITY, Document, MongoNodes
from tests.kit.spiders import Range, Start, size

PATTERN = Start(pattern="https://site.example/{n}", values={"n": Range(last=2_500)})


class OwnControl(MongoNodes):
    """Nodes on one server, with a control database that nobody shares: lists are of all tenants."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri_of=lambda _: uri, home=lambda: "home")
        self.name = f"control_{uuid4().hex[:12]}"

    def control(self, collection: str) -> Collection[Document]:
        database = self.client("home").get_database(self.name, write_concern=MAJORITY)
        return database.get_collection(collection)


@contextmanager
def a_job_store(kind: str, uri: str) -> Iterator[JobStore]:
    """The job store of that kind; what it kept is gone afterwards."""
    if kind == "memory":
        yield MemoryJobs()
        return
    nodes = OwnControl(uri)
    try:
        yield MongoJobs(nodes)
    finally:
        nodes.client("home").drop_database(nodes.name)
        nodes.close()


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
