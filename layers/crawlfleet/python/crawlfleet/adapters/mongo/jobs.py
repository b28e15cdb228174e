"""Jobs, on the home node (SPEC.md C2, C3).

A job is one document, its fields as model.job.Job names them, and beside them::

    _id       tenant/biz/name
    open      it has not ended
    making    it makes tasks, or has a batch open that is to be closed
    watched   its ledger is looked at

``batch`` is there while one is open. A start may have 8 MB of URLs, so whatever is asked often
leaves it out: the server then sends none of it, and a change writes none of it.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import chain, zip_longest
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.adapters.mongo.connection import Document, MongoNodes, border
from crawlfleet.adapters.mongo.documents import clean, read_id
from crawlfleet.model.job import (
    ENDED,
    EXPANDABLE,
    LONGEST_REFUSAL,
    MOST_REFUSALS,
    WATCHED,
    Job,
    JobState,
    TaskBatch,
)
from crawlfleet.model.ledger import JOB_LIFE
from crawlfleet.model.start import Range, Start
from crawlfleet.policy.job_turns import shares

_MAKING: Final = "making"
_WATCHED: Final = "watched"
_INDEXES: Final = [
    IndexModel(
        [("tenant", ASCENDING), ("due_at", ASCENDING), ("_id", ASCENDING)],
        name=_MAKING,
        partialFilterExpression={"making": True},
    ),
    IndexModel(
        [
            ("tenant", ASCENDING),
            ("due_at", ASCENDING),
            ("_id", ASCENDING),
            ("state", ASCENDING),
        ],
        name=_WATCHED,
        partialFilterExpression={"watched": True},
    ),
    IndexModel(
        [("tenant", ASCENDING), ("biz", ASCENDING), ("schedule", ASCENDING)],
        name="open",
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
#: What lists and changes do not read.
_WITHOUT_START: Final = {"start": False}
_BRIEF: Final = {"start.urls": False, "start.values": False}
_OPEN_STATES: Final = [state.value for state in JobState if state not in ENDED]


class MongoJobs:
    """ports.JobStore."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._sure = False

    def create(self, job: Job) -> Job:
        """See ports.JobStore.create."""
        fresh = job.as_created()
        document = _document(fresh)
        with border():
            jobs = self._jobs()
            while True:
                try:
                    jobs.insert_one(document)
                except DuplicateKeyError:
                    found = jobs.find_one({"_id": document["_id"]})
                    if found is not None:  # otherwise its time came just now
                        return _job(found)
                else:
                    return fresh

    def get(self, tenant: str, biz: str, name: str) -> Job | None:
        """See ports.JobStore.get."""
        with border():
            found = self._jobs().find_one({"_id": f"{tenant}/{biz}/{name}"})
        return None if found is None else _job(found)

    def of_biz(
        self,
        tenant: str,
        biz: str,
        *,
        states: Sequence[JobState],
        spider: str | None,
        schedule: str | None,
        after: tuple[datetime, str] | None,
        limit: int,
    ) -> list[Job]:
        """See ports.JobStore.of_biz."""
        match: Document = {"tenant": tenant, "biz": biz}
        if states:
            match["state"] = {"$in": [state.value for state in states]}
        if spider is not None:
            match["spider"] = spider
        if schedule is not None:
            match["schedule"] = schedule
        if after is not None:
            created_at, name = after
            match["$or"] = [
                {"created_at": {"$lt": created_at}},
                {"created_at": created_at, "name": {"$lt": name}},
            ]
        order = [("created_at", DESCENDING), ("name", DESCENDING)]
        with border():
            cursor = self._jobs().find(match, _BRIEF).sort(order).limit(limit)
            return [_job(found) for found in cursor] if limit else []

    def count_open(self, tenant: str, biz: str, schedule: str | None = None) -> int:
        """See ports.JobStore.count_open."""
        match: Document = {"open": True, "tenant": tenant, "biz": biz}
        if schedule is not None:
            match["schedule"] = schedule
        with border():
            return self._jobs().count_documents(match, hint="open")

    def expandable(self, limit: int, now: datetime | None = None) -> list[Job]:
        """See ports.JobStore.expandable."""
        return self._in_turns(_MAKING, limit, now)

    def watched(
        self,
        limit: int,
        now: datetime | None = None,
        states: Sequence[JobState] = (JobState.RUNNING, JobState.CANCELLING),
    ) -> list[Job]:
        """See ports.JobStore.watched."""
        return self._in_turns(_WATCHED, limit, now, states)

    def _in_turns(
        self, field: str, limit: int, now: datetime | None, states: Sequence[JobState] | None = None
    ) -> list[Job]:
        """Some of each tenant that has any, the one first whose has been due for longest.

        The first look reads nothing but the index, which has only what is to be done.
        """
        match: Document = {field: True}
        if states is not None:
            match["state"] = {"$in": [state.value for state in states]}
        if now is not None:
            match["due_at"] = {"$lte": now}
        with border():
            jobs = self._jobs()
            pipeline: list[Document] = [
                {"$match": {**match, "tenant": {"$gt": ""}}},
                {"$group": {"_id": "$tenant", "due": {"$min": "$due_at"}, "n": {"$sum": 1}}},
                {"$sort": {"due": 1, "_id": 1}},
                {"$limit": max(limit, 1)},
            ]
            tenants = {
                found["_id"]: int(found["n"]) for found in jobs.aggregate(pipeline, hint=field)
            }
            each = [
                list(
                    jobs.find({**match, "tenant": tenant}, _BRIEF)
                    .sort([("due_at", ASCENDING), ("_id", ASCENDING)])
                    .limit(share)
                    .hint(field)
                )
                for tenant, share in shares(tenants, limit).items()
            ]
        turns = chain.from_iterable(zip_longest(*each))
        return [_job(found) for found in turns if found is not None][:limit]

    def open_batch(self, job: Job, batch: TaskBatch) -> Job | None:
        """See ports.JobStore.open_batch."""
        match = {
            "state": JobState.EXPANDING.value,
            "expanded": batch.first,
            "batch": {"$exists": False},
        }
        change = {"$set": {"batch": _plain(batch)}}
        return self._changed(job, match, change)

    def close_batch(
        self,
        job: Job,
        batch: TaskBatch,
        now: datetime,
        refused: int = 0,
        reasons: Sequence[str] = (),
    ) -> Job | None:
        """See ports.JobStore.close_batch."""
        expanded = batch.first + len(batch.ids)
        told = [clean(reason, LONGEST_REFUSAL) for reason in reasons[:MOST_REFUSALS]]
        is_over: Document = {
            "$and": [
                {"$eq": ["$state", JobState.EXPANDING.value]},
                {"$lte": ["$size", expanded]},
            ]
        }
        still_makes: Document = {
            "$and": [
                {"$eq": ["$state", JobState.EXPANDING.value]},
                {"$gt": ["$size", expanded]},
            ]
        }
        # All of these are worked out of what stood before.
        change: list[Document] = [
            {
                "$set": {
                    "expanded": expanded,
                    "refused": {"$add": ["$refused", refused]},
                    "refusals": {
                        "$slice": [
                            {"$concatArrays": ["$refusals", {"$literal": told}]},
                            MOST_REFUSALS,
                        ]
                    },
                    "state": {"$cond": [is_over, JobState.RUNNING.value, "$state"]},
                    "expanded_at": {"$cond": [is_over, now, "$$REMOVE"]},
                    "making": still_makes,
                    "watched": {"$or": [is_over, "$watched"]},
                }
            },
            {"$unset": "batch"},
        ]
        return self._changed(job, {"batch.first": batch.first}, change)

    def cancel(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        """See ports.JobStore.cancel."""
        cancelling = JobState.CANCELLING.value
        match: Document = {
            "_id": f"{tenant}/{biz}/{name}",
            "state": {"$in": [state for state in _OPEN_STATES if state != cancelling]},
        }
        change: list[Document] = [
            {
                "$set": {
                    "state": cancelling,
                    "cancelled_at": now,
                    "due_at": now,
                    "making": {"$ne": [{"$type": "$batch"}, "missing"]},
                    "watched": True,
                }
            }
        ]
        with border():
            self._jobs().update_one(match, change)
        return self.get(tenant, biz, name)

    def look(
        self,
        job: Job,
        now: datetime,
        trouble: str | None = None,
        again_at: datetime | None = None,
        left: int | None = None,
    ) -> None:
        """See ports.JobStore.look."""
        seen: Document = {"looked_at": now, "due_at": again_at or now, "left": left}
        if trouble is None:
            change: Document = {"$set": {**seen, "troubles": 0}, "$unset": {"trouble": ""}}
        else:
            seen["trouble"] = clean(trouble, LONGEST_REFUSAL)
            change = {"$set": seen, "$inc": {"troubles": 1}}
        with border():
            self._jobs().update_one({"_id": "/".join(job.key), "open": True}, change)

    def end(self, job: Job, state: JobState, counts: dict[str, int], now: datetime) -> bool:
        """See ports.JobStore.end."""
        match = {
            "_id": "/".join(job.key),
            "open": True,
            "state": job.state.value,
            "batch": {"$exists": False},
            "retries": job.retries,
        }
        change = {
            "$set": {
                "state": state.value,
                "counts": counts,
                "ended_at": now,
                "troubles": 0,
                "open": False,
                "making": False,
                "watched": False,
            },
            "$unset": {"trouble": "", "due_at": ""},
        }
        with border():
            return bool(self._jobs().update_one(match, change).modified_count)

    def _changed(self, job: Job, match: Document, change: Any) -> Job | None:
        """The job as it stands after the change, or where ``match`` keeps from it without."""
        key = {"_id": "/".join(job.key)}
        with border():
            jobs = self._jobs()
            found = jobs.find_one_and_update(
                {**key, **match},
                change,
                projection=_WITHOUT_START,
                return_document=ReturnDocument.AFTER,
            ) or jobs.find_one(key, _WITHOUT_START)
        return None if found is None else _job(found, job.start)

    def _jobs(self) -> Collection[Document]:
        jobs = self._nodes.control("jobs")
        if not self._sure:
            jobs.create_indexes(_INDEXES)
            self._sure = True
        return jobs


def _plain(value: object) -> Any:
    """A struct as BSON takes it: what is None is left out."""
    plain = msgspec.to_builtins(value, builtin_types=(datetime,))
    return {name: one for name, one in plain.items() if one is not None}


def _document(job: Job) -> Document:
    # All of a pattern's names are plain ones, so they may be names of fields.
    return {
        **_plain(job),
        "_id": "/".join(job.key),
        "open": job.state not in ENDED,
        "making": job.state in EXPANDABLE
        or (job.state is JobState.CANCELLING and job.batch is not None),
        "watched": job.state in WATCHED,
    }


def _job(document: Document, start: Start | None = None) -> Job:
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
