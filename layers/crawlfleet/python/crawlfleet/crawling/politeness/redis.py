"""Share host slots (SPEC.md H3) and robots.txt files (RFC 9309, 2.4) among all workers, in Redis.

A script serves one host, a round trip many. ``lua/reserve_slots.lua`` and ``lua/report_host.lua``
explain how slots are granted and how hosts slow them down.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.config.documents.policies import HostLimits
from crawlfleet.crawling.politeness import models
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.redis.budget import Budget, RedisBudget
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.queue.redis.keys import (
    host_key,
    robots_key,
    room_keys,
    strain_keys,
    troubled_key,
)

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
#: Of the robots.txt files that one tenant has asked for: some 25,000 usual ones.
ROBOTS_BUDGET: Final = Budget(16_000_000, 86_400)
_KEPT_OF: Final = msgspec.json.Decoder(tuple[tuple[str, ...], tuple[str, ...]]).decode


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
    """

    def __init__(
        self, connection: RedisConnection, *, clock: Callable[[], datetime] | None = None
    ) -> None:
        self._redis = connection
        self._clock = clock

    def reserve(self, asks: Sequence[models.HostAsk], worker: str) -> list[models.HostGrant]:
        """Grant slots for each ask, in order; what is granted is spent, used or not.

        Hosts on an unavailable node of a cluster get none, and ``why`` is ``away``.
        """
        now = self._now()
        answers = self._for_each(
            _RESERVE,
            [(_keys(ask), (ask.tenant, worker, f"{_wish(ask)} {now}", ask.origin)) for ask in asks],
        )
        with self._redis.translated():
            return [
                _none_of(ask) if isinstance(one, StoreUnavailableError) else _grant(ask, text(one))
                for ask, one in zip(asks, answers, strict=True)
            ]

    def report(self, reports: Sequence[models.HostReport], worker: str) -> list[models.HostReport]:
        """Record what was seen since the last report; return what could not be reported."""
        now = self._now()
        said = [(one.tenant, worker, f"{_figures(one)} {now}", one.origin) for one in reports]
        keys = [_keys(one) for one in reports]
        answers = self._for_each(_REPORT, list(zip(keys, said, strict=True)))
        unreported: list[models.HostReport] = []
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
        now, lately = self._now(), round(models.TROUBLED_SECONDS * 1_000)
        asked = [((troubled_key(tenant),), (now, lately, limit)) for tenant in tenants]
        answers = self._for_each(_TROUBLED, asked)
        with self._redis.translated():
            return [
                [] if isinstance(answer, StoreUnavailableError) else _names(several(answer))
                for answer in answers
            ]

    def _note_trouble(self, reports: Sequence[models.HostReport], now: int | str) -> None:
        """Note hosts in trouble: one round trip more, for people alone, so it may get lost."""
        met: dict[str, list[str]] = {}
        for one in reports:
            if one.overloads or one.own.overloads or one.failed:
                met.setdefault(one.tenant, []).append(one.host)
        if met:
            kept = models.TROUBLED, round(2 * models.TROUBLED_SECONDS)
            noted = [
                ((troubled_key(tenant),), (now, *kept, *hosts[-models.TROUBLED :]))
                for tenant, hosts in met.items()
            ]
            with suppress(StoreUnavailableError):
                self._for_each(_TROUBLE, noted)

    def states(
        self, hosts: Sequence[str], tenants: Mapping[str, str] | None = None
    ) -> list[models.HostState]:
        """Get the state of hosts, empty if unknown; omit those on an unavailable node.

        What one tenant alone goes by is in the state of a host for which ``tenants`` names it.
        """
        now, whose = self._now(), tenants or {}
        keys = [
            (host_key(host), *strain_keys(host, whose.get(host, ""))[: 2 if host in whose else 1])
            for host in hosts
        ]
        answers = self._for_each(_STATE, [(each, (now,)) for each in keys])
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


def _keys(one: models.HostAsk | models.HostReport) -> tuple[str, ...]:
    return host_key(one.host), *strain_keys(one.host, one.tenant)


def _wish(ask: models.HostAsk) -> str:
    interval = max(1, micros(ask.interval_seconds))
    return f"{ask.count} {ask.running} {interval} {ask.concurrency} {ask.share}"


def _figures(report: models.HostReport) -> str:
    limits = report.limits
    longest = micros(limits.max_retry_after_seconds)
    parts = (
        f"{one.answered} {micros(one.seconds)} {one.overloads} "
        f"{min(micros(one.retry_after_seconds), longest)}"
        for one in (report, report.own)
    )
    return (
        f"{report.running} {report.failed} {' '.join(parts)} "
        f"{interval_us(limits)} {limits.concurrency} {int(limits.adaptive)} "
        f"{micros(limits.backoff_seconds)} {micros(limits.max_backoff_seconds)}"
    )


def _grant(ask: models.HostAsk, answer: bytes) -> models.HostGrant:
    *figures, why = answer.split(b" ")
    count, wait, interval, permits, ready = map(int, figures)
    return models.HostGrant(
        host=ask.host,
        count=count,
        wait_seconds=wait / MILLION,
        interval_seconds=interval / MILLION,
        permits=permits,
        ready_seconds=ready / MILLION,
        why=why.decode(),
    )


def _none_of(ask: models.HostAsk) -> models.HostGrant:
    """Grant none, as the host's node is unavailable, until another node may have its keys."""
    return models.HostGrant(
        host=ask.host,
        count=0,
        wait_seconds=0.0,
        interval_seconds=ask.interval_seconds,
        permits=0,
        ready_seconds=AWAY_SECONDS,
        why="away",
    )


def _state(host: str, answer: list[object]) -> models.HostState:
    figures, running, strained, *named = answer
    lines = [text(one).decode() for one in named]
    words = [one.partition(" ") for one in lines[whole(strained) :]]
    last, gap, until, overload, answered, pace, _, *counts, now = map(int, text(figures).split())
    following = last + gap
    strains = [("", until, overload)]
    for line in lines[: whole(strained)]:
        until_us, more, origin = line.split(" ", 2)
        strains.append((origin, int(until_us), int(more)))
    (ended, failed, overloads, spent), window = _lately(counts, now)
    return models.HostState(
        host=host,
        running=whole(running),
        interval_seconds=pace / MILLION,
        answer_seconds=answered / MILLION,
        **models.back_off_of(host, strains, now),
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
    """Keep robots.txt files for all workers: a key a site, its text compressed.

    Whose request has fetched one has it in its own room (kernel.redis.budget).
    """

    def __init__(self, connection: RedisConnection, budget: Budget = ROBOTS_BUDGET) -> None:
        self._redis = connection
        self._budget = RedisBudget(connection, budget, robots_key)

    def load(self, origin: str) -> models.RobotsCopy | None:
        """Get the copy of ``https://example.org``, or None where one is to be fetched."""
        (found,) = several(self._redis.together(("GET", robots_key(origin))), 1)
        return None if found is None else _copy(text(found))

    def save(self, origin: str, copy: models.RobotsCopy, seconds: float, tenant: str) -> None:
        """Keep a copy for ``seconds``, a day at most; not one that is longer than may be."""
        life = round(min(seconds, _LONGEST_ROBOTS_SECONDS) * 1_000)
        if life < 1:
            return
        head = f"{copy.status} {copy.fetched_ms}".encode()
        if copy.products:
            head += b" " + msgspec.json.encode((copy.products, copy.too_long))
        body = models.packed(copy.text)
        kept = head + b"\n" + body
        if len(body) > models.MAX_KEPT_BYTES or not self._budget.enter(
            room_keys(tenant, "robots"), origin, len(kept)
        ):
            return
        (saved,) = several(self._redis.together(("SET", robots_key(origin), kept, "PX", life)), 1)
        if saved is not True:
            raise nonsense()


def _copy(kept: bytes) -> models.RobotsCopy | None:
    """Read a copy; None where the value is none, so that it is fetched anew."""
    head, _, rest = kept.partition(b"\n")
    try:
        status, fetched_ms, *more = head.split(b" ", 2)
        products, too_long = _KEPT_OF(more[0]) if more else ((), ())
        body = zlib.decompressobj().decompress(rest, models.MAX_BYTES)
        return models.RobotsCopy(
            status=int(status),
            text=body,
            fetched_ms=int(fetched_ms),
            products=products,
            too_long=too_long,
        )
    except (ValueError, zlib.error, msgspec.MsgspecError):
        return None
