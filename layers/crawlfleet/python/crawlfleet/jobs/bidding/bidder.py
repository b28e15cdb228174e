"""Have a worker apply for jobs, one at a time, and begin those that it wins (SPEC.md B4, D2).

::

    head -> enough applicants? -> link probed -> fits? -> apply, or decline with the reason
    awarded -> acknowledged -> placed in MongoDB; then any process makes its tasks

A job that cannot be judged yet delays none behind it: a few links are probed at a time beside, and
a job that was examined is passed over for a while. A worker that dies on the way does no harm: an
award that it does not acknowledge lapses, and a job that it does not place is listed again after
jobs.bidding.listing.BEGUN.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.config.in_force import SsmConfig
from crawlfleet.fleet.models import Remaining
from crawlfleet.fleet.resources import MachineReadings
from crawlfleet.jobs.bidding import models
from crawlfleet.jobs.bidding.listing import BEGUN, DEEPEST, MOST_READ
from crawlfleet.jobs.bidding.probing import LinkProber, LinkProbes
from crawlfleet.jobs.bidding.selection import after, fits, most
from crawlfleet.jobs.expansion import backoff_after
from crawlfleet.jobs.models import JobDemand, JobKey, Usage
from crawlfleet.jobs.spiders.models import LinkNeeds
from crawlfleet.jobs.usage import as_stated, demand_of
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.time import Clock, Threaded, TimeLeft

if TYPE_CHECKING:
    from crawlfleet.jobs.bidding.redis import RedisBoard
    from crawlfleet.jobs.mongo.store import MongoJobs
    from crawlfleet.jobs.mongo.usage import MongoDemands


class RemainingResources:
    """The remaining resources of one worker, less what it has won and readings do not show yet.

    To be made before the worker begins to work: what it has when idle is read then.
    """

    def __init__(self, readings: MachineReadings) -> None:
        self._readings = readings
        self._recent: list[tuple[datetime, Usage]] = []
        #: The most that it was seen to have left: what it has when idle.
        self.most = readings.at_rest()

    def won(self, now: datetime, usage: Usage) -> None:
        """Subtract a job that it has begun, whose runs take so much."""
        self._recent.append((now, usage))

    def read(self, now: datetime, lag: timedelta) -> tuple[Remaining, int]:
        """Return what is left, and how many jobs of the last ``lag`` were subtracted."""
        left = self._readings.remaining()
        self.most = most(self.most, left)
        self._recent = [one for one in self._recent if now - one[0] < lag]
        for _, usage in self._recent:
            left = after(left, usage)
        return left, len(self._recent)


#: Jobs whose links are newly probed in a round.
NEW_PROBES: Final = 4
#: Between two rounds: with an application open, without one, without bidding, after a fault.
OPEN_SECONDS: Final = 0.1
ROUND_SECONDS: Final = 0.5
OFF_SECONDS: Final = 2.0
TROUBLE_SECONDS: Final = 1.0
#: A job that was examined is passed over for so long; at most so long where its site is away.
PASS: Final = timedelta(seconds=5)
PASS_FULL: Final = timedelta(seconds=1)
LONGEST_PASS: Final = timedelta(seconds=60)
#: A job whose link could not be probed in its wait, or for so long, is judged without it.
LONGEST_UNJUDGED: Final = timedelta(minutes=2)
#: With less time left the worker applies for nothing.
MARGIN_SECONDS: Final = 60.0
#: A demand is cached for so long; of so many spiders at most.
DEMAND: Final = timedelta(seconds=20)
_DEMANDS: Final = 256
#: A winner stores that it has begun within this; then the job may be listed again.
_PLACE_WITHIN: Final = BEGUN - timedelta(seconds=15)

_WANTED: Final = msgspec.json.Decoder(models.Wanted)
#: The latency of a link that is not judged.
_PERFECT_LINK: Final = 0.0


@dataclass(slots=True)
class _Passed:
    """A job that is passed over until then, as it stood, after so many faults."""

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
    """The applications of one worker of a pool.

    ``threaded`` calls a store without stopping the loop; ``time_left`` is in seconds.
    """

    def __init__(
        self,
        pool: str,
        worker: str,
        threaded: Threaded,
        time_left: TimeLeft,
        *,
        config: SsmConfig,
        board: "RedisBoard",
        jobs: "MongoJobs",
        demands: "MongoDemands",
        readings: MachineReadings,
        prober: LinkProber,
        clock: Clock,
    ) -> None:
        self._config, self._clock = config, clock
        self._board, self._jobs, self._demand_store = board, jobs, demands
        self._pool, self._id = pool, worker
        self._threaded, self._time_left = threaded, time_left
        self._passed: dict[JobKey, _Passed] = {}
        self._probes = LinkProbes(prober, pool, worker)
        self._demands: dict[tuple[str, str, str], tuple[datetime, JobDemand]] = {}
        self._left = RemainingResources(readings)
        self._won: _Won | None = None
        self._is_open = False
        self._has_read = False
        #: Jobs that it has won and begun.
        self.placed = 0

    @property
    def stays(self) -> bool:
        """Tell whether an application is open or jobs are examined: the worker is not idle then."""
        if self._config.current().stage.bidding is None:
            return False
        return (
            not self._has_read
            or self._is_open
            or self._won is not None
            or self._probes.are_open
            or any(one.unjudged_since is not None for one in self._passed.values())
        )

    async def run(self) -> None:
        """Apply until it is cancelled; whatever fails is tried again."""
        while True:
            try:
                pause = await self.round()
            except Exception as error:  # noqa: BLE001  pages go on without
                self._has_read = True
                warn("no job could be applied for", error)
                pause = TROUBLE_SECONDS
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """Apply no more, and free what is not begun for others."""
        await self._probes.close()
        if self._won is not None:
            await self._place(self._won)
        if self._is_open:
            await self._retract()

    async def round(self) -> float:
        """Act on the board; return in how many seconds to do so again. Raises StoreError."""
        terms = self._config.current().stage.bidding
        if terms is None:
            if self._is_open:
                await self._retract()
            return OFF_SECONDS
        if self._won is not None:
            await self._place(self._won)
        standing = await self._threaded(self._board.held, self._id)
        self._is_open = standing is not None
        if standing is None:
            if self._time_left() > MARGIN_SECONDS:
                await self._choose(terms)
            self._has_read = True
        elif standing.state is models.ListingState.AWARDED:
            await self._begin(standing)
        return OPEN_SECONDS if self._is_open else ROUND_SECONDS

    async def _begin(self, standing: models.Standing) -> None:
        key, number, now = standing.listing.key, standing.number or 0, self._clock()
        self._is_open = False
        if await self._threaded(self._board.acknowledge, self._id, key, number, now):
            self._won = _Won(key, number, now)
            await self._place(self._won)

    async def _place(self, won: _Won) -> None:
        """Store that the job is begun; another round tries again where no store answers."""
        now = self._clock()
        if now - won.at > _PLACE_WITHIN:
            # It may be stored or not, and the job may be listed again: MongoDB decides.
            self._won = None
            return
        try:
            job = await self._threaded(self._jobs.get, *won.key)
            pool = None if self._pool == MAIN_POOL else self._pool
            placed = job and await self._threaded(
                self._jobs.place, job, pool, self._id, won.number, now
            )
        except StoreError as error:
            warn("a job that was won could not be stored yet", error)
            return
        self._won = None
        if placed is not None:
            self.placed += 1
            spider = placed.spider or placed.rule
            learnt = await self._threaded(self._demand, (placed.tenant, placed.biz, spider))
            self._left.won(now, as_stated(learnt, placed.demand).usage)

    async def _retract(self) -> None:
        terms = self._config.current().stage.bidding or BiddingTerms()
        try:
            wait = timedelta(seconds=terms.wait_seconds)
            await self._threaded(self._board.retract, self._id, self._clock(), wait)
            self._is_open = False
        except StoreError as error:
            # If it is awarded now, the award lapses.
            warn("an application could not be retracted", error)

    async def _choose(self, terms: BiddingTerms) -> None:
        """Apply for the first job that fits, of those that can be judged in this round."""
        listings = await self._threaded(self._head)
        there = {listing.key for listing in listings}
        self._passed = {key: one for key, one in self._passed.items() if key in there}
        jobs = self._to_examine(listings)
        if not jobs:
            self._probes.forget()
            return
        await self._probes.run(jobs, terms.probe_seconds)
        crowds, demands = await self._threaded(self._facts, jobs)
        why: dict[JobKey, models.Decline] = {}
        for listing, wanted in jobs:
            if crowds[listing.key] >= terms.applicants:
                self._pass(listing, PASS_FULL)
                continue
            try:
                probe = self._probes.result(listing, wanted)
            except Exception as error:  # noqa: BLE001  no job's fault may be another's
                warn(f"job {'/'.join(listing.key)} cannot be judged", error)
                self._pass(listing, PASS)
                continue
            if probe is None:
                continue  # it is under way
            judged = self._judge(listing, wanted, demands[listing.key], probe, terms)
            if isinstance(judged, models.Decline):
                why[listing.key] = judged
                continue
            bid, window = msgspec.json.encode(judged), timedelta(seconds=terms.window_seconds)
            applied = await self._threaded(
                self._board.apply, self._id, listing.key, bid, self._clock(), window
            )
            if applied in {models.Applied.APPLIED, models.Applied.BUSY}:
                self._is_open = True
                self._passed.pop(listing.key, None)
                break
        if why:
            await self._threaded(self._board.decline, self._pool, why, self._clock())
        self._probes.forget()

    def _head(self) -> list[models.JobListing]:
        first = 0
        found: list[models.JobListing] = []
        while first < DEEPEST:
            part = self._board.head(self._pool, MOST_READ, first)
            found += part
            first += MOST_READ
            # A worker that passes over few of those needs no more.
            if len(part) < MOST_READ or len(self._passed) < first - NEW_PROBES:
                break
        return found

    def _to_examine(
        self, listings: Sequence[models.JobListing]
    ) -> list[tuple[models.JobListing, models.Wanted]]:
        now, new = self._clock(), 0
        found: list[tuple[models.JobListing, models.Wanted]] = []
        for listing in listings:
            passed = self._passed.get(listing.key)
            if passed is not None and passed.until > now and passed.lowered == listing.lowered:
                continue
            try:
                wanted = _WANTED.decode(listing.document)
                is_new = self._probes.is_new(listing, wanted)
            except (msgspec.DecodeError, ValueError) as error:
                warn(f"job {'/'.join(listing.key)} cannot be read", error)
                self._pass(listing, LONGEST_PASS)
                continue
            # A probe of an earlier round takes no place of a new one.
            if is_new:
                if new >= min(NEW_PROBES, self._probes.room):
                    continue
                new += 1
            elif not self._probes.is_done(listing, wanted):
                continue
            found.append((listing, wanted))
        return found

    def _facts(
        self, jobs: Sequence[tuple[models.JobListing, models.Wanted]]
    ) -> tuple[dict[JobKey, int], dict[JobKey, JobDemand]]:
        """Read how many have applied for each job, and what it takes."""
        crowds: dict[JobKey, int] = {}
        demands: dict[JobKey, JobDemand] = {}
        for listing, wanted in jobs:
            found = self._board.read(listing.key)
            crowds[listing.key] = 0 if found is None else found[0].applications
            learnt = self._demand((listing.tenant, listing.biz, wanted.spider))
            demands[listing.key] = as_stated(learnt, wanted.demand)
        return crowds, demands

    def _demand(self, key: tuple[str, str, str]) -> JobDemand:
        now, known = self._clock(), self._demands.get(key)
        if known is None or now - known[0] > DEMAND:
            if len(self._demands) >= _DEMANDS:
                self._demands.clear()
            known = self._demands[key] = now, demand_of(self._demand_store, *key)
        return known[1]

    def _judge(
        self,
        listing: models.JobListing,
        wanted: models.Wanted,
        demand: JobDemand,
        probe: models.Probe | models.UnknownLink,
        terms: BiddingTerms,
    ) -> models.Application | models.Decline:
        """Make the application for a job, or pass it over for a while, with the reason."""
        now = self._clock()
        link = wanted.link
        if isinstance(probe, models.UnknownLink):
            passed = self._passed.get(listing.key)
            since = now if passed is None else passed.unjudged_since or now
            patience = min(timedelta(seconds=terms.wait_seconds), LONGEST_UNJUDGED)
            if now - since < patience:
                again = min(PASS, timedelta(seconds=max(0.5, probe.again_seconds)))
                self._pass(listing, again, unjudged_since=since)
                return models.Decline(
                    kind=models.WhyNot.UNJUDGED, lowered=listing.lowered, why=probe.why
                )
            link, why = LinkNeeds(), probe.why
            probe = models.Probe(at=now, seconds=_PERFECT_LINK)
            shown = models.Probe(at=now, fault=f"not judged: {why}")
        else:
            shown = probe
        if probe.seconds is None:
            faults = self._faults(listing)
            wait = min(backoff_after(faults), LONGEST_PASS)
            self._pass(listing, wait, faults=faults + 1)
            why = probe.fault or "nothing was read"
            return models.Decline(kind=models.WhyNot.AWAY, lowered=listing.lowered, why=why)
        lag = timedelta(seconds=terms.lag_seconds)
        left, lately = self._left.read(now, lag)
        fit = fits(left, probe, demand, link, listing.lowered, terms)
        if not fit.is_fit:
            self._pass(listing, PASS)
            free = fits(self._left.most, probe, demand, link, listing.lowered, terms)
            kind = models.WhyNot.BUSY if free.is_fit else models.WhyNot.LACKS
            return models.Decline(kind=kind, lowered=listing.lowered, why="; ".join(fit.why_not))
        return models.Application(
            worker=self._id, pool=self._pool, remaining=left, probe=shown, at=now, lately=lately
        )

    def _faults(self, listing: models.JobListing) -> int:
        passed = self._passed.get(listing.key)
        return 0 if passed is None else passed.faults

    def _pass(
        self,
        listing: models.JobListing,
        wait: timedelta,
        *,
        faults: int = 0,
        unjudged_since: datetime | None = None,
    ) -> None:
        until = self._clock() + wait
        self._passed[listing.key] = _Passed(until, listing.lowered, faults, unjudged_since)
