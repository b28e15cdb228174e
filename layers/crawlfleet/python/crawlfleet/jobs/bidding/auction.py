"""Find workers for the jobs that wait for one (SPEC.md B4-B6, D2).

MongoDB says which jobs wait. Whoever starts one lists it on the board; what is missing there, as
Redis was away or is new, or a winner has vanished before it stored its award, is listed by rounds,
tenants in turns. Every worker and the scheduler do rounds, without a leader: a lock saves work, and
each step names the version that it was decided on, so none is done twice.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.jobs.bidding import models
from crawlfleet.jobs.bidding.listing import Decision, Step, decide, explain_declines, is_link_fault
from crawlfleet.jobs.bidding.selection import award, describe_demand
from crawlfleet.jobs.expansion import backoff_after
from crawlfleet.jobs.models import Job, JobDemand, JobKey, JobState
from crawlfleet.jobs.spiders.models import url_at
from crawlfleet.jobs.usage import demand_of, spider_of
from crawlfleet.kernel.errors import CrawlfleetError, StoreUnavailableError, UnknownBizError
from crawlfleet.kernel.hosts import origin_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.time import Clock, TimeLeft

if TYPE_CHECKING:
    from crawlfleet.jobs.bidding.redis import RedisBoard
    from crawlfleet.jobs.mongo.store import MongoJobs
    from crawlfleet.jobs.mongo.usage import MongoDemands

#: Jobs that are read at once, and until one that is listed, or could not be, is due again.
JOBS_A_ROUND: Final = 100
AGAIN: Final = timedelta(seconds=20)
#: Of a longer test link its site is probed.
_LONGEST_URL: Final = 4_096
_CROWDED: Final = "as many jobs wait for a worker as may: it is offered when some are placed"
#: Locks: names, intervals, and after what a holder that vanished loses one.
LOCK: Final = "awarding"
EVERY: Final = timedelta(seconds=1)
_RELIST_LOCK: Final = "boarding"
_RELIST_EVERY: Final = timedelta(seconds=5)
#: The interval in a stage without bidding, where jobs may wait that were listed before.
OFF_EVERY: Final = timedelta(seconds=30)
TERM: Final = timedelta(seconds=30)
_SEVERAL: Final = 2

_APPLICATION: Final = msgspec.json.Decoder(models.Application)
_WANTED: Final = msgspec.json.Decoder(models.Wanted)


def list_for_bids(
    board: "RedisBoard", terms: BiddingTerms, biz: Biz, job: Job, now: datetime
) -> models.ListingResult:
    """List a job that has all of its start on the board; one that is there stays as it is.

    An award costs its tenant by the biz's weight, which the operator of the stage sets, no tenant.
    """
    url = job.link.test_url or url_at(job.start, 0)
    if len(url.encode()) > _LONGEST_URL:
        url = f"{origin_of(url)}/"
    link = replace(job.link, test_url=None)
    wanted = models.Wanted(url=url, spider=spider_of(job), link=link, demand=job.demand)
    listing = models.JobListing(
        tenant=job.tenant,
        biz=job.biz,
        job=job.name,
        document=msgspec.json.encode(wanted),
        priority=job.priority,
        weight=biz.weight,
        lowered=job.lowered,
        since=job.created_at,
    )
    return board.add(listing, now, timedelta(seconds=terms.wait_seconds))


def _trouble(error: Exception) -> str:
    if isinstance(error, UnknownBizError):
        return str(error)
    if isinstance(error, CrawlfleetError):
        return f"it cannot wait for a worker now ({type(error).__name__}); it is tried again"
    return "it cannot wait for a worker, for a reason that nobody foresaw; it is tried again"


def _application(bid: models.Bid) -> models.Application | None:
    try:
        found = _APPLICATION.decode(bid.document)
    except msgspec.DecodeError:
        return None
    return found if found.worker == bid.worker else None


@dataclass(slots=True, kw_only=True)
class Awarded:
    """Counts what a round did; ``mine`` is False when another process had the lock.

    ``released`` jobs wait no more, as the stage has no bidding.
    """

    mine: bool = True
    awarded: int = 0
    lapsed: int = 0
    lowered: int = 0
    unplaced: int = 0
    offered: int = 0
    released: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAuction:
    """The service whose rounds award jobs; ``say`` writes a line for people, with ``extra``."""

    jobs: "MongoJobs"
    board: "RedisBoard"
    demands: "MongoDemands"
    detector: RedisFailureDetector
    say: Callable[..., None]

    def run_round(self, tree: Tree, by: str, clock: Clock, time_left: TimeLeft) -> Awarded:
        """Do a round, if the lock is free; ``by`` is who does it.

        Raises StoreUnavailableError (Redis, or the home node, does not answer).
        """
        terms = tree.stage.bidding
        if not self.detector.acquire_lock(LOCK, by, OFF_EVERY if terms is None else EVERY, TERM):
            return Awarded(mine=False)
        done = Awarded()
        try:
            if terms is None:
                done.released = self._release_jobs(clock, time_left)
            else:
                self._award_due(tree, terms, clock, time_left, done)
        finally:
            self.detector.release_lock(LOCK, by)
        if terms is not None and self.detector.acquire_lock(_RELIST_LOCK, by, _RELIST_EVERY, TERM):
            try:
                done.offered = self.relist_missing(tree, terms, clock, time_left)
            finally:
                self.detector.release_lock(_RELIST_LOCK, by)
        return done

    def relist_missing(
        self, tree: Tree, terms: BiddingTerms, clock: Clock, time_left: TimeLeft
    ) -> int:
        """List the jobs that wait and are not on the board; return how many.

        Raises StoreUnavailableError (the home node, or Redis, does not answer).
        """
        listed = 0
        while time_left() > 0:
            due = self.jobs.placing(JOBS_A_ROUND, clock())
            missing = set(self.board.missing([job.key for job in due])) if due else set()
            for job in due:
                if time_left() <= 0:
                    break
                trouble, wait = job.trouble, AGAIN
                if job.key in missing:
                    try:
                        found = self._relist(tree, terms, job.key, clock())
                        listed += found is models.ListingResult.LISTED
                        trouble = _CROWDED if found is models.ListingResult.FULL else job.trouble
                    except StoreUnavailableError:
                        raise
                    except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
                        trouble, wait = _trouble(error), max(AGAIN, backoff_after(job.troubles))
                        warn(f"job {'/'.join(job.key)} cannot wait for a worker", error)
                self.jobs.reschedule(job, clock(), trouble, clock() + wait)
            if len(due) < JOBS_A_ROUND:
                break
        return listed

    def _relist(
        self, tree: Tree, terms: BiddingTerms, key: JobKey, now: datetime
    ) -> models.ListingResult | None:
        _, biz = biz_of(tree, key[0], key[1])
        job = self.jobs.get(*key)
        if job is None or job.state is not JobState.PLACING:
            return None
        return list_for_bids(self.board, terms, biz, job, now)

    def _award_due(
        self, tree: Tree, terms: BiddingTerms, clock: Clock, time_left: TimeLeft, done: Awarded
    ) -> None:
        # Not the pools that the stage document alone knows of: no worker of those exists.
        wait, pools = timedelta(seconds=terms.wait_seconds), {MAIN_POOL, *tree.pools}
        for key, worker in self.board.lapse(clock(), wait, JOBS_A_ROUND):
            done.lapsed += 1
            extra = {"job": "/".join(key), "worker": worker}
            self.say("a job's winner has not begun; the job waits again", extra=extra)
        waits = partial(self._wait_on, pools=pools)
        for due, step in ((self.board.due_windows, self._award), (self.board.due_waits, waits)):
            for key in due(clock(), JOBS_A_ROUND):
                if time_left() <= 0:
                    return
                try:
                    step(terms, key, clock(), done)
                except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
                    warn(f"job {'/'.join(key)} could not be placed now", error)

    def _award(self, terms: BiddingTerms, key: JobKey, now: datetime, done: Awarded) -> None:
        found = self.board.read(key)
        if found is None or found[0].state is not models.ListingState.APPLIED:
            return
        standing, bids = found
        applications = []
        for bid in bids:
            application = _application(bid)
            if application is None:
                self.board.retract(bid.worker, now, timedelta(seconds=terms.wait_seconds))
            else:
                applications.append(application)
        # An unreadable bid that was retracted has changed the version: the next round awards.
        if not applications or len(applications) < len(bids):
            return
        decided = award(applications, terms, self._demand(key, standing, applications))
        until = now + timedelta(seconds=terms.acknowledge_seconds)
        if self.board.award(key, standing.version, decided.winner.worker, until) is not None:
            done.awarded += 1
            ranking = [msgspec.to_builtins(one) for one in decided.ranking]
            self.say("a job is awarded", extra={"job": "/".join(key), "ranking": ranking})

    def _demand(
        self, key: JobKey, standing: models.Standing, applications: Sequence[models.Application]
    ) -> JobDemand | None:
        """Get the job's known demand, where that decides anything."""
        if len(applications) < _SEVERAL:
            return None
        wanted = _WANTED.decode(standing.listing.document)
        try:
            return demand_of(self.demands, key[0], key[1], wanted.spider, wanted.demand)
        except StoreUnavailableError as error:
            warn("an award goes without what runs have taken", error)
            return None

    def _wait_on(
        self,
        terms: BiddingTerms,
        key: JobKey,
        now: datetime,
        done: Awarded,
        *,
        pools: Collection[str],
    ) -> None:
        """Lower a job that nobody has applied for, have it wait on, or give it up."""
        job, found = self.jobs.get(*key), self.board.read(key)
        if job is None or job.state is not JobState.PLACING:
            self.board.withdraw(key)  # cancelled, or placed by a winner that was late
            return
        if found is None or found[0].state is not models.ListingState.WAITING:
            return
        standing = found[0]
        times, notes = standing.listing.lowered, standing.why_not
        since = standing.listing.since or job.created_at
        decision = decide(notes, times, pools, since, now, terms)
        if decision.step is Step.GIVE_UP:
            self._give_up(job, self._why(job, standing, decision), now, done)
            return
        if decision.step is Step.LOWER:
            # First in MongoDB: a board that is rebuilt keeps it.
            self.jobs.note_lowered(job, times + 1)
            done.lowered += self.board.lower(key, times, now, decision.wait)
        else:
            stays = decision.step is Step.STAY
            self.board.defer(key, times, now, decision.wait, stays=stays)
        why = explain_declines(notes, decision.silent)
        self.jobs.reschedule(job, now, why, now + decision.wait)

    def _why(self, job: Job, standing: models.Standing, decision: Decision) -> str:
        """Explain why a job is given up: with what it wants, unless its site is the reason."""
        declines = explain_declines(standing.why_not, decision.silent)
        if is_link_fault(standing.why_not):
            return f"{decision.why}: {declines}"
        wanted = _WANTED.decode(standing.listing.document)
        demand = demand_of(self.demands, job.tenant, job.biz, wanted.spider, wanted.demand)
        wants = describe_demand(demand, wanted.link)
        return f"{decision.why}: it wants {wants}; on offer were {declines}"

    def _give_up(self, job: Job, why: str, now: datetime, done: Awarded) -> None:
        if self.jobs.unplace(job, why, now):
            done.unplaced += 1
            extra: dict[str, Any] = {"job": "/".join(job.key), "why": why}
            self.say("a job is given up", extra=extra)
        self.board.withdraw(job.key)

    def _release_jobs(self, clock: Clock, time_left: TimeLeft) -> int:
        """Place the jobs that wait for any worker, as the stage has no bidding any more."""
        released = 0
        while time_left() > 0 and (waiting := self.jobs.placing(JOBS_A_ROUND)):
            for job in waiting:
                released += self.jobs.place(job, job.pool, None, None, clock()) is not None
                try:
                    self.board.withdraw(job.key)
                except StoreUnavailableError as error:
                    warn("a job that waits for nobody is still on the board", error)
        return released
