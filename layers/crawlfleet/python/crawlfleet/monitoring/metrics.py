"""Emit a sample as metrics (SPEC.md A10, A11): which values, under which few dimensions.

:mod:`crawlfleet.kernel.metric_names` has the names, what they mean, and what they cost. CloudWatch
bills a metric for every hour in which it got a value, so the bizs and hosts with metrics of their
own are settled for the hour: the first to come get the places, and no other gets one before the
hour is over. Hosts that changed with each sample would be as dear as if all of them were shown all
the time. In an hour without any work the stage says that it is watched and what is wrong; parts
that are well are silent.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from crawlfleet.config.documents.stage import MonitorLimits
from crawlfleet.fleet.models import FleetSample, QueueSample
from crawlfleet.fleet.status import is_quiet
from crawlfleet.kernel import metric_names as names
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.metrics import Batch, Metric, SparingMetrics, Unit
from crawlfleet.monitoring.incidents.capacity_checks import short_of
from crawlfleet.monitoring.models import HostSample, Sample
from crawlfleet.requests.queue.stats import KEPT_SECONDS, NodeHealth

_HOUR_SECONDS: Final = 3600
#: A second is emitted this long after its end: a count may come a bit late.
SETTLED_SECONDS: Final = 2
#: Seconds that the first sample emits.
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


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """The names that have a place in this hour, counted from the epoch."""

    hour: int = -1
    names: frozenset[str] = frozenset()


def seated(places: Places, wanted: Iterable[str], most: int, now: datetime) -> Places:
    """Return the places after some want one, those that want it most first.

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


class Emitted(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds before ``until`` that were emitted, of these bizs and hosts.

    ``worked`` is the latest hour with work, counted from the epoch.
    Of queues whose counts could not be read then, ``behind`` has up to where they are emitted.
    """

    until: int | None = None
    behind: dict[str, int] = {}
    bizs: Places = Places()
    hosts: Places = Places()
    worked: int = -1


def _is_at_work(sample: Sample) -> bool:
    """Tell whether there is work, or a worker that waits for some; unread is not idle."""
    workers = sample.workers
    if workers is None or workers.present or workers.wanted:
        return True
    return any(queue.depth is None or not is_quiet(queue) for queue in sample.queues)


def batches(
    sample: Sample, emitted: Emitted, *, bizs: int, hosts: int
) -> tuple[list[Batch], Emitted]:
    """Return a sample's metrics, and what is emitted after them.

    Every second that is over is emitted once, however irregular the samples are: its value is a
    count and summed over longer periods. What could not be read is emitted with the next sample
    that can: of the stage a second may have several values then, whose sum is right. One that is
    older than the counts are kept for is not known. ``bizs`` and ``hosts`` are how many of them
    have metrics of their own in an hour.
    """
    end = int(sample.at.timestamp()) - SETTLED_SECONDS
    begins = {
        _biz_of(queue): _begin(emitted.behind.get(_biz_of(queue), emitted.until), end)
        for queue in sample.queues
    }
    until, behind = emitted.until, emitted.behind
    unread = {_biz_of(queue) for queue in sample.queues if queue.submitted is None}
    if len(unread) < len(sample.queues):
        until = max(_begin(emitted.until, end), end)
        behind = {name: begins[name] for name in unread}
    working = sorted((queue for queue in sample.queues if not is_quiet(queue)), key=_most_first)
    named = (one.host for one in sample.hosts if one.host)
    hour = int(sample.at.timestamp()) // _HOUR_SECONDS
    at_work = _is_at_work(sample) or emitted.worked == hour
    emitted = Emitted(
        worked=hour if at_work else emitted.worked,
        until=until,
        behind=behind,
        bizs=seated(emitted.bizs, map(_biz_of, working), bizs, sample.at),
        hosts=seated(emitted.hosts, named, hosts, sample.at),
    )
    found: list[Batch] = []

    def put(metrics: Iterable[Metric], **dimensions: str) -> None:
        found.append(Batch(at=sample.at, metrics=tuple(metrics), dimensions=dimensions))

    put(_stage_metrics(sample) if at_work else _idle_metrics(sample))
    found += _seconds(sample.queues, {}, begins, end)
    for part in sample.parts if at_work or any(one.error for one in sample.parts) else ():
        put(_part_metrics(part), part=part.part, node=part.name)
    for queue in working:
        if _biz_of(queue) in emitted.bizs.names:
            dimensions = {"tenant": queue.queue_key.tenant, "biz": queue.queue_key.biz}
            put(_queue_metrics(queue), **dimensions)
            found += _seconds([queue], dimensions, begins, end)
    for host in sample.hosts:
        if host.host in emitted.hosts.names:
            put(_host_metrics(host), host=host.host[:255])
    return [_sound(batch) for batch in found], emitted


def _idle_metrics(sample: Sample) -> Iterable[Metric]:
    """Tell that the stage is watched, and what may be wrong with it meanwhile."""
    yield Metric(names.LOOKS, 1)
    yield Metric(names.UNREAD, len(sample.unread))
    yield Metric(names.CONFIG_REFUSED, int(sample.config_refused is not None))
    if sample.fleet.difference is not None:
        yield Metric(names.LEDGER_DIFFERENCE, sample.fleet.difference)
    if sample.workers is not None:
        yield Metric(names.CAPACITY_SHORT, sum(map(short_of, sample.workers.pools)))


def _stage_metrics(sample: Sample) -> Iterable[Metric]:
    yield Metric(names.LOOKS, 1)
    yield Metric(names.LOOK_SECONDS, sample.took_seconds, Unit.SECONDS)
    yield Metric(names.UNREAD, len(sample.unread))
    yield Metric(names.CONFIG_REFUSED, int(sample.config_refused is not None))
    yield Metric(names.HOSTS_THROTTLED, sample.hosts_throttled)
    if sample.used_up is not None:
        yield Metric(names.QUOTAS_USED_UP, len(sample.used_up))
    if any(queue.depth is not None for queue in sample.queues):
        yield from _fleet_queue_metrics(sample.fleet)
    if any(queue.ledger is not None for queue in sample.queues):
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
    yield Metric(names.SUBMITTED_RATE_1S, fleet.submitted.per_1s, Unit.PER_SECOND)
    yield Metric(names.SUBMITTED_RATE_5S, fleet.submitted.per_5s, Unit.PER_SECOND)
    yield Metric(names.SUBMITTED_RATE_60S, fleet.submitted.per_60s, Unit.PER_SECOND)
    yield Metric(names.PROCESSED_RATE_1S, fleet.processed.per_1s, Unit.PER_SECOND)
    yield Metric(names.PROCESSED_RATE_5S, fleet.processed.per_5s, Unit.PER_SECOND)
    yield Metric(names.PROCESSED_RATE_60S, fleet.processed.per_60s, Unit.PER_SECOND)


def _queue_metrics(queue: QueueSample) -> Iterable[Metric]:
    if queue.depth is not None:
        yield Metric(names.BACKLOG, queue.depth.queued)
        yield Metric(names.LEASED, queue.depth.leased)
        yield Metric(names.DELAYED, queue.depth.delayed)
        yield Metric(names.OLDEST_WAITING, queue.oldest_seconds, Unit.SECONDS)
        yield Metric(names.LATE, int(queue.late))
        if queue.finish_seconds is not None:
            yield Metric(names.TIME_TO_FINISH, queue.finish_seconds, Unit.SECONDS)
    if queue.ledger is not None:
        yield Metric(names.DEAD, queue.ledger.dead)
        yield Metric(names.EXPIRED, queue.ledger.expired)
    if queue.difference is not None:
        yield Metric(names.LEDGER_DIFFERENCE, abs(queue.difference))


def _part_metrics(part: NodeHealth) -> Iterable[Metric]:
    yield Metric(names.NODE_UP, int(part.up))
    yield Metric(names.NODE_HEALTHY, int(part.error is None))
    for name, value in sorted(part.figures.items()):
        if name not in names.UNEMITTED:
            yield Metric(name, value, _UNITS.get(name, Unit.COUNT))


def _host_metrics(host: HostSample) -> Iterable[Metric]:
    yield Metric(names.HOST_RATE, host.asked / host.window_seconds, Unit.PER_SECOND)
    yield Metric(names.HOST_THROTTLED, int(host.throttled))
    if host.success_share is not None:
        yield Metric(names.HOST_SUCCESS, host.success_share, Unit.NONE)
    if host.latency_seconds is not None:
        yield Metric(names.HOST_LATENCY, host.latency_seconds, Unit.SECONDS)


def _begin(until: int | None, end: int) -> int:
    """Return the first second to emit where those before ``until`` have been."""
    start = end - FIRST_SECONDS if until is None else until
    if start > end + KEPT_SECONDS:  # the clock was set back by much: it begins anew
        start = end - FIRST_SECONDS
    return max(start, end + SETTLED_SECONDS - KEPT_SECONDS)


def _seconds(
    queues: Iterable[QueueSample], dimensions: dict[str, str], begins: Mapping[str, int], end: int
) -> list[Batch]:
    """Make a batch for each second in which something happened, at a resolution of 1 s."""
    counts: dict[int, list[int]] = {}
    for queue in queues:
        start = begins[_biz_of(queue)]
        for place, seconds in enumerate((queue.submitted_seconds, queue.processed_seconds)):
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
    """Drop what is no finite number: CloudWatch would refuse the whole line for it."""
    metrics = tuple(metric for metric in batch.metrics if math.isfinite(metric.value))
    return msgspec.structs.replace(batch, metrics=metrics)


def _biz_of(queue: QueueSample) -> str:
    return f"{queue.queue_key.tenant}/{queue.queue_key.biz}"


def _most_first(queue: QueueSample) -> tuple[bool, int, str]:
    queued = 0 if queue.depth is None else queue.depth.queued
    return not queue.late, -queued, _biz_of(queue)


class Emitter:
    """Emits samples one after the other; remembers what it has, so that nothing is emitted twice.

    That memory is this process': another monitor begins anew, and the seconds about its beginning
    may be emitted twice or not at all.
    """

    def __init__(self, sink: SparingMetrics) -> None:
        self._sink = sink
        self._emitted = Emitted()

    def emit(self, sample: Sample, limits: MonitorLimits) -> int:
        """Emit a sample; returns how many values that were."""
        found, self._emitted = batches(sample, self._emitted, bizs=limits.bizs, hosts=limits.hosts)
        self._sink.at_work = self._emitted.worked == int(sample.at.timestamp()) // _HOUR_SECONDS
        count = 0
        for batch in found:
            try:
                self._sink.put(batch.metrics, batch.dimensions, batch.at)
            except Exception as error:  # noqa: BLE001  what is left out must not cost the rest
                warn(f"metrics of {batch.dimensions or 'the stage'} were not emitted", error)
                continue
            count += len(batch.metrics)
        return count
