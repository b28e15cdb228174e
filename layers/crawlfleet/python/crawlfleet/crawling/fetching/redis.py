"""Cookies of jobs on Redis: one string a job, forgotten a day after it was last saved."""

from datetime import timedelta
from typing import Final

from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.redis.connection import RedisConnection, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.requests.queue.redis.keys import cookies_key

_KEEP_COOKIES: Final = Script("crawling/fetching/keep_cookies")

#: How long the cookies of a job are remembered.
LIFE: Final = timedelta(days=1)
#: A longer jar is none of ours, and is not saved.
MAX_BYTES: Final = 262_144


class RedisSessions:
    """A :class:`~crawlfleet.ports.Sessions`; the last one to save wins.

    Args:
        connection: The stage's Redis.
        life: How long cookies are remembered.
    """

    def __init__(self, connection: RedisConnection, *, life: timedelta = LIFE) -> None:
        self._redis = connection
        self._seconds = max(1, round(life.total_seconds()))

    def load(self, queue_key: QueueKey, job: str) -> bytes | None:
        """What was saved last, or None."""
        (found,) = several(self._redis.together(("GET", cookies_key(queue_key, job))), 1)
        return None if found is None else text(found)

    def save(self, queue_key: QueueKey, job: str, cookies: bytes) -> None:
        """Save, unless it is longer than :data:`MAX_BYTES`."""
        if len(cookies) <= MAX_BYTES:
            key = cookies_key(queue_key, job)
            whole(self._redis.again(_KEEP_COOKIES, (key,), cookies, self._seconds))
