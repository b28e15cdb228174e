"""Thresholds, alarms and metrics of the stage document (SPEC.md A11), and limits of reading.

A change is in force with the next evaluation of the monitor; no deployment has any part in it.
"""

from typing import Annotated, Literal, TypeVar

from msgspec import Meta

from crawlfleet.kernel.validation import Count, Document, Seconds

Share = Annotated[float, Meta(gt=0, le=1)]
#: What must not be exceeded may be 0.
Amount = Annotated[int, Meta(ge=0)]
T = TypeVar("T", int, float)
#: Figures of Redis and MongoDB that findings need, named as their metrics are.
FigureName = Literal[
    "CacheRatio",
    "ConnectionsRatio",
    "EvictedKeys",
    "LagSeconds",
    "Latency",
    "LinkDown",
    "MembersUnwell",
    "MemoryRatio",
    "Replicas",
    "SlowOperations",
    "StorageBytes",
    "StorageRatio",
]


class Thresholds(Document, frozen=True, kw_only=True):
    """Beyond these the monitor calls something wrong (SPEC.md A11, B13, H4).

    What each is of stands in docs/reference/configuration.md.
    """

    storage_bytes: Count = 400_000_000_000
    storage_ratio: Share = 0.85
    memory_ratio: Share = 0.85
    redis_memory_ratio: Share = 0.75
    connections_ratio: Share = 0.8
    slow_operations: Count = 100
    latency_seconds: Seconds = 0.25
    lag_seconds: Seconds = 30.0
    unwell_replicas: Amount = 0
    redis_replicas: Amount = 0
    evicted_keys: Amount = 0
    backlog: Count = 10_000
    oldest_waiting_seconds: Seconds = 3600.0
    dead_per_minute: Count = 100
    expired_per_minute: Count = 10
    coverage_fall: Share = 0.5
    coverage_records: Count = 200
    ledger_difference: Amount = 0
    dead_workers: Amount = 0
    tick_silent_seconds: Seconds = 180.0
    tick_faults: Amount = 0
    throttled_share: Share = 0.2
    throttled_answers: Count = 20
    failing_share: Share = 0.5
    host_latency_seconds: Seconds | None = None
    host_answers: Count = 10


class BizThresholds(Document, frozen=True, kw_only=True):
    """A biz's own thresholds; None leaves it to the stage. The plan is ``planned_seconds``."""

    backlog: Count | None = None
    oldest_waiting_seconds: Seconds | None = None
    dead_per_minute: Count | None = None
    expired_per_minute: Count | None = None
    coverage_fall: Share | None = None


class AlarmLimits(Document, frozen=True, kw_only=True):
    """The limits by which findings become messages. The monitor evaluates once a minute.

    What each bounds stands in docs/reference/configuration.md.
    """

    bad_looks: Annotated[int, Meta(ge=1, le=60)] = 2
    good_looks: Annotated[int, Meta(ge=1, le=60)] = 3
    most_good_looks: Annotated[int, Meta(ge=1, le=1_440)] = 60
    flap_seconds: Seconds = 3600.0
    reminder_seconds: Seconds = 3600.0
    most_reminder_seconds: Seconds = 86_400.0
    singly: Annotated[int, Meta(ge=1, le=100)] = 5
    messages_an_hour: Annotated[int, Meta(ge=1, le=1_000)] = 20
    digest_seconds: Seconds = 300.0


class MonitorLimits(Document, frozen=True, kw_only=True):
    """The bizs and hosts that have metrics of their own in an hour (monitoring.metrics).

    Each biz more is at most 3.30 USD a month, each host 1.20 (crawlfleet.kernel.metric_names).
    ``unwatched`` are figures of parts that nobody is to read, for want of a right that is not
    given: that they are missing is no finding.
    """

    bizs: Annotated[int, Meta(ge=0, le=1000)] = 50
    hosts: Annotated[int, Meta(ge=0, le=100)] = 10
    unwatched: Annotated[tuple[FigureName, ...], Meta(max_length=32)] = ()


def own_or(own: T | None, stage: T) -> T:
    """Return the biz's own threshold where it has one, the stage's where not.

    >>> own_or(None, 100), own_or(5, 100)
    (100, 5)
    """
    return stage if own is None else own


class ReadingLimits(Document, frozen=True, kw_only=True):
    """The limits of the process that reads pages (crawling.reading).

    A page, or a slice of a long one, may take ``cpu_seconds``; beyond them, and beyond
    ``memory_mb`` more than the process began with, it ends. After so many ``pages`` another takes
    its place.
    """

    cpu_seconds: Annotated[int, Meta(ge=1, le=120)] = 15
    memory_mb: Annotated[int, Meta(ge=64, le=8_192)] = 512
    pages: Annotated[int, Meta(ge=1, le=1_000_000)] = 5_000


class CapacityLimits(Document, frozen=True, kw_only=True):
    """The most workers of each pool that one tenant may have kept available, whatever it states."""

    workers_per_tenant: Annotated[int, Meta(ge=0, le=1000)] = 10
