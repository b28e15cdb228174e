"""The twin of MongoDB's jobs that had ended and go on."""

from datetime import datetime

from msgspec.structs import replace

from crawlfleet.adapters.memory.jobs import MemoryJobs
from crawlfleet.model.job import Job, JobState
from crawlfleet.model.times import from_ms, to_ms


class MemoryJobReopening:
    """ports.JobReopening on the jobs of a MemoryJobs."""

    def __init__(self, jobs: MemoryJobs) -> None:
        self._jobs = jobs

    def reopen(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        """See ports.JobReopening.reopen."""
        kept = self._jobs
        with kept._lock:  # noqa: SLF001  two doors of one room
            found = kept._jobs.get((tenant, biz, name))  # noqa: SLF001
            if found is not None and found.state is JobState.DONE:
                due_at = from_ms(to_ms(now))
                found = replace(
                    found, state=JobState.RUNNING, counts={}, ended_at=None, due_at=due_at
                )
                kept._jobs[found.key] = found  # noqa: SLF001
            return found
