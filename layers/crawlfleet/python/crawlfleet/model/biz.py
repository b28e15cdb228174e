"""A biz: a business type, as its document in the config centre describes it (SPEC.md A3, A4)."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from crawlfleet.model.ids import IdKind
from crawlfleet.model.lane import Lane
from crawlfleet.model.rule import Rule

#: Tenants, bizs, nodes, schedules. No underscore: it separates them in database names.
Slug = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,31}\Z")]
#: Collections and queues.
StoreName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,31}\Z")]
#: Short enough that ``cf_{tenant}_{database}`` stays below MongoDB's 64 bytes.
DatabaseName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,23}\Z")]
RuleName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")]
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class _Document(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What every config document shares: unknown keys are mistakes."""


class Spread(StrEnum):
    """How an id picks its shard.

    ``modulo`` and ``rendezvous`` mix the 64 bits first. ``plain_modulo`` is the sources' formula,
    kept for data that was routed so: at low load it puts nearly everything on one shard.
    """

    MODULO = "modulo"
    RENDEZVOUS = "rendezvous"
    PLAIN_MODULO = "plain_modulo"


class Generation(_Document, frozen=True, kw_only=True):
    """A route in force from ``starts_at`` until the next one starts (DESIGN.md 3).

    An id carries its own time, so the generation in force then finds it again; nothing is moved.
    ``nodes`` times ``databases`` times ``shards`` collections share the requests.
    """

    starts_at: datetime
    nodes: Annotated[tuple[Slug, ...], Meta(min_length=1, max_length=64)]
    databases: Annotated[tuple[DatabaseName, ...], Meta(min_length=1, max_length=64)]
    shards: Annotated[int, Meta(ge=1, le=256)] = 1
    spread: Spread = Spread.RENDEZVOUS


class FetchLimits(_Document, frozen=True, kw_only=True):
    """What one download may cost."""

    user_agent: Annotated[str, Meta(min_length=1, max_length=256)] = "Crawlfleet"
    headers: dict[str, str] = {}
    connect_seconds: Seconds = 5.0
    total_seconds: Seconds = 30.0
    max_body_bytes: Count = 10_000_000
    max_redirects: Annotated[int, Meta(ge=0, le=20)] = 10
    per_host: Count = 16


class RetryLimits(_Document, frozen=True, kw_only=True):
    """How often and how late a failed request is tried again; delays double and carry jitter."""

    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 4
    base_seconds: Seconds = 5.0
    max_seconds: Seconds = 3600.0


class IntakeLimits(_Document, frozen=True, kw_only=True):
    """How much, and how fast, a biz takes. Beyond it a submission is answered with 429.

    ``max_backlog`` counts what is queued, leased and delayed. ``per_second`` may be exceeded by
    ``burst`` at once; None is no limit.
    """

    max_backlog: Count = 5_000_000
    per_second: Annotated[float, Meta(gt=0)] | None = None
    burst: Count = 1_000


class Biz(_Document, frozen=True, kw_only=True):
    """A business type. Its name and its tenant come from the document's place in the tree.

    A request not processed ``ttl_seconds`` after it was queued is counted as expired and never
    worked on; MongoDB removes it, and finished ones, ``expiry_grace_seconds`` later. A backlog that
    will take longer than ``planned_seconds`` at the present rate is reported as late.
    """

    description: str = ""
    queue: StoreName = "main"
    collection: StoreName = "requests"
    ttl_seconds: Annotated[int, Meta(ge=60, le=31_536_000)] = 604_800
    expiry_grace_seconds: Annotated[int, Meta(ge=0, le=604_800)] = 300
    records_ttl_seconds: Annotated[int, Meta(ge=60)] | None = None
    id_kind: IdKind = IdKind.SNOWFLAKE
    planned_seconds: Seconds | None = None
    generations: Annotated[tuple[Generation, ...], Meta(min_length=1, max_length=64)]
    rules: Annotated[dict[RuleName, Rule], Meta(min_length=1, max_length=500)]
    fetch: FetchLimits = FetchLimits()
    retry: RetryLimits = RetryLimits()
    intake: IntakeLimits = IntakeLimits()
    states: dict[Slug, Annotated[int, Meta(ge=100, le=2**31 - 1)]] = {}


class Tenant(_Document, frozen=True, kw_only=True):
    """Who owns bizs. ``api_keys`` are the ids of API Gateway keys, not the keys themselves."""

    description: str = ""
    api_keys: tuple[Annotated[str, Meta(min_length=1, max_length=128)], ...] = ()


class FleetLimits(_Document, frozen=True, kw_only=True):
    """How many workers there are and how they behave."""

    min_consumers: Annotated[int, Meta(ge=0, le=1000)] = 0
    max_consumers: Annotated[int, Meta(ge=1, le=1000)] = 2
    requests_per_consumer: Count = 2000
    concurrency: Annotated[int, Meta(ge=1, le=2000)] = 64
    batch: Annotated[int, Meta(ge=1, le=1000)] = 100
    lease_seconds: Seconds = 60.0
    idle_seconds: Annotated[float, Meta(ge=0)] = 2.0


class DetectorLimits(_Document, frozen=True, kw_only=True):
    """When a silent worker is taken to be dead (policy.liveness).

    ``threshold`` is phi; ``pause_seconds`` is what a healthy worker may be silent for beyond what
    its history says; ``deviation_seconds`` the least that its beats are taken to vary by.
    ``detached_seconds`` without Redis a worker gives back what it has not begun.
    """

    beat_seconds: Annotated[float, Meta(gt=0, le=10)] = 1.0
    threshold: Annotated[float, Meta(ge=1, le=30)] = 8.0
    pause_seconds: Annotated[float, Meta(ge=0)] = 2.0
    deviation_seconds: Seconds = 0.3
    detached_seconds: Seconds = 60.0


class Thresholds(_Document, frozen=True, kw_only=True):
    """Beyond these the monitor calls a node unhealthy, or a biz late (SPEC.md A11)."""

    storage_bytes: Count = 400_000_000_000
    memory_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.85
    slow_operations: Count = 100
    oldest_waiting_seconds: Seconds = 3600.0


class Stage(_Document, frozen=True, kw_only=True):
    """The stage document: what holds for every tenant. ``home_node`` keeps schedules and rules.

    ``allow_private_addresses`` switches off the check that keeps the worker away from loopback,
    private, link-local and metadata addresses. Only a stage on one's own machine does that.
    Submissions are answered with 429 while Redis uses more than ``redis_memory_ratio`` of its
    ``maxmemory``.
    """

    home_node: Slug = "main"
    nodes: Annotated[tuple[Slug, ...], Meta(min_length=1, max_length=64)] = ("main",)
    allow_private_addresses: bool = False
    fleet: FleetLimits = FleetLimits()
    detector: DetectorLimits = DetectorLimits()
    redis_memory_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.85
    thresholds: Thresholds = Thresholds()


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration of a stage at one ``revision``; bizs by tenant, then by name.

    ``refused`` are bizs, as (tenant, name), that have a document but never had a right one.
    """

    revision: str
    stage: Stage
    tenants: dict[str, Tenant]
    bizs: dict[str, dict[str, Biz]]
    refused: frozenset[tuple[str, str]] = frozenset()

    def lanes(self) -> tuple[Lane, ...]:
        """Every lane of the stage, in a stable order."""
        return tuple(
            Lane(tenant, name, biz.queue)
            for tenant, bizs in sorted(self.bizs.items())
            for name, biz in sorted(bizs.items())
        )
