"""The queues that a worker leases from (SPEC.md C8): it looks into those that are open."""

from datetime import timedelta
from typing import Final

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import served_queues
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Clock, SteadyTime, to_ms
from crawlfleet.requests.queue.redis.open_queues import LINGER
from crawlfleet.requests.queue.redis.queue import RedisQueue

#: Where more than so many queues are open they are listed anew after so much for each further one:
#: a thousand workers with a thousand open queues are still no load.
LISTED_EACH_TIME: Final = 50
LIST_EACH_SECONDS: Final = 0.001
#: They are listed again after this where they could not be.
AWAY_SECONDS: Final = 1.0
#: A queue of which nothing is ready and nobody has anything is looked into again after this at
#: most, or when it is announced again.
REST_MS: Final = 500
_LINGER_MS: Final = LINGER // timedelta(milliseconds=1)


class ReadyQueues:
    """Finds the served queues that have work. Its method blocks; one thread at a time calls it."""

    def __init__(self, queue: RedisQueue, pool: str, clock: Clock, steady: SteadyTime) -> None:
        self._queue, self._pool = queue, pool
        self._clock, self._now = clock, steady.now
        self._served: dict[QueueKey, int] = {}
        self._tree: Tree | None = None
        self._open: dict[QueueKey, int] = {}
        self._list_at = float("-inf")
        # Until when a queue is not looked into, unless it is announced after this.
        self._resting: dict[QueueKey, tuple[int, int]] = {}

    def ready(self, tree: Tree) -> list[QueueKey]:
        """Return the queues that have something to lease now, in the configuration's order.

        It costs by the queues that are open. A node of a cluster that cannot list these does not
        keep a worker from the queues of others: then all are looked into.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        if tree is not self._tree:
            served = served_queues(tree, self._pool)
            self._tree, self._served = tree, {one: at for at, one in enumerate(served)}
        if not self._served:
            return []
        self._list()
        now = self._clock()
        ready, empty, now_ms = [], {}, to_ms(now)
        self._resting = {one: held for one, held in self._resting.items() if held[1] > now_ms}
        looked = sorted(
            (one for one in self._open if one in self._served and not self._rests(one)),
            key=self._served.__getitem__,
        )
        for queue_key, load in zip(looked, self._queue.loads(looked, now), strict=True):
            if load.ready:
                ready.append(queue_key)
            elif not load.leased and not load.away:
                announced = self._open[queue_key]
                if load.next_ts is None and now_ms - announced > _LINGER_MS:
                    empty[queue_key] = announced
                rested = now_ms + REST_MS
                until = rested if load.next_ts is None else min(rested, load.next_ts)
                self._resting[queue_key] = announced, until
        if empty:
            self._queue.open.forget(empty)
        return ready

    def _list(self) -> None:
        now = self._now()
        if now < self._list_at:
            return
        try:
            self._open = self._queue.open.listed()
            self._list_at = now + LIST_EACH_SECONDS * (len(self._open) - LISTED_EACH_TIME)
        except StoreUnavailableError as error:
            warn("the open queues cannot be listed: all are looked into", error)
            self._open = dict.fromkeys(self._served, to_ms(self._clock()))
            self._list_at = now + AWAY_SECONDS

    def _rests(self, queue_key: QueueKey) -> bool:
        announced, _ = self._resting.get(queue_key, (None, 0))
        return announced == self._open[queue_key]
