"""What watching and recovery need of the world."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from crawlfleet.kernel.queue_key import QueueKey


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
