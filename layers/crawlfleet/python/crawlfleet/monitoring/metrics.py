"""A sample as metrics (SPEC.md A10, A11): which values, under which few dimensions.

:mod:`crawlfleet.kernel.metric_names` has the names, what they mean, and what they cost.

How many metrics there may be (SPEC.md A10): what is named by tenants and sites is bounded.

CloudWatch bills a metric for every hour in which it got a value, so who is shown is settled for the
hour: the first to come get the places, and nobody else gets one before the hour is over. Hosts that
changed with each look would be as dear as if all of them were shown all the time.

A sample becomes metrics (SPEC.md A10, A11). What is emitted is decided by monitoring.metrics.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from crawlfleet.config.documents.biz import MonitorLimits
from crawlfleet.fleet.models import FleetSample, QueueSample
from crawlfleet.fleet.status import is_quiet
from crawlfleet.kernel import metric_names as names
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.metrics import Batch, Metric, MetricSink, Unit
from crawlfleet.monitoring.incidents.capacity_checks import short_of
from crawlfleet.monitoring.models import HostSample, Sample
from crawlfleet.requests.queue.stats import KEPT_SECONDS, NodeHealth

_HOUR_SECONDS: Final = 3600


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Who has a place in this hour, counted from the epoch."""

    hour: int = -1
    names: frozenset[str] = frozenset()


def seated(places: Places, wanted: Iterable[str], most: int, now: datetime) -> Places:
    """The places after some want one, those that want it most first.

    >>> at = datetime(2026, 3, 1, 12)
    >>> first = seated(Places(), ["a", "b", "c"], 2, at)
    >>> sorted(first.names), sorted(seated(first, ["c", "a"], 2, at).names)
    (['a', 'b'], ['a', 'b'])
    """
    hour = int(now.timestamp()) // _HOUR_SECONDS
    names = set(places.names) if hour == places.hour else set()
    for name in wanted:
        if len(names) >= most:
            break
        names.add(name)
    return Places(hour=hour, names=frozenset(names))


#: A second is told of when it has been over for so long: whoever counts in it may be a bit late.
SETTLED_SECONDS: Final = 2
#: Before anything was told of, one look tells of so many seconds.
FIRST_SECONDS: Final = 60

_UNITS: Final = {
    names.MEMORY_BYTES: Unit.BYTES,
    names.STORAGE_BYTES: Unit.BYTES,
    names.MEMORY_RATIO: Unit.NONE,
    names.CACHE_RATIO: Unit.NONE,
    names.CONNECTIONS_RATIO: Unit.NONE,
    names.LATENCY: Unit.SECONDS,
    names.LAG_SECONDS: Unit.SECONDS,
    names.OPERATIONS: Unit.PER_SECOND,
}


class Emitted(msgspec.Struct, frozen=True, kw_only=True):
    """What the looks before have emitted: seconds before ``until``, of these bizs and hosts.

    Of lanes whose counts could not be read then, ``behind`` has up to where they are told.
    """

    until: int | None = None
    behind: dict[str, int] = {}
    bizs: Places = Places()
    hosts: Places = Places()


def batches(
    sample: Sample, emitted: Emitted, *, bizs: int, hosts: int
) -> tuple[list[Batch], Emitted]:
    """A sample's metrics, and what is emitted after them.

    Every second that is over is emitted once, however irregular the looks are: its value is a count
    and summed over longer periods. What could not be read is told by the next look that can: of the
    stage a second may have several values then, whose sum is right. One that is older than the
    counts are kept for is not known.

    Args:
        sample: What was seen.
        emitted: What the looks before have emitted.
        bizs: How many bizs have metrics of their own in an hour.
        hosts: How many hosts have.
    """
    end = int(sample.at.timestamp()) - SETTLED_SECONDS
    begins = {
        _biz_of(queue_key): _begin(emitted.behind.get(_biz_of(queue_key), emitted.until), end)
        for queue_key in sample.queues
    }
    until, behind = emitted.until, emitted.behind
    unread = {_biz_of(queue_key) for queue_key in sample.queues if queue_key.submitted is None}
    if len(unread) < len(sample.queues):
        until = max(_begin(emitted.until, end), end)
        behind = {name: begins[name] for name in unread}
    working = sorted(
        (queue_key for queue_key in sample.queues if not is_quiet(queue_key)), key=_most_first
    )
    emitted = Emitted(
        until=until,
        behind=behind,
        bizs=seated(emitted.bizs, map(_biz_of, working), bizs, sample.at),
        hosts=seated(
            emitted.hosts, (one.host for one in sample.hosts if one.host), hosts, sample.at
        ),
    )
    found = [Batch(at=sample.at, metrics=tuple(_stage_metrics(sample)))]
    found += _seconds(sample.queues, {}, begins, end)
    for look in sample.parts:
        dimensions = {"part": look.part, "node": look.name}
        found.append(Batch(at=sample.at, metrics=tuple(_part_metrics(look)), dimensions=dimensions))
    for queue_key in working:
        if _biz_of(queue_key) in emitted.bizs.names:
            dimensions = {"tenant": queue_key.queue_key.tenant, "biz": queue_key.queue_key.biz}
            metrics = tuple(_queue_metrics(queue_key))
            found.append(Batch(at=sample.at, metrics=metrics, dimensions=dimensions))
            found += _seconds([queue_key], dimensions, begins, end)
    for host in sample.hosts:
        if host.host in emitted.hosts.names:
            found.append(
                Batch(
                    at=sample.at,
                    metrics=tuple(_host_metrics(host)),
                    dimensions={"host": host.host[:255]},
                )
            )
    return [_sound(batch) for batch in found], emitted


def _stage_metrics(sample: Sample) -> Iterable[Metric]:
    yield Metric(names.LOOKS, 1)
    yield Metric(names.LOOK_SECONDS, sample.took_seconds, Unit.SECONDS)
    yield Metric(names.UNREAD, len(sample.unread))
    yield Metric(names.CONFIG_REFUSED, int(sample.config_refused is not None))
    yield Metric(names.HOSTS_THROTTLED, sample.hosts_throttled)
    if any(queue_key.depth is not None for queue_key in sample.queues):
        yield from _fleet_queue_metrics(sample.fleet)
    if any(queue_key.ledger is not None for queue_key in sample.queues):
        yield Metric(names.DEAD, sample.fleet.ledger.dead)
        yield Metric(names.EXPIRED, sample.fleet.ledger.expired)
    if sample.fleet.difference is not None:
        yield Metric(names.LEDGER_DIFFERENCE, sample.fleet.difference)
    workers = sample.workers
    if workers is not None:
        yield Metric(names.CONSUMERS, workers.present)
        yield Metric(names.WORKERS_ALIVE, workers.alive)
        yield Metric(names.WORKERS_SUSPECTED, workers.suspected)
        yield Metric(names.WORKERS_DEAD, workers.dead)
        yield Metric(names.CAPACITY_SHORT, sum(map(short_of, workers.pools)))
        if workers.wanted is not None:
            yield Metric(names.WANTED_CONSUMERS, workers.wanted)


def _fleet_queue_metrics(fleet: FleetSample) -> Iterable[Metric]:
    yield Metric(names.BACKLOG, fleet.queued)
    yield Metric(names.LEASED, fleet.leased)
    yield Metric(names.DELAYED, fleet.delayed)
    yield Metric(names.OLDEST_WAITING, fleet.oldest_seconds, Unit.SECONDS)
    yield Metric(names.LATE, fleet.late)
    if fleet.finish_seconds is not None:
        yield Metric(names.TIME_TO_FINISH, fleet.finish_seconds, Unit.SECONDS)
    for name, rate in (
        (names.SUBMITTED_RATE_1S, fleet.submitted.per_1s),
        (names.SUBMITTED_RATE_5S, fleet.submitted.per_5s),
        (names.SUBMITTED_RATE_60S, fleet.submitted.per_60s),
        (names.PROCESSED_RATE_1S, fleet.processed.per_1s),
        (names.PROCESSED_RATE_5S, fleet.processed.per_5s),
        (names.PROCESSED_RATE_60S, fleet.processed.per_60s),
    ):
        yield Metric(name, rate, Unit.PER_SECOND)


def _queue_metrics(queue_key: QueueSample) -> Iterable[Metric]:
    if queue_key.depth is not None:
        yield Metric(names.BACKLOG, queue_key.depth.queued)
        yield Metric(names.LEASED, queue_key.depth.leased)
        yield Metric(names.DELAYED, queue_key.depth.delayed)
        yield Metric(names.OLDEST_WAITING, queue_key.oldest_seconds, Unit.SECONDS)
        yield Metric(names.LATE, int(queue_key.late))
        if queue_key.finish_seconds is not None:
            yield Metric(names.TIME_TO_FINISH, queue_key.finish_seconds, Unit.SECONDS)
    if queue_key.ledger is not None:
        yield Metric(names.DEAD, queue_key.ledger.dead)
        yield Metric(names.EXPIRED, queue_key.ledger.expired)
    if queue_key.difference is not None:
        yield Metric(names.LEDGER_DIFFERENCE, abs(queue_key.difference))


def _part_metrics(look: NodeHealth) -> Iterable[Metric]:
    yield Metric(names.NODE_UP, int(look.up))
    yield Metric(names.NODE_HEALTHY, int(look.error is None))
    for name, value in sorted(look.figures.items()):
        yield Metric(name, value, _UNITS.get(name, Unit.COUNT))


def _host_metrics(host: HostSample) -> Iterable[Metric]:
    yield Metric(names.HOST_RATE, host.asked / host.window_seconds, Unit.PER_SECOND)
    yield Metric(names.HOST_THROTTLED, int(host.throttled))
    if host.success_share is not None:
        yield Metric(names.HOST_SUCCESS, host.success_share, Unit.NONE)
    if host.latency_seconds is not None:
        yield Metric(names.HOST_LATENCY, host.latency_seconds, Unit.SECONDS)


def _begin(until: int | None, end: int) -> int:
    """The first second that is told of where those before ``until`` have been."""
    start = end - FIRST_SECONDS if until is None else until
    if start > end + KEPT_SECONDS:  # the clock was set back by much: it begins anew
        start = end - FIRST_SECONDS
    return max(start, end + SETTLED_SECONDS - KEPT_SECONDS)


def _seconds(
    queues: Iterable[QueueSample], dimensions: dict[str, str], begins: Mapping[str, int], end: int
) -> list[Batch]:
    """One batch for each second in which something happened: 1 s resolution, one look a minute."""
    counts: dict[int, list[int]] = {}
    for queue_key in queues:
        start = begins[_biz_of(queue_key)]
        for place, seconds in enumerate((queue_key.submitted_seconds, queue_key.processed_seconds)):
            for second, count in seconds.items():
                if start <= second < end:
                    counts.setdefault(second, [0, 0])[place] += count
    return [
        Batch(
            at=datetime.fromtimestamp(second, tz=UTC),
            metrics=(
                Metric(names.SUBMITTED, submitted, fine=True),
                Metric(names.PROCESSED, processed, fine=True),
            ),
            dimensions=dimensions,
        )
        for second, (submitted, processed) in sorted(counts.items())
    ]


def _sound(batch: Batch) -> Batch:
    """Without what CloudWatch would refuse a whole line for: what is no finite number."""
    metrics = tuple(metric for metric in batch.metrics if math.isfinite(metric.value))
    return msgspec.structs.replace(batch, metrics=metrics)


def _biz_of(queue_key: QueueSample) -> str:
    return f"{queue_key.queue_key.tenant}/{queue_key.queue_key.biz}"


def _most_first(queue_key: QueueSample) -> tuple[bool, int, str]:
    queued = 0 if queue_key.depth is None else queue_key.depth.queued
    return not queue_key.late, -queued, _biz_of(queue_key)


class Emitter:
    """Emits samples one after the other; remembers what it has, so that nothing is told twice.

    That memory is this process': another monitor begins anew, and the seconds about its beginning
    may be told twice or not at all.

    Args:
        sink: Where metrics go.
    """

    def __init__(self, sink: MetricSink) -> None:
        self._sink = sink
        self._emitted = Emitted()

    def emit(self, sample: Sample, limits: MonitorLimits) -> int:
        """Emit a sample; returns how many values that were."""
        found, self._emitted = batches(sample, self._emitted, bizs=limits.bizs, hosts=limits.hosts)
        count = 0
        for batch in found:
            try:
                self._sink.put(batch.metrics, batch.dimensions, batch.at)
            except Exception as error:  # noqa: BLE001  what is left out must not cost the rest
                warn(f"metrics of {batch.dimensions or 'the stage'} were not emitted", error)
                continue
            count += len(batch.metrics)
        return count
