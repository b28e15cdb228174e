"""The config centre, as whoever reads it asks for it."""

from typing import Protocol

from crawlfleet.config.documents.biz import Tree


class ConfigCentre(Protocol):
    """The configuration in force."""

    def current(self) -> Tree:
        """The newest valid tree, at most a few seconds old; no read per call.

        Raises:
            ConfigError: there has never been a valid one.
            NoConfigurationError: nothing was pushed yet.
        """
        ...
