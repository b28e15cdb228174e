"""Whose turn it is at hosts, on Redis (SPEC.md H3): one script a host, many hosts a round trip.

robots.txt files on Redis, kept for all workers (RFC 9309, 2.4).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from crawlfleet.crawling.politeness.adaptive_rate import interval_us
from crawlfleet.crawling.politeness.adaptive_rate_counts import Counts, HostCounts, lately
from crawlfleet.crawling.politeness.host_scheduler import MILLION, micros
from crawlfleet.crawling.politeness.models import (
    TROUBLED,
    TROUBLED_SECONDS,
    HostAsk,
    HostGrant,
    HostReport,
    HostState,
)
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.queue.redis.keys import host_key, troubled_key

_RESERVE: Final = Script("crawling/politeness/reserve_turns", "crawling/politeness/host_prelude")
_REPORT: Final = Script("crawling/politeness/report_host", "crawling/politeness/host_prelude")
_STATE: Final = Script("crawling/politeness/host_state", "crawling/politeness/host_prelude")
_TROUBLE: Final = Script("crawling/politeness/trouble")
_TROUBLED: Final = Script("crawling/politeness/troubled")

#: A host whose node of a cluster is away is asked for again after this.
AWAY_SECONDS: Final = 5.0
#: Hosts in one round trip: some 20 ms of the server's time.
CHUNK: Final = 500


class RedisHosts:
    """A :class:`~crawlfleet.ports.Hosts`.

    What is lost on the way is said again: turns that nobody knows of are wasted then, which is
    polite, and permits are the worker's, however often it asks.

    Args:
        connection: The stage's Redis.
        clock: Stands for the server's own, which is what counts where none is given.
    """

    def __init__(
        self, connection: RedisConnection, *, clock: Callable[[], datetime] | None = None
    ) -> None:
        self._redis = connection
        self._clock = clock

    def reserve(self, asks: Sequence[HostAsk], worker: str) -> list[HostGrant]:
        """Turns for each ask, in order. What is granted is spent, used or not.

        Of one node of a cluster nobody need know: hosts that are not with it go on.
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
        """What was seen since the last report; returns those that could not be told."""
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
        """Hosts that each tenant has met with strain or failures lately."""
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
        """For people alone: one round trip more where there is trouble, and no matter if lost."""
        met: dict[str, list[str]] = {}
        for one in reports:
            if one.strained or one.failed:
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
        """How hosts are treated now; those whose node of a cluster is away are left out."""
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
                # A lane may be well whose hosts are all with a node that is away.
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
        f"{report.strained} "
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
    """No turn, as the host's node is away; it is asked again when another may have its keys."""
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
    last, gap, until, strain, answered, pace, _, *counts, now = map(int, text(figures).split())
    following = last + gap
    found, window = lately(_counts(counts), now)
    return HostState(
        host=host,
        running=whole(running),
        interval_seconds=pace / MILLION,
        answer_seconds=answered / MILLION,
        strain=strain,
        back_off_until=from_ms(until // 1_000) if until > now else None,
        next_at=from_ms(following // 1_000) if following > now else None,
        tenants=tuple(sorted(tenant for tenant, _, interval in words if not interval)),
        window_seconds=window,
        answered=found.answered,
        failed=found.failed,
        strained=found.strained,
        spent_seconds=found.spent / MILLION,
        intervals={tenant: int(us) / MILLION for tenant, _, us in sorted(words) if us},
    )


def _counts(numbers: list[int]) -> HostCounts:
    if not numbers:  # nothing was ever counted
        return HostCounts()
    minute, *both = numbers
    present, before = (
        Counts(answered=answered, failed=failed, strained=strained, spent=spent)
        for answered, failed, strained, spent in (both[:4], both[4:])
    )
    return HostCounts(minute=minute, present=present, before=before)
