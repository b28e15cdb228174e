"""Jobs as documents, and back; see :mod:`.jobs`.

Where jobs are kept, with the indexes by which they are found; part of :mod:`.jobs`.
"""

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.collection import Collection

from crawlfleet.jobs.models import ENDED, EXPANDABLE, PLACEABLE, Job, JobState, TaskBatch
from crawlfleet.jobs.models import WATCHED as WATCHED_STATES
from crawlfleet.jobs.spiders.models import Range, Start
from crawlfleet.kernel.mongo.connection import Document, MongoNodes
from crawlfleet.requests.models import JOB_LIFE
from crawlfleet.requests.mongo.documents import read_id

#: What lists and changes do not read.
WITHOUT_START: Final = {"start": False}
BRIEF: Final = {"start.urls": False, "start.values": False}


def plain(value: object) -> Any:
    """A struct as BSON takes it: what is None is left out."""
    plain = msgspec.to_builtins(value, builtin_types=(datetime,))
    return {name: one for name, one in plain.items() if one is not None}


def document_of(job: Job) -> Document:
    """A new job's document."""
    # All of a pattern's names are plain ones, so they may be names of fields.
    return {
        **plain(job),
        "_id": "/".join(job.key),
        "open": job.state not in ENDED,
        "making": job.state in EXPANDABLE
        or (job.state is JobState.CANCELLING and job.batch is not None),
        "watched": job.state in WATCHED_STATES,
        "placing": job.state in PLACEABLE,
        "unplaced": job.state is JobState.UNPLACED,
    }


def cancellation(now: datetime) -> list[Document]:
    """The change of a job that is to be cancelled."""
    return [
        {
            "$set": {
                "state": JobState.CANCELLING.value,
                "cancelled_at": now,
                "sweep_at": now,
                "due_at": now,
                "making": {"$ne": [{"$type": "$batch"}, "missing"]},
                "watched": True,
                "placing": False,
            }
        }
    ]


def job_of(document: Document, start: Start | None = None) -> Job:
    """The job of a document; ``start`` where its own was not read."""
    found = dict(document)
    kept = found.pop("start", {})
    batch = found.pop("batch", None)
    job = msgspec.convert({**found, "start": {}}, Job, builtin_types=(datetime,))
    return replace(
        job,
        start=_start(kept) if start is None else start,
        batch=None
        if batch is None
        else TaskBatch(
            first=batch["first"],
            ids=tuple(map(read_id, batch["ids"])),
            queued_at=batch["queued_at"],
        ),
    )


def _start(kept: Document) -> Start:
    # Its bounds are those of who gives it: a filled pattern may be longer than a URL given.
    return Start(
        urls=tuple(kept.get("urls", ())),
        pattern=kept.get("pattern"),
        values={
            name: Range(**{part: int(number) for part, number in values.items()})
            if isinstance(values, dict)
            else tuple(values)
            for name, values in kept.get("values", {}).items()
        },
    )


#: Names of indexes, each of nothing but what is so.
MAKING: Final = "making"
WATCHED: Final = "watched"
PLACING: Final = "placing"
WAITING: Final = "waiting"
SWEEPABLE: Final = "sweepable"
UNPLACED: Final = "unplaced"
OPEN: Final = "open"
_INDEXES: Final = [
    IndexModel(
        [("tenant", ASCENDING), ("due_at", ASCENDING), ("_id", ASCENDING)],
        name=MAKING,
        partialFilterExpression={"making": True},
    ),
    IndexModel(
        [
            ("tenant", ASCENDING),
            ("due_at", ASCENDING),
            ("_id", ASCENDING),
            ("state", ASCENDING),
        ],
        name=WATCHED,
        partialFilterExpression={"watched": True},
    ),
    # What is being cancelled has such a time, and nothing else.
    IndexModel(
        [("tenant", ASCENDING), ("sweep_at", ASCENDING), ("_id", ASCENDING)],
        name=SWEEPABLE,
        partialFilterExpression={"sweep_at": {"$exists": True}},
    ),
    IndexModel(
        [("tenant", ASCENDING), ("due_at", ASCENDING), ("_id", ASCENDING)],
        name=PLACING,
        partialFilterExpression={"placing": True},
    ),
    IndexModel(
        [("tenant", ASCENDING), ("created_at", ASCENDING), ("_id", ASCENDING)],
        name=WAITING,
        partialFilterExpression={"placing": True},
    ),
    IndexModel(
        [("ended_at", DESCENDING), ("_id", DESCENDING)],
        name=UNPLACED,
        partialFilterExpression={"unplaced": True},
    ),
    IndexModel(
        [("tenant", ASCENDING), ("biz", ASCENDING), ("schedule", ASCENDING)],
        name=OPEN,
        partialFilterExpression={"open": True},
    ),
    *(
        IndexModel(
            [
                ("tenant", ASCENDING),
                ("biz", ASCENDING),
                *((field, ASCENDING) for field in fields),
                ("created_at", DESCENDING),
                ("name", DESCENDING),
            ],
            name="_".join(("newest", *fields)),
        )
        for fields in ((), ("spider",), ("schedule",))
    ),
    # What has not ended has no such time, and stays.
    IndexModel(
        [("ended_at", ASCENDING)],
        name="ttl",
        expireAfterSeconds=int(JOB_LIFE.total_seconds()),
    ),
]


class JobsCollection:
    """The collection of jobs on the home node."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._sure = False

    def _jobs(self) -> Collection[Document]:
        """The jobs, with their indexes."""
        jobs = self._nodes.control("jobs")
        if not self._sure:
            jobs.create_indexes(_INDEXES)
            self._sure = True
        return jobs
