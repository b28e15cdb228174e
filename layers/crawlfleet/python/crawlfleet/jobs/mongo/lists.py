"""List jobs by biz and by what is due, and reopen or end those that stand apart (SPEC.md C2-C5)."""

import logging
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from pymongo import ASCENDING, DESCENDING

from crawlfleet.jobs.models import (
    LONGEST_REFUSAL,
    RETRIABLE,
    SUBMITTED,
    Job,
    JobState,
    cancelled,
)
from crawlfleet.jobs.mongo.documents import (
    BRIEF,
    MAKING,
    OPEN,
    PLACING,
    SWEEPABLE,
    UNPLACED,
    WAITING,
    WATCHED,
    JobsCollection,
    find_round_robin,
    job_of,
    reopening,
)
from crawlfleet.kernel.mongo.connection import Document, border

log = logging.getLogger(__name__)

#: A job that cannot be read is due again so much later.
_PUT_OFF: Final = timedelta(minutes=5)
_UNREADABLE: Final = (msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError)


class JobLists(JobsCollection):
    """Jobs, found by biz or by what is due. Times are kept to the millisecond.

    Lists leave out the URLs and the values of starts, of which one may have megabytes (a pattern
    they have). Those of what is due have tenants in turns, each one's longest due first, and with
    ``now`` only what is due by then. What another release has written unreadably is put off.
    """

    def get(self, tenant: str, biz: str, name: str) -> Job | None:
        """Get one job with all of its start, or None."""
        with border():
            found = self._jobs().find_one({"_id": f"{tenant}/{biz}/{name}"})
        return None if found is None else job_of(found)

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
        """List jobs of a biz, the newest first, beginning after one's ``(created_at, name)``.

        No ``states`` are all; None is no filter.
        """
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
            cursor = self._jobs().find(match, BRIEF).sort(order).limit(limit)
            return [job_of(found) for found in cursor] if limit else []

    def count_open(self, tenant: str, biz: str, schedule: str | None = None) -> int:
        """Count the jobs that have not ended, of a biz or of one of its schedules.

        Those of what was submitted under their names are none of the biz's: nobody started them.
        """
        match: Document = {"open": True, "tenant": tenant, "biz": biz}
        if schedule is not None:
            match["schedule"] = schedule
        else:
            match["by"] = {"$ne": SUBMITTED}
        with border():
            return self._jobs().count_documents(match, hint=OPEN)

    def running_schedules(self, tenant: str, biz: str) -> set[str]:
        """Return the schedules of a biz of which a job has not ended, from the index alone."""
        match: Document = {"open": True, "tenant": tenant, "biz": biz, "schedule": {"$gt": ""}}
        stages: list[Document] = [{"$match": match}, {"$group": {"_id": "$schedule"}}]
        with border():
            return {one["_id"] for one in self._jobs().aggregate(stages, hint=OPEN)}

    def open_versions(self, tenant: str, biz: str, spider: str) -> set[int]:
        """Return the versions of a kept spider that open jobs are of."""
        match: Document = {"open": True, "tenant": tenant, "biz": biz, "spider": spider}
        with border():
            found = self._jobs().find(match, {"_id": False, "spider_version": True}, hint=OPEN)
            numbers = (job.get("spider_version") for job in found)
            return {int(number) for number in numbers if number is not None}

    def states(self, tenant: str, biz: str, names: Collection[str]) -> dict[str, JobState]:
        """Return the states of those names that are jobs, by one look-up of primary keys."""
        match = {"_id": {"$in": [f"{tenant}/{biz}/{name}" for name in names]}}
        with border():
            found = self._jobs().find(match, projection=["name", "state"])
            return {one["name"]: JobState(one["state"]) for one in found}

    def cancelled(self, tenant: str, biz: str, names: Collection[str]) -> dict[str, bool]:
        """Return the jobs that are cancelled (True) or being cancelled; see jobs.models."""
        return cancelled(self.states(tenant, biz, names))

    def unplaced(self, since: datetime, limit: int) -> list[Job]:
        """List jobs of all tenants that ended since then as no worker suits them, newest first."""
        match = {"unplaced": True, "ended_at": {"$gte": since}}
        order = [("ended_at", DESCENDING), ("_id", DESCENDING)]
        with border():
            cursor = self._jobs().find(match, BRIEF).sort(order).limit(limit).hint(UNPLACED)
            return [job_of(found) for found in cursor] if limit else []

    def waiting(self, before: datetime, limit: int) -> list[Job]:
        """List jobs that wait for a worker and came by then, for people: nothing is put off."""
        came = {PLACING: True, "created_at": {"$lte": before}}
        return self._due(WAITING, limit, None, came, "created_at")

    def placing(self, limit: int, now: datetime | None = None) -> list[Job]:
        """List due jobs that wait for a worker."""
        return self._due(PLACING, limit, now, {PLACING: True})

    def expandable(self, limit: int, now: datetime | None = None) -> list[Job]:
        """List due jobs that make tasks, or are being cancelled with a batch to be closed."""
        return self._due(MAKING, limit, now, {MAKING: True})

    def watched(
        self,
        limit: int,
        now: datetime | None = None,
        states: Sequence[JobState] = (JobState.RUNNING, JobState.CANCELLING),
    ) -> list[Job]:
        """List due jobs that run or are being cancelled."""
        of_states = {"$in": [state.value for state in states]}
        return self._due(WATCHED, limit, now, {WATCHED: True, "state": of_states})

    def sweepable(self, limit: int, now: datetime | None = None) -> list[Job]:
        """List jobs that are being cancelled and are due by ``sweep_at``."""
        return self._due(SWEEPABLE, limit, now, {"sweep_at": {"$exists": True}}, "sweep_at")

    def _due(
        self, index: str, limit: int, now: datetime | None, match: Document, due: str = "due_at"
    ) -> list[Job]:
        if now is not None:
            match = {**match, due: {**match.get(due, {}), "$lte": now}}
        with border():
            found = find_round_robin(self._jobs(), match, due, limit, index, BRIEF)
        return self._readable(found, now, due)[:limit]

    def _readable(self, documents: list[Document], now: datetime | None, due: str) -> list[Job]:
        # An unreadable one would be the first of its tenant in each round, and so is put off.
        jobs: list[Job] = []
        unread: list[str] = []
        for document in documents:
            try:
                jobs.append(job_of(document))
            except _UNREADABLE as error:
                unread.append(document["_id"])
                why = {"id": document["_id"], "reason": str(error)[:LONGEST_REFUSAL]}
                log.warning("a job cannot be read", extra=why)
        if unread and now is not None:
            match = {"_id": {"$in": unread}, due: {"$lte": now}}
            with border():
                self._jobs().update_many(match, {"$set": {due: now + _PUT_OFF}})
        return jobs


class MongoJobReopening(JobLists):
    """Reopen jobs that are done, as their dead letters are retried (SPEC.md D4)."""

    def begin_retry(self, tenant: str, biz: str, name: str) -> Job | None:
        """Count a retry before it begins: whoever has read the job's ledger cannot end it then.

        Returns the job as it stands then, None if none; unchanged where it is not ``RETRIABLE``.
        """
        states = {"$in": [state.value for state in RETRIABLE]}
        match = {"_id": f"{tenant}/{biz}/{name}", "state": states}
        with border():
            self._jobs().update_one(match, {"$inc": {"retries": 1}})
        return self.get(tenant, biz, name)

    def reopen(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        """Have a job that is done run again; one in any other state stays as it is.

        It runs beside whatever else is open of its schedule, whose next jobs it is in the way of.
        Without an end the TTL does not remove it. Returns the job as it stands, None if none.
        """
        match = {"_id": f"{tenant}/{biz}/{name}", "state": JobState.DONE.value}
        with border():
            self._jobs().update_one(match, reopening(now))
        return self.get(tenant, biz, name)


class MongoOrphanedJobs(JobsCollection):
    """End the open jobs whose biz is missing (SPEC.md C5); ``lost_at`` is since when."""

    def bizs(self) -> list[tuple[str, str]]:
        """List tenant and biz of every open job, in order, read from an index."""
        stages: list[Document] = [
            {"$match": {"open": True, "tenant": {"$gt": ""}}},
            {"$group": {"_id": {"tenant": "$tenant", "biz": "$biz"}}},
        ]
        with border():
            found = self._jobs().aggregate(stages, hint=OPEN)
            return sorted((one["_id"]["tenant"], one["_id"]["biz"]) for one in found)

    def end(self, tenant: str, biz: str, now: datetime, before: datetime, limit: int) -> int:
        """Note since when their biz is missing, and end those orphaned ``before``; return how many.

        At most ``limit`` end as ``CANCELLED``, whatever state they are in by then. Their tasks
        cannot be counted: ``counts`` are what was refused.
        """
        orphaned: Document = {"open": True, "tenant": tenant, "biz": biz}
        over = {**orphaned, "lost_at": {"$lt": before}}
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
            jobs = self._jobs()
            new = {**orphaned, "lost_at": {"$exists": False}}
            jobs.update_many(new, {"$set": {"lost_at": now}}, hint=OPEN)
            found = jobs.find(over, projection=["_id"], hint=OPEN).limit(limit)
            keys = [one["_id"] for one in found.sort("_id", ASCENDING)]
            if not keys:
                return 0
            # A pipeline sets an object field by field: counts were none until now.
            ended = jobs.update_many({**over, "_id": {"$in": keys}}, change)
            return int(ended.modified_count)

    def clear(self, tenant: str, biz: str) -> None:
        """Note that their biz is there again."""
        orphaned = {"open": True, "tenant": tenant, "biz": biz, "lost_at": {"$exists": True}}
        with border():
            self._jobs().update_many(orphaned, {"$unset": {"lost_at": ""}}, hint=OPEN)
