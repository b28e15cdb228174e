"""Jobs that wait for a worker get one (SPEC.md B5, B6, D2): awards, and what nobody applies for.

Every worker and the scheduler may do a round; a turn keeps it to one at a time, which spares work:
each step names what it was decided on, so none is done twice. There is no master.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec

from crawlfleet.errors import StoreUnavailableError
from crawlfleet.flows.boarding import BoardingPorts, offer_missing
from crawlfleet.flows.learning import demand_of
from crawlfleet.model.bidding import Application, BiddingTerms, Wanted
from crawlfleet.model.biz import Tree
from crawlfleet.model.board import Bid, JobKey, OfferState, Standing
from crawlfleet.model.job import Job, JobState
from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.model.usage import JobDemand
from crawlfleet.policy import declining
from crawlfleet.policy.bidding import award
from crawlfleet.policy.bidding import said as wanted_by
from crawlfleet.policy.declining import Decided, Step
from crawlfleet.ports import JobStore, Watch
from crawlfleet.ports.board import JobBoard
from crawlfleet.ports.demands import DemandStore

#: Turns' names, how often they come round, and after what a holder that vanished loses one.
TURN: Final = "awarding"
EVERY: Final = timedelta(seconds=1)
FILL_TURN: Final = "boarding"
FILL_EVERY: Final = timedelta(seconds=5)
#: Where jobs wait for nobody it is looked so often whether some still do.
OFF_EVERY: Final = timedelta(seconds=30)
TERM: Final = timedelta(seconds=30)
#: Jobs of each kind in a round.
JOBS_A_ROUND: Final = 100
_SEVERAL: Final = 2

_APPLICATION: Final = msgspec.json.Decoder(Application)
_WANTED: Final = msgspec.json.Decoder(Wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwardingPorts:
    """What a round needs of the world.

    ``warn`` is told what is wrong but not fatal; ``say`` writes a line for people, with ``extra``.
    """

    jobs: JobStore
    board: JobBoard
    demands: DemandStore
    watch: Watch
    warn: Callable[[str, Exception], None]
    say: Callable[..., None]

    @property
    def boarding(self) -> BoardingPorts:
        """As much as filling the board needs."""
        return BoardingPorts(jobs=self.jobs, board=self.board, warn=self.warn)


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
    if not ports.watch.take_turn(TURN, by, OFF_EVERY if terms is None else EVERY, TERM):
        return Awarded(mine=False)
    done = Awarded()
    try:
        if terms is None:
            done.released = _release(ports, clock, time_left)
        else:
            _round(ports, tree, terms, clock, time_left, done)
    finally:
        ports.watch.end_turn(TURN, by)
    if terms is not None and ports.watch.take_turn(FILL_TURN, by, FILL_EVERY, TERM):
        try:
            done.offered = offer_missing(ports.boarding, tree, terms, clock, time_left)
        finally:
            ports.watch.end_turn(FILL_TURN, by)
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
                ports.warn(f"job {'/'.join(key)} could not be placed now", error)


def _award(
    ports: AwardingPorts, terms: BiddingTerms, key: JobKey, now: datetime, done: Awarded
) -> None:
    found = ports.board.read(key)
    if found is None or found[0].state is not OfferState.APPLIED:
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
        ports.warn("an award goes without what runs have taken", error)
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
    if found is None or found[0].state is not OfferState.WAITING:
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
    ports.jobs.look(job, now, declining.told(notes, decided.unheard), now + decided.wait)


def _said(ports: AwardingPorts, job: Job, standing: Standing, decided: Decided) -> str:
    """Why a job is given up, for people: with what it wants, unless its site is what keeps it."""
    why, offered = decided.why, declining.told(standing.why_not, decided.unheard)
    if declining.is_unanswered(standing.why_not):
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
                ports.warn("a job that waits for nobody is still on the board", error)
    return released
