"""Keep the cookies of jobs in Redis, for all workers (SPEC.md C9)."""

from datetime import timedelta
from functools import partial
from typing import Final

from msgspec.structs import replace

from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.redis.budget import Budget, RedisBudget
from crawlfleet.kernel.redis.connection import RedisConnection, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.requests.queue.redis.keys import cookies_key, room_keys

#: Of all jars of one tenant.
MOST_OF_TENANT: Final = 16_000_000
_KEEP_COOKIES: Final = Script("crawling/fetching/keep_cookies")
#: How long the cookies of a job are kept after they were last saved.
LIFE: Final = timedelta(days=1)
#: A longer jar is none of ours, and is not saved.
MAX_BYTES: Final = 262_144


class RedisSessions:
    """Keep the jars of jobs in Redis, a string each, for ``life``; the last one to save wins."""

    def __init__(
        self,
        connection: RedisConnection,
        *,
        life: timedelta = LIFE,
        most_bytes: int = MOST_OF_TENANT,
    ) -> None:
        self._redis = connection
        self._seconds = max(1, round(life.total_seconds()))
        self._budget = Budget(most_bytes, self._seconds)

    def load(self, queue_key: QueueKey, job: str) -> bytes | None:
        """Load what was saved last, or None."""
        (found,) = several(self._redis.together(("GET", cookies_key(queue_key, job))), 1)
        return None if found is None else text(found)

    def save(self, queue_key: QueueKey, job: str, cookies: bytes) -> None:
        """Save, unless it is longer than :data:`MAX_BYTES`; the tenant's oldest jars make room."""
        if len(cookies) > MAX_BYTES:
            return
        key = cookies_key(queue_key, job)
        budget = RedisBudget(self._redis, self._budget, partial(_key_of, queue_key))
        lists = room_keys(queue_key.tenant, "cookies")
        if budget.enter(lists, f"{queue_key.biz}/{job}", len(cookies)):
            whole(self._redis.again(_KEEP_COOKIES, (key,), cookies, self._seconds))


def _key_of(queue_key: QueueKey, entry: str) -> str:
    biz, _, job = entry.partition("/")
    return cookies_key(replace(queue_key, biz=biz), job)
