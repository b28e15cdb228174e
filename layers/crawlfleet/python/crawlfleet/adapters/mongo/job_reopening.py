"""Jobs that had ended and go on, and their states, in the documents of :mod:`..mongo.jobs`."""

from collections.abc import Collection
from datetime import datetime

from crawlfleet.adapters.mongo.connection import MongoNodes, border
from crawlfleet.adapters.mongo.jobs import MongoJobs
from crawlfleet.model.job import RETRIABLE, Job, JobState
from crawlfleet.policy.cancelling import cancelled


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
