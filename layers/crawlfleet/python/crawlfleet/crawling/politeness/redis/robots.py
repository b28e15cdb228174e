"""The cache of robots.txt in Redis."""

import zlib
from typing import Final

from crawlfleet.crawling.politeness.models import RobotsCopy
from crawlfleet.crawling.politeness.robots_txt import MAX_BYTES
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text
from crawlfleet.requests.queue.redis.keys import robots_key

_LONGEST_SECONDS: Final = 86_400.0
#: Files compress five to one at this level as at any other.
_LEVEL: Final = 1


class RedisRobotsCache:
    """A :class:`~crawlfleet.ports.RobotsCache`: a key a site, its text compressed."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def load(self, origin: str) -> RobotsCopy | None:
        """The copy of ``https://example.org``, or None where one is to be fetched."""
        (found,) = several(self._redis.together(("GET", robots_key(origin))), 1)
        if found is None:
            return None
        return _read(text(found))

    def save(self, origin: str, copy: RobotsCopy, seconds: float) -> None:
        """Keep a copy for ``seconds``, a day at most, and of its text what is read at most."""
        life = round(min(seconds, _LONGEST_SECONDS) * 1_000)
        if life < 1:
            return
        head = f"{copy.status} {copy.fetched_ms}\n".encode()
        kept = head + zlib.compress(copy.text[:MAX_BYTES], _LEVEL)
        (saved,) = several(self._redis.together(("SET", robots_key(origin), kept, "PX", life)), 1)
        if saved is not True:
            raise nonsense()


def _read(kept: bytes) -> RobotsCopy | None:
    """The copy; None where something else stands there, so that it is fetched anew."""
    head, _, rest = kept.partition(b"\n")
    try:
        status, fetched_ms = map(int, head.split())
        body = zlib.decompressobj().decompress(rest, MAX_BYTES)
    except (ValueError, zlib.error):
        return None
    return RobotsCopy(status=status, text=body, fetched_ms=fetched_ms)
