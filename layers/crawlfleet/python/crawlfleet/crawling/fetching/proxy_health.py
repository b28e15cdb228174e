"""Decide by its standing whether a proxy is used; word what workers tell one another (SPEC.md C9).

A proxy that fails too often in a row cools down. A worker that is sure of it tells the fleet, and
all leave the proxy out. When the cool-down is over one worker is granted a try: if that fails the
proxy cools down for twice as long, if it succeeds all use it again. A worker that hears nothing of
the fleet goes by what it sees itself, and tries when the cool-down is over.

Moments are the caller's clock; what travels are spans, so that no two clocks are compared. What a
worker has seen and heard is kept in :mod:`crawlfleet.crawling.fetching.proxy_exchange`.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.config.documents.biz import ProxyPool

LONGEST_COOL_DOWN_SECONDS: Final = 3_600.0
#: A try that is granted has to begin within this; then another worker gets it.
TRY_SECONDS: Final = 30.0
#: What was counted counts half after this, for people.
HALF_LIFE_SECONDS: Final = 300.0
#: What was reported longer ago is not shown, but for proxies that are left out.
SHOWN_SECONDS: Final = 900.0
NEVER: Final = float("-inf")


class Fault(StrEnum):
    """The fault of a proxy: no connection to it, credentials that it refuses, a refused CONNECT.

    One that is silent, or closes the connection, may do as the site does: that proves nothing.
    """

    UNREACHABLE = "unreachable"
    CREDENTIALS = "credentials"
    BROKEN = "broken"
    SILENT = "silent"
    CLOSED = "closed"


#: Faults that may be the site's.
DOUBTFUL: Final = frozenset({Fault.SILENT, Fault.CLOSED})


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy's ``failures`` in a row, and its ``cool_downs`` since it last succeeded.

    ``is_sure`` says that they cannot be the site's, ``is_known`` that all workers leave it out.
    After its cool-down one that is known is used by whoever has a try, which begins before
    ``try_until``; who has none asks for it from ``ask_at`` on. ``told_at`` is when this worker has
    heard of it, or found it.
    """

    failures: int = 0
    cool_downs: int = 0
    cool_down_until: float = NEVER
    is_sure: bool = False
    is_known: bool = False
    try_until: float = NEVER
    ask_at: float = NEVER
    told_at: float = NEVER
    fault: str = ""


NEW: Final = Standing()


def after_failure(
    standing: Standing,
    pool: ProxyPool,
    now: float,
    *,
    began: float | None = None,
    is_sure: bool = False,
    fault: str = "",
) -> Standing:
    """Count a failure of a proxy; at ``max_failures`` in a row it cools down.

    What fails during a cool-down, or ``began`` before its end, does not extend it. The first
    failure after a cool-down begins another one, twice as long.
    """
    if min(now, now if began is None else began) < standing.cool_down_until:
        return standing
    failures, is_sure = standing.failures + 1, standing.is_sure or is_sure
    if not standing.cool_downs and failures < pool.max_failures:
        return msgspec.structs.replace(standing, failures=failures, is_sure=is_sure)
    doubled = pool.rest_seconds * 2.0 ** min(standing.cool_downs, 32)
    longest = max(LONGEST_COOL_DOWN_SECONDS, pool.rest_seconds)
    return Standing(
        failures=failures,
        cool_downs=standing.cool_downs + 1,
        cool_down_until=now + min(doubled, longest),
        is_sure=is_sure,
        is_known=standing.is_known or is_sure,
        told_at=now,
        fault=fault,
    )


def chosen(
    standings: Sequence[Standing],
    first: int,
    now: float,
    *,
    alone: bool = True,
    tries_first: bool = True,
) -> int | None:
    """Choose the first proxy from ``first`` on, in a ring, that is not left out.

    A try that was granted comes first where ``tries_first``, as others wait for what comes of it.
    Where all cool down, the one that is back first of those that only this worker leaves out is
    used: a slow proxy is better than none. None where the fleet leaves all of them out.

    >>> chosen([NEW, Standing(cool_down_until=9.0), NEW], 1, 5.0)
    2
    >>> chosen([Standing(cool_down_until=9.0), Standing(cool_down_until=7.0)], 0, 5.0)
    1
    """
    count = len(standings)
    ring = [(first + step) % count for step in range(count)]
    free = [number for number in ring if is_usable(standings[number], now, alone=alone)]
    if free:
        tries = (number for number in free if tries_first and standings[number].try_until > now)
        return next(tries, free[0])
    own = [number for number in range(count) if alone or not standings[number].is_known]
    return min(own, key=lambda number: standings[number].cool_down_until, default=None)


def is_usable(standing: Standing, now: float, *, alone: bool = True) -> bool:
    """Tell whether a proxy is not left out now, by this worker or by the fleet."""
    if now < standing.cool_down_until:
        return False
    return alone or not standing.is_known or now < standing.try_until


def is_due(standing: Standing, now: float) -> bool:
    """Tell whether a try of a proxy is to be asked for: its cool-down is over for all."""
    return standing.is_known and now >= max(
        standing.cool_down_until, standing.try_until, standing.ask_at
    )


def place_of(key: str, count: int) -> int:
    """Get the number, below ``count``, that is always the same for one key.

    >>> place_of("job host", 3) == place_of("job host", 3)
    True
    """
    digest = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest) % count


class Verb(StrEnum):
    """The purpose of a report: it cools down; it is well again; a try is asked for; figures."""

    AWAY = "away"
    WELL = "well"
    TRY = "try"
    FIGURES = "figures"


class ProxyReport(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's report about a proxy.

    ``key`` is the proxy's within its pool, without a secret in it, ``place`` its address without
    credentials. The counts are since the last report, ``spent_seconds`` those until an answer
    began.
    """

    pool: str
    key: str
    place: str
    verb: Verb
    answered: int = 0
    failed: int = 0
    spent_seconds: float = 0.0
    cool_down_seconds: float = 0.0
    cool_downs: int = 0
    fault: str = ""


class PoolReport(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's report about a pool: how many proxies its list has, and how many are left out."""

    pool: str
    size: int
    away: int


class ProxyReports(msgspec.Struct, frozen=True, kw_only=True):
    """The reports that go with a heartbeat; ``seen`` is the latest news that the worker has."""

    seen: int = 0
    reports: tuple[ProxyReport, ...] = ()
    pools: tuple[PoolReport, ...] = ()


class ProxyNews(msgspec.Struct, frozen=True, kw_only=True):
    """News of a proxy: left out for so long, or well where ``cool_downs`` are 0.

    A try is granted for ``try_seconds``; ``ask_seconds`` is when to ask for it again.
    """

    pool: str
    key: str
    cool_down_seconds: float = 0.0
    cool_downs: int = 0
    try_seconds: float = 0.0
    ask_seconds: float = 0.0


class HeardProxies(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to reports; ``seen`` is what to say with the next ones."""

    seen: int = 0
    news: tuple[ProxyNews, ...] = ()


def after_news(standing: Standing, news: ProxyNews, now: float) -> Standing:
    """Return the standing that a worker has of a proxy after news of it."""
    if not news.cool_downs:
        return NEW
    return Standing(
        failures=standing.failures,
        cool_downs=news.cool_downs,
        cool_down_until=now + news.cool_down_seconds if news.cool_down_seconds else NEVER,
        is_sure=True,
        is_known=True,
        try_until=now + news.try_seconds if news.try_seconds else NEVER,
        ask_at=now + news.ask_seconds if news.ask_seconds else NEVER,
        told_at=standing.told_at if standing.is_known else now,
        fault=standing.fault,
    )


class ProxyState(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy as the fleet knows it; the counts are of the last minutes, older ones count less.

    One that is left out is so ``until`` then, and until a try has succeeded. ``fault`` is its last
    one, which the worker ``seen_by`` has met.
    """

    place: str
    until: datetime | None = None
    cool_downs: int = 0
    answered: int = 0
    failed: int = 0
    success_share: float | None = None
    latency_seconds: float | None = None
    fault: str = ""
    seen_by: str = ""
    seen_at: datetime | None = None

    @property
    def is_away(self) -> bool:
        """Tell whether it is left out."""
        return self.until is not None


class ProxyPoolState(msgspec.Struct, frozen=True, kw_only=True):
    """A pool of proxies as its workers know it; those left out come first, then by failures.

    ``size`` is None where no worker has used it of late.
    """

    name: str
    size: int | None = None
    away: int = 0
    proxies: tuple[ProxyState, ...] = ()
