"""A worker's spending under quotas: a share before a download, what was used after it.

The worst case of a request is reserved before its download begins, of every account that it is of.
At the limit it waits, or ends, as the quota says. What the page has used is booked when its attempt
ends; records beyond the one that was reserved, and money beyond, are asked for before anything is
stored. What was measured is priced where it is measured (worker.usage_meter).
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Stage, Tree
from crawlfleet.config.documents.quota import AtLimit, QuotaPeriod, QuotaUnit, nano_dollars
from crawlfleet.crawling.politeness.client import Waiting
from crawlfleet.fleet.quotas.models import (
    NO_TERMS,
    Account,
    JobTerms,
    Limit,
    Scope,
    Standing,
    Terms,
    Use,
    Window,
    limits_of,
    window_of,
)
from crawlfleet.fleet.quotas.money import DEFAULT_GB, worst_case
from crawlfleet.fleet.quotas.parking import OVER_SECONDS, Parking, ended, parked
from crawlfleet.fleet.quotas.purse import Purse
from crawlfleet.fleet.quotas.reservation import AGAIN, OverLimitError, Reservation, used_by
from crawlfleet.fleet.quotas.service import QuotaLedgers, Wish
from crawlfleet.fleet.quotas.terms import MOST_JOBS, KnownTerms, Threaded
from crawlfleet.kernel.hosts import site_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import MAIN_POOL, QueueKey
from crawlfleet.kernel.time import Clock, SteadyTime
from crawlfleet.requests.leased import Bill, LeasedRequest
from crawlfleet.requests.outcomes import Done, Outcome

#: A worker that has used nothing of a share for so long returns it.
QUIET_SECONDS: Final = 2.0
#: Between two looks whether there is something to say.
LOOK_SECONDS: Final = 0.25
#: A request that gets no share waits at its worker for so long: others are about to return some.
PATIENCE_SECONDS: Final = 2.0

_Key: TypeAlias = tuple[Account, Window]
#: A tenant, a biz, a user and a job.
_Owner: TypeAlias = tuple[str, str, str | None, str | None]


class Spending:
    """The shares of one worker. Used from its event loop, but for :meth:`blocks`."""

    def __init__(
        self,
        ledgers: QuotaLedgers,
        holder: str,
        tree: Callable[[], Tree],
        terms: Terms,
        threaded: Threaded,
        clock: Clock,
        steady: SteadyTime,
        pool: str = MAIN_POOL,
        gb: float = DEFAULT_GB,
    ) -> None:
        self._pool, self._gb = pool, gb
        # The most that an attempt of a biz may cost, by its id, of which stage.
        self._worst: dict[int, tuple[Stage, Biz, int]] = {}
        # Lambda may run one invocation twice, under one id; their shares must not be one.
        self._ledgers, self._holder = ledgers, f"{holder}.{secrets.token_hex(4)}"
        self._tree, self._threaded = tree, threaded
        self._clock, self._steady = clock, steady
        self._purses: dict[_Key, Purse] = {}
        self._limits: dict[_Key, Limit] = {}
        # How accounts stood, and when that was, by the steady clock.
        self._standings: dict[_Key, tuple[float, Standing]] = {}
        # When a limit was last found to block a biz.
        self._blocked: dict[_Key, float] = {}
        #: What is known of jobs.
        self.terms = KnownTerms(terms, threaded, steady)
        # The present periods, each with the moment that it was made at.
        self._windows: dict[QuotaPeriod, tuple[datetime, Window]] = {}
        # The limits that requests of an owner are under: by whose, of which tree and terms.
        self._owned: dict[_Owner, tuple[Tree, JobTerms | None, tuple[Limit, ...]]] = {}
        self._wake, self._answered = asyncio.Event(), asyncio.Event()
        #: What waits for limits that are used up.
        self.parking = Parking(
            ledgers, tree, (self.terms.now, self.terms.fresh), self._holds, clock, steady
        )
        #: Exchanges with the ledgers.
        self.exchanges = 0

    # ---- around an attempt -----------------------------------------------------------------------

    async def within(
        self, leased: LeasedRequest, attempt: Callable[[], Awaitable[Outcome | Waiting]]
    ) -> Outcome | Waiting:
        """Make an attempt under the limits of its request, or say why it waits or ends."""
        limits = await self._limits_of(leased)
        if not limits:
            return await attempt()
        leased.bill = bill = Bill() if any(map(_is_money, limits)) else None
        worst = Use(
            requests=1,
            records=1,
            bytes=leased.biz.fetch.max_body_bytes,
            usd=0 if bill is None else self._worst_case(leased.biz),
        )
        reservation = Reservation({})
        used = Use()
        try:
            limits = await self._reserve_worst(leased, reservation, limits, worst)
            used = reservation.worst = worst
            leased.take_records = lambda count: self._take_part(
                reservation, limits, count, bill, worst
            )
            end = await attempt()
            found = len(end.records) if isinstance(end, Done) else 0
            if reservation.over is not None:
                # To the attempt it was something that is not ready; its page was asked for.
                used = Use(requests=1, bytes=leased.received)
                return self._at_limit(leased, reservation.over)
            used = used_by(end, leased, worst)
            if bill is not None:
                owed = nano_dollars(bill.usd)
                await self._more(reservation, limits, QuotaUnit.USD, owed)
            await self._more_records(reservation, limits, found)
        except OverLimitError as over:
            return self._at_limit(leased, over)
        else:
            return end
        finally:
            leased.take_records = None
            usd = 0 if bill is None else reservation.charged(bill)
            self._settle(reservation, replace(used, records=reservation.records, usd=usd))

    def _worst_case(self, biz: Biz) -> int:
        """Return the most that an attempt of a biz may cost; the stage's prices may be changed."""
        stage = self._tree().stage
        known = self._worst.get(id(biz))
        if known is None or known[0] is not stage or known[1] is not biz:
            if len(self._worst) >= MOST_JOBS:
                self._worst.clear()
            known = stage, biz, worst_case(stage, biz, self._pool, self._gb)
            self._worst[id(biz)] = known
        return known[2]

    async def _reserve_worst(
        self, leased: LeasedRequest, reservation: Reservation, limits: tuple[Limit, ...], worst: Use
    ) -> tuple[Limit, ...]:
        """Reserve the worst case; return the limits, as a job's own may have been raised."""
        try:
            await self._reserve(reservation, {one: worst.of(one.quota.unit) for one in limits})
        except OverLimitError as over:
            if over.standing.limit.account.scope is not Scope.JOB:
                raise
            latest = await self._limits_of(leased, fresh=True)
            if latest == limits:
                raise
            await self._reserve(reservation, {one: worst.of(one.quota.unit) for one in latest})
            return latest
        return limits

    async def _take_part(
        self,
        reservation: Reservation,
        limits: Iterable[Limit],
        count: int,
        bill: Bill | None,
        worst: Use,
    ) -> None:
        """Get room for a part of a page's records, and for the time until the next one."""
        if bill is not None:
            owed = nano_dollars(bill.now_usd) + worst.usd
            await self._more(reservation, limits, QuotaUnit.USD, owed)
        await self._more_records(reservation, limits, count)

    async def _more_records(
        self, reservation: Reservation, limits: Iterable[Limit], count: int
    ) -> None:
        """Get room for so many records more; OverLimitError where there is none."""
        total = reservation.records + count
        await self._more(reservation, limits, QuotaUnit.RECORDS, total)
        reservation.records = total

    async def _more(
        self, reservation: Reservation, limits: Iterable[Limit], unit: QuotaUnit, total: int
    ) -> None:
        """Get room for so much of a unit in all; OverLimitError where there is none."""
        if total <= reservation.worst.of(unit):
            return
        wanted = {}
        for limit in limits:
            if limit.quota.unit is unit:
                has = sum(
                    amount for (one, _), amount in reservation.parts.items() if one == limit.account
                )
                wanted[limit] = max(0, total - has)
        if any(wanted.values()):
            try:
                await self._reserve(reservation, wanted)
            except OverLimitError as over:
                reservation.over = over
                raise

    def _settle(self, reservation: Reservation, used: Use) -> None:
        booked: set[Account] = set()
        for key, amount in reservation.parts.items():
            # Of an attempt that reserved in two periods the first one's is booked.
            of_this = 0 if key[0] in booked else used.of(key[0].unit)
            self._purses[key].settle(amount, of_this)
            booked.add(key[0])

    def blocks(self, queue_key: QueueKey) -> bool:
        """Tell whether a limit has all requests of a biz wait: then none is to be leased.

        Any thread may ask. What is known of such a limit is looked at again while it is asked for.
        """
        limits = limits_of(self._tree(), queue_key.tenant, queue_key.biz)
        if not limits:
            return False
        clock, now = self._clock(), self._steady.now()
        for limit in limits:
            if limit.quota.at_limit is AtLimit.WAIT:
                key = limit.account, self._window(limit.quota.per, clock)
                known = self._standings.get(key)
                if known is not None and known[1].limit == limit and known[1].is_used_up:
                    self._blocked[key] = now
                    return True
        return False

    async def _limits_of(self, leased: LeasedRequest, *, fresh: bool = False) -> tuple[Limit, ...]:
        tenant, biz = leased.queue_key.tenant, leased.queue_key.biz
        request = leased.claim.request
        terms = None
        if request.job is not None:
            terms = await self.terms.of((tenant, biz, request.job), fresh=fresh)
        # Made once for all requests of an owner, as long as nothing is changed.
        owner, tree = (tenant, biz, request.user, request.job), self._tree()
        known = self._owned.get(owner)
        if known is not None and known[0] is tree and known[1] is terms:
            return known[2]
        limits = limits_of(tree, *owner, terms or NO_TERMS)
        if len(self._owned) >= MOST_JOBS:
            self._owned.clear()
        self._owned[owner] = tree, terms, limits
        return limits

    def _window(self, per: QuotaPeriod, now: datetime) -> Window:
        """Return the present period. Any thread may ask."""
        made_at, known = self._windows.get(per, (now, None))
        if known is None or now < made_at or (known.ends_at is not None and now >= known.ends_at):
            known = window_of(per, now)
            self._windows[per] = now, known
        return known

    def _holds(self, limit: Limit) -> bool:
        """Tell whether something of a share is left. Any thread may ask."""
        purse = self._purses.get((limit.account, self._window(limit.quota.per, self._clock())))
        return purse is not None and purse.free(self._steady.now()) > 0

    async def _reserve(self, reservation: Reservation, wanted: Mapping[Limit, int]) -> None:
        """Reserve all that is wanted, or nothing: OverLimitError where a limit is against it."""
        waiter, patience = object(), self._steady.now() + PATIENCE_SECONDS
        asked: list[tuple[_Key, Purse, int]] = []
        try:
            while True:
                now, clock = self._steady.now(), self._clock()
                for _, purse, _ in asked:
                    purse.waiting.pop(waiter, None)
                asked = []
                for limit, amount in wanted.items():
                    key = limit.account, self._window(limit.quota.per, clock)
                    asked.append((key, self._purse(key, limit, now), amount))
                short = [one for one in asked if one[1].free(now) < one[2]]
                if not short:
                    for key, purse, amount in asked:
                        purse.reserve(amount, now)
                        reservation.parts[key] = reservation.parts.get(key, 0) + amount
                    return
                for key, purse, amount in short:
                    self._check(key, now, patience)
                    purse.waiting[waiter] = amount
                self._wake.set()
                await self._answered.wait()
        finally:
            for _, purse, _ in asked:
                purse.waiting.pop(waiter, None)

    def _purse(self, key: _Key, limit: Limit, now: float) -> Purse:
        purse = self._purses.get(key)
        if purse is None:
            purse = self._purses[key] = Purse(
                limit.quota.amount, is_rate=limit.account.is_rate, now=now
            )
        if self._limits.get(key) is not limit:
            # A quota may be changed while it is in force.
            purse.most, self._limits[key] = limit.quota.amount, limit
        return purse

    def _check(self, key: _Key, now: float, patience: float) -> None:
        """Raise OverLimitError where there is no sense in waiting for a share."""
        limit, known = self._limits[key], self._standings.get(key)
        if known is not None and known[1].limit == limit:
            looked_at, standing = known
            if standing.is_used_up and now - looked_at < OVER_SECONDS:
                raise OverLimitError(standing)
        if now >= patience:
            standing = known[1] if known is not None else Standing(limit=limit, window=key[1])
            raise OverLimitError(standing)

    def _at_limit(self, leased: LeasedRequest, over: OverLimitError) -> Outcome | Waiting:
        said, quota = str(over), over.standing.limit.quota
        if over.standing.is_used_up and quota.at_limit is AtLimit.END:
            return ended(over.standing)
        if over.standing.is_used_up:
            return parked(over.standing, [leased], self._clock())
        until = self._clock() + AGAIN
        return Waiting(site_of(leased.origin), [leased], until, "quota", f"deferred: {said}"[:500])

    # ---- beside the attempts ---------------------------------------------------------------------

    async def run(self) -> None:
        """Keep up the shares, for ever: tell what was spent, get and return what is due."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), LOOK_SECONDS)
            was_woken = self._wake.is_set()
            self._wake.clear()
            # Whoever waits looks again after an answer, and now and then without one.
            if await self.look(QUIET_SECONDS) or not was_woken:
                answered, self._answered = self._answered, asyncio.Event()
                answered.set()

    async def close(self) -> None:
        """Tell the rest and return every share: nothing is under way any more."""
        await self.look(quiet_seconds=0.0)

    async def look(self, quiet_seconds: float) -> bool:
        """Make the exchanges that are due; return whether any was."""
        now, due = self._steady.now(), defaultdict(list)
        for key, purse in self._purses.items():
            if purse.is_due(now, quiet_seconds) or self._is_stale(key, now):
                due[key[0].tenant].append(key)
        if due:
            await asyncio.gather(*(self._exchange(keys, quiet_seconds) for keys in due.values()))
            self._forget()
        return bool(due)

    def _is_stale(self, key: _Key, now: float) -> bool:
        """Tell whether a limit blocks a biz by what was known of it a while ago."""
        blocked_at = self._blocked.get(key)
        if blocked_at is None or now - blocked_at > OVER_SECONDS:
            return False
        return now - self._standings[key][0] >= OVER_SECONDS

    async def _exchange(self, keys: list[_Key], quiet_seconds: float) -> None:
        asked_at, wishes = self._steady.now(), []
        least = {key: min(self._purses[key].waiting.values(), default=1) for key in keys}
        for key in keys:
            purse = self._purses[key]
            ask = purse.ask(asked_at, quiet_seconds)
            wishes.append(Wish(self._limits[key], key[1], purse.nonce or "", ask))
        self.exchanges += 1
        try:
            replies = await self._threaded(
                self._ledgers.exchange, self._holder, wishes, self._clock()
            )
        except Exception as error:  # noqa: BLE001  what it holds it may spend until its lease ends
            warn("shares of quotas could not be had", error)
            return
        for key, (nonce, booked) in zip(keys, replies, strict=True):
            purse = self._purses[key]
            if booked is not None and purse.nonce is not None:
                purse.answered(booked, asked_at)
                self._standings[key] = (
                    asked_at,
                    Standing(
                        limit=self._limits[key],
                        window=key[1],
                        used=booked.spent,
                        held=booked.held,
                        in_doubt=booked.in_doubt,
                        least=least[key],
                    ),
                )
            if nonce != purse.nonce:
                purse.follow(nonce)

    def _forget(self) -> None:
        """Forget purses of periods that are over, once all of them is told."""
        now = self._clock()
        for key, purse in list(self._purses.items()):
            ends_at = key[1].ends_at
            if ends_at is not None and ends_at + timedelta(minutes=1) < now and purse.is_told:
                del self._purses[key], self._limits[key]
                self._standings.pop(key, None)
                self._blocked.pop(key, None)


def _is_money(limit: Limit) -> bool:
    return limit.quota.unit is QuotaUnit.USD
