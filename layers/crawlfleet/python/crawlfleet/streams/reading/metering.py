"""Meter what readers bring: reserve before delivery accepts it, settle what was new (SPEC.md D9).

A reader has shares of the quotas of its subscriptions, as workers have of those of pages. What no
limit leaves room for is neither stored nor delivered. What comes again costs nothing again. A
reader that dies between accepting and settling holds what it reserved until its lease is over, of a
budget for ever: it counts as used, as it may be.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from crawlfleet.config.documents.quota import QuotaUnit
from crawlfleet.fleet.quotas.models import Limit, Standing
from crawlfleet.fleet.quotas.parking import OVER_SECONDS
from crawlfleet.fleet.quotas.service import QuotaLedgers
from crawlfleet.fleet.quotas.shares import PATIENCE_SECONDS, Key, Shares
from crawlfleet.fleet.quotas.terms import Threaded
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.time import STEADY, Clock, SteadyTime
from crawlfleet.streams.delivery.models import Addressed, Subscriber, delivery_key, item_key
from crawlfleet.streams.items import StreamItem
from crawlfleet.streams.reading.sharing import allot

#: What is dropped for a quota.
OVER_QUOTA: Final = "quota"


class Taker(msgspec.Struct, frozen=True):
    """A subscription that an item is for, and the limits that it is under."""

    id: str
    subscriber: Subscriber
    limits: tuple[Limit, ...] = ()


class Wanted(msgspec.Struct, frozen=True):
    """An item, who wants it, and its place in what its channel has brought at once."""

    item: StreamItem
    takers: Sequence[Taker]
    place: int = 0


class Admitted(msgspec.Struct, kw_only=True):
    """The part of a batch that may be stored and delivered, and what is reserved for it.

    ``dropped`` counts deliveries that no limit had room for. ``owed`` is what each delivery costs,
    if it is new; ``paid`` what the channel was paid, new or not. ``is_over`` says that the channel
    itself is at its limit.
    """

    addressed: list[Addressed]
    dropped: int = 0
    reserved: Counter[Key] = msgspec.field(default_factory=Counter)
    owed: dict[bytes, dict[Key, int]] = {}
    paid: Counter[Key] = msgspec.field(default_factory=Counter)
    is_over: bool = False


class _Moment(NamedTuple):
    """A moment, by the clock and the steady one: a batch is allotted at one."""

    clock: datetime
    now: float


class Metering(Shares):
    """The shares of one process that reads streams, spent on items. Used from its event loop."""

    def __init__(
        self,
        ledgers: QuotaLedgers,
        holder: str,
        threaded: Threaded,
        clock: Clock,
        steady: SteadyTime = STEADY,
    ) -> None:
        super().__init__(ledgers, holder, threaded, clock, steady)
        # When others were last waited for in vain.
        self._tried: dict[Key, float] = {}

    def is_over(self, limits: Iterable[Limit]) -> bool:
        """Tell whether one of these limits was found to be used up a moment ago, by this process.

        Any thread may ask.
        """
        moment = self._moment()
        keys = [(self._key(limit, moment), limit) for limit in limits]
        return any(
            self._limits.get(key) == limit
            and moment.now - self._blocked.get(key, -math.inf) < OVER_SECONDS
            for key, limit in keys
        )

    async def admit(
        self,
        count: int,
        wanted: Sequence[Wanted],
        price: int = 0,
        ceilings: Iterable[Limit] = (),
    ) -> Admitted:
        """Reserve what items take, of which their channel has brought so many, wanted or not.

        All that a channel brings it is paid for: of its own limits each item takes its price.

        Raises:
            StoreUnavailableError: nobody says how much of a quota is left; repeat the call.
        """
        ceilings = [one for one in ceilings if price or one.quota.unit is QuotaUnit.ITEMS]
        needed: Counter[Limit] = Counter()
        for limit in ceilings:
            needed[limit] = count * _of_one(limit, price)
        for one in wanted:
            # Shares rise where others go without: of money as much as the item costs.
            under = Counter(limit for taker in one.takers for limit in taker.limits)
            for limit, takers in under.items():
                needed[limit] += takers if limit.quota.unit is QuotaUnit.ITEMS else price
        needed = +needed
        if not needed:
            return Admitted(addressed=[_addressed(one.item, one.takers) for one in wanted])
        await self._fill(needed, price)
        found, moment = Admitted(addressed=[]), self._moment()
        fits = [self._room(one, moment) // _of_one(one, price) for one in ceilings]
        read = min([count, *fits])
        for limit in ceilings:
            amount = read * _of_one(limit, price)
            self._reserve_of(limit, amount, moment, found.reserved, found.paid)
        found.is_over = read < count
        for one in wanted:
            if one.place < read:
                self._allot(one, price, found, moment)
            else:
                found.dropped += len(one.takers)
        return found

    def settle(self, admitted: Admitted, fresh: Collection[bytes] | None = None) -> None:
        """Book what was used: deliveries that are ``fresh``, or all of them if nobody knows."""
        used = Counter(admitted.paid)
        for delivery, owed in admitted.owed.items():
            if fresh is None or delivery in fresh:
                used.update(owed)
        for key, amount in admitted.reserved.items():
            self._purses[key].settle(amount, used[key])

    def _allot(self, one: Wanted, price: int, found: Admitted, moment: _Moment) -> None:
        """Reserve for one item, and note who takes it."""
        takers = {taker.id: taker for taker in one.takers}
        limits = {taker.id: taker.limits for taker in one.takers}
        if not any(limits.values()):
            found.addressed.append(_addressed(one.item, one.takers))
            return
        allotted = allot(one.item.id, limits, price, lambda limit: self._room(limit, moment))
        found.dropped += len(takers) - len(allotted.takers)
        if not allotted.takers:
            return
        item = item_key(one.item.channel, one.item.id)
        for name, uses in allotted.uses.items():
            owed: Counter[Key] = Counter()
            for limit, amount in uses.items():
                self._reserve_of(limit, amount, moment, found.reserved, owed)
            if owed:
                found.owed[delivery_key(item, takers[name].subscriber)] = owed
        found.addressed.append(_addressed(one.item, [takers[one] for one in allotted.takers]))

    def _moment(self) -> _Moment:
        return _Moment(self._clock(), self._steady.now())

    def _key(self, limit: Limit, moment: _Moment) -> Key:
        return limit.account, self._window(limit.quota.per, moment.clock)

    def _room(self, limit: Limit, moment: _Moment) -> int:
        purse = self._purses.get(self._key(limit, moment))
        return 0 if purse is None else max(0, purse.free(moment.now))

    def _reserve_of(self, limit: Limit, amount: int, moment: _Moment, *sums: Counter[Key]) -> None:
        """Reserve what there is room for, and note it."""
        key = self._key(limit, moment)
        if amount and self._purses[key].reserve(amount, moment.now):
            for each in sums:
                each[key] += amount

    async def _fill(self, needed: Mapping[Limit, int], price: int) -> None:
        """Get as much of what is needed as limits leave; wait for what others are about to return.

        A limit that leaves nothing is noted, and not waited for again for a while.
        """
        waiter, patience = object(), self._steady.now() + PATIENCE_SECONDS
        keys: set[Key] = set()
        try:
            while True:
                for key in keys:
                    self._purses[key].waiting.pop(waiter, None)
                keys.clear()
                moment = self._moment()
                for limit, amount in needed.items():
                    key = self._key(limit, moment)
                    purse, least = self._purse(key, limit, moment.now), _of_one(limit, price)
                    asked = self._asked(key, amount, least, moment.now)
                    if asked and moment.now >= patience:
                        self._give_up(key, least, moment.now)
                    elif asked:
                        purse.waiting[waiter] = asked
                        keys.add(key)
                if not keys:
                    return
                self._wake.set()
                await self._answered.wait()
        finally:
            for key in keys:
                self._purses[key].waiting.pop(waiter, None)

    def _asked(self, key: Key, amount: int, least: int, now: float) -> int:
        """Return what is to be asked for of an account; 0 where there is enough, or no more."""
        purse, limit = self._purses[key], self._limits[key]
        free, standing = purse.free(now), self._known(key, now)
        if free >= amount:
            return 0
        if standing is None:
            return amount
        # All that nobody holds, and what is free here: the ledger gives no more.
        most = min(amount, free + limit.quota.amount - standing.used - standing.held)
        if most > free and most >= least:
            return most
        if free >= least:
            return 0
        spent = standing.used + standing.in_doubt + purse.untold + purse.reserved
        if limit.quota.amount - spent < least:
            self._blocked[key] = now
            return 0
        return least if now - self._tried.get(key, -math.inf) >= OVER_SECONDS else 0

    def _known(self, key: Key, now: float) -> Standing | None:
        """Return how an account stood a moment ago; None where that is not known."""
        looked_at, standing = self._standings.get(key, (-math.inf, None))
        is_of_it = standing is not None and standing.limit == self._limits[key]
        return standing if is_of_it and now - looked_at < OVER_SECONDS else None

    def _give_up(self, key: Key, least: int, now: float) -> None:
        """Go on with what there is of a share, unless there is none as the ledger is away."""
        if self._purses[key].free(now) >= least:
            return
        if self._known(key, now) is None:
            raise StoreUnavailableError("redis", "shares of quotas could not be had")
        self._tried[key] = now

    def _forget(self) -> None:
        super()._forget()
        self._tried = {key: at for key, at in self._tried.items() if key in self._purses}


def _of_one(limit: Limit, price: int) -> int:
    """Return what one item takes of a limit at most."""
    return 1 if limit.quota.unit is QuotaUnit.ITEMS else max(1, price)


def _addressed(item: StreamItem, takers: Sequence[Taker]) -> Addressed:
    return Addressed(item=item, subscribers=tuple(one.subscriber for one in takers))
