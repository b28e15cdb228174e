"""Jobs that wait for a worker get one (SPEC.md B5, B6, D2): awards, and what nobody applies for.

Every worker and the scheduler may do a round; a turn keeps it to one at a time, which spares work:
each step names what it was decided on, so none is done twice. There is no master.

Jobs that wait for a worker are on the board (SPEC.md B4): at once, and again if it was lost.

MongoDB says which jobs wait. Whoever starts one puts it on the board; whatever is missing there,
as Redis was away or is new, or as a winner has vanished before it wrote that down, is offered in
rounds, tenants in turns.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.jobs.bidding import listing as declining
from crawlfleet.jobs.bidding.listing import Decided, Step
from crawlfleet.jobs.bidding.models import (
    Application,
    Bid,
    JobKey,
    ListingState,
    Offer,
    Offered,
    Standing,
    Wanted,
)
from crawlfleet.jobs.bidding.ports import JobBoard
from crawlfleet.jobs.bidding.selection import award
from crawlfleet.jobs.bidding.selection import said as wanted_by
from crawlfleet.jobs.expansion import backoff_after
from crawlfleet.jobs.models import Job, JobState
from crawlfleet.jobs.ports import DemandStore, JobStore
from crawlfleet.jobs.spiders.starts import url_at
from crawlfleet.jobs.usage import JobDemand
from crawlfleet.jobs.usage_averages import demand_of, spider_of
from crawlfleet.kernel.errors import CrawlfleetError, StoreUnavailableError, UnknownBizError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.urls import origin_of

#: Jobs that are looked up at once, and how long until one is again.
JOBS_A_ROUND: Final = 100
AGAIN: Final = timedelta(seconds=20)
#: Of a longer test link its site is asked for.
_LONGEST_URL: Final = 4_096
_CROWDED: Final = "as many jobs wait for a worker as may: it is offered when some are placed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingPorts:
    """What it needs of the world."""

    jobs: JobStore
    board: JobBoard


def list_for_bids(
    board: JobBoard, terms: BiddingTerms, biz: Biz, job: Job, now: datetime
) -> Offered:
    """Put a job on the board that has all of its start; one that is there stays as it is.

    Its biz's weight is what its award costs its tenant. Who runs the stage writes that, no tenant.
    """
    url = job.link.test_url or url_at(job.start, 0)
    if len(url.encode()) > _LONGEST_URL:
        url = f"{origin_of(url)}/"
    wanted = Wanted(url=url, spider=spider_of(job), link=replace(job.link, test_url=None))
    offer = Offer(
        tenant=job.tenant,
        biz=job.biz,
        job=job.name,
        document=msgspec.json.encode(wanted),
        priority=job.priority,
        weight=biz.weight,
        lowered=job.lowered,
        since=job.created_at,
    )
    return board.offer(offer, now, timedelta(seconds=terms.wait_seconds))


def relist_missing(
    ports: ListingPorts,
    tree: Tree,
    terms: BiddingTerms,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
) -> int:
    """Offer the jobs that wait and are not on the board; how many were.

    Raises:
        StoreUnavailableError: the home node, or Redis, does not answer.
    """
    offered = 0
    while time_left() > 0:
        due = ports.jobs.placing(JOBS_A_ROUND, clock())
        missing = set(ports.board.missing([job.key for job in due])) if due else set()
        for job in due:
            if time_left() <= 0:
                break
            trouble, wait = job.trouble, AGAIN
            if job.key in missing:
                try:
                    found = _offer(ports, tree, terms, job.key, clock())
                    offered += found is Offered.OFFERED
                    trouble = _CROWDED if found is Offered.FULL else job.trouble
                except StoreUnavailableError:
                    raise
                except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
                    trouble, wait = _trouble(error), max(AGAIN, backoff_after(job.troubles))
                    warn(f"job {'/'.join(job.key)} cannot wait for a worker", error)
            ports.jobs.look(job, clock(), trouble, clock() + wait)
        if len(due) < JOBS_A_ROUND:
            break
    return offered


def _offer(
    ports: ListingPorts,
    tree: Tree,
    terms: BiddingTerms,
    key: tuple[str, str, str],
    now: datetime,
) -> Offered | None:
    """Offer a job; None where it does not wait any more."""
    _, biz = biz_of(tree, key[0], key[1])
    job = ports.jobs.get(*key)
    if job is None or job.state is not JobState.PLACING:
        return None
    return list_for_bids(ports.board, terms, biz, job, now)


def _trouble(error: Exception) -> str:
    if isinstance(error, UnknownBizError):
        return str(error)
    if isinstance(error, CrawlfleetError):
        return f"it cannot wait for a worker now ({type(error).__name__}); it is tried again"
    return "it cannot wait for a worker, for a reason that nobody foresaw; it is tried again"


#: Turns' names, how often they come round, and after what a holder that vanished loses one.
LOCK: Final = "awarding"
EVERY: Final = timedelta(seconds=1)
FILL_LOCK: Final = "boarding"
RELIST_EVERY: Final = timedelta(seconds=5)
#: Where jobs wait for nobody it is looked so often whether some still do.
OFF_EVERY: Final = timedelta(seconds=30)
TERM: Final = timedelta(seconds=30)
_SEVERAL: Final = 2

_APPLICATION: Final = msgspec.json.Decoder(Application)
_WANTED: Final = msgspec.json.Decoder(Wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwardingPorts:
    """What a round needs of the world.

    ``say`` writes a line for people, with ``extra``.
    """

    jobs: JobStore
    board: JobBoard
    demands: DemandStore
    detector: RedisFailureDetector
    say: Callable[..., None]

    @property
    def listing_jobs(self) -> ListingPorts:
        """As much as filling the board needs."""
        return ListingPorts(jobs=self.jobs, board=self.board)


@dataclass(slots=True, kw_only=True)
class Awarded:
    """What a round did; ``mine`` is False when it was another's turn.

    ``released`` wait for nobody any more, as the stage has no bidding.
    """

    mine: bool = True
    awarded: int = 0
    lapsed: int = 0
    lowered: int = 0
    unplaced: int = 0
    offered: int = 0
    released: int = 0


def award_jobs(
    ports: AwardingPorts,
    tree: Tree,
    by: str,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
) -> Awarded:
    """A round, if it is the caller's turn; ``by`` is who does it.

    Raises:
        StoreUnavailableError: Redis, or the home node, does not answer.
    """
    terms = tree.stage.bidding
    if not ports.detector.acquire_lock(LOCK, by, OFF_EVERY if terms is None else EVERY, TERM):
        return Awarded(mine=False)
    done = Awarded()
    try:
        if terms is None:
            done.released = _release(ports, clock, time_left)
        else:
            _round(ports, tree, terms, clock, time_left, done)
    finally:
        ports.detector.release_lock(LOCK, by)
    if terms is not None and ports.detector.acquire_lock(FILL_LOCK, by, RELIST_EVERY, TERM):
        try:
            done.offered = relist_missing(ports.listing_jobs, tree, terms, clock, time_left)
        finally:
            ports.detector.release_lock(FILL_LOCK, by)
    return done


def _round(
    ports: AwardingPorts,
    tree: Tree,
    terms: BiddingTerms,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
    done: Awarded,
) -> None:
    # Not those that the stage document alone knows of: nobody would ever look for them.
    wait, pools = timedelta(seconds=terms.wait_seconds), {MAIN_POOL, *tree.pools}
    for key, worker in ports.board.lapse(clock(), wait, JOBS_A_ROUND):
        done.lapsed += 1
        extra = {"job": "/".join(key), "worker": worker}
        ports.say("a job's winner has not begun; the job waits again", extra=extra)
    waits = partial(_wait_on, pools=pools)
    for due, step in ((ports.board.due_windows, _award), (ports.board.due_waits, waits)):
        for key in due(clock(), JOBS_A_ROUND):
            if time_left() <= 0:
                return
            try:
                step(ports, terms, key, clock(), done)
            except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
                warn(f"job {'/'.join(key)} could not be placed now", error)


def _award(
    ports: AwardingPorts, terms: BiddingTerms, key: JobKey, now: datetime, done: Awarded
) -> None:
    found = ports.board.read(key)
    if found is None or found[0].state is not ListingState.APPLIED:
        return
    standing, bids = found
    applications = []
    for bid in bids:
        application = _application(bid)
        if application is None:
            ports.board.retract(bid.worker, now, timedelta(seconds=terms.wait_seconds))
        else:
            applications.append(application)
    # What was taken back has changed how the job stands: the next round reads it again.
    if not applications or len(applications) < len(bids):
        return
    decided = award(applications, terms, _demand(ports, key, standing, applications))
    until = now + timedelta(seconds=terms.acknowledge_seconds)
    if ports.board.award(key, standing.version, decided.winner.worker, until) is not None:
        done.awarded += 1
        ranking = [msgspec.to_builtins(one) for one in decided.ranking]
        ports.say("a job is awarded", extra={"job": "/".join(key), "ranking": ranking})


def _demand(
    ports: AwardingPorts, key: JobKey, standing: Standing, applications: Sequence[Application]
) -> JobDemand | None:
    """What the job is known to take, where that decides anything."""
    if len(applications) < _SEVERAL:
        return None
    wanted = _WANTED.decode(standing.offer.document)
    try:
        return demand_of(ports.demands, key[0], key[1], wanted.spider)
    except StoreUnavailableError as error:
        warn("an award goes without what runs have taken", error)
        return None


def _application(bid: Bid) -> Application | None:
    """What a worker has said of itself; None where that cannot be read."""
    try:
        found = _APPLICATION.decode(bid.document)
    except msgspec.DecodeError:
        return None
    return found if found.worker == bid.worker else None


def _wait_on(
    ports: AwardingPorts,
    terms: BiddingTerms,
    key: JobKey,
    now: datetime,
    done: Awarded,
    *,
    pools: Collection[str],
) -> None:
    """Nobody has applied in a job's wait: lower it, have it wait on, or give it up."""
    job, found = ports.jobs.get(*key), ports.board.read(key)
    if job is None or job.state is not JobState.PLACING:
        ports.board.withdraw(key)  # cancelled, or placed by a winner that was late
        return
    if found is None or found[0].state is not ListingState.WAITING:
        return
    standing = found[0]
    times, notes = standing.offer.lowered, standing.why_not
    since = standing.offer.since or job.created_at
    decided = declining.decide(notes, times, pools, since, now, terms)
    if decided.step is Step.GIVE_UP:
        _give_up(ports, job, _said(ports, job, standing, decided), now, done)
        return
    if decided.step is Step.LOWER:
        # First where it is the truth: a board that is filled again keeps it.
        ports.jobs.note_lowered(job, times + 1)
        done.lowered += ports.board.lower(key, times, now, decided.wait)
    else:
        stays = decided.step is Step.STAY
        ports.board.defer(key, times, now, decided.wait, stays=stays)
    ports.jobs.look(job, now, declining.reported(notes, decided.unheard), now + decided.wait)


def _said(ports: AwardingPorts, job: Job, standing: Standing, decided: Decided) -> str:
    """Why a job is given up, for people: with what it wants, unless its site is what keeps it."""
    why, offered = decided.why, declining.reported(standing.why_not, decided.unheard)
    if declining.is_link_fault(standing.why_not):
        return f"{why}: {offered}"
    wanted = _WANTED.decode(standing.offer.document)
    demand = demand_of(ports.demands, job.tenant, job.biz, wanted.spider)
    return f"{why}: it wants {wanted_by(demand, wanted.link)}; on offer were {offered}"


def _give_up(ports: AwardingPorts, job: Job, why: str, now: datetime, done: Awarded) -> None:
    if ports.jobs.unplace(job, why, now):
        done.unplaced += 1
        extra: dict[str, Any] = {"job": "/".join(job.key), "why": why}
        ports.say("a job is given up", extra=extra)
    ports.board.withdraw(job.key)


def _release(
    ports: AwardingPorts, clock: Callable[[], datetime], time_left: Callable[[], float]
) -> int:
    """The stage has no bidding any more: jobs that wait go on with whoever comes."""
    released = 0
    while time_left() > 0 and (waiting := ports.jobs.placing(JOBS_A_ROUND)):
        for job in waiting:
            released += ports.jobs.place(job, job.pool, None, None, clock()) is not None
            try:
                ports.board.withdraw(job.key)
            except StoreUnavailableError as error:
                warn("a job that waits for nobody is still on the board", error)
    return released
