"""The shares of one worker: a purse of each account, and the exchanges that fill it.

Who spends reserves from the purses, waits for a share where they have too little, and settles what
was used. What pages spend is in ``fleet.quotas.spending``, what items of streams in
``streams.reading.metering``.
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from crawlfleet.config.documents.quota import QuotaPeriod
from crawlfleet.fleet.quotas.models import Account, Limit, Standing, Window, window_of
from crawlfleet.fleet.quotas.parking import OVER_SECONDS
from crawlfleet.fleet.quotas.purse import Purse
from crawlfleet.fleet.quotas.reservation import OverLimitError, Reservation
from crawlfleet.fleet.quotas.service import QuotaLedgers, Wish
from crawlfleet.fleet.quotas.terms import Threaded
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import Clock, SteadyTime

#: A worker that has used nothing of a share for so long returns it.
QUIET_SECONDS: Final = 2.0
#: Between two looks whether there is something to say.
LOOK_SECONDS: Final = 0.25
#: Work that gets no share waits at its worker for so long: others are about to return some.
PATIENCE_SECONDS: Final = 2.0

#: One period of an account.
Key: TypeAlias = tuple[Account, Window]


class Shares:
    """The shares of one worker. Used from its event loop, but for :meth:`_holds`."""

    def __init__(
        self,
        ledgers: QuotaLedgers,
        holder: str,
        threaded: Threaded,
        clock: Clock,
        steady: SteadyTime,
    ) -> None:
        # Lambda may run one invocation twice, under one id; their shares must not be one.
        self._ledgers, self._holder = ledgers, f"{holder}.{secrets.token_hex(4)}"
        self._threaded, self._clock, self._steady = threaded, clock, steady
        self._purses: dict[Key, Purse] = {}
        self._limits: dict[Key, Limit] = {}
        # How accounts stood, and when that was, by the steady clock.
        self._standings: dict[Key, tuple[float, Standing]] = {}
        # When a limit was last found to block whoever is under it.
        self._blocked: dict[Key, float] = {}
        # The present periods, each with the moment that it was made at.
        self._windows: dict[QuotaPeriod, tuple[datetime, Window]] = {}
        self._wake, self._answered = asyncio.Event(), asyncio.Event()
        #: Exchanges with the ledgers.
        self.exchanges = 0

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
        asked: list[tuple[Key, Purse, int]] = []
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

    def _purse(self, key: Key, limit: Limit, now: float) -> Purse:
        purse = self._purses.get(key)
        if purse is None:
            purse = self._purses[key] = Purse(
                limit.quota.amount, is_rate=limit.account.is_rate, now=now
            )
        if self._limits.get(key) is not limit:
            # A quota may be changed while it is in force.
            purse.most, self._limits[key] = limit.quota.amount, limit
        return purse

    def _check(self, key: Key, now: float, patience: float) -> None:
        """Raise OverLimitError where there is no sense in waiting for a share."""
        limit, known = self._limits[key], self._standings.get(key)
        if known is not None and known[1].limit == limit:
            looked_at, standing = known
            if standing.is_used_up and now - looked_at < OVER_SECONDS:
                raise OverLimitError(standing)
        if now >= patience:
            standing = known[1] if known is not None else Standing(limit=limit, window=key[1])
            raise OverLimitError(standing)

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

    def _is_stale(self, key: Key, now: float) -> bool:
        """Tell whether a limit blocks a biz by what was known of it a while ago."""
        blocked_at = self._blocked.get(key)
        if blocked_at is None or now - blocked_at > OVER_SECONDS:
            return False
        return now - self._standings[key][0] >= OVER_SECONDS

    async def _exchange(self, keys: list[Key], quiet_seconds: float) -> None:
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
