"""Push messages to Redis streams of tenants: ``TENANT:streams:NAME``.

A tenant's own keys begin with its name and a colon, as those of its Scrapy projects do. An entry
has the fields ``id`` and ``message``. A stream is cut to about ``most`` entries, a setting of the
stage, so that one whom nobody reads does not fill the Redis that queues are in; who reads is to be
faster than that.
"""

from collections.abc import Callable, Sequence

from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.streams.delivery.messages import Message
from crawlfleet.streams.delivery.models import LIFE, Fault
from crawlfleet.streams.targets import Target


def stream_key(tenant: str, target: Target) -> str:
    """Return the key of a stream.

    >>> from crawlfleet.streams.targets import TargetKind
    >>> stream_key("acme", Target(TargetKind.REDIS_STREAM, "items"))
    'acme:streams:items'
    """
    return f"{tenant}:streams:{target.address}"


class RedisPusher:
    """Push to streams, a batch in one round trip."""

    def __init__(self, connection: RedisConnection, most: Callable[[], int]) -> None:
        self._redis = connection
        self._most = most

    def push(self, target: Target, batch: Sequence[Message]) -> list[Fault | None]:
        """Push a batch, which is taken as a whole.

        Raises:
            StoreUnavailableError: Redis does not answer, is full, or has something else there.
        """
        key = stream_key(batch[0].delivery.tenant, target)
        adding = ("XADD", key, "MAXLEN", "~", self._most(), "*")
        self._redis.together(
            *((*adding, "id", one.delivery.id, "message", one.body) for one in batch),
            ("EXPIRE", key, round(LIFE.total_seconds())),
        )
        return [None] * len(batch)
