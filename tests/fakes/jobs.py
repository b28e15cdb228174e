"""In-memory fakes keep jobs and reopen those that have ended."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain, zip_longest
from typing import Any, TypeAlias

from msgspec.structs import replace

from tests.kit.jobs import (
    ENDED,
    EXPANDABLE,
    LONGEST_REFUSAL,
    MOST_REFUSALS,
    PLACEABLE,
    RETRIABLE,
    SUBMITTED,
    WATCHED,
    Job,
    JobState,
    TaskBatch,
    cancelled,
)
from tests.kit.kernel import from_ms, to_ms
from tests.kit.quotas import JobTerms, Quota
from tests.kit.spiders import Start

_Key: TypeAlias = tuple[str, str, str]


class MemoryJobs:
    """In-memory ``MongoJobs``."""

    def __init__(self) -> None:
        self._jobs: dict[_Key, Job] = {}
        self._lock = threading.Lock()

    def create(self, job: Job) -> Job:
        with self._lock:
            return self._jobs.setdefault(job.key, job.as_created())

    def adopt(self, jobs: Sequence[Job], now: datetime) -> None:
        with self._lock:
            for job in jobs:
                found = self._jobs.setdefault(job.key, job.as_created())
                if found.by != SUBMITTED:
                    continue
                at = max(found.submitted_at or _ms(now), _ms(now))
                self._jobs[job.key] = found = replace(found, submitted_at=at)
                if found.state in {JobState.DONE, JobState.CANCELLED}:
                    self._jobs[job.key] = replace(
                        found,
                        state=JobState.RUNNING,
                        due_at=_ms(now),
                        counts={},
                        ended_at=None,
                        cancelled_at=None,
                        left=None,
                        retries=found.retries + 1,
                    )

    def create_limited(self, job: Job, most: int, *, instead: bool = False) -> Job | None:
        fresh = job.as_created()
        with self._lock:
            if fresh.key in self._jobs:
                return self._jobs[fresh.key]
            mine = (fresh.tenant, fresh.biz, fresh.schedule)
            others = [
                other
                for other in self._jobs.values()
                if (other.tenant, other.biz, other.schedule) == mine and other.state not in ENDED
            ]
            going = [other for other in others if other.state is not JobState.CANCELLING]
            if len(others) >= most or (instead and any(_is_later(one, fresh) for one in going)):
                return None
            for other in going if instead else ():
                self._jobs[other.key] = _cancelled(other, fresh.created_at)
            self._jobs[fresh.key] = fresh
            return fresh

    def get(self, tenant: str, biz: str, name: str) -> Job | None:
        with self._lock:
            return self._jobs.get((tenant, biz, name))

    def quota_terms(self, tenant: str, biz: str, name: str) -> JobTerms | None:
        found = self.get(tenant, biz, name)
        return None if found is None else JobTerms(quotas=found.quotas, user=found.user)

    def quota_terms_of_open(
        self, tenant: str, biz: str, names: Sequence[str]
    ) -> dict[str, JobTerms]:
        found = {name: self.get(tenant, biz, name) for name in names}
        return {
            name: JobTerms(quotas=job.quotas, user=job.user)
            for name, job in found.items()
            if job is not None and job.state not in ENDED
        }

    def set_quotas(self, key: _Key, quotas: Sequence[Quota]) -> bool:
        with self._lock:
            job = self._jobs.get(key)
            if job is None or job.by == SUBMITTED:
                return False
            self._jobs[key] = replace(job, quotas=tuple(quotas))
            return True

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
        with self._lock:
            found = [
                job
                for job in self._jobs.values()
                if (job.tenant, job.biz) == (tenant, biz)
                and (not states or job.state in states)
                and spider in {None, job.spider}
                and schedule in {None, job.schedule}
                and (after is None or (job.created_at, job.name) < after)
            ]
        found.sort(key=lambda job: (job.created_at, job.name), reverse=True)
        return [_brief(job) for job in found[:limit]]

    def count_open(self, tenant: str, biz: str, schedule: str | None = None) -> int:
        with self._lock:
            return sum(
                (job.tenant, job.biz) == (tenant, biz)
                and job.state not in ENDED
                and (job.by != SUBMITTED if schedule is None else schedule == job.schedule)
                for job in self._jobs.values()
            )

    def running_schedules(self, tenant: str, biz: str) -> set[str]:
        with self._lock:
            return {
                job.schedule
                for job in self._jobs.values()
                if (job.tenant, job.biz) == (tenant, biz)
                and job.state not in ENDED
                and job.schedule is not None
            }

    def open_versions(self, tenant: str, biz: str, spider: str) -> set[int]:
        with self._lock:
            return {
                job.spider_version
                for job in self._jobs.values()
                if (job.tenant, job.biz, job.spider) == (tenant, biz, spider)
                and job.state not in ENDED
                and job.spider_version is not None
            }

    def expandable(self, limit: int, now: datetime | None = None) -> list[Job]:
        return self._round_robin(_makes_tasks, limit, now)

    def watched(
        self,
        limit: int,
        now: datetime | None = None,
        states: Sequence[JobState] = (JobState.RUNNING, JobState.CANCELLING),
    ) -> list[Job]:
        wanted = WATCHED.intersection(states)
        return self._round_robin(lambda job: job.state in wanted, limit, now)

    def placing(self, limit: int, now: datetime | None = None) -> list[Job]:
        return self._round_robin(lambda job: job.state in PLACEABLE, limit, now)

    def waiting(self, before: datetime, limit: int) -> list[Job]:
        return self._round_robin(
            lambda job: job.state in PLACEABLE and job.created_at <= before,
            limit,
            None,
            lambda job: job.created_at,
        )

    def place(
        self, job: Job, pool: str | None, worker: str | None, number: int | None, now: datetime
    ) -> Job | None:
        with self._lock:
            found = self._jobs.get(job.key)
            if found is None:
                return None
            if found.state not in PLACEABLE:
                is_mine = worker is not None and (found.worker, found.award) == (worker, number)
                return replace(found, start=job.start) if is_mine else None
            found = self._jobs[job.key] = replace(
                found,
                state=JobState.EXPANDING,
                pool=pool,
                worker=worker,
                award=number,
                placed_at=_ms(now),
                due_at=_ms(now),
                trouble=None,
                troubles=0,
            )
            return replace(found, start=job.start)

    def unplace(self, job: Job, why: str, now: datetime) -> bool:
        with self._lock:
            found = self._jobs.get(job.key)
            if found is None or found.state not in PLACEABLE:
                return False
            self._jobs[job.key] = replace(
                found,
                state=JobState.UNPLACED,
                trouble=why[:LONGEST_REFUSAL],
                troubles=0,
                ended_at=_ms(now),
                due_at=None,
            )
            return True

    def note_lowered(self, job: Job, lowered: int) -> None:
        with self._lock:
            found = self._jobs.get(job.key)
            if found is not None and found.state in PLACEABLE:
                more = max(found.lowered, lowered)
                self._jobs[job.key] = replace(found, lowered=more)

    def unplaced(self, since: datetime, limit: int) -> list[Job]:
        with self._lock:
            found = [
                (job.ended_at, f"{job.tenant}/{job.biz}/{job.name}", job)
                for job in self._jobs.values()
                if job.state is JobState.UNPLACED and job.ended_at and job.ended_at >= since
            ]
        newest = sorted(found, key=lambda one: one[:2], reverse=True)
        return [_brief(job) for _, _, job in newest[:limit]]

    def sweepable(self, limit: int, now: datetime | None = None) -> list[Job]:
        return self._round_robin(
            lambda job: job.state is JobState.CANCELLING, limit, now, lambda job: job.sweep_at
        )

    def swept(
        self, job: Job, now: datetime, again_at: datetime, trouble: str | None = None
    ) -> None:
        with self._lock:
            found = self._jobs.get(job.key)
            if found is not None and found.state is JobState.CANCELLING:
                self._jobs[job.key] = replace(
                    found, looked_at=_ms(now), sweep_at=_ms(again_at), **_reported(found, trouble)
                )

    def _round_robin(
        self,
        wanted: Callable[[Job], bool],
        limit: int,
        now: datetime | None,
        due: Callable[[Job], datetime | None] = lambda job: job.due_at,
    ) -> list[Job]:
        tenants: dict[str, list[tuple[datetime, str, Job]]] = {}
        with self._lock:
            for job in self._jobs.values():
                due_at = due(job) or job.created_at
                if wanted(job) and (now is None or due_at <= now):
                    found = tenants.setdefault(job.tenant, [])
                    found.append((due_at, f"{job.biz}/{job.name}", job))
        each = sorted((sorted(found, key=_order) for found in tenants.values()), key=_first)
        turns = chain.from_iterable(zip_longest(*each))
        return [_brief(one[2]) for one in turns if one is not None][:limit]

    def states(self, tenant: str, biz: str, names: Collection[str]) -> dict[str, JobState]:
        found = {name: self.get(tenant, biz, name) for name in names}
        return {name: job.state for name, job in found.items() if job is not None}

    def cancelled(self, tenant: str, biz: str, names: Collection[str]) -> dict[str, bool]:
        return cancelled(self.states(tenant, biz, names))

    def open_batch(self, job: Job, batch: TaskBatch) -> Job | None:
        with self._lock:
            found = self._jobs.get(job.key)
            if found is None:
                return None
            if (found.state, found.expanded, found.batch) == (
                JobState.EXPANDING,
                batch.first,
                None,
            ):
                batch = replace(batch, queued_at=_ms(batch.queued_at))
                found = self._jobs[job.key] = replace(found, batch=batch)
            return replace(found, start=job.start)

    def close_batch(
        self,
        job: Job,
        batch: TaskBatch,
        now: datetime,
        refused: int = 0,
        reasons: Sequence[str] = (),
    ) -> Job | None:
        with self._lock:
            found = self._jobs.get(job.key)
            if found is None:
                return None
            if found.batch is not None and found.batch.first == batch.first:
                expanded = batch.first + len(batch.ids)
                reported = [reason[:LONGEST_REFUSAL] for reason in reasons]
                found = replace(
                    found,
                    batch=None,
                    expanded=expanded,
                    refused=found.refused + refused,
                    refusals=(*found.refusals, *reported)[:MOST_REFUSALS],
                )
                if expanded >= found.size and found.state is JobState.EXPANDING:
                    found = replace(found, state=JobState.RUNNING, expanded_at=_ms(now))
                self._jobs[job.key] = found
            return replace(found, start=job.start)

    def cancel(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        with self._lock:
            found = self._jobs.get((tenant, biz, name))
            if found is None or found.state in ENDED or found.state is JobState.CANCELLING:
                return found
            found = self._jobs[found.key] = _cancelled(found, _ms(now))
            return found

    def note_known(self, tenant: str, biz: str, known: Mapping[str, Mapping[str, int]]) -> None:
        with self._lock:
            for name, by in known.items():
                found = self._jobs.get((tenant, biz, name))
                if found is not None and by:
                    count = found.known_links + sum(by.values())
                    self._jobs[found.key] = replace(found, known_links=count, known_in=max(by))

    def reschedule(
        self,
        job: Job,
        now: datetime,
        trouble: str | None = None,
        again_at: datetime | None = None,
        left: int | None = None,
    ) -> None:
        with self._lock:
            found = self._jobs.get(job.key)
            if found is not None and found.state not in ENDED and _is_cancelled_as(job, found):
                self._jobs[job.key] = replace(
                    found,
                    looked_at=_ms(now),
                    due_at=_ms(again_at or now),
                    left=left,
                    **_reported(found, trouble),
                )

    def end(self, job: Job, state: JobState, counts: dict[str, int], now: datetime) -> bool:
        with self._lock:
            found = self._jobs.get(job.key)
            if (
                found is None
                or found.state in ENDED
                or found.state is not job.state
                or found.batch is not None
                or found.retries != job.retries
            ):
                return False
            self._jobs[job.key] = replace(
                found,
                state=state,
                counts=dict(counts),
                ended_at=_ms(now),
                due_at=None,
                sweep_at=None,
                trouble=None,
                troubles=0,
            )
            return True


def _makes_tasks(job: Job) -> bool:
    if job.state in EXPANDABLE:
        return True
    return job.state is JobState.CANCELLING and job.batch is not None


def _cancelled(job: Job, at: datetime) -> Job:
    return replace(job, state=JobState.CANCELLING, cancelled_at=at, sweep_at=at, due_at=at)


def _is_later(job: Job, than: Job) -> bool:
    return bool(job.fire_at and than.fire_at and job.fire_at > than.fire_at)


def _is_cancelled_as(job: Job, found: Job) -> bool:
    return (job.state is JobState.CANCELLING) == (found.state is JobState.CANCELLING)


def _reported(found: Job, trouble: str | None) -> dict[str, Any]:
    if trouble is None:
        return {"trouble": None, "troubles": 0}
    return {"trouble": trouble[:LONGEST_REFUSAL], "troubles": found.troubles + 1}


def _brief(job: Job) -> Job:
    return replace(job, start=Start(pattern=job.start.pattern))


def _order(one: tuple[datetime, str, Job]) -> tuple[datetime, str]:
    return one[:2]


def _first(of_tenant: Sequence[tuple[datetime, str, Job]]) -> tuple[datetime, str]:
    due_at, _, job = of_tenant[0]
    return due_at, job.tenant


def _ms(moment: datetime) -> datetime:
    return from_ms(to_ms(moment))


class MemoryJobReopening:
    """In-memory ``MongoJobReopening`` on the jobs of a MemoryJobs."""

    def __init__(self, jobs: MemoryJobs) -> None:
        self._jobs = jobs

    def begin_retry(self, tenant: str, biz: str, name: str) -> Job | None:
        kept = self._jobs
        with kept._lock:
            found = kept._jobs.get((tenant, biz, name))
            if found is not None and found.state in RETRIABLE:
                found = replace(found, retries=found.retries + 1)
                kept._jobs[found.key] = found
            return found

    def reopen(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        kept = self._jobs
        with kept._lock:
            found = kept._jobs.get((tenant, biz, name))
            if found is not None and found.state is JobState.DONE:
                due_at = from_ms(to_ms(now))
                found = replace(
                    found,
                    state=JobState.RUNNING,
                    counts={},
                    ended_at=None,
                    due_at=due_at,
                    left=None,
                )
                kept._jobs[found.key] = found
            return found
