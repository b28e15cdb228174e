"""How fast hosts may be asked, as far as that bounds the workers (SPEC.md H3, H4)."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from crawlfleet.model.politeness import HostLimits, HostState


def allowed_rate(
    limits: HostLimits,
    state: HostState,
    now: datetime,
    soon: timedelta = timedelta(),
    tenant: str = "",
) -> float:
    """Requests a second that a host may be asked for: by its limits, and as it has shown itself.

    None while it is left alone for longer than ``soon``. Downloads at once bound it too, by how
    long they take, and so does what lies between the turns of the ``tenant``: a crawl-delay.

    >>> from datetime import UTC
    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> limits = HostLimits(per_second=10, concurrency=8)
    >>> allowed_rate(limits, HostState(host="a"), now)
    10.0
    >>> allowed_rate(limits, HostState(host="a", answer_seconds=4.0), now)
    2.0
    """
    if state.back_off_until is not None and state.back_off_until > now + soon:
        return 0.0
    rate = float(limits.per_second)
    if state.interval_seconds > 0:
        rate = min(rate, 1 / state.interval_seconds)
    if state.intervals.get(tenant, 0.0) > 0:
        rate = min(rate, 1 / state.intervals[tenant])
    if state.answer_seconds > 0:
        rate = min(rate, limits.concurrency / state.answer_seconds)
    return rate


def coverage(met: Mapping[str, int], known: Collection[str]) -> float:
    """Which part of a queue leads to hosts that are known, by some entries of it (Good and Turing).

    Of hosts that were met once there are likely to be others that were not met at all. ``met`` is
    how often each was met; ``known`` are met for other reasons.

    >>> coverage({"a": 16}, ()), coverage({"a": 8, "b": 7, "c": 1}, ()), coverage({"a": 1}, ())
    (1.0, 0.9375, 0.0)
    """
    total = sum(met.values())
    once = sum(count for host, count in met.items() if count == 1 and host not in known)
    return 1 - once / total if total else 0.0
