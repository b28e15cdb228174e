"""Share host slots (SPEC.md H3) and robots.txt files (RFC 9309, 2.4) among all workers, in Redis.

A script serves one host, a round trip many. ``lua/reserve_slots.lua`` and ``lua/report_host.lua``
explain how slots are granted and how hosts slow them down.
"""

import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from crawlfleet.config.documents.policies import HostLimits
from crawlfleet.crawling.politeness.models import (
    MAX_BYTES,
    TROUBLED,
    TROUBLED_SECONDS,
    HostAsk,
    HostGrant,
    HostReport,
    HostState,
    RobotsCopy,
)
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.queue.redis.keys import host_key, robots_key, troubled_key

_RESERVE: Final = Script("crawling/politeness/reserve_slots", "crawling/politeness/host_prelude")
_REPORT: Final = Script("crawling/politeness/report_host", "crawling/politeness/host_prelude")
_STATE: Final = Script("crawling/politeness/host_state", "crawling/politeness/host_prelude")
_TROUBLE: Final = Script("crawling/politeness/trouble")
_TROUBLED: Final = Script("crawling/politeness/troubled")

MILLION: Final = 1_000_000
MINUTE_US: Final = 60 * MILLION
#: No interval is longer: 30 days.
LONGEST_US: Final = 30 * 86_400 * MILLION
#: A host whose node of a cluster is unavailable is asked for again after this.
AWAY_SECONDS: Final = 5.0
#: Hosts in one round trip: some 20 ms of the server's time.
CHUNK: Final = 500
_LONGEST_ROBOTS_SECONDS: Final = 86_400.0
#: Files compress five to one at this level as at any other.
_ROBOTS_LEVEL: Final = 1


def micros(seconds: float) -> int:
    """Convert to whole microseconds, up to the longest interval."""
    return max(0, min(LONGEST_US, round(seconds * MILLION)))


def interval_us(limits: HostLimits) -> int:
    """Get the interval between two slots by the rate alone."""
    return max(1, micros(1.0 / limits.per_second))


class RedisHosts:
    """Grant host slots; record how hosts answer. One script a host; its clock is the server's.

    Calls are repeated when an answer is lost: slots that nobody knows of are wasted then, which is
    polite, and permits are the worker's, however often it asks.

    Args:
        connection: The stage's Redis.
        clock: Replaces the server's own.
    """

    def __init__(
        self, connection: RedisConnection, *, clock: Callable[[], datetime] | None = None
    ) -> None:
        self._redis = connection
        self._clock = clock

    def reserve(self, asks: Sequence[HostAsk], worker: str) -> list[HostGrant]:
        """Grant slots for each ask, in order; what is granted is spent, used or not.

        Hosts on an unavailable node of a cluster get none, and ``why`` is ``away``.
        """
        now = self._now()
        answers = self._for_each(
            _RESERVE,
            [((host_key(ask.host),), (ask.tenant, worker, f"{_wish(ask)} {now}")) for ask in asks],
        )
        with self._redis.translated():
            return [
                _none_of(ask) if isinstance(one, StoreUnavailableError) else _grant(ask, text(one))
                for ask, one in zip(asks, answers, strict=True)
            ]

    def report(self, reports: Sequence[HostReport], worker: str) -> list[HostReport]:
        """Record what was seen since the last report; return what could not be reported."""
        now = self._now()
        answers = self._for_each(
            _REPORT,
            [
                ((host_key(one.host),), (one.tenant, worker, f"{_figures(one)} {now}"))
                for one in reports
            ],
        )
        unreported: list[HostReport] = []
        for one, answer in zip(reports, answers, strict=True):
            if isinstance(answer, StoreUnavailableError):
                unreported.append(one)
            else:
                whole(answer)
        self._note_trouble(reports, now)
        return unreported

    def troubled(self, tenants: Sequence[str], limit: int) -> list[list[str]]:
        """Get the hosts where each tenant met overload or failures in the last ten minutes.

        Up to ``limit`` of each, the latest first; for people alone, so some may be missing.
        """
        if limit < 1:
            return [[] for _ in tenants]
        now, lately = self._now(), round(TROUBLED_SECONDS * 1_000)
        asked = [((troubled_key(tenant),), (now, lately, limit)) for tenant in tenants]
        answers = self._for_each(_TROUBLED, asked)
        with self._redis.translated():
            return [
                [] if isinstance(answer, StoreUnavailableError) else _names(several(answer))
                for answer in answers
            ]

    def _note_trouble(self, reports: Sequence[HostReport], now: int | str) -> None:
        """Note hosts in trouble: one round trip more, for people alone, so it may get lost."""
        met: dict[str, list[str]] = {}
        for one in reports:
            if one.overloads or one.failed:
                met.setdefault(one.tenant, []).append(one.host)
        if met:
            kept = TROUBLED, round(2 * TROUBLED_SECONDS)
            with suppress(StoreUnavailableError):
                self._for_each(
                    _TROUBLE,
                    [
                        ((troubled_key(tenant),), (now, *kept, *hosts[-TROUBLED:]))
                        for tenant, hosts in met.items()
                    ],
                )

    def states(self, hosts: Sequence[str]) -> list[HostState]:
        """Get the state of hosts, empty if unknown; omit those on an unavailable node."""
        now = self._now()
        answers = self._for_each(_STATE, [((host_key(host),), (now,)) for host in hosts])
        with self._redis.translated():
            return [
                _state(host, several(answer))
                for host, answer in zip(hosts, answers, strict=True)
                if not isinstance(answer, StoreUnavailableError)
            ]

    def _for_each(
        self, script: Script, each: Sequence[tuple[Sequence[str], Sequence[str | int]]]
    ) -> list[object]:
        found: list[object] = []
        for first in range(0, len(each), CHUNK):
            part = each[first : first + CHUNK]
            try:
                found += several(self._redis.as_far_as_may_be(script, part), len(part))
            except StoreUnavailableError as error:
                # The queue may be available when all its hosts are on an unavailable node.
                if not self._redis.is_partly_there():
                    raise
                found += [error] * len(part)
        return found

    def _now(self) -> int | str:
        return "" if self._clock is None else to_ms(self._clock()) * 1_000


def _names(answer: list[object]) -> list[str]:
    if not answer:
        raise nonsense()
    count, *hosts = answer
    return [text(host).decode() for host in several(hosts, whole(count))]


def _wish(ask: HostAsk) -> str:
    interval = max(1, micros(ask.interval_seconds))
    return f"{ask.count} {ask.running} {interval} {ask.concurrency}"


def _figures(report: HostReport) -> str:
    limits = report.limits
    retry_after = min(micros(report.retry_after_seconds), micros(limits.max_retry_after_seconds))
    return (
        f"{report.running} {report.answered} {report.failed} {micros(report.seconds)} "
        f"{report.overloads} "
        f"{retry_after} {interval_us(limits)} {limits.concurrency} {int(limits.adaptive)} "
        f"{micros(limits.backoff_seconds)} {micros(limits.max_backoff_seconds)}"
    )


def _grant(ask: HostAsk, answer: bytes) -> HostGrant:
    *figures, why = answer.split(b" ")
    count, wait, interval, permits, ready = map(int, figures)
    return HostGrant(
        host=ask.host,
        count=count,
        wait_seconds=wait / MILLION,
        interval_seconds=interval / MILLION,
        permits=permits,
        ready_seconds=ready / MILLION,
        why=why.decode(),
    )


def _none_of(ask: HostAsk) -> HostGrant:
    """Grant none, as the host's node is unavailable, until another node may have its keys."""
    return HostGrant(
        host=ask.host,
        count=0,
        wait_seconds=0.0,
        interval_seconds=ask.interval_seconds,
        permits=0,
        ready_seconds=AWAY_SECONDS,
        why="away",
    )


def _state(host: str, answer: list[object]) -> HostState:
    figures, running, *named = answer
    words = [text(one).decode().partition(" ") for one in named]
    last, gap, until, overload, answered, pace, _, *counts, now = map(int, text(figures).split())
    following = last + gap
    (ended, failed, overloads, spent), window = _lately(counts, now)
    return HostState(
        host=host,
        running=whole(running),
        interval_seconds=pace / MILLION,
        answer_seconds=answered / MILLION,
        overload=overload,
        back_off_until=from_ms(until // 1_000) if until > now else None,
        next_at=from_ms(following // 1_000) if following > now else None,
        tenants=tuple(sorted(tenant for tenant, _, interval in words if not interval)),
        window_seconds=window,
        answered=ended,
        failed=failed,
        overloads=overloads,
        spent_seconds=spent / MILLION,
        intervals={tenant: int(us) / MILLION for tenant, _, us in sorted(words) if us},
    )


def _lately(counts: list[int], now: int) -> tuple[list[int], float]:
    """Sum the counts of this minute and of the one before; add how many seconds they cover.

    >>> _lately([1, 6, 0, 0, 9, 1, 1, 0, 1], 90 * MILLION)
    ([7, 1, 0, 10], 90.0)
    >>> _lately([1, 6, 0, 0, 9, 1, 1, 0, 1], 150 * MILLION)
    ([6, 0, 0, 9], 90.0)
    >>> _lately([1, 6, 0, 0, 9, 1, 1, 0, 1], 200 * MILLION)
    ([0, 0, 0, 0], 0.0)
    """
    minute, *both = counts or [0] * 9
    # Where the clock was set back they stay where they are.
    passed = max(0, now // MINUTE_US - minute)
    now_and_before = zip(both[:4], both[4:] if passed == 0 else [0] * 4, strict=True)
    found = [sum(pair) for pair in now_and_before] if passed < 2 else [0] * 4
    if not any(found):
        return found, 0.0
    within = min(MINUTE_US, max(0, now - (minute + passed) * MINUTE_US))
    return found, (MINUTE_US + within) / MILLION


class RedisRobotsCache:
    """Keep robots.txt files for all workers: a key a site, its text compressed."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def load(self, origin: str) -> RobotsCopy | None:
        """Get the copy of ``https://example.org``, or None where one is to be fetched."""
        (found,) = several(self._redis.together(("GET", robots_key(origin))), 1)
        return None if found is None else _copy(text(found))

    def save(self, origin: str, copy: RobotsCopy, seconds: float) -> None:
        """Keep a copy for ``seconds``, a day at most, and of its text what is read at most."""
        life = round(min(seconds, _LONGEST_ROBOTS_SECONDS) * 1_000)
        if life < 1:
            return
        head = f"{copy.status} {copy.fetched_ms}\n".encode()
        kept = head + zlib.compress(copy.text[:MAX_BYTES], _ROBOTS_LEVEL)
        (saved,) = several(self._redis.together(("SET", robots_key(origin), kept, "PX", life)), 1)
        if saved is not True:
            raise nonsense()


def _copy(kept: bytes) -> RobotsCopy | None:
    """Read a copy; None where the value is none, so that it is fetched anew."""
    head, _, rest = kept.partition(b"\n")
    try:
        status, fetched_ms = map(int, head.split())
        body = zlib.decompressobj().decompress(rest, MAX_BYTES)
    except (ValueError, zlib.error):
        return None
    return RobotsCopy(status=status, text=body, fetched_ms=fetched_ms)
