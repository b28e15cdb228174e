"""Where a queue leads to, by some of its requests (SPEC.md A12, H4): of all looks together bounded.

A node of MongoDB that is slow to answer must not keep a decision on workers from being made: after
one slow answer it is asked nothing more, and after some seconds none is. What is not seen is taken
as any long queue is that nobody has looked into.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.hosts import host_of
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Entry
from crawlfleet.requests.ports import RequestStore
from crawlfleet.requests.routing import candidates

#: No request is looked up when all look-ups of a decision have taken so long together.
SAMPLING_SECONDS: Final = 10.0
#: A node that took longer for one request is asked for no more.
SLOW_SECONDS: Final = 1.0


class EntryHosts:
    """The look-ups of one decision.

    Args:
        store: Where requests are read.
        steady: Seconds since some moment, on a clock that nobody sets.
    """

    def __init__(
        self,
        store: RequestStore,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._steady = steady
        self._until = steady() + SAMPLING_SECONDS
        #: Nodes that were slow, and whether they did not answer in the end.
        self._slow: dict[str, bool] = {}

    def hosts(
        self, queue_key: QueueKey, biz: Biz, entries: Sequence[Entry]
    ) -> tuple[Counter[str], bool]:
        """The hosts of these, how often each was met, and whether some could not be read."""
        met: Counter[str] = Counter()
        unread = False
        for entry in entries:
            nodes = {shard.node for shard in candidates(biz, entry.id)}
            if slow := nodes & self._slow.keys():
                unread = unread or any(self._slow[node] for node in slow)
                continue
            began = self._steady()
            if began >= self._until:
                continue
            try:
                url = self._url(queue_key, biz, entry.id)
            except StoreError as error:
                warn(f"requests of {queue_key.tenant}/{queue_key.biz} could not be read", error)
                self._note(nodes, began, failed=True)
                return met, True
            self._note(nodes, began, failed=False)
            if url is not None:
                met[host_of(url)] += 1
        return met, unread

    def _url(self, queue_key: QueueKey, biz: Biz, request_id: RequestId) -> str | None:
        found = self._store.get(queue_key, biz, request_id)
        return None if found is None else found.request.body.url

    def _note(self, nodes: set[str], began: float, *, failed: bool) -> None:
        if self._steady() - began >= SLOW_SECONDS:
            self._slow |= dict.fromkeys(nodes, failed)
