"""The API's fleet: the workers and hosts of a biz, and the whole of it for operators."""

from typing import Final

import msgspec
from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.responses import View, at, shown
from crawlfleet.api.routing import ANY, Call, Route
from crawlfleet.api.stats import RatesView, rates_of
from crawlfleet.fleet.models import (
    FleetSample,
    PoolSample,
    QueueSample,
    WorkerHealth,
    WorkersSample,
)
from crawlfleet.kernel.redaction import one_line, plain
from crawlfleet.kernel.time import from_ms
from crawlfleet.monitoring import fleet_view as views
from crawlfleet.monitoring.models import HostSample, Sample
from crawlfleet.requests.queue.stats import NodeHealth

#: Bizs in one answer: those with most to do.
BIZS_SHOWN = 200
#: Characters of what a driver or a document has to say for itself.
REASON = 500
#: Of a refused configuration every mistake is named, as far as that goes.
REFUSAL = 4_000


class HeadcountView(View, frozen=True, kw_only=True):
    """Workers by what the failure detector makes of them.

    ``present`` counts those that are being started too; ``wanted`` is the standing decision, null
    where there is none. Both are 0 and null where only the detector was asked.
    """

    alive: int
    suspected: int
    dead: int
    unwatched: int
    present: int
    wanted: int | None


class HostView(View, frozen=True, kw_only=True):
    """A host of the last one to two minutes, and how it is treated now.

    ``success_share`` and ``latency_seconds`` are null where nothing was asked; ``asked``,
    ``failed`` and ``strained`` are counts over ``window_seconds`` that operators see.
    """

    host: str
    throttled: bool
    backing_off_until: str | None
    strain: int
    interval_seconds: float
    success_share: float | None
    latency_seconds: float | None
    waiting: int
    window_seconds: float
    asked: int
    failed: int
    strained: int
    running: int


class HostsView(View, frozen=True, kw_only=True):
    """Hosts, the worst first, then the busiest."""

    hosts: list[HostView]


class PartView(View, frozen=True, kw_only=True):
    """Redis or a MongoDB node. ``missing`` says of figures why they are not there."""

    part: str
    name: str
    up: bool
    problem: str | None
    figures: dict[str, float]
    missing: dict[str, str]


class LaneView(View, frozen=True, kw_only=True):
    """A biz of the fleet; null is what could not be read.

    ``finish_seconds`` is how long the backlog lasts at the present rate: null where it never ends.
    ``dead`` and ``expired`` are counted since the biz exists.
    """

    tenant: str
    biz: str
    queued: int | None
    leased: int | None
    delayed: int | None
    oldest_seconds: float
    rates: RatesView | None
    planned_seconds: float | None
    finish_seconds: float | None
    late: bool
    dead: int | None
    expired: int | None


class FleetTotalsView(View, frozen=True, kw_only=True):
    """All bizs together; ``late`` is how many of them are."""

    bizs: int
    queued: int
    leased: int
    delayed: int
    oldest_seconds: float
    rates: RatesView
    finish_seconds: float | None
    late: int


class UnreadView(View, frozen=True, kw_only=True):
    """What could not be looked at, and why."""

    what: str
    why: str


class PoolView(View, frozen=True, kw_only=True):
    """The workers of one pool, the usual one first; the counts are named as those of all workers.

    ``busy`` of the alive hold something, the others are ``idle``. ``kept`` are kept available by
    stated needs, which come to ``stated``. ``done`` and ``failed`` are requests that its known
    workers have dealt with, and of these given up on, each since it began.
    """

    name: str
    memory_mb: int | None
    region: str
    network: str
    alive: int
    busy: int
    idle: int
    suspected: int
    dead: int
    unwatched: int
    present: int
    wanted: int | None
    allowed: int | None
    kept: int
    stated: int
    done: int
    failed: int


class FleetView(View, frozen=True, kw_only=True):
    """One look at the fleet. Of bizs the 200 with most to do are in it, the late ones first."""

    at: str
    revision: str
    config_refused: str | None
    workers: HeadcountView | None
    pools: list[PoolView]
    totals: FleetTotalsView
    bizs: list[LaneView]
    hosts: list[HostView]
    hosts_seen: int
    parts: list[PartView]
    stray_items: int | None
    stray_requests: int | None
    unread: list[UnreadView]


def fleet_view(seen: Sample) -> FleetView:
    """The whole fleet."""
    bizs = sorted(seen.queues, key=_most_first)[:BIZS_SHOWN]
    return FleetView(
        at=at(seen.at),
        revision=seen.revision,
        config_refused=_plain(seen.config_refused, REFUSAL),
        workers=None if seen.workers is None else headcount_view(seen.workers),
        pools=[] if seen.workers is None else [_pool_view(one) for one in seen.workers.pools],
        totals=_totals_view(seen.fleet),
        bizs=[_queue_view(queue_key) for queue_key in bizs],
        hosts=[host_view(host) for host in seen.hosts],
        hosts_seen=seen.hosts_seen,
        parts=[_part_view(look) for look in seen.parts],
        stray_items=seen.stray_items,
        stray_requests=seen.stray_requests,
        unread=[
            UnreadView(what=one_line(one.what, REASON), why=plain(one.why, REASON))
            for one in seen.unread
        ],
    )


def _pool_view(pool: PoolSample) -> PoolView:
    return PoolView(**msgspec.structs.asdict(pool))


def headcount_view(workers: WorkersSample) -> HeadcountView:
    """The workers."""
    return HeadcountView(
        alive=workers.alive,
        suspected=workers.suspected,
        dead=workers.dead,
        unwatched=workers.unwatched,
        present=workers.present,
        wanted=workers.wanted,
    )


def host_view(host: HostSample) -> HostView:
    """A host."""
    until = host.backing_off_until
    return HostView(
        host=host.host,
        throttled=host.throttled,
        backing_off_until=None if until is None else at(until),
        strain=host.strain,
        interval_seconds=round(host.interval_seconds, 3),
        success_share=None if host.success_share is None else round(host.success_share, 4),
        latency_seconds=None if host.latency_seconds is None else round(host.latency_seconds, 4),
        waiting=host.deferred,
        window_seconds=round(host.window_seconds, 1),
        asked=host.asked,
        failed=host.failed,
        strained=host.strained,
        running=host.running,
    )


def _totals_view(fleet: FleetSample) -> FleetTotalsView:
    return FleetTotalsView(
        bizs=fleet.queues,
        queued=fleet.queued,
        leased=fleet.leased,
        delayed=fleet.delayed,
        oldest_seconds=round(fleet.oldest_seconds, 3),
        rates=RatesView(submitted=rates_of(fleet.submitted), processed=rates_of(fleet.processed)),
        finish_seconds=fleet.finish_seconds,
        late=fleet.late,
    )


def _queue_view(queue_key: QueueSample) -> LaneView:
    depth, rates = queue_key.depth, None
    if queue_key.submitted is not None and queue_key.processed is not None:
        rates = RatesView(
            submitted=rates_of(queue_key.submitted), processed=rates_of(queue_key.processed)
        )
    return LaneView(
        tenant=queue_key.queue_key.tenant,
        biz=queue_key.queue_key.biz,
        queued=None if depth is None else depth.queued,
        leased=None if depth is None else depth.leased,
        delayed=None if depth is None else depth.delayed,
        oldest_seconds=round(queue_key.oldest_seconds, 3),
        rates=rates,
        planned_seconds=queue_key.planned_seconds,
        finish_seconds=queue_key.finish_seconds,
        late=queue_key.late,
        dead=None if queue_key.ledger is None else queue_key.ledger.dead,
        expired=None if queue_key.ledger is None else queue_key.ledger.expired,
    )


def _plain(reason: str | None, most: int = REASON) -> str | None:
    """Operators may read logs, but an answer of the API goes further: no password is in it."""
    return None if reason is None else plain(reason, most)


def _part_view(look: NodeHealth) -> PartView:
    return PartView(
        part=look.part,
        name=look.name,
        up=look.up,
        problem=_plain(look.error),
        figures=look.figures,
        missing={figure: plain(why, REASON) for figure, why in look.missing.items()},
    )


def _most_first(queue_key: QueueSample) -> tuple[bool, int, str, str]:
    queued = 0 if queue_key.depth is None else queue_key.depth.queued
    return not queue_key.late, -queued, queue_key.queue_key.tenant, queue_key.queue_key.biz


class WorkerView(View, frozen=True, kw_only=True):
    """A worker. ``held`` is what it holds of this biz; ``since`` when it began, where it says so.

    ``phi`` is how sure the detector is that it is dead, as a power of ten, by the silence that was
    watched; ``silent_seconds`` is the time since its last beat. ``unwatched`` is one that was
    silent for long while nobody watched. ``pool`` is the kind of worker that it is. ``done`` and
    ``failed`` are requests of all bizs since it began, dealt with and of these given up on; to
    operators alone, 0 to others.
    """

    worker: str
    health: str
    phi: float
    silent_seconds: float
    since: str | None
    held: int
    pool: str
    done: int
    failed: int


class WorkersView(View, frozen=True, kw_only=True):
    """The workers of the fleet that are known now."""

    workers: list[WorkerView]


def worker_view(status: WorkerHealth) -> WorkerView:
    """A worker, with what it holds of the one biz that its card was cut down to."""
    started = status.worker_status.started_ms
    return WorkerView(
        worker=status.worker,
        health=status.health.value,
        phi=round(status.phi, 2),
        silent_seconds=round(max(status.beat_ms, status.silent_ms) / 1000, 3),
        since=at(from_ms(started)) if started else None,
        held=sum(status.worker_status.held.values()),
        pool=status.worker_status.pool,
        done=status.worker_status.done,
        failed=status.worker_status.failed,
    )


def _list_workers(call: Call, biz: str) -> Response[str]:
    ports = views.RosterPorts(detector=call.context.detector)
    found = views.workers(ports, call.tree, call.tenant, biz)
    return shown(200, WorkersView(workers=[worker_view(status) for status in found]))


def _list_hosts(call: Call, biz: str) -> Response[str]:
    found = views.hosts_of(call.context.hosts, call.tree, call.tenant, biz)
    return shown(200, HostsView(hosts=[host_view(host) for host in found]))


def _get_fleet(call: Call) -> Response[str]:
    context, tree = call.context, call.tree
    refused = context.refusal()
    return shown(
        200, fleet_view(views.oversee(context.sampling, tree, call.tenant, call.now, refused))
    )


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="listWorkers",
        handler=_list_workers,
        method="GET",
        path="/v1/{biz}/workers",
        summary="The fleet's workers: how they are, and what they hold of this biz.",
        answers={200: WorkersView},
        problems=ANY,
    ),
    Route(
        operation="listHosts",
        handler=_list_hosts,
        method="GET",
        path="/v1/{biz}/hosts",
        summary="Hosts that this biz is at or waits for, the worst first: how they answer.",
        answers={200: HostsView},
        problems=ANY,
    ),
    Route(
        operation="getFleet",
        handler=_get_fleet,
        method="GET",
        path="/v1/fleet",
        summary="One look at the whole fleet: workers, bizs, hosts, parts. Operators only.",
        answers={200: FleetView},
        problems=(400, 403, 503),
    ),
)
