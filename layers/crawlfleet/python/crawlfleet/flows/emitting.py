"""A sample becomes metrics (SPEC.md A10, A11). What is emitted is decided by policy.metrics."""

from collections.abc import Callable

from crawlfleet.model.biz import MonitorLimits
from crawlfleet.model.sample import Sample
from crawlfleet.policy.metrics import Emitted, batches
from crawlfleet.ports import MetricSink


class Emitter:
    """Emits samples one after the other; remembers what it has, so that nothing is told twice.

    That memory is this process': another monitor begins anew, and the seconds about its beginning
    may be told twice or not at all.

    Args:
        sink: Where metrics go.
        warn: Is told of values that could not be put there; the others are.
    """

    def __init__(self, sink: MetricSink, warn: Callable[[str, Exception], None]) -> None:
        self._sink = sink
        self._warn = warn
        self._emitted = Emitted()

    def emit(self, sample: Sample, limits: MonitorLimits) -> int:
        """Emit a sample; returns how many values that were."""
        found, self._emitted = batches(sample, self._emitted, bizs=limits.bizs, hosts=limits.hosts)
        count = 0
        for batch in found:
            try:
                self._sink.put(batch.metrics, batch.dimensions, batch.at)
            except Exception as error:  # noqa: BLE001  what is left out must not cost the rest
                self._warn(f"metrics of {batch.dimensions or 'the stage'} were not emitted", error)
                continue
            count += len(batch.metrics)
        return count
