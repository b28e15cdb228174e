"""The ledgers of accounts in Redis: who holds how much, and what was spent.

All ledgers of a tenant are in one slot of a cluster, so that one exchange reaches them all.
``lua/exchange.lua`` explains how shares are granted, and what becomes of those of the dead.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from crawlfleet.fleet.quotas.models import KEPT_SECONDS, LEASE_SECONDS, Ask, Booked, Limit, Window
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.queue.redis.keys import quota_keys

_EXCHANGE: Final = Script("fleet/quotas/exchange")
_OPEN: Final = Script("fleet/quotas/open_ledger")
#: Ledgers of a tenant at most: its users are names that it makes up. What nobody has asked of for
#: longest goes, and what it was granted counts as used, as where Redis loses it.
MOST_LEDGERS: Final = 10_000
_FIGURES: Final = ("nonce", "spent", "out", "doubt", "ceiling")


def ledger_keys(limit: Limit, window: Window) -> tuple[str, str, str, str]:
    """Return the keys of an account's ledger in one period, and of the tenant's lists of them."""
    return quota_keys(limit.account.tenant, limit.account.path(window))


class Exchange(NamedTuple):
    """A holder's questions to an account's ledger, which it knows by its ``nonce``.

    ``ceiling`` is MongoDB's where it was just raised, 0 otherwise.
    """

    limit: Limit
    window: Window
    nonce: str
    ask: Ask
    ceiling: int = 0


class RedisQuotaLedgers:
    """The ledgers of all accounts. Calls are repeatable; the clock is the server's."""

    def __init__(
        self,
        connection: RedisConnection,
        *,
        clock: Callable[[], datetime] | None = None,
        lease_seconds: float = LEASE_SECONDS,
        most_ledgers: int = MOST_LEDGERS,
    ) -> None:
        self._redis = connection
        self._clock = clock
        self._most_ledgers = most_ledgers
        self._lease_ms = round(lease_seconds * 1_000)

    def exchange(self, holder: str, each: Sequence[Exchange]) -> list[Booked | str]:
        """Book and grant in one round trip; return the nonce where there is another ledger."""
        answers = self._redis.as_far_as_may_be(
            _EXCHANGE,
            [(ledger_keys(one.limit, one.window), self._said(holder, one)) for one in each],
        )
        with self._redis.translated():
            return [_booked(answer) for answer in answers]

    def _said(self, holder: str, one: Exchange) -> tuple[str | int, ...]:
        ask, ends_at = one.ask, one.window.ends_at
        return (
            *(self._now(), one.nonce, holder),
            *(ask.number, ask.spent, ask.keep, ask.wanted, ask.least),
            *(one.limit.quota.amount, one.ceiling, int(one.limit.account.is_rate)),
            *(self._lease_ms, 0 if ends_at is None else to_ms(ends_at)),
            *(round(KEPT_SECONDS * 1_000), one.limit.account.path(one.window)),
        )

    def open(self, limit: Limit, window: Window, nonce: str, used: int, stale: str) -> str:
        """Begin an account's ledger unless there is one that is not ``stale``; return its nonce."""
        keys, tenant = ledger_keys(limit, window)[:3], limit.account.tenant
        said = nonce, used, stale, limit.account.path(window), self._most_ledgers, self._now()
        standing, *gone = several(self._redis.again(_OPEN, keys, *said))
        with self._redis.translated():
            found, paths = text(standing).decode(), [text(path).decode() for path in gone]
        if paths:
            theirs = [key for path in paths for key in quota_keys(tenant, path)[:2]]
            self._redis.together(("UNLINK", *theirs), ("ZREM", keys[2], *paths))
        return found

    def used_up(self, tenant: str) -> list[str]:
        """List accounts of a tenant that had less left than was needed, the latest 1,000."""
        [found] = self._redis.together(("ZRANGE", quota_keys(tenant, "")[3], 0, -1))
        with self._redis.translated():
            return [text(path).decode() for path in several(found)]

    def _now(self) -> int | str:
        return "" if self._clock is None else to_ms(self._clock())

    def read(self, accounts: Sequence[tuple[Limit, Window]]) -> list[Booked | None]:
        """Read what is booked of accounts; None of those without a ledger."""
        found: list[Booked | None] = []
        by_tenant: dict[str, list[int]] = {}
        for place, (limit, _) in enumerate(accounts):
            by_tenant.setdefault(limit.account.tenant, []).append(place)
        figures: dict[int, object] = {}
        for places in by_tenant.values():
            keys = [ledger_keys(*accounts[place])[0] for place in places]
            answers = self._redis.together(*(("HMGET", key, *_FIGURES) for key in keys))
            figures.update(zip(places, several(answers, len(places)), strict=True))
        with self._redis.translated():
            for place in range(len(accounts)):
                nonce, *counts = several(figures[place], len(_FIGURES))
                if nonce is None:
                    found.append(None)
                    continue
                spent, held, doubt, ceiling = (int(text(one)) for one in counts)
                found.append(Booked(spent=spent, held=held, in_doubt=doubt, ceiling=ceiling))
        return found


def _booked(answer: object) -> Booked | str:
    if isinstance(answer, StoreUnavailableError):
        raise answer
    nonce, *figures = several(answer)
    if not figures:
        return text(nonce).decode()
    if len(figures) != 7:
        raise nonsense()
    granted, spent, held, doubt, ceiling, short, left = map(whole, figures)
    return Booked(
        granted=granted,
        spent=spent,
        held=held,
        in_doubt=doubt,
        ceiling=ceiling,
        short_of=short,
        seconds_left=None if left < 0 else left / 1_000,
    )
