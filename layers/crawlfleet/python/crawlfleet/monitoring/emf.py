"""Metrics as lines of the embedded metric format, which CloudWatch reads from the log.

CloudWatch takes 100 metrics and 30 dimensions in a line, and moments from two weeks ago to two
hours ahead; a line beyond that it drops without a word, so none such is written.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricResolution, MetricUnit

from crawlfleet.kernel.metrics import Metric, Unit
from crawlfleet.kernel.names import METRIC_NAMESPACE
from crawlfleet.kernel.time import to_ms

#: CloudWatch takes 100 metrics in one line; at the hundredth powertools prints by itself.
_LINE: Final = 99
#: How far back and ahead a moment may lie, a minute less than CloudWatch says.
_OLDEST: Final = timedelta(days=14) - timedelta(minutes=1)
_NEWEST: Final = timedelta(hours=2) - timedelta(minutes=1)
#: Characters of a dimension's value that are taken.
_VALUE: Final = 1024
_UNITS: Final = {
    Unit.COUNT: MetricUnit.Count,
    Unit.SECONDS: MetricUnit.Seconds,
    Unit.BYTES: MetricUnit.Bytes,
    Unit.PER_SECOND: MetricUnit.CountPerSecond,
    Unit.NONE: MetricUnit.NoUnit,
}


class EmfMetrics:
    """Write metrics to standard output: a line for each moment and set of dimensions."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def put(self, metrics: Sequence[Metric], dimensions: Mapping[str, str], at: datetime) -> None:
        """Write what CloudWatch still takes; it refuses what is too old or not yet due."""
        now = datetime.now(UTC)
        if not now - _OLDEST <= at <= now + _NEWEST:
            return
        for start in range(0, len(metrics), _LINE):
            line = EphemeralMetrics(namespace=METRIC_NAMESPACE)
            # powertools adds POWERTOOLS_SERVICE_NAME as a dimension; alarms ask for ours alone.
            line.service = ""
            line.add_dimension("stage", self._stage)
            for name, value in dimensions.items():
                line.add_dimension(name, value[:_VALUE])
            for metric in metrics[start : start + _LINE]:
                resolution = MetricResolution.High if metric.fine else MetricResolution.Standard
                line.add_metric(metric.name, _UNITS[metric.unit], metric.value, resolution)
            line.set_timestamp(to_ms(at))
            line.flush_metrics()
