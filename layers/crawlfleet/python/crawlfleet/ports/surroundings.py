"""What surrounds the work: the time, the configuration, what is measured and woken."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.model.biz import Tree
from crawlfleet.model.metric import Metric
from crawlfleet.model.totals import NodeHealth


class Clock(Protocol):
    """Now, as an aware UTC datetime."""

    def __call__(self) -> datetime:
        """The present moment."""
        ...


class ConfigCentre(Protocol):
    """The configuration in force."""

    def current(self) -> Tree:
        """The newest valid tree, at most a few seconds old; no read per call.

        Raises:
            ConfigError: there has never been a valid one.
        """
        ...


class Waker(Protocol):
    """Starts consumers."""

    def wake(self, count: int) -> None:
        """Start ``count`` consumer invocations, without waiting for them."""
        ...


class Health(Protocol):
    """Looks at the parts."""

    def look(self) -> Iterator[NodeHealth]:
        """One entry per part and node. Never raises: a part that is down has an entry too."""
        ...


class MetricSink(Protocol):
    """Where metrics go."""

    def put(self, metrics: Sequence[Metric], dimensions: Mapping[str, str], at: datetime) -> None:
        """Emit values of one moment under the same dimensions; the stage is always one of them."""
        ...
