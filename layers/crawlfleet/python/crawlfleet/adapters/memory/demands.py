"""The twin of MongoDB's demands."""

import threading
from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from msgspec.structs import replace

from crawlfleet.model.run import RUN_LIFE, RunFigures, RunPart, RunRecord
from crawlfleet.model.usage import JobDemand
from crawlfleet.policy.runs import together, was_closed

_Key: TypeAlias = tuple[str, str, str]


class MemoryDemands:
    """ports.DemandStore in memory."""

    def __init__(self) -> None:
        self._parts: dict[_Key, dict[str, tuple[RunFigures, datetime]]] = {}
        self._runs: dict[_Key, RunRecord] = {}
        self._demands: dict[_Key, JobDemand] = {}
        self._lock = threading.Lock()

    def add_run(self, parts: Sequence[RunPart], now: datetime) -> None:
        """See ports.DemandStore.add_run."""
        with self._lock:
            self._forget(now)
            for one in parts:
                said = self._parts.setdefault((one.tenant, one.biz, one.job), {})
                said[one.part] = one.figures, now

    def measured(self, tenant: str, biz: str, job: str) -> RunFigures:
        """See ports.DemandStore.measured."""
        with self._lock:
            said = self._parts.get((tenant, biz, job), {})
            return together(figures for figures, _ in said.values())

    def end_run(self, run: RunRecord) -> None:
        """See ports.DemandStore.end_run."""
        key = run.tenant, run.biz, run.job
        with self._lock:
            standing = self._runs.get(key)
            if standing is None:
                self._runs[key] = run
            elif not standing.closed or standing.retries < run.retries:
                kept = {"figures": standing.figures, "learnt_at": standing.learnt_at}
                self._runs[key] = replace(run, **kept, closed=False)

    def forget_end(self, run: RunRecord) -> None:
        """See ports.DemandStore.forget_end."""
        key = run.tenant, run.biz, run.job
        with self._lock:
            standing = self._runs.get(key)
            if standing is None or standing.closed or standing.ended_at != run.ended_at:
                return
            if was_closed(run):
                self._runs[key] = replace(standing, closed=True, retries=run.retries - 1)
            else:
                del self._runs[key]

    def tenants_to_learn(self, before: datetime) -> list[str]:
        """See ports.DemandStore.tenants_to_learn."""
        with self._lock:
            return sorted({run.tenant for run in self._open(before)})

    def to_learn(self, tenant: str, before: datetime, limit: int) -> list[RunRecord]:
        """See ports.DemandStore.to_learn."""
        with self._lock:
            found = [run for run in self._open(before) if run.tenant == tenant]
        return sorted(found, key=lambda run: str(run.ended_at))[:limit]

    def close_run(self, run: RunRecord, known: JobDemand, learnt: JobDemand | None) -> bool:
        """See ports.DemandStore.close_run."""
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
        """See ports.DemandStore.get."""
        with self._lock:
            return self._demands.get((tenant, biz, spider))

    def of_biz(self, tenant: str, biz: str, after: str | None, limit: int) -> list[JobDemand]:
        """See ports.DemandStore.of_biz."""
        with self._lock:
            found = sorted(self._demands.items())
        return [
            demand
            for key, demand in found
            if key[:2] == (tenant, biz) and (after is None or key[2] > after)
        ][:limit]

    def run(self, tenant: str, biz: str, job: str) -> RunRecord | None:
        """See ports.DemandStore.run."""
        with self._lock:
            return self._runs.get((tenant, biz, job))

    def _open(self, before: datetime) -> list[RunRecord]:
        return [
            run
            for run in self._runs.values()
            if not run.closed and run.ended_at is not None and run.ended_at < before
        ]

    def _forget(self, now: datetime) -> None:
        """What MongoDB's indexes remove by themselves."""
        old = now - RUN_LIFE
        for key, said in list(self._parts.items()):
            fresh = {part: one for part, one in said.items() if one[1] > old}
            self._parts[key] = fresh
            if not fresh:
                del self._parts[key]
        for key, run in list(self._runs.items()):
            if run.ended_at is not None and run.ended_at <= old:
                del self._runs[key]
