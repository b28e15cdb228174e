"""Jobs that had ended and go on, and their states, in the documents of :mod:`..mongo.jobs`.

Open jobs of bizs that are no more, in the documents of :mod:`..mongo.jobs`.

Beside what is said there ``lost_at`` is since when the biz has not been seen.
"""

from collections.abc import Collection
from datetime import datetime

from pymongo import ASCENDING

from crawlfleet.jobs.cancellation import cancelled
from crawlfleet.jobs.models import RETRIABLE, Job, JobState
from crawlfleet.jobs.mongo.store import MongoJobs
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border


class MongoJobReopening:
    """ports.JobReopening."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._jobs = MongoJobs(nodes)

    def begin_retry(self, tenant: str, biz: str, name: str) -> Job | None:
        """See ports.JobReopening.begin_retry."""
        match = {
            "_id": f"{tenant}/{biz}/{name}",
            "state": {"$in": [state.value for state in RETRIABLE]},
        }
        with border():
            self._nodes.control("jobs").update_one(match, {"$inc": {"retries": 1}})
        return self._jobs.get(tenant, biz, name)

    def reopen(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        """See ports.JobReopening.reopen: without the time of its end nothing removes it either."""
        match = {"_id": f"{tenant}/{biz}/{name}", "state": JobState.DONE.value}
        change = {
            "$set": {
                "state": JobState.RUNNING.value,
                "open": True,
                "watched": True,
                "due_at": now,
                "counts": {},
            },
            "$unset": {"ended_at": "", "left": ""},
        }
        with border():
            self._nodes.control("jobs").update_one(match, change)
        return self._jobs.get(tenant, biz, name)


class MongoJobStates:
    """ports.JobStates."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes

    def states(self, tenant: str, biz: str, names: Collection[str]) -> dict[str, JobState]:
        """See ports.JobStates.states: one look-up by primary keys."""
        match = {"_id": {"$in": [f"{tenant}/{biz}/{name}" for name in names]}}
        with border():
            found = self._nodes.control("jobs").find(match, projection=["name", "state"])
            return {one["name"]: JobState(one["state"]) for one in found}

    def cancelled(self, tenant: str, biz: str, names: Collection[str]) -> dict[str, bool]:
        """See ports.CancelledJobs.cancelled."""
        return cancelled(self.states(tenant, biz, names))


_OPEN = "open"


class MongoOrphanedJobs:
    """ports.LostJobs."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes

    def bizs(self) -> list[tuple[str, str]]:
        """See ports.LostJobs.bizs: read from the index of what is open."""
        stages: list[Document] = [
            {"$match": {"open": True, "tenant": {"$gt": ""}}},
            {"$group": {"_id": {"tenant": "$tenant", "biz": "$biz"}}},
        ]
        with border():
            found = self._nodes.control("jobs").aggregate(stages, hint=_OPEN)
            return sorted((one["_id"]["tenant"], one["_id"]["biz"]) for one in found)

    def lose(self, tenant: str, biz: str, now: datetime, before: datetime, limit: int) -> int:
        """See ports.LostJobs.lose: each by an update of its own, wherever it stands by then."""
        lost: Document = {"open": True, "tenant": tenant, "biz": biz}
        over = {**lost, "lost_at": {"$lt": before}}
        change: list[Document] = [
            {
                "$set": {
                    "state": JobState.CANCELLED.value,
                    "counts": {"refused": "$refused"},
                    "ended_at": now,
                    "troubles": 0,
                    "open": False,
                    "making": False,
                    "watched": False,
                }
            },
            {"$unset": ["trouble", "due_at", "batch"]},
        ]
        with border():
            jobs = self._nodes.control("jobs")
            new = {**lost, "lost_at": {"$exists": False}}
            jobs.update_many(new, {"$set": {"lost_at": now}}, hint=_OPEN)
            found = jobs.find(over, projection=["_id"], hint=_OPEN).limit(limit)
            keys = [one["_id"] for one in found.sort("_id", ASCENDING)]
            if not keys:
                return 0
            # A pipeline sets an object field by field: counts were none until now.
            ended = jobs.update_many({**over, "_id": {"$in": keys}}, change)
            return int(ended.modified_count)

    def find(self, tenant: str, biz: str) -> None:
        """See ports.LostJobs.find."""
        lost = {"open": True, "tenant": tenant, "biz": biz, "lost_at": {"$exists": True}}
        with border():
            change = {"$unset": {"lost_at": ""}}
            self._nodes.control("jobs").update_many(lost, change, hint=_OPEN)
