"""What lies ahead of the workers, on Redis: many lanes a round trip.

Many lanes at a glance, on Redis: one script a lane, some hundreds of lanes a round trip.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.queue_key import Lane
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.models import Entry
from crawlfleet.requests.queue import parking
from crawlfleet.requests.queue.parking import Parked
from crawlfleet.requests.queue.redis.keys import lane_keys, level_keys
from crawlfleet.requests.queue.redis.queue import read
from crawlfleet.requests.queue.stats import LaneWork

_OUTLOOK: Final = Script("requests/queue/redis/outlook", "requests/queue/levels_prelude")
_GLIMPSE: Final = Script("requests/queue/redis/glimpse", "requests/queue/levels_prelude")
#: Figures of an answer before the hosts.
_FIGURES: Final = 8


class RedisOutlook:
    """A :class:`~crawlfleet.ports.Outlook`."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def works(
        self, lanes: Sequence[Lane], now: datetime, soon: timedelta, hosts: int
    ) -> list[LaneWork]:
        """What lies ahead in each lane; each is seen in one moment.

        In a lane whose node of a cluster is away nobody can do anything now.
        """
        if not lanes:
            return []
        asked = to_ms(now), to_ms(now + soon), hosts
        each = [(_places(lane), asked) for lane in lanes]
        answers = several(self._redis.lane_by_lane(_OUTLOOK, each), len(lanes))
        with self._redis.translated():
            return [
                LaneWork() if isinstance(one, StoreUnavailableError) else _work(several(one))
                for one in answers
            ]

    def glimpse(self, lane: Lane, count: int) -> list[Entry]:
        """Up to ``count`` entries of the queue; what is no entry is left out."""
        if count < 1:
            return []
        found: list[Entry] = []
        for line in several(self._redis.again(_GLIMPSE, level_keys(lane), count)):
            with suppress(msgspec.DecodeError):  # the next lease drops it
                found.append(read(text(line)))
        return found


def _places(lane: Lane) -> tuple[str, ...]:
    keys = lane_keys(lane)
    own = (keys.leases, keys.delayed, keys.parked, keys.parked_due, keys.parked_low)
    return (*own, *level_keys(lane))


def _work(answer: list[object]) -> LaneWork:
    if len(answer) < _FIGURES or len(answer) % 2:
        raise nonsense()
    queued, leased, due, parked, hosts, hosts_due, heads, low = answer[:_FIGURES]
    named = answer[_FIGURES:]
    ages: list[int] = []
    for head in text(heads).splitlines():
        with suppress(msgspec.DecodeError):  # not an entry: the next lease drops it
            ages.append(read(head).ts)
    if low is not None and (least := int(float(text(low)))) != parking.NONE:
        ages.append(least)
    places = [(text(at).decode(), whole(n)) for at, n in zip(named[::2], named[1::2], strict=True)]
    sample = parking.by_host(places)
    return LaneWork(
        queued=whole(queued),
        leased=whole(leased),
        due=whole(due),
        parked=max(0, int(text(parked))),
        hosts=parking.hosts_among(whole(hosts), len(places), len(sample)),
        hosts_due=parking.hosts_among(whole(hosts_due), len(places), len(sample)),
        sample=tuple(sample.items()),
        oldest_ts=min(ages, default=None),
    )


_COUNTS: Final = Script("requests/queue/redis/counts")
_WAITING_HOSTS: Final = Script("requests/queue/redis/waiting_hosts")


class RedisOverview:
    """A :class:`~crawlfleet.ports.Overview`."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def counts(self, lanes: Sequence[Lane]) -> list[tuple[dict[int, int], dict[int, int]] | None]:
        """See ports.Overview.counts."""
        keys = [(of.submitted, of.processed) for of in map(lane_keys, lanes)]
        answers = self._for_each(_COUNTS, keys)
        with self._redis.translated():
            return [None if _is_away(answer) else _counts(answer) for answer in answers]

    def waiting_hosts(self, lanes: Sequence[Lane], limit: int) -> list[list[Parked]]:
        """See ports.Overview.waiting_hosts."""
        if limit < 1:
            return [[] for _ in lanes]
        keys = [(of.parked, of.parked_due) for of in map(lane_keys, lanes)]
        answers = self._for_each(_WAITING_HOSTS, keys, limit)
        with self._redis.translated():
            return [[] if _is_away(answer) else _parked(several(answer)) for answer in answers]

    def _for_each(
        self, script: Script, keys: Sequence[Sequence[str]], *arguments: int
    ) -> list[object]:
        return self._redis.lane_by_lane(script, [(each, arguments) for each in keys])


def _is_away(answer: object) -> bool:
    return isinstance(answer, StoreUnavailableError)


def _counts(answer: object) -> tuple[dict[int, int], dict[int, int]]:
    submitted, processed = several(answer, 2)
    return _by_second(submitted), _by_second(processed)


def _by_second(answer: object) -> dict[int, int]:
    flat = several(answer)
    return {
        int(text(at)): int(text(count)) for at, count in zip(flat[::2], flat[1::2], strict=True)
    }


def _parked(answer: list[object]) -> list[Parked]:
    if not answer:
        raise nonsense()
    count, *flat = answer
    several(flat, 3 * whole(count))
    return parking.together(
        (text(place).decode(), whole(count), int(float(text(at))))
        for place, count, at in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    )
