"""Map jobs to MongoDB documents and back, and index their collection.

A job is one document on the home node, its fields as jobs.models.Job names them, and beside them::

    _id       tenant/biz/name
    open      it has not ended
    making    it makes tasks, or has a batch open that is to be closed
    watched   its ledger is polled
    sweep_at  while it is being cancelled
    placing   it waits for a worker
    unplaced  it has ended, as none suits it
    lost_at   since when its biz is missing

Each of these but ``open`` and ``lost_at`` has a partial index of its own. ``batch`` is there while
one is open. A start may have 8 MB of URLs, so frequent queries leave it out: the server then sends
none of it, and a change writes none of it.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from itertools import chain, zip_longest
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

#: Projections: of changes, without the start; of lists, without its URLs and values.
WITHOUT_START: Final = {"start": False}
BRIEF: Final = {"start.urls": False, "start.values": False}


def plain(value: object) -> Any:
    """Convert a struct for BSON, without the fields that are None."""
    plain = msgspec.to_builtins(value, builtin_types=(datetime,))
    return {name: one for name, one in plain.items() if one is not None}


def document_of(job: Job) -> Document:
    """Make the document of a new job."""
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
    """Make the change of a job that is to be cancelled."""
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


def reopening(now: datetime) -> Document:
    """Make the change of an ended job that is to run again; without an end the TTL leaves it."""
    return {
        "$set": {
            "state": JobState.RUNNING.value,
            "open": True,
            "watched": True,
            "due_at": now,
            "counts": {},
        },
        "$unset": {"ended_at": "", "left": "", "cancelled_at": ""},
    }


def job_of(document: Document, start: Start | None = None) -> Job:
    """Read the job of a document; ``start`` stands in where its own was not read."""
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
    # Not validated again: a filled pattern may be longer than a URL that a client gives.
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


#: Names of partial indexes, of the jobs for which the field is true.
MAKING: Final = "making"
WATCHED: Final = "watched"
PLACING: Final = "placing"
WAITING: Final = "waiting"
SWEEPABLE: Final = "sweepable"
UNPLACED: Final = "unplaced"
OPEN: Final = "open"
_INDEXES: Final = [
    *(
        IndexModel(["tenant", *fields], name=name, partialFilterExpression=match)
        for name, fields, match in (
            (MAKING, ("due_at", "_id"), {"making": True}),
            (WATCHED, ("due_at", "_id", "state"), {"watched": True}),
            # Only jobs that are being cancelled have the field.
            (SWEEPABLE, ("sweep_at", "_id"), {"sweep_at": {"$exists": True}}),
            (PLACING, ("due_at", "_id"), {"placing": True}),
            (WAITING, ("created_at", "_id"), {"placing": True}),
            (OPEN, ("biz", "schedule"), {"open": True}),
        )
    ),
    IndexModel(
        [("ended_at", DESCENDING), ("_id", DESCENDING)],
        name=UNPLACED,
        partialFilterExpression={"unplaced": True},
    ),
    *(
        IndexModel(
            ["tenant", "biz", *fields, ("created_at", DESCENDING), ("name", DESCENDING)],
            name="_".join(("newest", *fields)),
        )
        for fields in ((), ("spider",), ("schedule",))
    ),
    # Jobs that have not ended lack the field, and stay.
    IndexModel(["ended_at"], name="ttl", expireAfterSeconds=int(JOB_LIFE.total_seconds())),
]


class JobsCollection:
    """The collection of jobs on the home node."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._is_indexed = False

    def _jobs(self) -> Collection[Document]:
        jobs = self._nodes.control("jobs")
        if not self._is_indexed:
            jobs.create_indexes(_INDEXES)
            self._is_indexed = True
        return jobs


def find_round_robin(
    collection: Collection[Document],
    match: Document,
    due: str,
    limit: int,
    index: str,
    projection: Mapping[str, bool] | None = None,
) -> list[Document]:
    """Find what is due of each tenant, tenants in turns, the one first that is due for longest.

    The first query reads nothing but ``index``, which begins with the tenant and then ``due``.
    """
    pipeline: list[Document] = [
        {"$match": {**match, "tenant": {"$gt": ""}}},
        {"$group": {"_id": "$tenant", "due": {"$min": f"${due}"}, "n": {"$sum": 1}}},
        {"$sort": {"due": 1, "_id": 1}},
        {"$limit": max(limit, 1)},
    ]
    counts = {one["_id"]: int(one["n"]) for one in collection.aggregate(pipeline, hint=index)}
    each = [
        list(
            collection.find({**match, "tenant": tenant}, projection)
            .sort([(due, ASCENDING), ("_id", ASCENDING)])
            .limit(share)
            .hint(index)
        )
        for tenant, share in _shares(counts, limit).items()
    ]
    turns = chain.from_iterable(zip_longest(*each))
    return [found for found in turns if found is not None]


def _shares(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    """Divide ``limit`` among names, one after another taking one of what it has."""
    taken: Counter[str] = Counter()
    while limit > 0:
        takers = [name for name, count in counts.items() if taken[name] < count][:limit]
        if not takers:
            break
        taken.update(takers)
        limit -= len(takers)
    return taken
