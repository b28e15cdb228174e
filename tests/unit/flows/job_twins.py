"""Jobs and kept spiders in dictionaries: as much of ports.jobs as starting a job needs."""

import threading
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from tests.kit.jobs import ENDED, Job, JobState
from tests.kit.spiders import KeptSpider, SpiderPlan


class DictJobs:
    """Of ports.JobStore what creates, finds, counts, cancels and ends jobs."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, str], Job] = {}
        self.created = 0
        self._lock = threading.Lock()

    def create(self, job: Job) -> Job:
        with self._lock:
            self.created += job.key not in self.kept
            return self.kept.setdefault(job.key, job)

    def create_in_turn(self, job: Job, most: int, *, instead: bool = False) -> Job | None:
        if job.key in self.kept:
            return self.kept[job.key]
        others = [one for one in self.open() if one.schedule == job.schedule]
        others = [one for one in others if one.key[:2] == job.key[:2]]
        if len(others) >= most:
            return None
        for one in others if instead else ():
            assert not (one.fire_at and job.fire_at and one.fire_at > job.fire_at)
            if one.state is not JobState.CANCELLING:
                self.cancel(*one.key, job.created_at)
        return self.create(job)

    def get(self, tenant: str, biz: str, name: str) -> Job | None:
        return self.kept.get((tenant, biz, name))

    def of_biz(
        self,
        tenant: str,
        biz: str,
        *,
        states: Any,
        spider: str | None,
        schedule: str | None,
        after: Any,
        limit: int,
    ) -> list[Job]:
        assert (spider, after) == (None, None)
        with self._lock:
            found = [
                job
                for key, job in self.kept.items()
                if key[:2] == (tenant, biz)
                and (not states or job.state in states)
                and schedule in (None, job.schedule)
            ]
        newest = sorted(found, key=lambda job: (job.created_at, job.name), reverse=True)
        return newest[:limit]

    def count_open(self, tenant: str, biz: str, schedule: str | None = None) -> int:
        states = [state for state in JobState if state not in ENDED]
        return len(
            self.of_biz(
                tenant,
                biz,
                states=states,
                spider=None,
                schedule=schedule,
                after=None,
                limit=10**9,
            )
        )

    def cancel(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        job = self.kept.get((tenant, biz, name))
        if job is not None and job.state not in ENDED:
            job = replace(job, state=JobState.CANCELLING, cancelled_at=now)
            self.kept[job.key] = job
        return job

    def finish(self, job: Job) -> None:
        """It has ended, as its ledger would say."""
        cancelled = self.kept[job.key].state is JobState.CANCELLING
        state = JobState.CANCELLED if cancelled else JobState.DONE
        self.kept[job.key] = replace(self.kept[job.key], state=state)

    def open(self) -> list[Job]:
        """Those that have not ended, in the order they came."""
        return [job for job in self.kept.values() if job.state not in ENDED]


class DictSpiders:
    """Of ports.SpiderStore what puts, finds and deletes; versions of the deleted stay."""

    def __init__(self) -> None:
        self.versions: dict[tuple[str, str, str], list[KeptSpider]] = {}
        self.deleted: set[tuple[str, str, str]] = set()

    def put(self, tenant: str, biz: str, name: str, plan: SpiderPlan, now: datetime) -> KeptSpider:
        kept = self.versions.setdefault((tenant, biz, name), [])
        spider = KeptSpider(
            tenant=tenant, biz=biz, name=name, version=len(kept) + 1, plan=plan, put_at=now
        )
        kept.append(spider)
        return spider

    def hold(self, spider: KeptSpider, now: datetime) -> None:
        """A job names it."""

    def get(
        self, tenant: str, biz: str, name: str, version: int | None = None
    ) -> KeptSpider | None:
        kept = self.versions.get((tenant, biz, name), [])
        if version is not None:
            return next((each for each in kept if each.version == version), None)
        return kept[-1] if kept and (tenant, biz, name) not in self.deleted else None

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        self.deleted.add((tenant, biz, name))
        return (tenant, biz, name) in self.versions
