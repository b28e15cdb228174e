"""A worker applies for jobs, one at a time, and begins those that it wins (SPEC.md B4, D2).

::

    head -> enough applicants? -> the way to the site -> fits? -> apply, or say why not
    awarded -> acknowledged -> placed in MongoDB; then its tasks are made by whoever comes

A job that cannot be judged now keeps nobody from those behind it: ways to sites are found out
beside, a few at a time, and what was looked at is passed over for a while. Whoever vanishes on the
way harms nothing: an award that nobody acknowledges lapses, and a job that was acknowledged and not
placed is offered again after jobs.bidding.listing.BEGUN.

What a worker has left for one job more, as it applies (SPEC.md B4).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.config.lookup import ConfigCentre
from crawlfleet.fleet.models import Remaining
from crawlfleet.fleet.resources import Readings
from crawlfleet.jobs.bidding.listing import BEGUN, DEEPEST, MOST_READ
from crawlfleet.jobs.bidding.models import (
    Application,
    Applied,
    Decline,
    JobKey,
    ListingState,
    Offer,
    Probe,
    Standing,
    UnknownLink,
    Wanted,
    WhyNot,
)
from crawlfleet.jobs.bidding.ports import JobBoard
from crawlfleet.jobs.bidding.probing import LinkProbes, ProbingPorts
from crawlfleet.jobs.bidding.selection import after, fits, most
from crawlfleet.jobs.expansion import backoff_after
from crawlfleet.jobs.ports import DemandStore, JobStore
from crawlfleet.jobs.spiders.models import LinkNeeds
from crawlfleet.jobs.usage import JobDemand, Usage
from crawlfleet.jobs.usage_averages import demand_of
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.time import Threaded


class RemainingResources:
    """The readings of one worker, less what it has won and they do not show yet.

    To be made before the worker begins to work: what it has when it does nothing is read then, and
    not when the first job is to be judged, by when it may have been at work for long.
    """

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._recent: list[tuple[datetime, Usage]] = []
        #: The most that it was seen to have left: what it has when it does nothing else.
        self.most = readings.at_rest()

    def won(self, now: datetime, usage: Usage) -> None:
        """It has begun a job whose runs take so much."""
        self._recent.append((now, usage))

    def look(self, now: datetime, lag: timedelta) -> tuple[Remaining, int]:
        """What is left, and how many jobs of the last ``lag`` are taken off."""
        left = self._readings.remaining()
        self.most = most(self.most, left)
        self._recent = [one for one in self._recent if now - one[0] < lag]
        for _, usage in self._recent:
            left = after(left, usage)
        return left, len(self._recent)


#: Jobs whose ways are looked at anew in a round.
LOOKS: Final = 4
#: Between two rounds: with an application open, without one, without bidding, after a fault.
OPEN_SECONDS: Final = 0.1
ROUND_SECONDS: Final = 0.5
OFF_SECONDS: Final = 2.0
TROUBLE_SECONDS: Final = 1.0
#: What was looked at is passed over for so long; at most so long where its site is away.
PASS: Final = timedelta(seconds=5)
PASS_FULL: Final = timedelta(seconds=1)
LONGEST_PASS: Final = timedelta(seconds=60)
#: A job that could not be judged for its wait, or for so long, is judged without its site.
LONGEST_UNJUDGED: Final = timedelta(minutes=2)
#: With less of the worker's time left it applies for nothing.
MARGIN_SECONDS: Final = 60.0
#: A demand that was read counts for so long; of so many spiders at most.
DEMAND: Final = timedelta(seconds=20)
_DEMANDS: Final = 256
#: A winner writes that it has begun within this; then others may be offered the job.
_PLACE_WITHIN: Final = BEGUN - timedelta(seconds=15)

_WANTED: Final = msgspec.json.Decoder(Wanted)
#: A way that cannot be faulted, for whoever is judged without it.
_PERFECT_LINK: Final = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BidderPorts:
    """What a worker needs to apply."""

    config: ConfigCentre
    board: JobBoard
    jobs: JobStore
    demands: DemandStore
    readings: Readings
    probing: ProbingPorts
    clock: Callable[[], datetime]


@dataclass(slots=True)
class _Passed:
    """A job that is passed over: until when, as it then stood, and after how many faults."""

    until: datetime
    lowered: int
    faults: int = 0
    unjudged_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Won:
    key: JobKey
    number: int
    at: datetime


class Bidder:
    """The applications of one worker.

    Args:
        ports: What it applies through.
        pool: The pool that the worker is of.
        worker: Who applies.
        threaded: Calls a part without stopping the loop.
        time_left: How many seconds the worker still has.
    """

    def __init__(
        self,
        ports: BidderPorts,
        pool: str,
        worker: str,
        threaded: Threaded,
        time_left: Callable[[], float],
    ) -> None:
        self._ports = ports
        self._pool = pool
        self._id = worker
        self._threaded = threaded
        self._time_left = time_left
        self._passed: dict[JobKey, _Passed] = {}
        self._ways = LinkProbes(ports.probing, pool, worker)
        self._demands: dict[tuple[str, str, str], tuple[datetime, JobDemand]] = {}
        self._left = RemainingResources(ports.readings)
        self._won: _Won | None = None
        self._is_open = False
        self._has_looked = False
        #: How many jobs it has won and begun.
        self.placed = 0

    @property
    def stays(self) -> bool:
        """Whether the worker has an application open, or is still looking: it is not idle then."""
        if self._ports.config.current().stage.bidding is None:
            return False
        return (
            not self._has_looked
            or self._is_open
            or self._won is not None
            or self._ways.is_looking
            or any(one.unjudged_since is not None for one in self._passed.values())
        )

    async def run(self) -> None:
        """Apply until it is cancelled; whatever fails is tried again."""
        while True:
            try:
                pause = await self.round()
            except Exception as error:  # noqa: BLE001  pages go on without
                self._has_looked = True
                warn("no job could be applied for", error)
                pause = TROUBLE_SECONDS
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """Apply no more, and let others have what is not begun."""
        await self._ways.close()
        if self._won is not None:
            await self._place(self._won)
        if self._is_open:
            await self._retract()

    async def round(self) -> float:
        """One look at the board; in how many seconds the next one is due.

        Raises:
            StoreError: a part did not answer.
        """
        terms = self._ports.config.current().stage.bidding
        if terms is None:
            if self._is_open:
                await self._retract()
            return OFF_SECONDS
        if self._won is not None:
            await self._place(self._won)
        standing = await self._threaded(self._ports.board.held, self._id)
        self._is_open = standing is not None
        if standing is None:
            if self._time_left() > MARGIN_SECONDS:
                await self._choose(terms)
            self._has_looked = True
        elif standing.state is ListingState.AWARDED:
            await self._begin(standing)
        return OPEN_SECONDS if self._is_open else ROUND_SECONDS

    # ---- a job that was won --------------------------------------------------------------------

    async def _begin(self, standing: Standing) -> None:
        ports, key, number = self._ports, standing.offer.key, standing.number or 0
        now = ports.clock()
        self._is_open = False
        if await self._threaded(ports.board.acknowledge, self._id, key, number, now):
            self._won = _Won(key, number, now)
            await self._place(self._won)

    async def _place(self, won: _Won) -> None:
        """Write down that the job is begun; another round tries again where nobody answers."""
        ports, now = self._ports, self._ports.clock()
        if now - won.at > _PLACE_WITHIN:
            # Nobody says that it was not written, and others may be offered it: that decides.
            self._won = None
            return
        try:
            job = await self._threaded(ports.jobs.get, *won.key)
            pool = None if self._pool == MAIN_POOL else self._pool
            placed = job and await self._threaded(
                ports.jobs.place, job, pool, self._id, won.number, now
            )
        except StoreError as error:
            warn("a job that was won could not be written down yet", error)
            return
        self._won = None
        if placed is not None:
            self.placed += 1
            spider = placed.spider or placed.rule
            demand = await self._threaded(self._demand, (placed.tenant, placed.biz, spider))
            self._left.won(now, demand.usage)

    async def _retract(self) -> None:
        ports, terms = self._ports, self._ports.config.current().stage.bidding or BiddingTerms()
        try:
            wait = timedelta(seconds=terms.wait_seconds)
            await self._threaded(ports.board.retract, self._id, ports.clock(), wait)
            self._is_open = False
        except StoreError as error:
            # Awarded to one that is gone, it lapses.
            warn("an application could not be taken back", error)

    # ---- choosing one --------------------------------------------------------------------------

    async def _choose(self, terms: BiddingTerms) -> None:
        """Apply for the first job that fits, of those that can be judged in this round."""
        ports = self._ports
        offers = await self._threaded(self._head)
        there = {offer.key for offer in offers}
        self._passed = {key: one for key, one in self._passed.items() if key in there}
        looks = self._worth_a_look(offers)
        if not looks:
            self._ways.forget()
            return
        await self._ways.look(looks, terms.probe_seconds)
        crowds, demands = await self._threaded(self._facts, looks)
        why: dict[JobKey, Decline] = {}
        for offer, wanted in looks:
            if crowds[offer.key] >= terms.applicants:
                self._pass(offer, PASS_FULL)
                continue
            try:
                way = self._ways.found(offer, wanted)
            except Exception as error:  # noqa: BLE001  no job's fault may be another's
                warn(f"job {'/'.join(offer.key)} cannot be judged", error)
                self._pass(offer, PASS)
                continue
            if way is None:
                continue  # it is being found out
            said = self._judge(offer, wanted, demands[offer.key], way, terms)
            if isinstance(said, Decline):
                why[offer.key] = said
                continue
            applied = await self._threaded(
                ports.board.apply,
                self._id,
                offer.key,
                msgspec.json.encode(said),
                ports.clock(),
                timedelta(seconds=terms.window_seconds),
            )
            if applied in {Applied.APPLIED, Applied.BUSY}:
                self._is_open = True
                self._passed.pop(offer.key, None)
                break
        if why:
            await self._threaded(ports.board.decline, self._pool, why, ports.clock())
        self._ways.forget()

    def _head(self) -> list[Offer]:
        board, first = self._ports.board, 0
        found: list[Offer] = []
        while first < DEEPEST:
            part = board.head(self._pool, MOST_READ, first)
            found += part
            first += MOST_READ
            # Whoever passes over few of those needs no more of them.
            if len(part) < MOST_READ or len(self._passed) < first - LOOKS:
                break
        return found

    def _worth_a_look(self, offers: Sequence[Offer]) -> list[tuple[Offer, Wanted]]:
        now, new = self._ports.clock(), 0
        found: list[tuple[Offer, Wanted]] = []
        for offer in offers:
            passed = self._passed.get(offer.key)
            if passed is not None and passed.until > now and passed.lowered == offer.lowered:
                continue
            try:
                wanted = _WANTED.decode(offer.document)
                is_new = self._ways.is_new(offer, wanted)
            except (msgspec.DecodeError, ValueError) as error:
                warn(f"job {'/'.join(offer.key)} cannot be read", error)
                self._pass(offer, LONGEST_PASS)
                continue
            # What is being found out since an earlier round takes no place of what comes after.
            if is_new:
                if new >= min(LOOKS, self._ways.room):
                    continue
                new += 1
            elif not self._ways.is_found(offer, wanted):
                continue
            found.append((offer, wanted))
        return found

    def _facts(
        self, looks: Sequence[tuple[Offer, Wanted]]
    ) -> tuple[dict[JobKey, int], dict[JobKey, JobDemand]]:
        """How many have applied for each, and what each takes."""
        crowds: dict[JobKey, int] = {}
        demands: dict[JobKey, JobDemand] = {}
        for offer, wanted in looks:
            found = self._ports.board.read(offer.key)
            crowds[offer.key] = 0 if found is None else found[0].applications
            demands[offer.key] = self._demand((offer.tenant, offer.biz, wanted.spider))
        return crowds, demands

    def _demand(self, key: tuple[str, str, str]) -> JobDemand:
        now, known = self._ports.clock(), self._demands.get(key)
        if known is None or now - known[0] > DEMAND:
            if len(self._demands) >= _DEMANDS:
                self._demands.clear()
            known = self._demands[key] = now, demand_of(self._ports.demands, *key)
        return known[1]

    def _judge(
        self,
        offer: Offer,
        wanted: Wanted,
        demand: JobDemand,
        way: Probe | UnknownLink,
        terms: BiddingTerms,
    ) -> Application | Decline:
        """The application for a job, or why there is none; it is passed over for a while then."""
        now = self._ports.clock()
        link, probe = wanted.link, way
        if isinstance(probe, UnknownLink):
            passed = self._passed.get(offer.key)
            since = now if passed is None else passed.unjudged_since or now
            patience = min(timedelta(seconds=terms.wait_seconds), LONGEST_UNJUDGED)
            if now - since < patience:
                again = min(PASS, timedelta(seconds=max(0.5, probe.again_seconds)))
                self._pass(offer, again, unjudged_since=since)
                return Decline(kind=WhyNot.UNJUDGED, lowered=offer.lowered, why=probe.why)
            link, why = LinkNeeds(), probe.why
            probe = Probe(at=now, seconds=_PERFECT_LINK)
            reported = Probe(at=now, fault=f"not judged: {why}")
        else:
            reported = probe
        if probe.seconds is None:
            faults = self._faults(offer)
            wait = min(backoff_after(faults), LONGEST_PASS)
            self._pass(offer, wait, faults=faults + 1)
            why = probe.fault or "nothing was read"
            return Decline(kind=WhyNot.AWAY, lowered=offer.lowered, why=why)
        lag = timedelta(seconds=terms.lag_seconds)
        remaining, lately = self._left.look(now, lag)
        fit = fits(remaining, probe, demand, link, offer.lowered, terms)
        if not fit.is_fit:
            self._pass(offer, PASS)
            free = fits(self._left.most, probe, demand, link, offer.lowered, terms)
            kind = WhyNot.BUSY if free.is_fit else WhyNot.LACKS
            return Decline(kind=kind, lowered=offer.lowered, why="; ".join(fit.why_not))
        return Application(
            worker=self._id,
            pool=self._pool,
            remaining=remaining,
            probe=reported,
            at=now,
            lately=lately,
        )

    def _faults(self, offer: Offer) -> int:
        passed = self._passed.get(offer.key)
        return 0 if passed is None else passed.faults

    def _pass(
        self,
        offer: Offer,
        wait: timedelta,
        *,
        faults: int = 0,
        unjudged_since: datetime | None = None,
    ) -> None:
        until = self._ports.clock() + wait
        self._passed[offer.key] = _Passed(until, offer.lowered, faults, unjudged_since)
