"""The fleet in the API: workers and hosts of a biz, the whole fleet, health."""

from collections.abc import Iterable
from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.responses import filled, shown
from crawlfleet.api.results import rates_view
from crawlfleet.api.routing import Call, Parameter, Routes
from crawlfleet.crawling.fetching.proxy_health import ProxyPoolState
from crawlfleet.fleet.models import FleetSample, QueueSample, Ticked, WorkerHealth, WorkersSample
from crawlfleet.kernel.errors import InvalidRequestError, UnknownTenantError
from crawlfleet.kernel.redaction import one_line, plain
from crawlfleet.kernel.time import from_ms
from crawlfleet.monitoring import fleet_view as views
from crawlfleet.monitoring import models
from crawlfleet.monitoring.models import HostSample, Sample, Vitals
from crawlfleet.monitoring.shares import TenantState
from crawlfleet.requests.queue.stats import NodeHealth
from crawlfleet.wire.fleet import (
    BizState,
    CeilingUse,
    Fleet,
    FleetTotals,
    Headcount,
    Health,
    HostsAnswer,
    HostState,
    PartState,
    PoolWorkers,
    ProxiesAnswer,
    ProxyHealth,
    ProxyPoolHealth,
    Running,
    SharesAnswer,
    TenantShare,
    Tick,
    Unread,
    WorkersAnswer,
    WorkerState,
)

#: Bizs in one answer: those with most to do.
BIZS_SHOWN = 200
#: Characters that are shown of a driver's or a document's error.
REASON = 500
#: Characters that are shown of the validation errors of a refused configuration.
REFUSAL = 4_000


def bizs_view(queues: Iterable[QueueSample], most: int) -> tuple[BizState, ...]:
    """Shape bizs: those that are late first, then those with most to do."""
    return tuple(_biz(queue) for queue in sorted(queues, key=_most_first)[:most])


def fleet_view(seen: Sample) -> Fleet:
    """Shape the whole fleet."""
    return filled(
        Fleet,
        seen,
        config_refused=plain_reason(seen.config_refused, REFUSAL),
        workers=None if seen.workers is None else filled(Headcount, seen.workers),
        pools=pools_view(seen.workers),
        totals=totals_view(seen.fleet),
        bizs=bizs_view(seen.queues, BIZS_SHOWN),
        hosts=tuple(host_view(host) for host in seen.hosts),
        proxies=None if seen.proxies is None else tuple(map(proxy_pool_view, seen.proxies)),
        parts=tuple(_part(health) for health in seen.parts),
        unread=unread_view(seen.unread),
    )


def unread_view(unread: Iterable[models.Unread]) -> tuple[Unread, ...]:
    """Shape what could not be read; no reason carries a password."""
    return tuple(
        Unread(what=one_line(one.what, REASON), why=plain(one.why, REASON)) for one in unread
    )


def pools_view(workers: WorkersSample | None) -> tuple[PoolWorkers, ...]:
    """Shape the workers of each pool; none where they could not be read."""
    return () if workers is None else tuple(filled(PoolWorkers, pool) for pool in workers.pools)


def host_view(host: HostSample) -> HostState:
    """Shape a host."""
    return filled(
        HostState,
        host,
        interval_seconds=round(host.interval_seconds, 3),
        success_share=None if host.success_share is None else round(host.success_share, 4),
        latency_seconds=None if host.latency_seconds is None else round(host.latency_seconds, 4),
        waiting=host.deferred,
        window_seconds=round(host.window_seconds, 1),
    )


def proxy_pool_view(pool: ProxyPoolState) -> ProxyPoolHealth:
    """Shape a pool of proxies."""
    proxies = tuple(filled(ProxyHealth, one, away=one.is_away) for one in pool.proxies)
    return filled(ProxyPoolHealth, pool, proxies=proxies)


def totals_view(fleet: FleetSample) -> FleetTotals:
    """Shape the sums of all bizs."""
    return filled(
        FleetTotals,
        fleet,
        bizs=fleet.queues,
        oldest_seconds=round(fleet.oldest_seconds, 3),
        rates=rates_view(fleet.submitted, fleet.processed),
    )


def _biz(queue: QueueSample) -> BizState:
    depth, rates = queue.depth, None
    if queue.submitted is not None and queue.processed is not None:
        rates = rates_view(queue.submitted, queue.processed)
    return filled(
        BizState,
        queue,
        tenant=queue.queue_key.tenant,
        biz=queue.queue_key.biz,
        queued=None if depth is None else depth.queued,
        leased=None if depth is None else depth.leased,
        delayed=None if depth is None else depth.delayed,
        oldest_seconds=round(queue.oldest_seconds, 3),
        rates=rates,
        dead=None if queue.ledger is None else queue.ledger.dead,
        expired=None if queue.ledger is None else queue.ledger.expired,
    )


def plain_reason(reason: str | None, most: int = REASON) -> str | None:
    """Operators may read logs, but an answer of the API goes further: no password is in it."""
    return None if reason is None else plain(reason, most)


def _part(health: NodeHealth) -> PartState:
    return filled(
        PartState,
        health,
        problem=plain_reason(health.error),
        missing={figure: plain(why, REASON) for figure, why in health.missing.items()},
    )


def _most_first(queue: QueueSample) -> tuple[bool, int, str, str]:
    queued = 0 if queue.depth is None else queue.depth.queued
    return not queue.late, -queued, queue.queue_key.tenant, queue.queue_key.biz


def worker_view(status: WorkerHealth) -> WorkerState:
    """Shape a worker, of whose leased requests the one biz's are left."""
    started = status.worker_status.started_ms
    return filled(
        WorkerState,
        status.worker_status,
        worker=status.worker,
        health=status.health.value,
        phi=round(status.phi, 2),
        silent_seconds=round(max(status.beat_ms, status.silent_ms) / 1000, 3),
        since=from_ms(started) if started else None,
        held=sum(status.worker_status.held.values()),
    )


def share_view(state: TenantState) -> TenantShare:
    """Shape a tenant's share."""
    ceilings = tuple(filled(CeilingUse, one) for one in state.ceilings)
    return filled(TenantShare, state, part=round(state.part, 4), ceilings=ceilings)


def health_view(status: str, parts: dict[str, str], vitals: Vitals | None) -> Health:
    """Shape the platform's health."""
    if vitals is None:
        return Health(status=status, parts=parts)
    workers, ticked = vitals.workers, vitals.ticked
    return Health(
        status=status,
        parts=parts,
        deep=filled(
            Running,
            vitals,
            workers=None if workers is None else filled(Headcount, workers),
            tick=None if ticked is None else tick_view(ticked),
        ),
    )


def tick_view(ticked: Ticked) -> Tick:
    """Shape a tick."""
    ago = ticked.seconds_ago
    return Tick(
        seconds_ago=None if ago is None else round(ago, 1),
        took_seconds=round(ticked.took_seconds, 3),
        faults=dict(ticked.faults),
    )


_DEEP: Final = Parameter(
    name="deep",
    meaning="1: also what is running, of calls whose key API Gateway names; /v1/health has it.",
    shape={"type": "string", "enum": ["0", "1"]},
)
_DEPTHS: Final = {None: False, "0": False, "1": True}

ROUTES: Final = Routes()


@ROUTES.add("GET", "/v1/{biz}/workers", WorkersAnswer)
def list_workers(call: Call, biz: str) -> Response[str]:
    """List the fleet's workers: their health, and their leased requests of this biz."""
    found = views.workers(call.context.detector, call.tree, call.tenant, biz)
    return shown(200, WorkersAnswer(workers=tuple(map(worker_view, found))))


@ROUTES.add("GET", "/v1/{biz}/hosts", HostsAnswer)
def list_hosts(call: Call, biz: str) -> Response[str]:
    """List hosts that this biz fetches from or waits for, the worst first: how they answer."""
    found = call.context.hosts.list(call.tree, call.tenant, biz)
    return shown(200, HostsAnswer(hosts=tuple(map(host_view, found))))


@ROUTES.add("GET", "/v1/{biz}/proxies", ProxiesAnswer)
def list_proxies(call: Call, biz: str) -> Response[str]:
    """List the pools of proxies by which this biz's downloads leave, and how their proxies do."""
    found = views.proxies(call.context.proxies, call.tree, call.tenant, biz)
    return shown(200, ProxiesAnswer(pools=tuple(map(proxy_pool_view, found))))


@ROUTES.add("GET", "/v1/shares", SharesAnswer)
def list_shares(call: Call) -> Response[str]:
    """List what tenants have of workers and stores: their shares and ceilings.

    An operator's key lists all tenants, any other its own.
    """
    found = call.context.shares.list(call.tree, call.tenant, call.now)
    return shown(200, SharesAnswer(tenants=tuple(map(share_view, found))))


@ROUTES.add("GET", "/v1/fleet", Fleet)
def get_fleet(call: Call) -> Response[str]:
    """Get the whole fleet: workers, bizs, hosts, parts. Operators only."""
    context, tree = call.context, call.tree
    refused = context.refusal()
    return shown(
        200, fleet_view(views.oversee(context.sampling, tree, call.tenant, call.now, refused))
    )


_HEALTH: Final = {200: Health, 503: Health}


@ROUTES.add("GET", "/health", _HEALTH, problems=(403, 503), parameters=(_DEEP,), open=True)
def get_health(call: Call) -> Response[str]:
    """Check the parts that the router needs. What is running `GET /v1/health` describes."""
    given = call.query.get("deep")
    if given not in _DEPTHS:
        raise InvalidRequestError.of("deep", "must be 0 or 1")
    if _DEPTHS[given] and not call.has_key:
        message = "what is running is shown to holders of a key alone: ask GET /v1/health with it"
        raise UnknownTenantError(message)
    return _health(call, deep=_DEPTHS[given])


@ROUTES.add("GET", "/v1/health", _HEALTH)
def get_running(call: Call) -> Response[str]:
    """Check the parts that the router needs, and describe what is running."""
    return _health(call, deep=True)


def _health(call: Call, *, deep: bool) -> Response[str]:
    vitals = call.context.vitals() if deep else None
    parts = call.context.health() if vitals is None else vitals.parts
    well = all(state == "ok" for state in parts.values())
    # Redis alone may be away: submissions are persisted and queued later.
    able = well or all(state == "ok" for part, state in parts.items() if part != "redis")
    status = "ok" if well else "degraded" if able else "down"
    return shown(200 if able else 503, health_view(status, parts, vitals))
