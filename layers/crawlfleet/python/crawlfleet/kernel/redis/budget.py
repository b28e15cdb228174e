"""Bound what one tenant can make grow in Redis under keys that it chooses itself.

A tenant makes up as many hosts as it likes. Each thing that is kept of one is entered in a list of
the tenant's own; where that is full its own oldest things go first, so that nobody else loses any.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.redis.connection import RedisConnection, several, text
from crawlfleet.kernel.redis.server import Script

_BUDGET: Final = Script("kernel/redis/budget")
_DROP: Final = Script("kernel/redis/drop")
#: Of an entry beside its value: its key, its two places in the list, and Redis' own.
ENTRY_BYTES: Final = 600


class Budget(NamedTuple):
    """``most_bytes`` of one tenant, whose entries are gone by themselves after ``seconds``."""

    most_bytes: int
    seconds: int


class RedisBudget:
    """Enter what tenants keep; ``key_of`` is the key of an entry."""

    def __init__(
        self, connection: RedisConnection, budget: Budget, key_of: Callable[[str], str]
    ) -> None:
        self._redis = connection
        self._budget = budget
        self._key_of = key_of

    def enter(self, lists: Sequence[str], entry: str, size: int) -> bool:
        """Enter what is put next, before it is; drop what has to go for it.

        ``lists`` are the tenant's two keys. False if the entry itself is too large to be put.
        What cannot be dropped now is gone in its time.
        """
        most, seconds = self._budget
        weight = size + len(entry.encode()) + ENTRY_BYTES
        answer = self._redis.again(_BUDGET, lists, entry, weight, most, seconds)
        gone = [text(one).decode() for one in several(answer)]
        if others := [((self._key_of(one),), ()) for one in gone if one != entry]:
            with suppress(StoreUnavailableError):
                self._redis.as_far_as_may_be(_DROP, others)
        return entry not in gone
