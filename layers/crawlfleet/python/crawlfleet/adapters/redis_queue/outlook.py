"""What lies ahead of the workers, on Redis: many lanes a round trip."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    nonsense,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.entries import read
from crawlfleet.adapters.redis_queue.keys import lane_keys, level_keys
from crawlfleet.errors import StoreUnavailableError
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry
from crawlfleet.model.staff import LaneWork
from crawlfleet.model.times import to_ms
from crawlfleet.policy import parking

_OUTLOOK: Final = Script("outlook", "levels_prelude")
_GLIMPSE: Final = Script("glimpse", "levels_prelude")
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
