"""In-memory fakes keep cancellations and usage of jobs, and end orphaned jobs."""

import threading
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import TypeAlias

from msgspec.structs import replace

from tests.fakes.jobs import MemoryJobs
from tests.kit.jobs import (
    ANNOUNCED_SECONDS,
    ENDED,
    MOST_ANNOUNCED,
    RUN_LIFE,
    Announced,
    Job,
    JobDemand,
    JobKey,
    JobState,
    RunFigures,
    RunPart,
    RunRecord,
    together,
)
from tests.kit.kernel import Clock, from_ms, to_ms

_Key: TypeAlias = tuple[str, str, str]


class MemoryDemands:
    """In-memory ``MongoDemands``."""

    def __init__(self) -> None:
        self._parts: dict[_Key, dict[str, tuple[RunFigures, datetime]]] = {}
        self._runs: dict[_Key, RunRecord] = {}
        self._demands: dict[_Key, JobDemand] = {}
        self._lock = threading.Lock()

    def add_run(self, parts: Sequence[RunPart], now: datetime) -> None:
        with self._lock:
            self._forget(now)
            for one in parts:
                said = self._parts.setdefault((one.tenant, one.biz, one.job), {})
                said[one.part] = one.figures, now

    def measured(self, tenant: str, biz: str, job: str) -> RunFigures:
        with self._lock:
            said = self._parts.get((tenant, biz, job), {})
            return together(figures for figures, _ in said.values())

    def end_run(self, run: RunRecord) -> None:
        key = run.tenant, run.biz, run.job
        with self._lock:
            standing = self._runs.get(key)
            if standing is None:
                self._runs[key] = run
            elif not standing.closed or standing.retries < run.retries:
                kept = {"figures": standing.figures, "learnt_at": standing.learnt_at}
                self._runs[key] = replace(run, **kept, closed=False)

    def forget_end(self, run: RunRecord) -> None:
        key = run.tenant, run.biz, run.job
        with self._lock:
            standing = self._runs.get(key)
            if standing is None or standing.closed or standing.ended_at != run.ended_at:
                return
            if run.was_closed:
                self._runs[key] = replace(standing, closed=True, retries=run.retries - 1)
            else:
                del self._runs[key]

    def tenants_to_learn(self, before: datetime) -> list[str]:
        with self._lock:
            return sorted({run.tenant for run in self._open(before)})

    def to_learn(self, tenant: str, before: datetime, limit: int) -> list[RunRecord]:
        with self._lock:
            found = [run for run in self._open(before) if run.tenant == tenant]
        return sorted(found, key=lambda run: str(run.ended_at))[:limit]

    def close_run(self, run: RunRecord, known: JobDemand, learnt: JobDemand | None) -> bool:
        key = run.tenant, run.biz, run.job
        of_spider = known.tenant, known.biz, known.spider
        with self._lock:
            standing, demand = self._runs.get(key), self._demands.get(of_spider)
            if standing is None or standing.closed or standing.ended_at != run.ended_at:
                return False
            if learnt is not None:
                if (0 if demand is None else demand.runs) != known.runs:
                    return False
                self._demands[of_spider] = learnt
            self._runs[key] = replace(run, closed=True)
            self._parts.pop(key, None)
            return True

    def get(self, tenant: str, biz: str, spider: str) -> JobDemand | None:
        with self._lock:
            return self._demands.get((tenant, biz, spider))

    def of_biz(self, tenant: str, biz: str, after: str | None, limit: int) -> list[JobDemand]:
        with self._lock:
            found = sorted(self._demands.items())
        return [
            demand
            for key, demand in found
            if key[:2] == (tenant, biz) and (after is None or key[2] > after)
        ][:limit]

    def run(self, tenant: str, biz: str, job: str) -> RunRecord | None:
        with self._lock:
            return self._runs.get((tenant, biz, job))

    def _open(self, before: datetime) -> list[RunRecord]:
        return [
            run
            for run in self._runs.values()
            if not run.closed and run.ended_at is not None and run.ended_at < before
        ]

    def _forget(self, now: datetime) -> None:
        """Remove what MongoDB's TTL indexes remove."""
        old = now - RUN_LIFE
        for key, said in list(self._parts.items()):
            fresh = {part: one for part, one in said.items() if one[1] > old}
            self._parts[key] = fresh
            if not fresh:
                del self._parts[key]
        for key, run in list(self._runs.items()):
            if run.ended_at is not None and run.ended_at <= old:
                del self._runs[key]


class MemoryOrphanedJobs:
    """In-memory ``MongoOrphanedJobs`` on the jobs of a MemoryJobs."""

    def __init__(self, jobs: MemoryJobs) -> None:
        self._jobs = jobs
        self._lost_at: dict[tuple[str, str, str], datetime] = {}

    def bizs(self) -> list[tuple[str, str]]:
        kept = self._jobs
        with kept._lock:
            every = kept._jobs.values()
            return sorted({job.key[:2] for job in every if job.state not in ENDED})

    def end(self, tenant: str, biz: str, now: datetime, before: datetime, limit: int) -> int:
        kept, at = self._jobs, from_ms(to_ms(now))
        with kept._lock:
            found = self._open(tenant, biz)
            for job in found:
                self._lost_at.setdefault(job.key, at)
            over = [job for job in found if self._lost_at[job.key] < before][:limit]
            for job in over:
                kept._jobs[job.key] = replace(
                    job,
                    state=JobState.CANCELLED,
                    counts={"refused": job.refused},
                    ended_at=at,
                    due_at=None,
                    trouble=None,
                    troubles=0,
                    batch=None,
                )
            return len(over)

    def clear(self, tenant: str, biz: str) -> None:
        kept = self._jobs
        with kept._lock:
            for job in self._open(tenant, biz):
                self._lost_at.pop(job.key, None)

    def _open(self, tenant: str, biz: str) -> list[Job]:
        found = [
            job
            for job in self._jobs._jobs.values()
            if job.key[:2] == (tenant, biz) and job.state not in ENDED
        ]
        return sorted(found, key=lambda job: job.key)


def _now() -> datetime:
    return datetime.now(UTC)


class MemoryCancellations:
    """A ``Cancellations``; thread-safe."""

    def __init__(self, clock: Clock = _now) -> None:
        self._clock = clock
        self._lock = Lock()
        self._announced: dict[JobKey, int] = {}
        self._requoted: dict[JobKey, int] = {}

    def announce_quotas(self, job: JobKey) -> None:
        with self._lock:
            self._requoted[job] = to_ms(self._clock())

    def announce(self, jobs: Sequence[JobKey]) -> None:
        with self._lock:
            now = to_ms(self._clock())
            oldest = now - int(ANNOUNCED_SECONDS * 1000)
            kept = {job: at for job, at in self._announced.items() if oldest < at <= now}
            for job in jobs:
                kept.pop(job, None)
                kept[job] = now
            counts = Counter(tenant for tenant, _, _ in kept)
            while len(kept) > MOST_ANNOUNCED:
                [(most, _)] = counts.most_common(1)
                del kept[next(job for job in kept if job[0] == most)]
                counts[most] -= 1
            self._announced = kept

    def announced(self, since: int = 0) -> Announced:
        with self._lock:
            now = to_ms(self._clock())
            oldest = now - int(ANNOUNCED_SECONDS * 1000)
            first = max(oldest + 1, since if since <= now else 0)
            found = [job for job, at in self._announced.items() if first <= at <= now]
            requoted = [job for job, at in self._requoted.items() if first <= at <= now]
            return Announced(found, now, requoted)
