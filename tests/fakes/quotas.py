"""Ledgers and ceilings of quotas in memory."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tests.kit.quotas import (
    KEPT_SECONDS,
    LEASE_SECONDS,
    Account,
    Booked,
    Ceiling,
    Exchange,
    Limit,
    Window,
)


class MemoryQuotaCeilings:
    """What :class:`MongoCeilings` does, without a server."""

    def __init__(self) -> None:
        self.kept: dict[tuple[Account, Window], Ceiling] = {}
        self.writes = 0

    def open(self, limit: Limit, window: Window, fresh: str, stale: str, now: datetime) -> Ceiling:
        standing = self.kept.get((limit.account, window))
        if standing is None:
            standing = Ceiling(fresh, 0)
        elif standing.nonce == stale or (not stale and standing.given):
            standing = Ceiling(fresh, standing.given)
        else:
            return standing
        self.writes += 1
        self.kept[limit.account, window] = standing
        return standing

    def raise_to(
        self, limit: Limit, window: Window, known: Ceiling, given: int, now: datetime
    ) -> bool:
        if self.kept.get((limit.account, window)) != known:
            return False
        self.writes += 1
        self.kept[limit.account, window] = Ceiling(known.nonce, given)
        return True

    def read(self, accounts: Sequence[tuple[Limit, Window]]) -> list[Ceiling | None]:
        return [self.kept.get((limit.account, window)) for limit, window in accounts]


@dataclass
class _Holder:
    state: str = "L"
    granted: int = 0
    spent: int = 0
    number: int = 0
    wanted: int = 0
    due: float = 0.0


@dataclass
class _Ledger:
    nonce: str
    ceiling: int
    spent: int
    out: int = 0
    doubt: int = 0
    wants: int = 0
    raising: float = 0.0
    holders: dict[str, _Holder] = field(default_factory=dict)


class MemoryQuotaLedgers:
    """What lua/exchange.lua and lua/open_ledger.lua do; the clock stands for the server's."""

    def __init__(self, *, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self.ledgers: dict[tuple[Account, Window], _Ledger] = {}
        self.short: dict[tuple[str, str], None] = {}

    def used_up(self, tenant: str) -> list[str]:
        return [path for of, path in self.short if of == tenant]

    def exchange(self, holder: str, each: Sequence[Exchange]) -> list[Booked | str]:
        return [self._exchange(holder, one) for one in each]

    def _exchange(self, holder: str, one: Exchange) -> Booked | str:
        now = self._clock().timestamp()
        ledger = self.ledgers.get((one.limit.account, one.window))
        if ledger is None or ledger.nonce != one.nonce:
            return "" if ledger is None else ledger.nonce
        is_rate = one.limit.account.is_rate
        self._expire(ledger, now, is_rate=is_rate)
        if one.ceiling > ledger.ceiling:
            ledger.ceiling, ledger.raising = one.ceiling, 0.0
        ends_at = None if one.window.ends_at is None else one.window.ends_at.timestamp()
        it, ask, short = ledger.holders.setdefault(holder, _Holder()), one.ask, 0
        if ask.number > it.number:
            if it.state == "D" and not is_rate:
                ledger.doubt -= it.granted - it.spent
            wanted = ask.keep if ends_at is not None and now >= ends_at else ask.wanted
            told = max(it.spent, ask.spent)
            ledger.spent += told - it.spent
            ledger.out -= it.granted - it.spent
            ledger.wants += wanted - it.wanted
            held = max(ask.keep, min(max(it.granted - told, 0), max(ask.keep, wanted)))
            if wanted > held:
                left = one.limit.quota.amount - ledger.spent - ledger.out
                share = math.floor(wanted * min(1, left / (2 * max(1, ledger.wants))))
                if ledger.doubt > 0:
                    allowed = max(0, one.limit.quota.amount / 100 - ledger.doubt)
                    share = min(share, ask.keep + math.floor(allowed / 4))
                target = min(wanted, max(share, ask.least), left)
                if target >= ask.least and target > held:
                    room = ledger.ceiling - ledger.spent - ledger.out
                    if target > room:
                        short = -1
                        if now - ledger.raising >= 0.5:
                            short, ledger.raising = ledger.spent + ledger.out + target, now
                    if min(target, room) >= ask.least:
                        held = max(held, min(target, room))
            ledger.out += held
            it.granted, it.spent, it.number, it.wanted = told + held, told, ask.number, wanted
            it.state = "L" if wanted or held else "R"
            it.due = now + (LEASE_SECONDS if it.state == "L" else KEPT_SECONDS)
            if it.state == "L" and ends_at is not None and ends_at > now:
                it.due = min(it.due, ends_at)
        named = one.limit.account.tenant, one.limit.account.path(one.window)
        if one.limit.quota.amount - ledger.spent - ledger.doubt < ask.least:
            self.short[named] = None
        elif ask.wanted > 0:
            self.short.pop(named, None)
        return Booked(
            granted=it.granted,
            spent=ledger.spent,
            held=ledger.out,
            in_doubt=ledger.doubt,
            ceiling=ledger.ceiling,
            short_of=short,
            seconds_left=None if ends_at is None else max(0.0, ends_at - now),
        )

    def _expire(self, ledger: _Ledger, now: float, *, is_rate: bool) -> None:
        for name, it in list(ledger.holders.items()):
            if it.due > now:
                continue
            if it.state != "L":
                del ledger.holders[name]
                continue
            ledger.wants -= it.wanted
            if is_rate:
                ledger.out -= it.granted - it.spent
                it.granted = it.spent
            else:
                ledger.doubt += it.granted - it.spent
            it.state, it.wanted, it.due = "D", 0, now + KEPT_SECONDS

    def open(self, limit: Limit, window: Window, nonce: str, used: int, stale: str) -> str:
        ledger = self.ledgers.get((limit.account, window))
        if ledger is None or ledger.nonce == stale:
            ledger = self.ledgers[limit.account, window] = _Ledger(nonce, used, used)
        return ledger.nonce

    def read(self, accounts: Sequence[tuple[Limit, Window]]) -> list[Booked | None]:
        found = [self.ledgers.get((limit.account, window)) for limit, window in accounts]
        return [
            None
            if one is None
            else Booked(spent=one.spent, held=one.out, in_doubt=one.doubt, ceiling=one.ceiling)
            for one in found
        ]

    def lose(self) -> None:
        """Lose everything, as Redis may."""
        self.ledgers.clear()
