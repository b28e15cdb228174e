"""The steps of jobs that wait for a worker (SPEC.md B4-B6); part of :mod:`.jobs`."""

from datetime import datetime

from pymongo import DESCENDING, ReturnDocument

from crawlfleet.adapters.mongo.connection import Document, border
from crawlfleet.adapters.mongo.documents import clean
from crawlfleet.adapters.mongo.job_documents import BRIEF, WITHOUT_START, job_of
from crawlfleet.adapters.mongo.jobs_collection import UNPLACED, JobsCollection
from crawlfleet.model.job import LONGEST_REFUSAL, Job, JobState


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
