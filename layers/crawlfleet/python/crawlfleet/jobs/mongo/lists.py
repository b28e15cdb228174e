"""The jobs of a biz, listed and counted (SPEC.md C2); part of :mod:`.jobs`.

The steps of jobs that wait for a worker (SPEC.md B4-B6); part of :mod:`.jobs`.
"""

from collections.abc import Sequence
from datetime import datetime

from pymongo import DESCENDING, ReturnDocument

from crawlfleet.jobs.models import LONGEST_REFUSAL, Job, JobState
from crawlfleet.jobs.mongo.documents import (
    BRIEF,
    OPEN,
    UNPLACED,
    WITHOUT_START,
    JobsCollection,
    job_of,
)
from crawlfleet.kernel.mongo.connection import Document, border
from crawlfleet.requests.mongo.documents import clean


class JobLists(JobsCollection):
    """What ports.JobStore says of the jobs of one biz."""

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
            cursor = self._jobs().find(match, BRIEF).sort(order).limit(limit)
            return [job_of(found) for found in cursor] if limit else []

    def count_open(self, tenant: str, biz: str, schedule: str | None = None) -> int:
        """See ports.JobStore.count_open."""
        match: Document = {"open": True, "tenant": tenant, "biz": biz}
        if schedule is not None:
            match["schedule"] = schedule
        with border():
            return self._jobs().count_documents(match, hint=OPEN)

    def open_versions(self, tenant: str, biz: str, spider: str) -> set[int]:
        """See ports.JobStore.open_versions."""
        match: Document = {"open": True, "tenant": tenant, "biz": biz, "spider": spider}
        with border():
            found = self._jobs().find(match, {"_id": False, "spider_version": True}, hint=OPEN)
            numbers = (job.get("spider_version") for job in found)
            return {int(number) for number in numbers if number is not None}


class JobPlacing(JobsCollection):
    """What ports.JobStore says of placing."""

    def place(
        self, job: Job, pool: str | None, worker: str | None, number: int | None, now: datetime
    ) -> Job | None:
        """See ports.JobStore.place."""
        key = {"_id": "/".join(job.key)}
        won: Document = {"placed_at": now, "due_at": now, "troubles": 0}
        for field, value in (("pool", pool), ("worker", worker), ("award", number)):
            if value is not None:
                won[field] = value
        change = {
            "$set": {**won, "state": JobState.EXPANDING.value, "placing": False, "making": True},
            "$unset": {"trouble": "", **({"pool": ""} if pool is None else {})},
        }
        with border():
            jobs = self._jobs()
            found = jobs.find_one_and_update(
                {**key, "placing": True},
                change,
                projection=WITHOUT_START,
                return_document=ReturnDocument.AFTER,
            )
            if found is None and worker is not None:
                mine = {**key, "worker": worker, "award": number}
                found = jobs.find_one(mine, WITHOUT_START)
        return None if found is None else job_of(found, job.start)

    def unplace(self, job: Job, why: str, now: datetime) -> bool:
        """See ports.JobStore.unplace."""
        change = {
            "$set": {
                "state": JobState.UNPLACED.value,
                "trouble": clean(why, LONGEST_REFUSAL),
                "troubles": 0,
                "ended_at": now,
                "open": False,
                "placing": False,
                "unplaced": True,
            },
            "$unset": {"due_at": ""},
        }
        with border():
            match = {"_id": "/".join(job.key), "placing": True}
            return bool(self._jobs().update_one(match, change).modified_count)

    def note_lowered(self, job: Job, lowered: int) -> None:
        """See ports.JobStore.note_lowered."""
        with border():
            match = {"_id": "/".join(job.key), "placing": True}
            self._jobs().update_one(match, {"$max": {"lowered": lowered}})

    def unplaced(self, since: datetime, limit: int) -> list[Job]:
        """See ports.JobStore.unplaced."""
        match = {"unplaced": True, "ended_at": {"$gte": since}}
        order = [("ended_at", DESCENDING), ("_id", DESCENDING)]
        with border():
            cursor = self._jobs().find(match, BRIEF).sort(order).limit(limit).hint(UNPLACED)
            return [job_of(found) for found in cursor] if limit else []
