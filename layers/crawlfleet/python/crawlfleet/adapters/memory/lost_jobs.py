"""The twin of MongoDB's open jobs of bizs that are no more."""

from datetime import datetime

from msgspec.structs import replace

from crawlfleet.adapters.memory.jobs import MemoryJobs
from crawlfleet.model.job import ENDED, Job, JobState
from crawlfleet.model.times import from_ms, to_ms


class MemoryLostJobs:
    """ports.LostJobs on the jobs of a MemoryJobs."""

    def __init__(self, jobs: MemoryJobs) -> None:
        self._jobs = jobs
        self._lost_at: dict[tuple[str, str, str], datetime] = {}

    def bizs(self) -> list[tuple[str, str]]:
        """See ports.LostJobs.bizs."""
        kept = self._jobs
        with kept._lock:  # noqa: SLF001  two doors of one room
            every = kept._jobs.values()  # noqa: SLF001
            return sorted({job.key[:2] for job in every if job.state not in ENDED})

    def lose(self, tenant: str, biz: str, now: datetime, before: datetime, limit: int) -> int:
        """See ports.LostJobs.lose."""
        kept, at = self._jobs, from_ms(to_ms(now))
        with kept._lock:  # noqa: SLF001  two doors of one room
            found = self._open(tenant, biz)
            for job in found:
                self._lost_at.setdefault(job.key, at)
            over = [job for job in found if self._lost_at[job.key] < before][:limit]
            for job in over:
                kept._jobs[job.key] = replace(  # noqa: SLF001
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

    def find(self, tenant: str, biz: str) -> None:
        """See ports.LostJobs.find."""
        kept = self._jobs
        with kept._lock:  # noqa: SLF001  two doors of one room
            for job in self._open(tenant, biz):
                self._lost_at.pop(job.key, None)

    def _open(self, tenant: str, biz: str) -> list[Job]:
        found = [
            job
            for job in self._jobs._jobs.values()  # noqa: SLF001
            if job.key[:2] == (tenant, biz) and job.state not in ENDED
        ]
        return sorted(found, key=lambda job: job.key)
