"""Keep the Bloom filters of segments on plain Redis strings (SPEC.md F3; layout: ``bloom``)."""

import math
from collections import OrderedDict
from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Final, TypeAlias

from crawlfleet.config.documents.biz import Biz
from crawlfleet.crawling.frontier.bloom import layers
from crawlfleet.crawling.frontier.fingerprint import KEY_BYTES
from crawlfleet.crawling.frontier.models import Segment
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.requests.queue.redis.keys import filter_keys

#: A filter stays so much longer than its segment: routers' clocks differ, and calls take time.
MARGIN: Final = timedelta(hours=1)
#: A filter of a segment without an end is forgotten when nothing was added for so long.
FOREVER_LIFE: Final = timedelta(days=60)
#: What one call may allocate: more would keep Redis from answering others meanwhile.
ROOM_BYTES: Final = 64 * 1024 * 1024
#: Keys of one call of the script: looking takes about 5 us for each, adding 15, and all that Redis
#: serves waits meanwhile.
BATCHES: Final = {"seen": 1_000, "add": 250}
#: Plans that stand and are not the ones of the configuration, remembered.
_REMEMBERED: Final = 1_000

_FILTER: Final = Script("crawling/frontier/seed_filter")

#: What a filter is laid out for: how many keys, at which rate of errors.
_Plan: TypeAlias = tuple[int, float]


class RedisSeedFilter:
    """A Bloom filter for each queue key and segment. It spares look-ups; MongoDB decides.

    A filter's plan is that of the segment's first key: a change of the biz's policy comes into
    force with the next segment, because bits that are laid out otherwise could not be found.
    """

    def __init__(self, connection: RedisConnection, *, room_bytes: int = ROOM_BYTES) -> None:
        self._redis = connection
        self._room_bytes = room_bytes
        self._standing: OrderedDict[tuple[QueueKey, str], _Plan] = OrderedDict()

    def seen(
        self, queue_key: QueueKey, biz: Biz, segment: Segment, keys: Sequence[bytes]
    ) -> list[bool]:
        """Tell of each key whether it may be known; False means no, unless the filter was lost."""
        return self._each("seen", queue_key, biz, segment, keys)

    def add(self, queue_key: QueueKey, biz: Biz, segment: Segment, keys: Sequence[bytes]) -> None:
        """Make keys known."""
        self._each("add", queue_key, biz, segment, keys)

    def size(self, queue_key: QueueKey, segment: str) -> int:
        """Return the bytes of Redis that a segment's filter takes."""
        parts = self._keys_there(queue_key, segment)[1:]
        if not parts:
            return 0
        return sum(map(whole, self._redis.together(*(("STRLEN", part) for part in parts))))

    def drop(self, queue_key: QueueKey, segment: str) -> None:
        """Drop a segment's filter: nothing is known any more but to the store."""
        if keys := self._keys_there(queue_key, segment):
            self._redis.together(("UNLINK", *keys))
        self._standing.pop((queue_key, segment), None)

    def _keys_there(self, queue_key: QueueKey, segment: str) -> list[str]:
        """List the keys of a filter that is there: its hash, then its parts."""
        seeds, *_ = filter_keys(queue_key, segment, 0)
        (plan,) = several(self._redis.together(("HGET", seeds, "plan")), 1)
        return [] if plan is None else _keys(queue_key, segment, _read(text(plan)))

    def _each(
        self, task: str, queue_key: QueueKey, biz: Biz, segment: Segment, keys: Sequence[bytes]
    ) -> list[bool]:
        answers: list[bool] = []
        size = BATCHES[task]
        for start in range(0, len(keys), size):
            answers += self._batch(task, queue_key, biz, segment, keys[start : start + size])
        return answers

    def _batch(
        self, task: str, queue_key: QueueKey, biz: Biz, segment: Segment, keys: Sequence[bytes]
    ) -> list[bool]:
        wanted = (biz.seeds.expected, biz.seeds.error_rate)
        plan = self._standing.get((queue_key, segment.name), wanted)
        packed = b"".join(keys)
        if len(packed) != KEY_BYTES * len(keys):
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        ends = "" if segment.ends_at is None else int((segment.ends_at + MARGIN).timestamp())
        kept = int(FOREVER_LIFE.total_seconds())
        # A filter that was dropped meanwhile may stand anew, by another's plan: twice is enough.
        for _ in range(3):
            standing, known = several(
                self._redis.again(
                    _FILTER,
                    _keys(queue_key, segment.name, plan),
                    *(task, _spell(plan), ends, kept, self._room_bytes, packed),
                    *_layout(plan),
                ),
                2,
            )
            if text(standing) == _spell(plan).encode():
                break
            plan = _read(text(standing))
            self._remember(queue_key, segment.name, plan)
        answers = text(known)
        if len(answers) != len(keys):
            raise nonsense()
        return [answer == ord("1") for answer in answers]

    def _remember(self, queue_key: QueueKey, segment: str, plan: _Plan) -> None:
        self._standing[queue_key, segment] = plan
        if len(self._standing) > _REMEMBERED:
            self._standing.popitem(last=False)


def _keys(queue_key: QueueKey, segment: str, plan: _Plan) -> list[str]:
    return filter_keys(queue_key, segment, sum(layer.parts for layer in layers(*plan)))


@lru_cache(maxsize=256)
def _layout(plan: _Plan) -> tuple[int, ...]:
    return tuple(
        number
        for layer in layers(*plan)
        for number in (layer.keys, layer.bits, layer.blocks, layer.blocks_a_part)
    )


def _spell(plan: _Plan) -> str:
    expected, error_rate = plan
    return f"{expected} {error_rate!r}"


def _read(stored: bytes) -> _Plan:
    try:
        expected, error_rate = stored.split()
        plan = int(expected), float(error_rate)
    except ValueError as error:
        raise nonsense() from error
    if plan[0] < 1 or not 0 < plan[1] < 1 or not math.isfinite(plan[1]):
        raise nonsense()
    return plan
