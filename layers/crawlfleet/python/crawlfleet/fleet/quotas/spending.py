"""A worker's spending under quotas: a share before a download, what was used after it.

The worst case of a request is reserved before its download begins, of every account that it is of.
At the limit it waits, or ends, as the quota says. What the page has used is booked when its attempt
ends; records beyond the one that was reserved, and money beyond, are asked for before anything is
stored. What was measured is priced where it is measured (worker.usage_meter).
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Stage, Tree
from crawlfleet.config.documents.quota import AtLimit, QuotaUnit, nano_dollars
from crawlfleet.crawling.politeness.client import Waiting
from crawlfleet.fleet.quotas.models import (
    NO_TERMS,
    Account,
    JobTerms,
    Limit,
    Scope,
    Terms,
    Use,
    for_biz,
    limits_of,
)
from crawlfleet.fleet.quotas.money import DEFAULT_GB, worst_case
from crawlfleet.fleet.quotas.parking import Parking, ended, parked
from crawlfleet.fleet.quotas.reservation import AGAIN, OverLimitError, Reservation, used_by
from crawlfleet.fleet.quotas.service import QuotaLedgers
from crawlfleet.fleet.quotas.shares import Shares
from crawlfleet.fleet.quotas.terms import MOST_JOBS, KnownTerms, Threaded
from crawlfleet.kernel.hosts import site_of
from crawlfleet.kernel.queue_key import MAIN_POOL, QueueKey
from crawlfleet.kernel.time import Clock, SteadyTime
from crawlfleet.requests.leased import Bill, LeasedRequest
from crawlfleet.requests.outcomes import Done, Outcome

#: A tenant, a biz, a user and a job.
_Owner: TypeAlias = tuple[str, str, str | None, str | None]


class Spending(Shares):
    """The shares of one worker, spent on pages; :meth:`blocks` may be asked by any thread."""

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
        super().__init__(ledgers, holder, threaded, clock, steady)
        self._pool, self._gb = pool, gb
        # The most that an attempt of a biz may cost, by its id, of which stage.
        self._worst: dict[int, tuple[Stage, Biz, int]] = {}
        self._tree = tree
        #: What is known of jobs.
        self.terms = KnownTerms(terms, threaded, steady)
        # The limits that requests of an owner are under: by whose, of which tree and terms.
        self._owned: dict[_Owner, tuple[Tree, JobTerms | None, tuple[Limit, ...]]] = {}
        #: What waits for limits that are used up.
        self.parking = Parking(
            *(ledgers, tree, (self.terms.now, self.terms.fresh), self._holds, clock, steady),
            for_biz=partial(for_biz, pool=pool, gb=gb),
        )

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

    def _at_limit(self, leased: LeasedRequest, over: OverLimitError) -> Outcome | Waiting:
        said, quota = str(over), over.standing.limit.quota
        if over.standing.is_used_up and quota.at_limit is AtLimit.END:
            return ended(over.standing)
        if over.standing.is_used_up:
            return parked(over.standing, [leased], self._clock())
        until = self._clock() + AGAIN
        return Waiting(site_of(leased.origin), [leased], until, "quota", f"deferred: {said}"[:500])


def _is_money(limit: Limit) -> bool:
    return limit.quota.unit is QuotaUnit.USD
