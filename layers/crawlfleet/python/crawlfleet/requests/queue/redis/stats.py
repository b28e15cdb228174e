"""Samples and overviews of many queues on Redis: one script a queue, many a round trip."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.models import Entry
from crawlfleet.requests.queue import ageing
from crawlfleet.requests.queue.ageing import DeferredHost
from crawlfleet.requests.queue.redis.keys import level_keys, redis_keys
from crawlfleet.requests.queue.redis.queue import read
from crawlfleet.requests.queue.stats import QueueWork

_QUEUE_WORK: Final = Script("requests/queue/redis/work", "requests/queue/levels_prelude")
_SAMPLE_QUEUE: Final = Script("requests/queue/redis/sample_queue", "requests/queue/levels_prelude")
#: Figures of an answer before the hosts.
_FIGURES: Final = 10


class RedisQueueSampler:
    """Sample what lies ahead of the workers in queues."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def works(
        self, queues: Sequence[QueueKey], now: datetime, soon: timedelta, hosts: int
    ) -> list[QueueWork]:
        """Count what lies ahead in each queue; each is of one moment.

        In a queue whose node of a cluster is away nothing can be done now.
        """
        if not queues:
            return []
        asked = to_ms(now), to_ms(now + soon), hosts
        each = [(_places(queue_key), asked) for queue_key in queues]
        answers = several(self._redis.queue_by_queue(_QUEUE_WORK, each), len(queues))
        with self._redis.translated():
            return [QueueWork() if _is_away(one) else _work(several(one)) for one in answers]

    def sample_queue(self, queue_key: QueueKey, count: int) -> list[Entry]:
        """List up to ``count`` entries of the queue; what is no entry is left out."""
        if count < 1:
            return []
        found: list[Entry] = []
        for line in several(self._redis.again(_SAMPLE_QUEUE, level_keys(queue_key), count)):
            with suppress(msgspec.DecodeError):  # the next lease drops it
                found.append(read(text(line)))
        return found


def _places(queue_key: QueueKey) -> tuple[str, ...]:
    keys = redis_keys(queue_key)
    own = (keys.leases, keys.delayed, keys.parked, keys.parked_due, keys.parked_low)
    return (*own, *level_keys(queue_key))


def _work(answer: list[object]) -> QueueWork:
    if len(answer) < _FIGURES or len(answer) % 2:
        raise nonsense()
    queued, leased, due, deferred, hosts, hosts_due, heads, low, entries, lists = answer[:_FIGURES]
    named = answer[_FIGURES:]
    ages: list[int] = []
    for head in text(heads).splitlines():
        with suppress(msgspec.DecodeError):  # not an entry: the next lease drops it
            ages.append(read(head).ts)
    if low is not None and (least := int(float(text(low)))) != ageing.NO_TS:
        ages.append(least)
    every = [(text(at).decode(), whole(n)) for at, n in zip(named[::2], named[1::2], strict=True)]
    places = [one for one in every if not ageing.is_parked(one[0])]
    sample, parked = ageing.by_host(places), ageing.by_account(every)
    hosts = whole(hosts) - max(int(text(lists)), len(every) - len(places))
    return QueueWork(
        queued=whole(queued),
        leased=whole(leased),
        due=whole(due),
        deferred=max(0, int(text(deferred))),
        hosts=ageing.hosts_among(hosts, len(places), len(sample)),
        hosts_due=ageing.hosts_among(min(whole(hosts_due), hosts), len(places), len(sample)),
        sample=tuple(sample.items()),
        parked=tuple(parked.items()),
        parked_entries=max(int(text(entries)), sum(parked.values())),
        oldest_ts=min(ages, default=None),
    )


_COUNTS: Final = Script("requests/queue/redis/counts")
_WAITING_HOSTS: Final = Script("requests/queue/redis/waiting_hosts")


class RedisOverview:
    """Read rates and waiting hosts of all queues, for the monitor."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def counts(
        self, queues: Sequence[QueueKey]
    ) -> list[tuple[dict[int, int], dict[int, int]] | None]:
        """Count what was submitted and processed by epoch second, for ``KEPT_SECONDS`` at least.

        The present second is among them; it is not over yet. None for a queue whose node of a
        cluster is away, where others are not.
        """
        keys = [(of.submitted, of.processed) for of in map(redis_keys, queues)]
        answers = self._redis.queue_by_queue(_COUNTS, [(each, ()) for each in keys])
        with self._redis.translated():
            return [None if _is_away(answer) else _counts(answer) for answer in answers]

    def waiting_hosts(self, queues: Sequence[QueueKey], limit: int) -> list[list[DeferredHost]]:
        """List up to ``limit`` hosts of each queue that entries wait for, the last due first.

        What waits longest is what its host asked to be left alone for. None of a queue that is
        away.
        """
        if limit < 1:
            return [[] for _ in queues]
        keys = [(of.parked, of.parked_due) for of in map(redis_keys, queues)]
        answers = self._redis.queue_by_queue(_WAITING_HOSTS, [(each, (limit,)) for each in keys])
        with self._redis.translated():
            return [[] if _is_away(answer) else _deferred(several(answer)) for answer in answers]


def _is_away(answer: object) -> bool:
    return isinstance(answer, StoreUnavailableError)


def _counts(answer: object) -> tuple[dict[int, int], dict[int, int]]:
    submitted, processed = several(answer, 2)
    return _by_second(submitted), _by_second(processed)


def _by_second(answer: object) -> dict[int, int]:
    flat = several(answer)
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return {int(text(at)): int(text(count)) for at, count in pairs}


def _deferred(answer: list[object]) -> list[DeferredHost]:
    if not answer:
        raise nonsense()
    count, *flat = answer
    several(flat, 3 * whole(count))
    return ageing.deferred_hosts(
        (text(place).decode(), whole(count), int(float(text(at))))
        for place, count, at in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    )
