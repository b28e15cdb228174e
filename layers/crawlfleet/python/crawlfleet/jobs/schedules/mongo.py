"""Keep schedules on the home node of MongoDB (SPEC.md B1).

A schedule is one document, and every change is conditional on what was read of it. Its versions are
documents of their own: the newest is written after the schedule, and again before the next change,
so that a crash between the two leaves no gap. Documents of older releases are read, too.
"""

from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec
from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.crawling.frontier.models import SegmentChoice
from crawlfleet.jobs.mongo.documents import find_round_robin
from crawlfleet.jobs.schedules.models import KEPT_VERSIONS, SCAN_GAP, Schedule
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border


def key_of(tenant: str, biz: str, name: str) -> str:
    """Make the ``_id`` of a schedule."""
    return f"{tenant}/{biz}/{name}"


def content_document(schedule: Schedule) -> Document:
    """Make the document of a version: what a client has set."""
    document: Document = msgspec.to_builtins(schedule, builtin_types=(datetime,))
    return {name: value for name, value in document.items() if name not in _PROGRESS}


def progress_document(schedule: Schedule) -> Document:
    """Make the fields that a scheduler keeps. ``fire`` says for which ``next_at`` it holds.

    A scheduler of an older release moves ``next_at`` alone: that is the fire time then.
    ``failing`` is kept for its index alone.
    """
    return {
        "next_at": schedule.next_at,
        "fire": {"at": schedule.fire_at, "next_at": schedule.next_at},
        "last_fired_at": schedule.last_fired_at,
        "last_outcome": msgspec.to_builtins(schedule.last_outcome, builtin_types=(datetime,)),
        "last_failure": msgspec.to_builtins(schedule.last_failure, builtin_types=(datetime,)),
        "failing": schedule.is_failing,
    }


def as_read(read: Schedule) -> Document:
    """Match a schedule that stands at the version and the fire time that were read."""
    return {
        "_id": key_of(*read.key),
        "version": {"$in": [1, None]} if read.version == 1 else read.version,
        "$or": [
            {"fire.at": read.fire_at, "$expr": {"$eq": ["$fire.next_at", "$next_at"]}},
            {"next_at": read.fire_at, "$expr": {"$ne": ["$fire.next_at", "$next_at"]}},
        ],
    }


def schedule_of(document: Document) -> Schedule:
    """Read the schedule of a document, or of a version's; what is missing has its default."""
    next_at, fire = document.get("next_at"), document.get("fire") or {}
    found = {name: value for name, value in document.items() if value is not None}
    if (fire_at := fire["at"] if fire and fire["next_at"] == next_at else next_at) is not None:
        found["fire_at"] = fire_at
    # Before there was a choice links were known in the segment of the biz.
    if "segment" not in document:
        found["segment"] = SegmentChoice.BIZ
    return msgspec.convert(found, Schedule, builtin_types=(datetime,))


#: What a scheduler keeps of a schedule, and no client has set.
_PROGRESS: Final = frozenset(
    {"fire_at", "next_at", "last_fired_at", "last_outcome", "last_failure"}
)
#: The index of all tenants, and the one that begins with the tenant.
_DUE: Final = "due"
_TURNS: Final = "due_in_turns"
#: The index of those whose last fire has failed, and what nobody needs to know of them.
_FAILING: Final = "failing"
_UNREAD: Final = {"urls": False, "start": False, "values": False}
#: The one document of ``schedule_looks``: since when no scan has come to its end.
_SCAN: Final = "due"


class MongoSchedules:
    """Schedules of all tenants, and the last versions of what clients set of them."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._is_indexed = False

    def put(self, schedule: Schedule, over: Schedule | None) -> bool:
        """Keep a schedule over ``over``, or where none stands; False where anything else does.

        What stands is known by its version and its fire time. The ``KEPT_VERSIONS`` last versions
        are kept beside it.
        """
        document = {**content_document(schedule), **progress_document(schedule)}
        with border():
            if over is None:
                try:
                    self._schedules().insert_one({"_id": key_of(*schedule.key), **document})
                except DuplicateKeyError:
                    return False
                # Versions that an interrupted deletion has left are none of this one.
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
        """Get one schedule, or None."""
        with border():
            found = self._schedules().find_one({"_id": key_of(tenant, biz, name)})
        return schedule_of(found) if found else None

    def of_biz(self, tenant: str, biz: str) -> list[Schedule]:
        """List every schedule of a biz, by name."""
        with border():
            cursor = self._schedules().find({"tenant": tenant, "biz": biz}).sort("name", ASCENDING)
            return [schedule_of(found) for found in cursor]

    def count(self, tenant: str, biz: str) -> int:
        """Count the schedules of a biz."""
        with border():
            return self._schedules().count_documents({"tenant": tenant, "biz": biz})

    def versions(self, tenant: str, biz: str, name: str, limit: int) -> list[Schedule]:
        """List versions of a schedule that stands, the newest first, as they were put."""
        standing = self.get(tenant, biz, name)
        if standing is None:
            return []
        with border():
            older = {**_versions_of(tenant, biz, name), "version": {"$lt": standing.version}}
            cursor = self._versions().find(older).sort("version", DESCENDING).limit(limit)
            listed = [schedule_of(found) for found in cursor]
        return [schedule_of(content_document(standing)), *listed][:limit]

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        """Remove a schedule with its versions; True if there was one."""
        with border():
            gone = self._schedules().delete_one({"_id": key_of(tenant, biz, name)})
            self._versions().delete_many(_versions_of(tenant, biz, name))
        return bool(gone.deleted_count)

    def due(self, now: datetime, limit: int) -> list[Schedule]:
        """List enabled schedules whose ``next_at`` has come, tenants in turns, oldest first.

        The tenant comes first whose schedule has been due for longest.
        """
        with border():
            schedules = self._schedules()
            match: Document = {"enabled": True, "next_at": {"$lte": now}}
            found = find_round_robin(schedules, match, "next_at", limit, _TURNS)
        return [schedule_of(one) for one in found]

    def failing(self, limit: int) -> list[Schedule]:
        """List schedules whose last fire has failed, without what they crawl; tenants in turns."""
        match: Document = {"failing": True}
        with border():
            schedules = self._schedules()
            found = find_round_robin(schedules, match, "next_at", limit, _FAILING, _UNREAD)
        return [schedule_of(one) for one in found]

    def next_due(self, after: datetime, until: datetime) -> datetime | None:
        """Return when the first schedule comes due after a moment, None where none does in time."""
        match: Document = {"enabled": True, "next_at": {"$gt": after, "$lte": until}}
        order = [("next_at", ASCENDING)]
        with border():
            found = self._schedules().find_one(match, ["next_at"], sort=order, hint=_DUE)
        return None if found is None else found["next_at"]

    def begin_scan(self, now: datetime) -> datetime:
        """Begin a tick's scan of what is due; return since when no scan has come to its end.

        That is ``now`` where the last one has, or where for ``SCAN_GAP`` there was none.
        """
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
                {"_id": _SCAN}, change, upsert=True, return_document=ReturnDocument.AFTER
            )
        since: datetime = found["since"] if found else now
        return min(since, now)

    def end_scan(self) -> None:
        """Note that the scan has come to its end."""
        with border():
            scans = self._nodes.control("schedule_looks")
            scans.update_one({"_id": _SCAN}, {"$set": {"since": None}})

    def advance(self, read: Schedule, to: Schedule) -> bool:
        """Go on from what was read: to another fire time, a later ``next_at``, another outcome.

        False where somebody has gone on from there, or put the schedule anew, meanwhile.
        """
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
        self._ensure_indexes()
        return self._nodes.control("schedules")

    def _versions(self) -> Collection[Document]:
        self._ensure_indexes()
        return self._nodes.control("schedule_versions")

    def _ensure_indexes(self) -> None:
        if self._is_indexed:
            return
        of_biz = ["tenant", "biz", "name"]
        self._nodes.control("schedules").create_indexes(
            [
                IndexModel(["enabled", "next_at"], name=_DUE),
                IndexModel(["enabled", "tenant", "next_at", "_id"], name=_TURNS),
                IndexModel(
                    ["failing", "tenant", "next_at", "_id"],
                    name=_FAILING,
                    partialFilterExpression={"failing": True},
                ),
                IndexModel(of_biz),
            ]
        )
        self._nodes.control("schedule_versions").create_index(
            [*of_biz, ("version", DESCENDING)], name="versions"
        )
        self._is_indexed = True


def _versions_of(tenant: str, biz: str, name: str) -> Document:
    return {"tenant": tenant, "biz": biz, "name": name}
