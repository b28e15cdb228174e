"""Jobs of what clients submit under a name (SPEC.md C2, H1): whatever has a job name is a job.

A submission persists its requests and nothing else. Their names are noted beside it, one write for
all of a call, and none for a name that this process has noted in the last ``NOTED_SECONDS``. Where
that was left out, as the home node was away or as an older release took the requests, the ledger
has the name, and whoever asks for the job makes it one.

Such a job makes no tasks, and has no end of its own: it is done while nothing of it is open, and
runs again when more is submitted. So whoever asks for it gets what its ledger says, and rounds end
it only when nothing was submitted for longer than a process may leave out a note.
"""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz
from crawlfleet.crawling.records.falls import JobCoverage
from crawlfleet.jobs.completion import has_open_seeds
from crawlfleet.jobs.models import ENDED, SUBMITTED, Job, JobState
from crawlfleet.jobs.spiders.models import NO_START
from crawlfleet.jobs.usage import counts_of
from crawlfleet.kernel.errors import StoreError, StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.mongo.store import MongoRequestStore

if TYPE_CHECKING:
    from crawlfleet.crawling.frontier.mongo.store import MongoSeeds
    from crawlfleet.jobs.mongo.store import MongoJobs

#: A process notes a name again after so long; completion.REST is longer.
NOTED_SECONDS: Final = 30.0
#: Names that a process remembers to have noted, and that one call notes: others are found by their
#: ledgers.
MOST_NOTED: Final = 10_000
MOST_A_CALL: Final = 100
#: Jobs of a list that are looked at by themselves, as they seem to be done.
MOST_LOOKED_AT: Final = 20


@dataclass(frozen=True, slots=True)
class CountedJob:
    """A job, its ledger, and what its pages were read to.

    The ledger is None where it was not read; in a list it is of the counters alone.
    """

    job: Job
    ledger: Ledger | None
    coverage: tuple[JobCoverage, ...] = ()


def submitted_job(tenant: str, biz: str, name: str, now: datetime) -> Job:
    """Make the job of what is submitted under a name."""
    return Job(
        tenant=tenant,
        biz=biz,
        name=name,
        state=JobState.RUNNING,
        rule="",
        rule_version="",
        start=NO_START,
        size=0,
        created_at=from_ms(to_ms(now)),
        submitted_at=from_ms(to_ms(now)),
        by=SUBMITTED,
    )


def _seems_done(counted: CountedJob) -> bool:
    """Tell whether nothing is open of a job of submissions that goes on in the store."""
    job, ledger = counted.job, counted.ledger
    if ledger is None or job.by != SUBMITTED or job.state is not JobState.RUNNING:
        return False
    return ledger.submitted > 0 and not ledger.open


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJobs:
    """The service that keeps and finds jobs of what is submitted under a name."""

    jobs: "MongoJobs"
    seeds: "MongoSeeds"
    store: MongoRequestStore
    ledgers: MongoLedgers
    steady: Callable[[], float] = time.monotonic
    _noted: dict[tuple[str, str, str], float] = field(default_factory=dict, init=False)

    def note(self, tenant: str, biz: str, names: Collection[str], now: datetime) -> None:
        """Note that more was submitted under these names; a failure is left to whoever asks."""
        at = self.steady()
        fresh = [
            name
            for name in sorted(names)
            if at - self._noted.get((tenant, biz, name), -NOTED_SECONDS) >= NOTED_SECONDS
        ][:MOST_A_CALL]
        if not fresh:
            return
        try:
            self.jobs.adopt([submitted_job(tenant, biz, name, now) for name in fresh], now)
        except StoreError as error:
            warn("jobs of submissions are kept when somebody asks for them", error)
            return
        if len(self._noted) > MOST_NOTED:
            self._noted.clear()
        self._noted.update({(tenant, biz, name): at for name in fresh})

    def find(self, queue_key: QueueKey, biz: Biz, name: str, now: datetime) -> CountedJob | None:
        """Find a job with its ledger; one of submissions in the state that the ledger says."""
        tenant, biz_name = queue_key.tenant, queue_key.biz
        job = self.jobs.get(tenant, biz_name, name)
        ledger = self.ledgers.totals(queue_key, biz, now, name)
        if job is not None and job.by != SUBMITTED:
            return CountedJob(job, ledger)
        is_open = ledger.open > 0
        if job is None or job.state is not JobState.CANCELLED:
            # Seeds of a cancelled job become no requests any more.
            is_open = is_open or self._leads_on(queue_key, biz, name)
        if job is None and not is_open and not ledger.submitted:
            return None
        if job is None or (is_open and job.state in ENDED):
            self.jobs.adopt([submitted_job(tenant, biz_name, name, now)], now)
            job = self.jobs.get(tenant, biz_name, name)
        if job is None or is_open or job.state is not JobState.RUNNING:
            return None if job is None else CountedJob(job, ledger)
        # A seed may have become a request after the ledger was read, and ended since.
        again = self.ledgers.totals(queue_key, biz, now, name)
        if again.open or again.submitted != ledger.submitted:
            return CountedJob(job, again)
        done = replace(job, state=JobState.DONE, counts=counts_of(job, again), ended_at=now)
        return CountedJob(done, again)

    def counted(
        self,
        queue_key: QueueKey,
        biz: Biz,
        jobs: Sequence[Job],
        states: Collection[JobState],
        now: datetime,
    ) -> list[CountedJob]:
        """Count those of the jobs that have not ended; a list does without where that fails.

        The newest of submissions of which nothing is open are as :meth:`find` has them: rounds end
        them a minute after the last submission, and whoever waited for one knows that it is done.
        Where ``states`` are asked for, it is left out then unless that is one of them.
        """
        ledgers: dict[str, Ledger] = {}
        try:
            going = [job.name for job in jobs if job.state not in ENDED]
            ledgers = self.ledgers.counters(queue_key, biz, going)
        except StoreError as error:
            warn("jobs are listed without what has ended of them", error)
        counted = [CountedJob(job, ledgers.get(job.name)) for job in jobs]
        places = [place for place, one in enumerate(counted) if _seems_done(one)][:MOST_LOOKED_AT]
        for place in places:
            with suppress(StoreError):  # what is stored of it stands
                name = counted[place].job.name
                counted[place] = self.find(queue_key, biz, name, now) or counted[place]
        return [one for one in counted if not states or one.job.state in states]

    def _leads_on(self, queue_key: QueueKey, biz: Biz, name: str) -> bool:
        try:
            return has_open_seeds(self.seeds, self.store, queue_key, biz, name)
        except StoreUnavailableError:
            raise
        except StoreError as error:  # there are too many to look through
            warn("it is not known what pages of a job lead to", error)
            return True
