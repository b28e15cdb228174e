"""Which pools there have been, and until when (SPEC.md B12)."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol


class PoolBook(Protocol):
    """Pools beside the usual one that anybody knew of, whatever has become of them.

    What is bound for a pool outlives its configuration and its workers: by this it is found.
    """

    def known(self) -> dict[str, datetime]:
        """When each pool was last known."""
        ...

    def saw(self, pools: Collection[str], now: datetime) -> None:
        """These are known: they are configured, or a worker of theirs lives."""
        ...

    def forget(self, pool: str, seen: datetime) -> None:
        """Nothing is bound for it any more; no effect where it was known later than ``seen``."""
        ...
