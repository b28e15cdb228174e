"""Metrics, read back from CloudWatch: what they say must fit what the journey has done."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from crawlfleet.kernel import metric_names as metric
from crawlfleet.kernel import names
from infra.aws_access import Access, asked

_PERIOD: Final = 60
#: How several periods become one figure.
_TOGETHER: Final[Mapping[str, Callable[[list[float]], float]]] = {
    "Sum": sum,
    "Maximum": max,
    "Minimum": min,
}


class Expected(NamedTuple):
    """A metric, and between what its figure must lie; beside ``stage`` it has ``dimensions``."""

    name: str
    statistic: str
    least: float
    most: float = math.inf
    dimensions: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        where = f" of {' '.join(value for _, value in self.dimensions)}" if self.dimensions else ""
        return f"{self.name} ({self.statistic}){where}"


def after_the_crawl(pages: int, workers: int, most_workers: int) -> tuple[Expected, ...]:
    """Return what metrics must show once so many pages were crawled.

    One look was taken while all of them waited, and one while so many workers were at them. Where
    two monitors looked at the same moment both tell of the same seconds.
    """
    redis = ("part", "redis"), ("node", "redis")
    node = ("part", "mongodb"), ("node", "main")
    return (
        Expected(metric.SUBMITTED, "Sum", pages, 2 * pages),
        Expected(metric.PROCESSED, "Sum", pages, 2 * pages),
        Expected(metric.SUBMITTED_RATE_60S, "Maximum", 1 / 60, pages / 60),
        Expected(metric.PROCESSED_RATE_60S, "Maximum", 1 / 60, 2 * pages / 60),
        Expected(metric.BACKLOG, "Maximum", 1, pages),
        Expected(metric.BACKLOG, "Minimum", 0, 0),
        Expected(metric.WORKERS_ALIVE, "Maximum", workers, most_workers),
        Expected(metric.TICKS, "Sum", 1),
        Expected(metric.NODE_UP, "Minimum", 1, 1, redis),
        Expected(metric.MEMORY_BYTES, "Maximum", 1, dimensions=redis),
        Expected(metric.NODE_UP, "Minimum", 1, 1, node),
        Expected(metric.STORAGE_BYTES, "Maximum", 1, dimensions=node),
    )


class Readback:
    """The metrics of a stage in CloudWatch since a moment.

    Args:
        access: AWS.
        stage: The stage.
        since: The moment.
    """

    def __init__(self, access: Access, stage: str, since: datetime) -> None:
        self._access = access
        self._stage = stage
        self._since = since

    def wrong(self, expected: Sequence[Expected]) -> list[str]:
        """Say what is missing, or does not fit."""
        return [said for one in expected if (said := self._wrong(one))]

    def figure(self, one: Expected) -> float | None:
        """A metric's figure; None where there are no values."""
        own = {"stage": self._stage, **dict(one.dimensions)}
        answer = asked(
            f"reading the metric {one.name}",
            self._access.client("cloudwatch").get_metric_statistics,
            Namespace=names.METRIC_NAMESPACE,
            MetricName=one.name,
            Dimensions=[{"Name": name, "Value": value} for name, value in own.items()],
            StartTime=self._since,
            EndTime=datetime.now(UTC) + timedelta(minutes=1),
            Period=_PERIOD,
            Statistics=[one.statistic],
        )
        found = [float(point[one.statistic]) for point in answer["Datapoints"]]
        return _TOGETHER[one.statistic](found) if found else None

    def _wrong(self, one: Expected) -> str:
        found = self.figure(one)
        if found is None:
            return f"{one} has no value"
        # Sums of many values are off by what floats are.
        slack = 1e-6 * max(1.0, abs(found))
        if one.least - slack <= found <= one.most + slack:
            return ""
        return f"{one} is {found:,.3f}, not from {one.least:,.3f} to {one.most:,.3f}"
