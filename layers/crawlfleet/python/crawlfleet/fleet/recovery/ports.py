"""What watching and recovery need of the world."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.fleet.ports import FailureDetector, PoolBook
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.mongo.ledger import MongoJournal, MongoLedgers
from crawlfleet.requests.mongo.reclaim import MongoLeaseRevocation
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.queue.redis.recovery import RedisLeaseBook, RedisQueueRebuild


class Bizs(Protocol):
    """Which bizs there are, for those who put items in and see nothing else of the fleet."""

    def report(self, queues: Mapping[str, Sequence[QueueKey]]) -> list[QueueKey]:
        """These are all lanes there are of these tenants.

        Returns lanes of theirs that there are not, though there were, or items were to be put in.
        """
        ...

    def gone(self, queues: Mapping[str, Sequence[QueueKey]]) -> list[QueueKey]:
        """What :meth:`tell` would return now; nothing is told.

        Raises:
            StoreUnavailableError: of some tenants nobody can say, which :meth:`tell` leaves out.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaperPorts:
    """The parts that a look at the workers needs."""

    detector: FailureDetector
    book: RedisLeaseBook
    queue: RedisQueue
    hosts: RedisHosts
    revocation: MongoLeaseRevocation
    journal: MongoJournal


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPorts:
    """The parts that a round of recovery works on.

    ``chunk`` entries are queued again in one call; a queue that is rebuilt gets ``fill_chunk``.
    """

    store: MongoRequestStore
    ledgers: MongoLedgers
    revocation: MongoLeaseRevocation
    queue: RedisQueue
    rebuild: RedisQueueRebuild
    book: RedisLeaseBook
    detector: FailureDetector
    journal: MongoJournal
    pools: PoolBook
    chunk: int = 5_000
    fill_chunk: int = 10_000
