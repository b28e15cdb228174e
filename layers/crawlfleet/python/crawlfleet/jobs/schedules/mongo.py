"""Schedules as MongoDB's documents, those of older versions too (SPEC.md B1).

Schedules, on the home node (SPEC.md B1).

A schedule is one document, which every change of it is conditional on. Its versions are documents
of their own: the newest one is written after the schedule, and once more by whoever changes that
next, so that a crash between the two leaves no gap.
"""

from contextlib import suppress
from datetime import datetime
from itertools import chain, zip_longest
from typing import Any, Final

import msgspec
from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.jobs.expansion import shares
from crawlfleet.jobs.schedules.models import (
    KEPT_VERSIONS,
    SCAN_GAP,
    USUAL_TOLERANCE_SECONDS,
    Missed,
    Outcome,
    OutcomeKind,
    Overlap,
    Schedule,
)
from crawlfleet.jobs.spiders.models import Start
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border


def key_of(tenant: str, biz: str, name: str) -> str:
    """The ``_id`` of a schedule."""
    return f"{tenant}/{biz}/{name}"


def content_document(schedule: Schedule) -> Document:
    """What a client said: the document of a version."""
    return {
        "tenant": schedule.tenant,
        "biz": schedule.biz,
        "name": schedule.name,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "rule": schedule.rule,
        "urls": list(schedule.urls),
        "start": None if schedule.start is None else msgspec.to_builtins(schedule.start),
        "spider": schedule.spider,
        "spider_version": schedule.spider_version,
        "values": dict(schedule.values),
        "priority": schedule.priority,
        "overlap": schedule.overlap.value,
        "missed": schedule.missed.value,
        "tolerance_seconds": schedule.tolerance_seconds,
        "jitter_seconds": schedule.jitter_seconds,
        "enabled": schedule.enabled,
        "version": schedule.version,
        "put_at": schedule.put_at,
    }


def progress_document(schedule: Schedule) -> Document:
    """How far it has come. ``fire`` says for which ``next_at`` its fire time holds.

    A scheduler of an older version moves ``next_at`` alone: that is the fire time then.
    """
    outcome = schedule.last_outcome
    return {
        "next_at": schedule.next_at,
        "fire": {"at": schedule.fire_at, "next_at": schedule.next_at},
        "last_fired_at": schedule.last_fired_at,
        "last_outcome": None
        if outcome is None
        else {
            "kind": outcome.kind.value,
            "fire_at": outcome.fire_at,
            "at": outcome.at,
            "job": outcome.job,
            "why": outcome.why,
        },
    }


def as_read(read: Schedule) -> Document:
    """What matches a schedule that stands at the version and the fire time that were read."""
    return {
        "_id": key_of(*read.key),
        "version": {"$in": [1, None]} if read.version == 1 else read.version,
        "$or": [
            {"fire.at": read.fire_at, "$expr": {"$eq": ["$fire.next_at", "$next_at"]}},
            {"next_at": read.fire_at, "$expr": {"$ne": ["$fire.next_at", "$next_at"]}},
        ],
    }


def schedule_of(document: dict[str, Any]) -> Schedule:
    """The schedule of a document, or of a version's."""
    next_at, fire = document.get("next_at"), document.get("fire") or {}
    start, outcome = document.get("start"), document.get("last_outcome")
    return Schedule(
        tenant=document["tenant"],
        biz=document["biz"],
        name=document["name"],
        cron=document["cron"],
        time_zone=document["time_zone"],
        rule=document["rule"],
        urls=tuple(document["urls"]),
        start=None if start is None else msgspec.convert(start, Start),
        spider=document.get("spider"),
        spider_version=document.get("spider_version"),
        values=document.get("values") or {},
        priority=document.get("priority"),
        overlap=Overlap(document.get("overlap", Overlap.ALLOW)),
        missed=Missed(document["missed"]),
        tolerance_seconds=document.get("tolerance_seconds", USUAL_TOLERANCE_SECONDS),
        jitter_seconds=document.get("jitter_seconds", 0),
        enabled=document["enabled"],
        version=document.get("version", 1),
        put_at=document.get("put_at"),
        fire_at=fire["at"] if fire and fire["next_at"] == next_at else next_at,
        next_at=next_at,
        last_fired_at=document.get("last_fired_at"),
        last_outcome=None if outcome is None else _outcome(outcome),
    )


def _outcome(document: dict[str, Any]) -> Outcome:
    return Outcome(
        kind=OutcomeKind(document["kind"]),
        fire_at=document["fire_at"],
        at=document["at"],
        job=document["job"],
        why=document["why"],
    )


#: The index by which tenants have their turns.
_TURNS: Final = "due_in_turns"
#: The one document of what ticks have come to.
_LOOK: Final = "due"


class MongoSchedules:
    """ports.ScheduleStore."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._sure = False

    def put(self, schedule: Schedule, over: Schedule | None) -> bool:
        """See ports.ScheduleStore.put."""
        document = {**content_document(schedule), **progress_document(schedule)}
        with border():
            if over is None:
                try:
                    self._schedules().insert_one({"_id": key_of(*schedule.key), **document})
                except DuplicateKeyError:
                    return False
                # What a deletion that did not come to its end has left is none of this one.
                self._versions().delete_many(_versions_of(*schedule.key))
            else:
                self._keep_version(over)
                found = self._schedules().replace_one(as_read(over), document)
                if not found.matched_count:
                    return False
            self._keep_version(schedule)
            old = {"version": {"$lte": schedule.version - KEPT_VERSIONS}}
            self._versions().delete_many({**_versions_of(*schedule.key), **old})
        return True

    def get(self, tenant: str, biz: str, name: str) -> Schedule | None:
        """See ports.ScheduleStore.get."""
        with border():
            found = self._schedules().find_one({"_id": key_of(tenant, biz, name)})
        return schedule_of(found) if found else None

    def of_biz(self, tenant: str, biz: str) -> list[Schedule]:
        """See ports.ScheduleStore.of_biz."""
        with border():
            cursor = self._schedules().find({"tenant": tenant, "biz": biz}).sort("name", ASCENDING)
            return [schedule_of(found) for found in cursor]

    def count(self, tenant: str, biz: str) -> int:
        """See ports.ScheduleStore.count."""
        with border():
            return self._schedules().count_documents({"tenant": tenant, "biz": biz})

    def versions(self, tenant: str, biz: str, name: str, limit: int) -> list[Schedule]:
        """See ports.ScheduleStore.versions."""
        standing = self.get(tenant, biz, name)
        if standing is None:
            return []
        with border():
            older = {**_versions_of(tenant, biz, name), "version": {"$lt": standing.version}}
            cursor = self._versions().find(older).sort("version", DESCENDING).limit(limit)
            listed = [schedule_of(found) for found in cursor]
        return [schedule_of(content_document(standing)), *listed][:limit]

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        """See ports.ScheduleStore.delete."""
        with border():
            gone = self._schedules().delete_one({"_id": key_of(tenant, biz, name)})
            self._versions().delete_many(_versions_of(tenant, biz, name))
        return bool(gone.deleted_count)

    def due(self, now: datetime, limit: int) -> list[Schedule]:
        """See ports.ScheduleStore.due."""
        with border():
            schedules = self._schedules()
            match: Document = {"enabled": True, "next_at": {"$lte": now}}
            # Nothing is read here but the index.
            pipeline: list[Document] = [
                {"$match": {**match, "tenant": {"$gt": ""}}},
                {"$group": {"_id": "$tenant", "due": {"$min": "$next_at"}, "n": {"$sum": 1}}},
                {"$sort": {"due": 1, "_id": 1}},
                {"$limit": max(limit, 1)},
            ]
            tenants = {
                found["_id"]: int(found["n"])
                for found in schedules.aggregate(pipeline, hint=_TURNS)
            }
            each = [
                list(
                    schedules.find({**match, "tenant": tenant})
                    .sort([("next_at", ASCENDING), ("_id", ASCENDING)])
                    .limit(share)
                    .hint(_TURNS)
                )
                for tenant, share in shares(tenants, limit).items()
            ]
        turns = chain.from_iterable(zip_longest(*each))
        return [schedule_of(found) for found in turns if found is not None]

    def begin_scan(self, now: datetime) -> datetime:
        """See ports.ScheduleStore.begin_look."""
        goes_on = {"$gte": ["$at", now - SCAN_GAP]}
        change: list[Document] = [
            {
                "$set": {
                    "since": {"$cond": [goes_on, {"$ifNull": ["$since", now]}, now]},
                    "at": {"$max": ["$at", now]},
                }
            }
        ]
        with border():
            found = self._nodes.control("schedule_looks").find_one_and_update(
                {"_id": _LOOK}, change, upsert=True, return_document=ReturnDocument.AFTER
            )
        since: datetime = found["since"] if found else now
        return min(since, now)

    def end_scan(self) -> None:
        """See ports.ScheduleStore.end_look."""
        with border():
            looks = self._nodes.control("schedule_looks")
            looks.update_one({"_id": _LOOK}, {"$set": {"since": None}})

    def advance(self, read: Schedule, to: Schedule) -> bool:
        """See ports.ScheduleStore.advance."""
        match = {**as_read(read), "next_at": read.next_at}
        with border():
            result = self._schedules().update_one(match, {"$set": progress_document(to)})
        return bool(result.matched_count)

    def _keep_version(self, schedule: Schedule) -> None:
        # Two that write a version at once write the same.
        with suppress(DuplicateKeyError):
            self._versions().replace_one(
                {"_id": f"{key_of(*schedule.key)}@{schedule.version}"},
                content_document(schedule),
                upsert=True,
            )

    def _schedules(self) -> Collection[Document]:
        self._make_sure()
        return self._nodes.control("schedules")

    def _versions(self) -> Collection[Document]:
        self._make_sure()
        return self._nodes.control("schedule_versions")

    def _make_sure(self) -> None:
        if self._sure:
            return
        of_biz = [("tenant", ASCENDING), ("biz", ASCENDING), ("name", ASCENDING)]
        self._nodes.control("schedules").create_indexes(
            [
                # A scheduler of an older version goes by this one.
                IndexModel([("enabled", ASCENDING), ("next_at", ASCENDING)], name="due"),
                IndexModel(
                    [
                        ("enabled", ASCENDING),
                        ("tenant", ASCENDING),
                        ("next_at", ASCENDING),
                        ("_id", ASCENDING),
                    ],
                    name=_TURNS,
                ),
                IndexModel(of_biz),
            ]
        )
        self._nodes.control("schedule_versions").create_index(
            [*of_biz, ("version", DESCENDING)], name="versions"
        )
        self._sure = True


def _versions_of(tenant: str, biz: str, name: str) -> Document:
    return {"tenant": tenant, "biz": biz, "name": name}
