"""The twin of MongoDB's jobs that had ended and go on, and of their states."""

from collections.abc import Collection
from datetime import datetime

from msgspec.structs import replace

from crawlfleet.adapters.memory.jobs import MemoryJobs
from crawlfleet.model.job import RETRIABLE, Job, JobState
from crawlfleet.model.times import from_ms, to_ms


class MemoryJobReopening:
    """ports.JobReopening on the jobs of a MemoryJobs."""

    def __init__(self, jobs: MemoryJobs) -> None:
        self._jobs = jobs

    def begin_retry(self, tenant: str, biz: str, name: str) -> Job | None:
        """See ports.JobReopening.begin_retry."""
        kept = self._jobs
        with kept._lock:  # noqa: SLF001  two doors of one room
            found = kept._jobs.get((tenant, biz, name))  # noqa: SLF001
            if found is not None and found.state in RETRIABLE:
                found = replace(found, retries=found.retries + 1)
                kept._jobs[found.key] = found  # noqa: SLF001
            return found

    def reopen(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        """See ports.JobReopening.reopen."""
        kept = self._jobs
        with kept._lock:  # noqa: SLF001  two doors of one room
            found = kept._jobs.get((tenant, biz, name))  # noqa: SLF001
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
                kept._jobs[found.key] = found  # noqa: SLF001
            return found


class MemoryJobStates:
    """ports.JobStates on the jobs of a MemoryJobs."""

    def __init__(self, jobs: MemoryJobs) -> None:
        self._jobs = jobs

    def states(self, tenant: str, biz: str, names: Collection[str]) -> dict[str, JobState]:
        """See ports.JobStates.states."""
        found = {name: self._jobs.get(tenant, biz, name) for name in names}
        return {name: job.state for name, job in found.items() if job is not None}
