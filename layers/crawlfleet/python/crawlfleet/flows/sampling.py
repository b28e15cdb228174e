"""A metric (SPEC.md A10, A11): sample rates, backlog and the health of the nodes, and emit them.

Rates are kept per second where they happen, so one look a minute still gives every second of it.
Deciding and acting on what is emitted (alarms, concurrency) is CloudWatch's part.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from crawlfleet.errors import StoreError
from crawlfleet.flows.configuration import biz_of
from crawlfleet.model.biz import Biz, Thresholds, Tree
from crawlfleet.model.lane import Lane
from crawlfleet.model.metric import Metric, Unit
from crawlfleet.model.request import State
from crawlfleet.model.totals import NodeHealth
from crawlfleet.policy.health import breaches, is_late
from crawlfleet.policy.scaling import wanted_consumers
from crawlfleet.ports import Health, Ledgers, MetricSink, RequestQueue, RequestStore, Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPorts:
    """What sampling needs of the world."""

    queue: RequestQueue
    store: RequestStore
    ledgers: Ledgers
    workers: Workers
    health: Health
    metrics: MetricSink
    warn: Callable[[str, Exception], None]


def sample(ports: SamplingPorts, tree: Tree, now: datetime) -> list[NodeHealth]:
    """Emit everything once; returns the health of the parts, the sick ones with their reasons."""
    looks = [_judged(look, tree.stage.thresholds) for look in ports.health.look()]
    for look in looks:
        ports.metrics.put(_node_metrics(look), {"part": look.part, "node": look.name}, now)
    for lane in tree.lanes():
        _, biz = biz_of(tree, lane.tenant, lane.biz)
        try:
            _sample_lane(ports, lane, biz, tree.stage.thresholds, now)
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            ports.warn(f"{lane.tenant}/{lane.biz} could not be sampled", error)
    _audit(ports, tree, now)
    try:
        _sample_fleet(ports, tree, now)
    except StoreError as error:
        ports.warn("the fleet could not be sampled", error)
    return looks


def _sample_lane(
    ports: SamplingPorts, lane: Lane, biz: Biz, thresholds: Thresholds, now: datetime
) -> None:
    dimensions = {"tenant": lane.tenant, "biz": lane.biz}
    depth = ports.queue.depth(lane)
    submitted, processed = ports.queue.rates(lane, now)
    ledger = ports.ledgers.totals(lane, biz, now)
    oldest = 0.0 if depth.oldest_ts is None else max(0.0, now.timestamp() - depth.oldest_ts / 1000)
    metrics = [
        Metric("Backlog", depth.queued, fine=True),
        Metric("Leased", depth.leased),
        Metric("Delayed", depth.delayed),
        Metric("OldestWaiting", oldest, Unit.SECONDS),
        Metric("Records", ports.store.record_count(lane, biz)),
    ]
    for span in ("1s", "5s", "60s"):
        field = f"per_{span}"
        metrics.append(Metric(f"SubmittedRate{span}", getattr(submitted, field), Unit.PER_SECOND))
        metrics.append(Metric(f"ProcessedRate{span}", getattr(processed, field), Unit.PER_SECOND))
    if processed.per_60s:
        metrics.append(Metric("TimeToFinish", depth.queued / processed.per_60s, Unit.SECONDS))
    late = is_late(
        oldest_seconds=oldest,
        longest_seconds=thresholds.oldest_waiting_seconds,
        queued=depth.queued,
        per_second=processed.per_60s,
        planned_seconds=biz.planned_seconds,
    )
    metrics.append(Metric("Late", int(late)))
    metrics += [Metric(f"State{s.label.title()}", getattr(ledger, s.label)) for s in State]
    ports.metrics.put(metrics, dimensions, now)

    # One value for each second in which something happened: 1 s resolution, from one look a minute.
    for name, seconds in zip(
        ("Submitted", "Processed"), ports.queue.per_second(lane, now), strict=True
    ):
        for second, count in sorted(seconds.items()):
            at = datetime.fromtimestamp(second, tz=now.tzinfo)
            ports.metrics.put([Metric(name, count, fine=True)], dimensions, at)


def _audit(ports: SamplingPorts, tree: Tree, now: datetime) -> None:
    """What was submitted and is in no state (SPEC.md H1). It must be 0; an alarm watches it.

    Where a lane's ledger cannot be read, the fleet's figure is about the others.
    """
    total, read = 0, False
    for lane in tree.lanes():
        _, biz = biz_of(tree, lane.tenant, lane.biz)
        try:
            difference = abs(ports.ledgers.audit(lane, biz, now).difference)
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            ports.warn(f"{lane.tenant}/{lane.biz} could not be audited", error)
            continue
        dimensions = {"tenant": lane.tenant, "biz": lane.biz}
        ports.metrics.put([Metric("LedgerDifference", difference)], dimensions, now)
        total, read = total + difference, True
    if read:
        ports.metrics.put([Metric("LedgerDifference", total)], {}, now)


def _sample_fleet(ports: SamplingPorts, tree: Tree, now: datetime) -> None:
    lanes = tree.lanes()
    depths, loads = ports.queue.depths(lanes), ports.queue.loads(lanes, now)
    ports.metrics.put(
        [
            Metric("Consumers", len(ports.workers.live(now))),
            Metric("WantedConsumers", wanted_consumers(loads, tree.stage.fleet)),
            Metric("FleetBacklog", sum(depth.queued for depth in depths), fine=True),
        ],
        {},
        now,
    )


def _judged(look: NodeHealth, thresholds: Thresholds) -> NodeHealth:
    reasons = breaches(look, thresholds)
    if not reasons:
        return look
    return NodeHealth(
        part=look.part,
        name=look.name,
        up=look.up,
        figures=look.figures,
        error="; ".join(filter(None, (look.error, *reasons))),
    )


def _node_metrics(look: NodeHealth) -> list[Metric]:
    found = [Metric("NodeUp", int(look.up)), Metric("NodeHealthy", int(look.error is None))]
    return found + [Metric(name, value) for name, value in sorted(look.figures.items())]
