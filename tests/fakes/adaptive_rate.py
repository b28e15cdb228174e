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
    Strain,
    TenantEntry,
    keeps,
    swept,
)
from tests.kit.config import HostLimits
from tests.kit.politeness import (
    STRAINED_ORIGINS,
    HostReport,
    OwnAnswers,
    interval_us,
    micros,
)

#: What is left of the average's old value after one more answer.
_REMAINS: Final = 0.75
#: More answers than this in one report weigh no more.
_MOST_ANSWERS: Final = 64
_MOST_OVERLOAD: Final = 32


def reported(host: HostEntry, report: HostReport, worker: str, now: int) -> HostEntry:
    """Get the host after a report."""
    host = _reported(swept(host, now, report.tenant), report, worker, now)
    host = replace(host, counts=counted(host.counts, report, now))
    limits, own, tenant = report.limits, report.own, report.tenant
    if report.answered:
        answer, pace = _measured(host.answer, report, limits)
        host = replace(host, answer=answer, pace=pace)
    if own.answered:
        paces = {**host.paces, tenant: _measured(host.paces.get(tenant, (0, 0))[0], own, limits)}
        host = replace(host, paces=paces)
    if not report.origin:
        return host
    host = _strained(host, "", report, limits, report.answered, report.origin, now)
    return _strained(host, tenant, own, limits, report.answered + own.answered, report.origin, now)


def _strained(
    host: HostEntry,
    whose: str,
    seen: HostReport | OwnAnswers,
    limits: HostLimits,
    answered: int,
    origin: str,
    now: int,
) -> HostEntry:
    """Take over overload, or the lack of it, for a tenant, or for all."""
    known = dict(host.strains.get(whose, {}))
    strain = known.get(origin, Strain())
    if seen.overloads:
        known[origin] = strain = _overloaded(strain, limits, seen.retry_after_seconds, now)
    elif answered and strain.overload and now >= strain.until:
        overload = strain.overload - 1
        strain = Strain(strain.until, overload, _span(limits, overload) if limits.adaptive else 0)
        known[origin] = strain
    else:
        return host
    if not strain.overload:
        del known[origin]
    if len(known) > STRAINED_ORIGINS:
        del known[min(known, key=lambda name: (known[name].until, name))]
    return replace(host, strains={**host.strains, whose: known})


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


def _measured(average: int, seen: HostReport | OwnAnswers, limits: HostLimits) -> tuple[int, int]:
    interval, sample = interval_us(limits), micros(seen.seconds)
    answer = float(sample)
    if average:
        weight = 1 - math.pow(_REMAINS, min(seen.answered, _MOST_ANSWERS))
        answer = average + (sample - average) * weight
    found = max(1, math.floor(min(answer, 2 * max(average, interval * limits.concurrency))))
    pace = found // limits.concurrency
    return found, pace if limits.adaptive and pace > interval else 0


def _overloaded(strain: Strain, limits: HostLimits, asked_seconds: float, now: int) -> Strain:
    wait = min(micros(asked_seconds), micros(limits.max_retry_after_seconds))
    if now < strain.until:
        return replace(strain, until=max(strain.until, now + wait))
    overload = min(strain.overload + 1, _MOST_OVERLOAD)
    span = _span(limits, overload)
    return Strain(now + max(span, wait), overload, span if limits.adaptive else 0)


def _span(limits: HostLimits, overload: int) -> int:
    """Get the length of a back-off at that overload."""
    if not overload:
        return 0
    doubled = micros(limits.backoff_seconds) << (overload - 1)
    return min(doubled, micros(limits.max_backoff_seconds))
