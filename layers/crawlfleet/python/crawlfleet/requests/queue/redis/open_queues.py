"""The queues that may have work (SPEC.md C8): workers look into these, not into every biz's.

Whoever puts something into a queue announces it first. A queue is forgotten when nothing is in it,
neither queued nor leased nor delayed, and nobody has announced it for ``LINGER``: by then what was
announced is queued. So a process that dies between storing a request and queueing it has announced
its queue, and recovery looks there in its next rounds. Announcements that are lost, with Redis or
with a process of an older version, are made up for by recovery, too.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final, Literal

from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script, fleet_keys

#: Longer than any submission takes, and than two rounds of recovery.
LINGER: Final = timedelta(seconds=60)

_ANNOUNCE: Final = Script("requests/queue/redis/announce_open")
_LIST: Final = Script("requests/queue/redis/list_open")
_FORGET: Final = Script("requests/queue/redis/forget_open")


class RedisOpenQueues:
    """The open queues of a stage, each with when it was announced last, by the server's clock.

    ``of`` is ``open`` for queues of requests, ``open_items`` for data queues.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        of: Literal["open", "open_items"] = "open",
        fleet: str = "fleet",
    ) -> None:
        self._redis = connection
        self._keys: tuple[str] = (getattr(fleet_keys(fleet), of),)

    def announce(self, queues: Iterable[QueueKey]) -> None:
        """Announce that something is put into these queues."""
        names = [_name(queue_key) for queue_key in queues]
        if names:
            whole(self._redis.again(_ANNOUNCE, self._keys, *names))

    def listed(self) -> dict[QueueKey, int]:
        """Return the open queues, with the epoch ms of their latest announcement."""
        found = several(self._redis.again(_LIST, self._keys))
        with self._redis.translated():
            if len(found) % 2:
                raise nonsense()
            return {
                QueueKey(*text(name).decode().split("/")): int(float(text(at)))
                for name, at in zip(found[::2], found[1::2], strict=True)
            }

    def forget(self, seen: Mapping[QueueKey, int]) -> int:
        """Forget empty queues that were not announced since they were ``seen``; return how many.

        Those that were announced lately stay: what is to come may be on its way.
        """
        pairs = [word for queue_key, at in seen.items() for word in (_name(queue_key), at)]
        if not pairs:
            return 0
        linger_ms = LINGER // timedelta(milliseconds=1)
        return whole(self._redis.again(_FORGET, self._keys, linger_ms, *pairs))


def _name(queue_key: QueueKey) -> str:
    return f"{queue_key.tenant}/{queue_key.biz}/{queue_key.queue}"
