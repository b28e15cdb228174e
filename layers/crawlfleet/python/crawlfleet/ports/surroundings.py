"""What surrounds the work: the time, the configuration, what is measured and woken."""

from collections.abc import Callable, Mapping, Sequence
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
            NoConfigurationError: nothing was pushed yet.
        """
        ...


class SecretStore(Protocol):
    """Secrets by their ids."""

    def read(self, secret_id: str, /) -> str:
        """The secret's value; asked for once, then from memory until :meth:`forget`.

        Raises:
            ConfigError: there is no such secret, or this function may not read it.
            StoreUnavailableError: the store of secrets does not answer.
        """
        ...

    def forget(self, secret_id: str, /) -> None:
        """Ask again next time: the part behind the secret refused it, or it is due."""
        ...


class Health(Protocol):
    """Looks at the parts."""

    def looks(self) -> Mapping[tuple[str, str], Callable[[], NodeHealth]]:
        """One look by part and node; they may be taken at the same time.

        None raises: a part that is down has an entry that says so. Each ends within ten seconds.
        """
        ...


class MetricSink(Protocol):
    """Where metrics go."""

    def put(self, metrics: Sequence[Metric], dimensions: Mapping[str, str], at: datetime) -> None:
        """Emit values of one moment under the same dimensions; the stage is always one of them.

        A moment of more than two weeks ago, or hours ahead, is dropped: nobody would take it.
        """
        ...
