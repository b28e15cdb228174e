"""Cancel jobs (SPEC.md C2, H1): they make no more tasks, and their open tasks are cancelled.

The job's state changes first, so that it opens no batch any more. Its workers hear of it through
Redis and abandon its requests (worker.dispatcher). Then its open requests are cancelled in
MongoDB, in bounded batches. It has ended when it has no batch open and its ledger has nothing open:
a batch that is stored meanwhile is swept by the next round.

Each job has a bounded share of a round, and none delays the news of the others: all that are being
cancelled are announced together, again and again, until they have ended. Queue entries are left:
they can be claimed no more, and are dropped when they are leased, without a slot of their host.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.jobs.models import ENDED, Job, JobKey, JobState, trouble_of
from crawlfleet.jobs.usage import RunUsage, counts_of
from crawlfleet.kernel import errors
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import Clock, TimeLeft
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.mongo.store import MongoRequestStore

if TYPE_CHECKING:
    from crawlfleet.jobs.mongo.store import MongoJobs
    from crawlfleet.jobs.redis import RedisCancellations

#: A worker begins nothing of a job for so long after it was last announced. An announcement stands
#: longer: a dead letter that is replayed afterwards is not to be abandoned for a minute.
CANCELLATION_SECONDS: Final = 15.0
#: The lock's name, its interval, and after what a holder that vanished loses it: a little more
#: than a round lasts.
LOCK: Final = "cancelling"
EVERY: Final = timedelta(seconds=2)
TERM: Final = timedelta(seconds=25)
#: Requests that are cancelled between two checks of the time.
BATCH: Final = 2_000
#: Jobs that are swept, and announced, in one round.
JOBS: Final = 200
ANNOUNCED: Final = 1_000
#: A job is swept for so long before others are.
JOB_SECONDS: Final = 2.0
#: A round lasts so long at most, and a call that cancels sweeps for so long.
ROUND_SECONDS: Final = 20.0
CALL_SECONDS: Final = 4.0
#: In a round jobs are announced again after so long (CANCELLATION_SECONDS).
AGAIN_SECONDS: Final = 5.0
#: Until a job is swept again, and one that could not be.
SOON: Final = timedelta(seconds=1)
LATER: Final = timedelta(seconds=15)
_AWAY: Final = "a part that keeps its tasks does not answer; it is tried again"
_UNFORESEEN: Final = "for a reason that nobody foresaw; it is tried again"


class _SweepResult(Enum):
    ENDED = auto()
    MORE = auto()
    LATER = auto()


def is_over(job: Job, ledger: Ledger) -> bool:
    """Tell whether a job that is being cancelled has ended.

    Its ledger is to be read after ``job``: a batch that is being stored has tasks that are in no
    ledger yet.
    """
    return job.state is JobState.CANCELLING and job.batch is None and ledger.open <= 0


def _share_of(time_left: TimeLeft) -> TimeLeft:
    """Bound the time left by a job's part of a round."""
    began = time_left()
    return lambda: min(time_left(), JOB_SECONDS - (began - time_left()))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancellation:
    """The service that cancels jobs.

    ``batch`` and ``call_seconds`` bound what is swept between two checks of the time, and by a
    call.
    """

    jobs: "MongoJobs"
    store: MongoRequestStore
    ledgers: MongoLedgers
    cancellations: "RedisCancellations"
    usage: RunUsage
    batch: int = BATCH
    call_seconds: float = CALL_SECONDS

    def cancel(self, tree: Tree, key: JobKey, by: str, clock: Clock) -> Job:
        """Cancel a job; return it as it stands a moment later, which for a small one is its end.

        It may be repeated. What cannot be swept now is left to later rounds.

        Raises:
            NotFoundError: there is no such job.
            ConflictError: it has ended by itself.
        """
        tenant, biz, name = key
        now = clock()
        job = self.jobs.cancel(tenant, biz, name, now)
        if job is None:
            biz_of(tree, tenant, biz)
            raise errors.NotFoundError(f"there is no job {name[:64]!r}")
        if job.state is JobState.CANCELLED:
            return job
        if job.state in ENDED:
            raise errors.ConflictError(f"the job is {job.state.value}: it has ended")
        ends_at = now + timedelta(seconds=self.call_seconds)

        def time_left() -> float:
            return (ends_at - clock()).total_seconds()

        self._announce([job.key])
        self._go_on(tree, job, by, now, time_left)
        return self.jobs.get(tenant, biz, name) or job

    def run_round(
        self,
        detector: RedisFailureDetector,
        tree: Tree,
        by: str,
        now: datetime,
        time_left: TimeLeft,
    ) -> int:
        """Sweep jobs that are being cancelled, if the lock is free; return how many ended."""
        if not detector.acquire_lock(LOCK, by, EVERY, TERM):
            return 0
        ended = 0
        try:
            # All of them, due or not: a worker that hears no more of one begins its requests.
            every = [job.key for job in self.jobs.sweepable(ANNOUNCED)]
            self._announce(every)
            announced_at = time_left()
            due = deque(self.jobs.sweepable(JOBS, now))
            while due and time_left() > 0:
                if announced_at - time_left() >= AGAIN_SECONDS:
                    self._announce(every)
                    announced_at = time_left()
                job = due.popleft()
                came = self._go_on(tree, job, by, now, _share_of(time_left))
                ended += came is _SweepResult.ENDED
                if came is _SweepResult.MORE:
                    due.append(job)
        finally:
            detector.release_lock(LOCK, by)
        return ended

    def _go_on(
        self, tree: Tree, job: Job, by: str, now: datetime, time_left: TimeLeft
    ) -> _SweepResult:
        try:
            return self._sweep(tree, job, by, now, time_left)
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            warn(f"job {job.name} of {job.tenant}/{job.biz} could not be cancelled yet", error)
            why = trouble_of(error, _AWAY, _UNFORESEEN)
            trouble = f"cannot be cancelled yet: {why}"
            try:
                self.jobs.swept(job, now, now + LATER, trouble)
            except errors.CrawlfleetError as unseen:
                warn("a job's trouble could not be written down", unseen)
            return _SweepResult.LATER

    def _announce(self, keys: Sequence[JobKey]) -> None:
        if not keys:
            return
        try:
            self.cancellations.announce(keys)
        except errors.CrawlfleetError as error:
            warn("the workers could not hear of cancelled jobs", error)

    def _sweep(
        self, tree: Tree, job: Job, by: str, now: datetime, time_left: TimeLeft
    ) -> _SweepResult:
        queue_key, biz = biz_of(tree, job.tenant, job.biz)
        while self.store.cancel_job(queue_key, biz, job.name, self.batch, by, now):
            if time_left() <= 0:
                # Behind all others that are due.
                self.jobs.swept(job, now, now)
                return _SweepResult.MORE
        # Read before its ledger (is_over).
        found = self.jobs.get(*job.key)
        if found is None or found.state is not JobState.CANCELLING:
            return _SweepResult.LATER
        ledger = self.ledgers.totals(queue_key, biz, now, job.name)
        if is_over(found, ledger):
            counts = counts_of(found, ledger)
            self.usage.end_run(found, counts, now)
            has_ended = self.jobs.end(found, JobState.CANCELLED, counts, now)
            return _SweepResult.ENDED if has_ended else _SweepResult.LATER
        self.jobs.swept(found, now, now + SOON)
        return _SweepResult.LATER
