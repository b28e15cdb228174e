"""What watching and recovery need of the world."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from crawlfleet.crawling.politeness.models import Hosts
from crawlfleet.fleet.ports import PoolBook, Watch
from crawlfleet.kernel.queue_key import Lane
from crawlfleet.requests.ledger import Journal, Ledgers
from crawlfleet.requests.ports import Disowning, RequestStore
from crawlfleet.requests.queue.ports import LeaseBook, QueueFilling, RequestQueue


class Bizs(Protocol):
    """Which bizs there are, for those who put items in and see nothing else of the fleet."""

    def tell(self, lanes: Mapping[str, Sequence[Lane]]) -> list[Lane]:
        """These are all lanes there are of these tenants.

        Returns lanes of theirs that there are not, though there were, or items were to be put in.
        """
        ...

    def gone(self, lanes: Mapping[str, Sequence[Lane]]) -> list[Lane]:
        """What :meth:`tell` would return now; nothing is told.

        Raises:
            StoreUnavailableError: of some tenants nobody can say, which :meth:`tell` leaves out.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPorts:
    """The parts that a look at the workers needs."""

    watch: Watch
    book: LeaseBook
    queue: RequestQueue
    hosts: Hosts
    disowning: Disowning
    journal: Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPorts:
    """The parts that a round of recovery works on.

    ``chunk`` entries are queued again in one call; a queue that is rebuilt gets ``fill_chunk``.
    """

    store: RequestStore
    ledgers: Ledgers
    disowning: Disowning
    queue: RequestQueue
    filling: QueueFilling
    book: LeaseBook
    watch: Watch
    journal: Journal
    pools: PoolBook
    chunk: int = 5_000
    fill_chunk: int = 10_000
