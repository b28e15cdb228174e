"""Samples, and the metrics that are made of them."""

from datetime import UTC, datetime

from tests.kit.config import MonitorLimits
from tests.kit.fleet import fleet_of
from tests.kit.kernel import QueueKey
from tests.kit.kernel import metric_names as names
from tests.kit.monitoring import (
    Emitted,
    HostSample,
    QueueSample,
    Sample,
    WorkersSample,
    batches,
)
from tests.kit.queue import Depth, Load, NodeHealth, Rates
from tests.kit.requests import Ledger

AT = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
SECOND = int(AT.timestamp())
RATES = Rates(per_1s=1.0, per_5s=2.0, per_60s=3.0)
LIMITS = MonitorLimits()
NOTHING = Emitted()


def queue_key(number: int = 1, **changes: object) -> QueueSample:
    figures: dict[str, object] = {
        "queue_key": QueueKey("acme", f"b{number}", "main"),
        "depth": Depth(queued=7, leased=2, delayed=1, oldest_ts=1),
        "load": Load(ready=7, leased=2),
        "oldest_seconds": 4.0,
        "submitted": RATES,
        "processed": RATES,
        "submitted_seconds": {SECOND - 10: 5},
        "processed_seconds": {SECOND - 9: 4},
        "ledger": Ledger(submitted=20, pending=7, leased=2, waiting=1, done=6, dead=3, expired=1),
        "retries": 1,
        "difference": 0,
        "records": 6,
        "finish_seconds": 2.3,
    }
    return QueueSample(**(figures | changes))  # type: ignore[arg-type]


def quiet(number: int) -> QueueSample:
    return queue_key(
        number,
        depth=Depth(queued=0, leased=0, delayed=0),
        submitted_seconds={},
        processed_seconds={},
    )


def part(kind: str, name: str) -> NodeHealth:
    reported = names.REDIS if kind == "redis" else names.NODE
    figures = {one: 1.0 for one in reported if one not in {names.NODE_UP, names.NODE_HEALTHY}}
    return NodeHealth(part=kind, name=name, up=True, figures=figures)


def host(number: int, **changes: object) -> HostSample:
    figures: dict[str, object] = {
        "host": f"h{number}.example",
        "answered": 60,
        "latency_seconds": 0.2,
        "success_share": 1.0,
    }
    return HostSample(**(figures | changes))  # type: ignore[arg-type]


def seen(*queues: QueueSample, **changes: object) -> Sample:
    figures: dict[str, object] = {
        "at": AT,
        "took_seconds": 1.5,
        "revision": "r1",
        "queues": queues,
        "fleet": fleet_of(queues),
        "workers": WorkersSample(alive=3, suspected=1, dead=0, present=4, wanted=5),
    }
    return Sample(**(figures | changes))  # type: ignore[arg-type]


def emit(sample: Sample, emitted: Emitted = NOTHING, **limits: int):
    return batches(sample, emitted, **({"bizs": LIMITS.bizs, "hosts": LIMITS.hosts} | limits))


def values(sample: Sample, **dimensions: str) -> dict[str, float]:
    found, _ = emit(sample)
    return {
        metric.name: metric.value
        for batch in found
        if batch.dimensions == dimensions
        for metric in batch.metrics
    }


def series(sample: Sample, emitted: Emitted = NOTHING, **limits: int) -> set[tuple[str, ...]]:
    found, _ = emit(sample, emitted, **limits)
    return {
        (metric.name, *(f"{name}={of}" for name, of in sorted(batch.dimensions.items())))
        for batch in found
        for metric in batch.metrics
    }
