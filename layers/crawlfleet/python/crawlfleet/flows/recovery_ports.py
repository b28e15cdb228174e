"""What watching and recovery need of the world; ``warn`` is told what is wrong but not fatal."""

from collections.abc import Callable
from dataclasses import dataclass

from crawlfleet.ports import (
    Disowning,
    Hosts,
    Journal,
    LeaseBook,
    Ledgers,
    PoolBook,
    QueueFilling,
    RequestQueue,
    RequestStore,
    Watch,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPorts:
    """The parts that a look at the workers needs."""

    watch: Watch
    book: LeaseBook
    queue: RequestQueue
    hosts: Hosts
    disowning: Disowning
    journal: Journal
    warn: Callable[[str, Exception], None]


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
    warn: Callable[[str, Exception], None]
    chunk: int = 5_000
    fill_chunk: int = 10_000
