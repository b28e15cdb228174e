"""The adaptive rate of the in-memory fake: what ``report_host.lua`` does with a report."""

import math
from typing import Final

from msgspec.structs import replace

from tests.fakes.host_counts import counted
from tests.fakes.host_scheduler import (
    GRACE_US,
    PERMIT_US,
    HostEntry,
    Permit,
    TenantEntry,
    keeps,
    swept,
)
from tests.kit.config import HostLimits
from tests.kit.politeness import HostReport, interval_us, micros

#: What is left of the average's old value after one more answer.
_REMAINS: Final = 0.75
#: More answers than this in one report weigh no more.
_MOST_ANSWERS: Final = 64
_MOST_OVERLOAD: Final = 32


def reported(host: HostEntry, report: HostReport, worker: str, now: int) -> HostEntry:
    """Get the host after a report."""
    host = _reported(swept(host, now, report.tenant), report, worker, now)
    counts = counted(host.counts, report, micros(report.seconds), now)
    host = replace(host, counts=counts)
    limits = report.limits
    if report.answered:
        host = _measured(host, report, limits)
    if report.overloads:
        return _overloaded(host, limits, micros(report.retry_after_seconds), now)
    if report.answered and host.overload and now >= host.back_off_until:
        overload = host.overload - 1
        return replace(
            host, overload=overload, slow=_span(limits, overload) if limits.adaptive else 0
        )
    return host


def _reported(host: HostEntry, report: HostReport, worker: str, now: int) -> HostEntry:
    """Take over the downloads that the worker reports in flight."""
    key, most = (worker, report.tenant), report.limits.concurrency
    before = host.permits.get(key)
    count = keeps(host, worker, report.tenant, report.running, most, now)
    permits = dict(host.permits)
    permits.pop(key, None)
    if report.running:
        permits[key] = Permit(count, before.granted_at if before else 0, now + PERMIT_US)
    elif before is not None and now - before.granted_at < GRACE_US:
        permits[key] = Permit(count, before.granted_at, before.granted_at + GRACE_US)
    tenants = host.tenants
    if key in permits and report.tenant not in tenants:
        new = TenantEntry(interval=interval_us(report.limits), concurrency=most)
        tenants = {**tenants, report.tenant: new}
    return replace(host, permits=permits, tenants=tenants)


def _measured(host: HostEntry, report: HostReport, limits: HostLimits) -> HostEntry:
    interval, sample = interval_us(limits), micros(report.seconds)
    answer = float(sample)
    if host.answer:
        weight = 1 - math.pow(_REMAINS, min(report.answered, _MOST_ANSWERS))
        answer = host.answer + (sample - host.answer) * weight
    answer = max(1, math.floor(min(answer, 2 * max(host.answer, interval * limits.concurrency))))
    pace = answer // limits.concurrency
    return replace(host, answer=answer, pace=pace if limits.adaptive and pace > interval else 0)


def _overloaded(host: HostEntry, limits: HostLimits, retry_after: int, now: int) -> HostEntry:
    wait = min(retry_after, micros(limits.max_retry_after_seconds))
    if now < host.back_off_until:
        return replace(host, back_off_until=max(host.back_off_until, now + wait))
    overload = min(host.overload + 1, _MOST_OVERLOAD)
    span = _span(limits, overload)
    return replace(
        host,
        overload=overload,
        slow=span if limits.adaptive else 0,
        back_off_until=now + max(span, wait),
    )


def _span(limits: HostLimits, overload: int) -> int:
    """Get the length of a back-off at that overload."""
    if not overload:
        return 0
    doubled = micros(limits.backoff_seconds) << (overload - 1)
    return min(doubled, micros(limits.max_backoff_seconds))
