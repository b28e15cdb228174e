"""What cancelling a job takes: for how long it is announced, and when it is over (SPEC.md C2).

Cancelling a job (SPEC.md C2, H1): it makes no more tasks, and those that are open are cancelled.

The job is marked first, so that it opens no batch of tasks any more. Its workers are told, and let
go what they hold of it (worker.dispatcher). Then what is open of it is cancelled in the truth, in
bounded batches. It has ended when it has no batch open and its ledger has nothing open: a batch
that is being stored meanwhile is swept by the next round, so no task slips through.

Each job has a bounded share of a round, and none keeps the workers from hearing of the others:
those that are being cancelled are announced together, again and again, until they have ended.

Entries of the queue are left: they can be claimed no more, and are dropped when their turn comes.

How workers hear that a job is being cancelled (SPEC.md C2).
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, TypeAlias

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.jobs.models import ENDED, Job, JobState
from crawlfleet.jobs.ports import JobStore
from crawlfleet.jobs.usage_averages import LearningPorts, learn_run
from crawlfleet.kernel.errors import (
    ConfigError,
    ConflictError,
    CrawlfleetError,
    NotFoundError,
    StoreUnavailableError,
    UnknownBizError,
)
from crawlfleet.kernel.log import warn
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.mongo.store import MongoRequestStore

#: An announcement stands for so long; it is made again while the job is being cancelled.
ANNOUNCED_SECONDS: Final = 60.0
#: A worker begins nothing of a job for so long after it has heard of it the last time. Shorter: a
#: dead letter of it that is replayed afterwards is not to be let go for a minute.
CANCELLATION_SECONDS: Final = 15.0
#: So many jobs are announced at once; of more the latest. What is not heard of ends with the
#: renewal of its leases.
MOST_ANNOUNCED: Final = 5_000


def is_over(job: Job, ledger: Ledger) -> bool:
    """Whether a job that is being cancelled has ended.

    Its ledger is to be read after ``job``: a batch that is still being stored has tasks that are in
    no ledger yet, and none is begun any more.
    """
    return job.state is JobState.CANCELLING and job.batch is None and ledger.open <= 0


def cancelled(states: Mapping[str, JobState]) -> dict[str, bool]:
    """The jobs that are cancelled or being cancelled; True once their tasks are swept no more.

    >>> cancelled({"a": JobState.CANCELLING, "b": JobState.CANCELLED, "c": JobState.RUNNING})
    {'a': False, 'b': True}
    """
    return {
        name: state is JobState.CANCELLED
        for name, state in states.items()
        if state in {JobState.CANCELLING, JobState.CANCELLED}
    }


def counts_of(job: Job, ledger: Ledger) -> dict[str, int]:
    """How the tasks of a job have ended, as it keeps that."""
    return {
        "done": ledger.done,
        "dead": ledger.dead,
        "cancelled": ledger.cancelled,
        "expired": ledger.expired,
        "refused": job.refused,
    }


#: Tenant, biz and name of a job.
JobKey: TypeAlias = tuple[str, str, str]


class Announced(NamedTuple):
    """Jobs that were announced, and the moment from which to ask the next time."""

    jobs: list[JobKey]
    reached: int


class Cancellations(Protocol):
    """Announcements of jobs that are being cancelled; they are kept for a minute or so.

    They only make it quick: what is cancelled in the truth is nobody's, whoever heard of it.
    """

    def announce(self, jobs: Sequence[JobKey]) -> None:
        """Tell every worker; again is as good as once, and is heard again."""
        ...

    def heard(self, since: int = 0) -> Announced:
        """What was announced at ``since`` or later, by the server's clock, the oldest first.

        A bounded number of them: whoever asks from ``reached`` on misses none, and may hear some
        twice. A moment that has not come yet, as after a change of server, is taken for 0.
        """
        ...


#: The turn's name, how often it comes round, and after what a holder that vanished loses it.
LOCK: Final = "cancelling"
EVERY: Final = timedelta(seconds=2)
TERM: Final = timedelta(seconds=60)
#: Requests cancelled between two looks at the time.
BATCH: Final = 2_000
#: Jobs looked at in one round, and those that are announced in it.
JOBS: Final = 200
ANNOUNCED: Final = 1_000
#: A job is swept for so long before others have their turn.
JOB_SECONDS: Final = 2.0
#: A round goes on for so long at most, the call that cancels sweeps for so long itself.
ROUND_SECONDS: Final = 20.0
CALL_SECONDS: Final = 4.0
#: In a round the workers are told again after so long (jobs.cancellation.HEEDED_SECONDS).
AGAIN_SECONDS: Final = 5.0
#: When a job is looked at again, and one that could not be swept.
SOON: Final = timedelta(seconds=1)
LATER: Final = timedelta(seconds=15)


class _SweepResult(Enum):
    """What came of a job's turn."""

    ENDED = auto()
    MORE = auto()
    LATER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellingPorts:
    """The world, as cancelling needs it.

    ``batch`` and ``call_seconds`` bound what is swept between two looks at the time, and by a call.
    """

    jobs: JobStore
    store: MongoRequestStore
    ledgers: MongoLedgers
    cancellations: Cancellations
    learning: LearningPorts
    batch: int = BATCH
    call_seconds: float = CALL_SECONDS


def cancel_job(
    ports: CancellingPorts,
    tree: Tree,
    key: JobKey,
    by: str,
    clock: Callable[[], datetime],
) -> Job:
    """Cancel a job; it as it stands a moment later, which for a small one is its end.

    Cancelling twice is cancelling once. What cannot be swept now is by later rounds.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: it has ended by itself.
    """
    tenant, biz, name = key
    now = clock()
    job = ports.jobs.cancel(tenant, biz, name, now)
    if job is None:
        biz_of(tree, tenant, biz)
        raise NotFoundError(f"there is no job {name[:64]!r}")
    if job.state is JobState.CANCELLED:
        return job
    if job.state in ENDED:
        raise ConflictError(f"the job is {job.state.value}: it has ended")
    ends_at = now + timedelta(seconds=ports.call_seconds)

    def time_left() -> float:
        return (ends_at - clock()).total_seconds()

    _announce(ports, [job.key])
    _go_on(ports, tree, job, by, now, time_left)
    return ports.jobs.get(tenant, biz, name) or job


def cancel_jobs(
    ports: CancellingPorts,
    detector: RedisFailureDetector,
    tree: Tree,
    by: str,
    now: datetime,
    time_left: Callable[[], float],
) -> int:
    """Go on with the jobs that are being cancelled, if it is the caller's turn; how many ended."""
    if not detector.acquire_lock(LOCK, by, EVERY, TERM):
        return 0
    ended = 0
    try:
        # Those, too, that are not due: what workers do not hear of again they begin again.
        every = [job.key for job in ports.jobs.sweepable(ANNOUNCED)]
        _announce(ports, every)
        told_at = time_left()
        due = deque(ports.jobs.sweepable(JOBS, now))
        while due and time_left() > 0:
            if told_at - time_left() >= AGAIN_SECONDS:
                _announce(ports, every)
                told_at = time_left()
            job = due.popleft()
            came = _go_on(ports, tree, job, by, now, _share_of(time_left))
            ended += came is _SweepResult.ENDED
            if came is _SweepResult.MORE:
                due.append(job)
    finally:
        detector.release_lock(LOCK, by)
    return ended


def _go_on(
    ports: CancellingPorts,
    tree: Tree,
    job: Job,
    by: str,
    now: datetime,
    time_left: Callable[[], float],
) -> _SweepResult:
    """Sweep, and end the job where nothing of it is left."""
    try:
        return _sweep(ports, tree, job, by, now, time_left)
    except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
        warn(f"job {job.name} of {job.tenant}/{job.biz} could not be cancelled yet", error)
        trouble = f"cannot be cancelled yet: {_trouble(error)}"
        try:
            ports.jobs.swept(job, now, now + LATER, trouble)
        except CrawlfleetError as unseen:
            warn("a job's trouble could not be written down", unseen)
        return _SweepResult.LATER


def _announce(ports: CancellingPorts, keys: Sequence[JobKey]) -> None:
    if not keys:
        return
    try:
        ports.cancellations.announce(keys)
    except CrawlfleetError as error:
        warn("the workers could not be told of cancelled jobs", error)


def _share_of(time_left: Callable[[], float]) -> Callable[[], float]:
    """What is left of a job's own part of a round."""
    began = time_left()
    return lambda: min(time_left(), JOB_SECONDS - (began - time_left()))


def _trouble(error: Exception) -> str:
    """What is said of it to the job's owner: nothing of hosts, and of other tenants."""
    if isinstance(error, UnknownBizError):
        return str(error)
    if isinstance(error, ConfigError):
        return "the biz has no valid document"
    if isinstance(error, StoreUnavailableError):
        return "a part that keeps its tasks does not answer; it is tried again"
    return "for a reason that nobody foresaw; it is tried again"


def _sweep(
    ports: CancellingPorts,
    tree: Tree,
    job: Job,
    by: str,
    now: datetime,
    time_left: Callable[[], float],
) -> _SweepResult:
    queue_key, biz = biz_of(tree, job.tenant, job.biz)
    while ports.store.cancel_job(queue_key, biz, job.name, ports.batch, by, now):
        if time_left() <= 0:
            # Behind all others that are due.
            ports.jobs.swept(job, now, now)
            return _SweepResult.MORE
    # Looked at before its ledger is (jobs.cancellation.is_over).
    found = ports.jobs.get(*job.key)
    if found is None or found.state is not JobState.CANCELLING:
        return _SweepResult.LATER
    ledger = ports.ledgers.totals(queue_key, biz, now, job.name)
    if is_over(found, ledger):
        counts = counts_of(found, ledger)
        learn_run(ports.learning, found, counts, now)
        has_ended = ports.jobs.end(found, JobState.CANCELLED, counts, now)
        return _SweepResult.ENDED if has_ended else _SweepResult.LATER
    ports.jobs.swept(found, now, now + SOON)
    return _SweepResult.LATER
