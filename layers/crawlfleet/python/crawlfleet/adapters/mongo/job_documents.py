"""Jobs as documents, and back; see :mod:`.jobs`."""

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from crawlfleet.adapters.mongo.connection import Document
from crawlfleet.adapters.mongo.documents import read_id
from crawlfleet.model.job import (
    ENDED,
    EXPANDABLE,
    PLACEABLE,
    WATCHED,
    Job,
    JobState,
    TaskBatch,
)
from crawlfleet.model.start import Range, Start

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
        "watched": job.state in WATCHED,
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
