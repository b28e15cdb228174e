"""What a host's answers say about how fast it may be asked (SPEC.md H3): the law of adaption.

**Pace.** ``answer`` is how long an answer takes: a moving average in which each answer counts a
quarter. The host is asked once in ``answer / concurrency``, if that is longer than what lies
between its turns anyway: so many answers are under way at once, as Scrapy's AutoThrottle wants it,
and that many permits can just serve the turns that are given. Turns of a slow host so come evenly
instead of in bursts as long as its concurrency, and none is given that nobody could use. A host
that answers within ``concurrency`` intervals is not slowed at all. Unlike AutoThrottle this looks
at the whole fleet's answers, and one report at most doubles the average, beginning from what would
slow nobody: one slow page among quick ones does not slow a host, a host that gets slow is relieved
within a few reports, and its permits bound what is under way meanwhile.

**Strain.** A 429, a 503 or a failed connection lets the host alone for ``backoff_seconds``, doubled
for each strain that was counted before. What comes in while it is left alone began earlier, so it
counts no further, but for a Retry-After that is longer. Whatever the site asks for, and however
often it was strained, it is capped by its limits.

**Recovery.** After the back-off the host is tried before it is trusted: the interval is doubled for
each strain that counts, up to the length of its back-off (where ``adaptive`` is on). Each report of
answers without strain takes one off. So a host that was left alone for ten minutes gets one request
and then twice as many with each report, instead of a full horizon of them that may hit it as hard
as before.

Nothing of this ever makes an interval shorter than the limits.
"""

import math
from typing import Final

from msgspec.structs import replace

from crawlfleet.config.documents.policies import HostLimits
from crawlfleet.crawling.politeness.adaptive_rate_counts import counted
from crawlfleet.crawling.politeness.host_scheduler import (
    GRACE_US,
    PERMIT_US,
    HostEntry,
    Permit,
    TenantEntry,
    keeps,
    micros,
    swept,
)
from crawlfleet.crawling.politeness.models import HostReport

#: What is left of the average's old value after one more answer.
_REMAINS: Final = 0.75
#: More answers than this in one report weigh no more.
_MOST_ANSWERS: Final = 64
_MOST_OVERLOAD: Final = 32


def reported(host: HostEntry, report: HostReport, worker: str, now: int) -> HostEntry:
    """The host after a report."""
    host = _told(swept(host, now, report.tenant), report, worker, now)
    counts = counted(host.counts, report, micros(report.seconds), now)
    host = replace(host, counts=counts)
    limits = report.limits
    if report.answered:
        host = _measured(host, report, limits)
    if report.strained:
        return _strained(host, limits, micros(report.retry_after_seconds), now)
    if report.answered and host.strain and now >= host.back_off_until:
        strain = host.strain - 1
        return replace(host, strain=strain, slow=_span(limits, strain) if limits.adaptive else 0)
    return host


def interval_us(limits: HostLimits) -> int:
    """What lies between two turns by the rate alone."""
    return max(1, micros(1.0 / limits.per_second))


def _told(host: HostEntry, report: HostReport, worker: str, now: int) -> HostEntry:
    """What the worker has under way, as it says."""
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


def _strained(host: HostEntry, limits: HostLimits, retry_after: int, now: int) -> HostEntry:
    wait = min(retry_after, micros(limits.max_retry_after_seconds))
    if now < host.back_off_until:
        return replace(host, back_off_until=max(host.back_off_until, now + wait))
    strain = min(host.strain + 1, _MOST_OVERLOAD)
    span = _span(limits, strain)
    return replace(
        host,
        strain=strain,
        slow=span if limits.adaptive else 0,
        back_off_until=now + max(span, wait),
    )


def _span(limits: HostLimits, strain: int) -> int:
    """How long a host is left alone at that strain."""
    if not strain:
        return 0
    doubled = micros(limits.backoff_seconds) << (strain - 1)
    return min(doubled, micros(limits.max_backoff_seconds))
