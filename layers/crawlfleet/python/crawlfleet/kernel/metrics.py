"""A measured value on its way to CloudWatch."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec


class Unit(StrEnum):
    """CloudWatch's spelling of units."""

    COUNT = "Count"
    SECONDS = "Seconds"
    BYTES = "Bytes"
    PER_SECOND = "Count/Second"
    NONE = "None"


class Metric(msgspec.Struct, frozen=True):
    """A metric value. ``fine`` asks for 1 s resolution: for what is counted by the second."""

    name: str
    value: float
    unit: Unit = Unit.COUNT
    fine: bool = False


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Values of one moment under the same dimensions, of which the stage is always one more."""

    at: datetime
    metrics: tuple[Metric, ...]
    dimensions: dict[str, str] = {}


class MetricSink(Protocol):
    """A sink of metrics."""

    def put(self, metrics: Sequence[Metric], dimensions: Mapping[str, str], at: datetime) -> None:
        """Emit values of one moment under the same dimensions; the stage is always one of them.

        A moment of more than two weeks ago, or hours ahead, is dropped: nobody would take it.
        """
        ...


class SparingMetrics:
    """A sink that leaves out zeros of a stage where nothing is at work: each series costs.

    The zero that follows another value is emitted, as it ends something. With ``at_work`` all are.
    So are those of a part, a biz or a host: of a part 0 is what is wrong.
    """

    def __init__(self, sink: MetricSink) -> None:
        self._sink = sink
        self._standing: set[str] = set()
        self.at_work = False

    def put(self, metrics: Sequence[Metric], dimensions: Mapping[str, str], at: datetime) -> None:
        """Emit what says something."""
        if dimensions:
            self._sink.put(metrics, dimensions, at)
            return
        kept = []
        for metric in metrics:
            if metric.value or self.at_work or metric.name in self._standing:
                kept.append(metric)
            if metric.value:
                self._standing.add(metric.name)
            else:
                self._standing.discard(metric.name)
        if kept:
            self._sink.put(kept, dimensions, at)
