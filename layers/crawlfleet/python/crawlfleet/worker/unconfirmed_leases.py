"""Leases of which the answer was lost (SPEC.md A7).

The index may have moved entries to a token then that nobody works on, and as its worker lives
nobody takes them back: they would lie there until the lease ends. So the worker returns them as
soon as the index answers again. What was asked may still be on its way to a server that was held
up, so it is looked for again and again until that lease would be over.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final, NamedTuple

from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import PAUSES, STEADY, Clock, SteadyTime
from crawlfleet.requests.queue.ports import RequestQueue

#: Leases that are looked for at most.
MOST: Final = 100


class _Asked(NamedTuple):
    queue_key: QueueKey
    token: str
    until: datetime


class UnconfirmedLeases:
    """What one worker has asked for in vain. Used by one thread at a time.

    Args:
        queue: The index.
        clock: The time.
        again_seconds: Between two looks for one lease.
        steady: What those go by.
        most: Leases that are looked for; of more the oldest are left to their end.
    """

    def __init__(
        self,
        queue: RequestQueue,
        clock: Clock,
        again_seconds: float = PAUSES.unconfirmed,
        steady: SteadyTime = STEADY,
        most: int = MOST,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._again_seconds = again_seconds
        self._now = steady.now
        self._most = most
        # By when they are looked for next, by the steady clock.
        self._open: dict[_Asked, float] = {}

    @contextmanager
    def asking(self, queue_key: QueueKey, token: str, until: datetime) -> Iterator[None]:
        """Around the call that leases: what it raises is remembered, and raised."""
        try:
            yield
        except StoreUnavailableError:
            self._open[_Asked(queue_key, token, until)] = 0.0
            if len(self._open) > self._most:
                self._open.pop(next(iter(self._open)))
            raise

    def return_unconfirmed(self) -> None:
        """Return what such leases have moved, as far as the index answers."""
        for asked, look_at in list(self._open.items()):
            if asked.until <= self._clock():
                del self._open[asked]  # the lease, if there is one, has ended
            elif self._now() >= look_at:
                try:
                    count = self._queue.return_unconfirmed(*asked)
                except StoreUnavailableError:
                    # Of a cluster it may be this lane's node alone: others' work is not to wait.
                    self._postpone(asked.queue_key)
                    return
                self._open[asked] = self._now() + self._again_seconds
                if count:
                    lost = StoreUnavailableError("index", "the answer to a lease was lost")
                    warn(f"{count} entries were leased to nobody, and are queued again", lost)

    def _postpone(self, queue_key: QueueKey) -> None:
        later = self._now() + self._again_seconds
        self._open |= {asked: later for asked in self._open if asked.queue_key == queue_key}
