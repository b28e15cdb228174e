"""What waits for a host, in figures: how much, and how old at most (SPEC.md A5, H3).

Recovery queues again what is pending and older than all that is queued, because the queue is served
oldest first. So it has to know of the oldest that is parked, too. A host's list is served in the
order of parking, which is not the order of age: a retry joins it at the end. The least ``ts`` is
therefore kept of two parts, what was there when it was last taken anew and what came since; when
the first part is served the second one takes its place. What it says may be lower than what is
there, never higher, and it costs the same however long the list is.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

#: Above every ``ts``, and exact as a Lua number: the least of nothing.
NONE: Final = 2**53
#: What a host counts for as work to be had, at most: one look's turns at the usual rate. The other
#: thousands that wait for it need no more workers.
READY_EACH: Final = 20
#: Hosts that are looked at to tell how much work there is; of more it is estimated by these.
LOOKED_AT: Final = 64


class Waiting(msgspec.Struct, frozen=True):
    """``old`` of the ``count`` entries are the first part; each part's least ``ts``."""

    count: int
    old: int
    least_of_old: int
    least_of_new: int = NONE

    @property
    def low(self) -> int:
        """No entry is older."""
        return min(self.least_of_old, self.least_of_new)


def joined(waiting: Waiting | None, many: int, least: int) -> Waiting:
    """So many more wait, none older than ``least``.

    >>> joined(joined(None, 2, 50), 1, 40).low
    40
    """
    if waiting is None:
        return Waiting(many, many, least)
    new = min(waiting.least_of_new, least)
    return Waiting(waiting.count + many, waiting.old, waiting.least_of_old, new)


def served(waiting: Waiting, many: int) -> Waiting | None:
    """The first ``many`` are gone; None if those were all.

    >>> served(Waiting(3, 2, 10, 30), 2)
    Waiting(count=1, old=1, least_of_old=30, least_of_new=9007199254740992)
    """
    count, old = waiting.count - many, waiting.old - many
    if count <= 0:
        return None
    if old <= 0:
        return Waiting(count, count, waiting.least_of_new)
    return Waiting(count, old, waiting.least_of_old, waiting.least_of_new)


def ready(counts: Sequence[int], due: int) -> int:
    """About how much work there is, by the first hosts of ``due`` whose time has come.

    >>> ready([100, 3], 2), ready([1] * LOOKED_AT, 10 * LOOKED_AT)
    (23, 640)
    """
    found = sum(min(count, READY_EACH) for count in counts)
    return found if due <= len(counts) else -(-found * due // len(counts))
