"""Whose turn it is at hosts, on Redis (SPEC.md H3): one script a host, many hosts a round trip."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.keys import host_key
from crawlfleet.model.politeness import HostAsk, HostGrant, HostReport, HostState
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.policy.strain import interval_us
from crawlfleet.policy.turns import MILLION, micros

_RESERVE: Final = Script("reserve_turns", "host_prelude")
_REPORT: Final = Script("report_host", "host_prelude")
_STATE: Final = Script("host_state", "host_prelude")

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
        """Turns for each ask, in order. What is granted is spent, used or not."""
        now = self._now()
        answers = self._for_each(
            _RESERVE,
            [((host_key(ask.host),), (ask.tenant, worker, f"{_wish(ask)} {now}")) for ask in asks],
        )
        with self._redis.translated():
            return [_grant(ask, text(one)) for ask, one in zip(asks, answers, strict=True)]

    def report(self, reports: Sequence[HostReport], worker: str) -> None:
        """What was seen since the last report: answers, strain, and how much is under way."""
        now = self._now()
        answers = self._for_each(
            _REPORT,
            [
                ((host_key(one.host),), (one.tenant, worker, f"{_figures(one)} {now}"))
                for one in reports
            ],
        )
        for answer in answers:
            whole(answer)

    def states(self, hosts: Sequence[str]) -> list[HostState]:
        """How hosts are treated now; one that nothing is known of has an empty state."""
        now = self._now()
        answers = self._for_each(_STATE, [((host_key(host),), (now,)) for host in hosts])
        with self._redis.translated():
            return [
                _state(host, several(answer)) for host, answer in zip(hosts, answers, strict=True)
            ]

    def _for_each(
        self, script: Script, each: Sequence[tuple[Sequence[str], Sequence[str | int]]]
    ) -> list[object]:
        found: list[object] = []
        for first in range(0, len(each), CHUNK):
            part = each[first : first + CHUNK]
            found += several(self._redis.again_with_each(script, part), len(part))
        return found

    def _now(self) -> int | str:
        return "" if self._clock is None else to_ms(self._clock()) * 1_000


def _wish(ask: HostAsk) -> str:
    interval = max(1, micros(ask.interval_seconds))
    return f"{ask.count} {ask.running} {interval} {ask.concurrency}"


def _figures(report: HostReport) -> str:
    limits = report.limits
    retry_after = min(micros(report.retry_after_seconds), micros(limits.max_retry_after_seconds))
    return (
        f"{report.running} {report.answered} {micros(report.seconds)} {report.strained} "
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


def _state(host: str, answer: list[object]) -> HostState:
    figures, running, *tenants = answer
    last, gap, until, strain, answered, pace, _, now = map(int, text(figures).split())
    following = last + gap
    return HostState(
        host=host,
        running=whole(running),
        interval_seconds=pace / MILLION,
        answer_seconds=answered / MILLION,
        strain=strain,
        back_off_until=from_ms(until // 1_000) if until > now else None,
        next_at=from_ms(following // 1_000) if following > now else None,
        tenants=tuple(sorted(text(tenant).decode() for tenant in tenants)),
    )
