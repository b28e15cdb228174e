"""Open jobs of bizs that are no more, in the documents of :mod:`..mongo.jobs`.

Beside what is said there ``lost_at`` is since when the biz has not been seen.
"""

from datetime import datetime

from pymongo import ASCENDING

from crawlfleet.adapters.mongo.connection import Document, MongoNodes, border
from crawlfleet.model.job import JobState

_OPEN = "open"


class MongoLostJobs:
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
