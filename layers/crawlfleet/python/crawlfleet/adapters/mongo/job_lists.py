"""The jobs of a biz, listed and counted (SPEC.md C2); part of :mod:`.jobs`."""

from collections.abc import Sequence
from datetime import datetime

from pymongo import DESCENDING

from crawlfleet.adapters.mongo.connection import Document, border
from crawlfleet.adapters.mongo.job_documents import BRIEF, job_of
from crawlfleet.adapters.mongo.jobs_collection import OPEN, JobsCollection
from crawlfleet.model.job import Job, JobState


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
