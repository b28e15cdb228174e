"""Politeness over the fleet: whose turn it is at a host, and what hosts have said (SPEC.md H3)."""

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.crawling.politeness.models import (
    HostAsk,
    HostGrant,
    HostReport,
    HostState,
    RobotsCopy,
)


class Hosts(Protocol):
    """The turns at hosts. One script a host; its clock is the server's."""

    def reserve(self, asks: Sequence[HostAsk], worker: str) -> list[HostGrant]:
        """Turns for each ask, in order. What is granted is spent, used or not.

        There are none (``why`` is ``away``) where the part of the store that has the host is away.
        """
        ...

    def report(self, reports: Sequence[HostReport], worker: str) -> list[HostReport]:
        """What was seen since the last report: answers, strain, and how much is under way.

        Returns those that could not be told, as the part of the store that has the host is away.
        """
        ...

    def states(self, hosts: Sequence[str]) -> list[HostState]:
        """How hosts are treated now; one that nothing is known of has an empty state.

        Left out are those that a part of the store has which is away while others are there.
        """
        ...

    def troubled(self, tenants: Sequence[str], limit: int) -> list[list[str]]:
        """Hosts that each tenant has met with strain or failures in the last ten minutes.

        Of each up to ``limit``, the latest first; for people alone, so some may be missing.
        """
        ...


class RobotsCache(Protocol):
    """robots.txt files, kept for all workers for at most a day (RFC 9309, 2.4)."""

    def load(self, origin: str) -> RobotsCopy | None:
        """The copy of ``https://example.org``, or None where one is to be fetched."""
        ...

    def save(self, origin: str, copy: RobotsCopy, seconds: float) -> None:
        """Keep a copy for ``seconds``."""
        ...
