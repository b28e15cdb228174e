"""Jobs, and the spiders they are runs of, as they are kept (SPEC.md B2, C2, C3).

Open jobs of bizs that are no more (SPEC.md C5).

Small questions about jobs, and a job that had ended and goes on (SPEC.md C2, D4).

What runs took, one by one, and what spiders are known to take (SPEC.md B3, B10).
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.crawling.frontier.dispatch import CancelledJobs
from crawlfleet.jobs.models import Job, JobState, TaskBatch
from crawlfleet.jobs.usage import JobDemand, RunFigures, RunPart, RunRecord


class JobStore(Protocol):
    """Jobs of all tenants. Times are kept to the millisecond.

    What is due leaves out what cannot be read, as of another release, and looks there later again.

    Lists of jobs leave out the URLs and the values of their starts, of which one may have megabytes
    (a pattern they have); ``create`` and ``get`` give all of it, and what is handed in comes back
    with the start it has.
    """

    def create(self, job: Job) -> Job:
        """Keep a new job; where one of its name stands, nothing is done and that one returned."""
        ...

    def create_limited(self, job: Job, most: int, *, instead: bool = False) -> Job | None:
        """Keep a new job of a schedule, unless ``most`` jobs of that schedule are open: then None.

        To count and to keep it are one step: of several at once each counts what those before it
        have kept this way. Where one of its name stands, nothing is done and that one returned.

        ``instead`` of the open ones: in the same step they are cancelled, at the time at which this
        one was created. Where one of a later fire time is among them it is this one that comes too
        late: None.
        """
        ...

    def get(self, tenant: str, biz: str, name: str) -> Job | None:
        """One job, or None."""
        ...

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
        """Jobs, the newest first, beginning after one's ``(created_at, name)``.

        No ``states`` are all; None is no filter.
        """
        ...

    def count_open(self, tenant: str, biz: str, schedule: str | None = None) -> int:
        """How many have not ended, of the biz or of one schedule of it."""
        ...

    def open_versions(self, tenant: str, biz: str, spider: str) -> set[int]:
        """The versions of a kept spider that jobs are of which have not ended."""
        ...

    def expandable(self, limit: int, now: datetime | None = None) -> list[Job]:
        """Jobs that still make tasks, tenants in turns, each one's longest due first.

        Those, too, that are being cancelled while a batch of theirs stands open: that one is to be
        closed. With ``now`` only what is due by then (``due_at``).
        """
        ...

    def watched(
        self,
        limit: int,
        now: datetime | None = None,
        states: Sequence[JobState] = (JobState.RUNNING, JobState.CANCELLING),
    ) -> list[Job]:
        """Jobs that run or are being cancelled, tenants in turns, each one's longest due first.

        With ``now`` only what is due by then.
        """
        ...

    def placing(self, limit: int, now: datetime | None = None) -> list[Job]:
        """Jobs that wait for a worker, tenants in turns, each one's longest due first.

        With ``now`` only what is due by then.
        """
        ...

    def waiting(self, before: datetime, limit: int) -> list[Job]:
        """Jobs that wait for a worker and came by then, tenants in turns, each one's oldest first.

        For people: nothing of them is put off, whatever they are.
        """
        ...

    def place(
        self, job: Job, pool: str | None, worker: str | None, number: int | None, now: datetime
    ) -> Job | None:
        """It waits no more, and makes tasks: for a pool's workers, None for whoever comes.

        ``worker`` has won it under the award's number; both are None where nobody is waited for any
        more. On the condition that it waits: whoever is second gets None, but who repeats it after
        an answer that was lost gets the job as it stands.
        """
        ...

    def unplace(self, job: Job, why: str, now: datetime) -> bool:
        """It has ended, as no worker suits it; ``why`` is its trouble, for people.

        On the condition that it waits; False where it does not.
        """
        ...

    def note_lowered(self, job: Job, lowered: int) -> None:
        """Its demand was lowered so often, if it waits and that is more than it was."""
        ...

    def unplaced(self, since: datetime, limit: int) -> list[Job]:
        """Jobs of all tenants that have ended since then as no worker suits them, newest first."""
        ...

    def sweepable(self, limit: int, now: datetime | None = None) -> list[Job]:
        """Jobs that are being cancelled, tenants in turns, each one's longest due first.

        With ``now`` only what is due by then (``sweep_at``).
        """
        ...

    def swept(
        self, job: Job, now: datetime, again_at: datetime, trouble: str | None = None
    ) -> None:
        """A job that is being cancelled was swept, and is again then; or why that was not possible.

        When its open batch is closed is no matter of this.
        """
        ...

    def open_batch(self, job: Job, batch: TaskBatch) -> Job | None:
        """Write down which tasks come next.

        On the condition that the job still expands, has expanded just up to ``batch.first``, and
        has no batch open. Returns the job as it stands then: with this batch, or with another's, to
        go on with; None where it is gone.
        """
        ...

    def close_batch(
        self,
        job: Job,
        batch: TaskBatch,
        now: datetime,
        refused: int = 0,
        reasons: Sequence[str] = (),
    ) -> Job | None:
        """Its tasks are stored: ``expanded`` goes on. The job runs once that is all of them.

        ``refused`` of them are no requests, for ``reasons``. Whoever closes second changes nothing.
        Returns the job as it stands, None where it is gone. A job that is being cancelled closes
        its batch too and makes no other one.
        """
        ...

    def cancel(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        """Have a job cancelled that has not ended; returns the job as it stands, None if none."""
        ...

    def look(
        self,
        job: Job,
        now: datetime,
        trouble: str | None = None,
        again_at: datetime | None = None,
        left: int | None = None,
    ) -> None:
        """It was looked at now, and this is why it does not go on.

        It is due again at ``again_at``, or at once, behind all others. ``left`` of its tasks were
        open, None where nobody asked. No effect on what has ended, and on what somebody has begun
        to cancel since ``job`` was read.
        """
        ...

    def end(self, job: Job, state: JobState, counts: dict[str, int], now: datetime) -> bool:
        """It has ended, with so many tasks each way; MongoDB removes it ``JOB_LIFE`` later.

        On the condition that it is in the state that ``job`` says, and has no batch open: its tasks
        may not all be stored; and that its dead letters were not retried since: its ledger was read
        before. False where that is not so, as where somebody has ended it already.
        """
        ...


class OrphanedJobs(Protocol):
    """The same jobs as JobStore's."""

    def bizs(self) -> list[tuple[str, str]]:
        """Tenant and biz of every job that has not ended, in order."""
        ...

    def lose(self, tenant: str, biz: str, now: datetime, before: datetime, limit: int) -> int:
        """Their biz is not there: note since when, and end those that have lost it ``before``.

        ``limit`` of them at most, as ``CANCELLED``. Their tasks cannot be counted: ``counts`` are
        what was refused. Returns how many it has ended.
        """
        ...

    def find(self, tenant: str, biz: str) -> None:
        """Their biz is there: none of its jobs has lost it."""
        ...


class JobReopening(Protocol):
    """The same jobs as JobStore's."""

    def begin_retry(self, tenant: str, biz: str, name: str) -> Job | None:
        """Its dead letters are about to be worked on again: who read its ledger ends it no more.

        Returns the job as it stands then, None if none; unchanged where it is not ``RETRIABLE``.
        """
        ...

    def reopen(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        """Have a job that is done run again, as if it had not ended.

        It does so beside whatever else is open of its schedule, whose next jobs it is in the way
        of. One in any other state stays as it is. Returns the job as it stands then, None if none.
        """
        ...


class JobStates(CancelledJobs, Protocol):
    """The same jobs as JobStore's."""

    def states(self, tenant: str, biz: str, names: Collection[str]) -> dict[str, JobState]:
        """The states of those of these names that are jobs; nothing else of them is read."""
        ...


class DemandStore(Protocol):
    """Demands and runs of all tenants."""

    def add_run(self, parts: Sequence[RunPart], now: datetime) -> None:
        """Keep what workers have measured of runs; a part takes the place of the one it was.

        So it does no harm to say it again. Kept for a month after it was last said.
        """
        ...

    def measured(self, tenant: str, biz: str, job: str) -> RunFigures:
        """What the parts of a job come to together; nothing where there are none."""
        ...

    def end_run(self, run: RunRecord) -> None:
        """Keep that a run has ended, to be closed later; until it is, the last word counts.

        A closed one is open again where its job was retried since (``retries``): its figures and
        whether it was learnt from stay. Otherwise nothing changes.
        """
        ...

    def forget_end(self, run: RunRecord) -> None:
        """It has not ended after all; one that is closed, or ended at another time, stays.

        One that was closed before goes back to that.
        """
        ...

    def tenants_to_learn(self, before: datetime) -> list[str]:
        """Tenants that have runs which ended before a moment and are not closed."""
        ...

    def to_learn(self, tenant: str, before: datetime, limit: int) -> list[RunRecord]:
        """Such runs of one tenant, the longest ended first."""
        ...

    def close_run(self, run: RunRecord, known: JobDemand, learnt: JobDemand | None) -> bool:
        """Close a run with its figures, and keep what was learnt from it, both or none.

        On the condition that the run is open, with this end, and that the demand has as many runs
        as ``known`` (0: there is none yet), for which ``learnt`` is kept; None leaves it alone.
        False where one of both stands otherwise by now: nothing is written then. Its parts are
        removed.
        """
        ...

    def get(self, tenant: str, biz: str, spider: str) -> JobDemand | None:
        """What the runs of a spider have taken, or None where there was none."""
        ...

    def of_biz(self, tenant: str, biz: str, after: str | None, limit: int) -> list[JobDemand]:
        """Demands by the spider's name, beginning after a name."""
        ...

    def run(self, tenant: str, biz: str, job: str) -> RunRecord | None:
        """The run of a job that has ended, or None."""
        ...
