"""Who holds what, in memory: what :mod:`crawlfleet.adapters.redis_queue.lease_book` does."""

from collections.abc import Sequence
from datetime import datetime

from crawlfleet.adapters.memory.queue import MemoryQueue
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry
from crawlfleet.model.times import to_ms
from crawlfleet.policy.tokens import is_of


class MemoryLeaseBook:
    """A :class:`~crawlfleet.ports.LeaseBook` of a queue in memory; thread-safe."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue

    def leases(self, lane: Lane, worker: str | None = None) -> list[tuple[str, Entry]]:
        """Leased entries with their tokens: of one worker, or of all."""
        with self._queue.opened(lane) as held:
            return [lease for lease in held.leases if worker is None or is_of(lease[0], worker)]

    def relist(self, lane: Lane, token: str, entries: Sequence[Entry], until: datetime) -> None:
        """List as leased what the store says the token owns and the queue has forgotten.

        Raises:
            ValueError: the token contains ``:{``, which Redis keeps for itself.
        """
        if ":{" in token:
            raise ValueError(f"a lease token must not contain ':{{': {token!r}")
        with self._queue.opened(lane) as held:
            for entry in entries:
                until_ms = max(to_ms(until), held.leases.get((token, entry), 0))
                held.leases[token, entry] = until_ms
