"""The entries of one queue in memory, and the order in which they are served."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from math import log2
from typing import Final, TypeVar

import msgspec

from tests.fakes.ageing import NONE, Waiting, aged, next_level
from tests.kit.kernel import LEVELS, Ageing, to_ms
from tests.kit.politeness import DeferredHost
from tests.kit.queue import KEPT_SECONDS, NO_TS, deferred_hosts, places
from tests.kit.requests import Entry

_encode: Final = msgspec.json.Encoder().encode

K = TypeVar("K")


class KeptQueue:
    """The entries of one queue. The right end of ``levels`` is served next, of ``parked`` the left.

    What is parked is at places of hosts (parking); ``told_ms`` is the latest time told.

    ``levels`` has a list for each priority; ``times`` and ``oldests`` are the ticks of its ageing.
    ``filled`` is the nonce of the latest filling and how far it has come, None when it is complete.
    """

    def __init__(self) -> None:
        self.levels: tuple[deque[Entry], ...] = tuple(deque() for _ in range(LEVELS))
        self.times: list[float] = []
        self.oldests: list[float] = []
        self.leases: dict[tuple[str, Entry], int] = {}
        self.delayed: dict[Entry, int] = {}
        self.deferred: dict[str, deque[Entry]] = {}
        self.parked_due: dict[str, int] = {}
        self.waiting: dict[str, Waiting] = {}
        self.reported_ms = 0
        self.filled: tuple[str, int | None] | None = None

    @property
    def queued(self) -> int:
        """Count the entries that wait in all lists."""
        return sum(map(len, self.levels))

    @property
    def heads(self) -> dict[int, int]:
        """The ``ts`` of the next entry of each priority that has any."""
        return {level: queue[-1].ts for level, queue in enumerate(self.levels) if queue}

    @property
    def deferred_ts(self) -> int | None:
        """Nothing that is parked is older."""
        least = min((one.low for one in self.waiting.values()), default=NO_TS)
        return None if least == NO_TS else least

    @property
    def oldest_ts(self) -> int | None:
        """Nothing that is queued or parked is older, but for what was put before a head."""
        ages = [*self.heads.values(), *(one.low for one in self.waiting.values())]
        return min(ages, default=None)

    def hosts(self, places: Iterable[str]) -> list[DeferredHost]:
        """The hosts of some places at which something waits."""
        return deferred_hosts(
            (place, self.waiting[place].count, self.parked_due[place]) for place in places
        )

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries to the end of their priorities, where they are served last."""
        for entry in entries:
            self.levels[entry.priority].appendleft(entry)

    def put_first(self, entries: Iterable[Entry]) -> None:
        """Add entries to the front of their priorities; the last of them is served first."""
        for entry in entries:
            self.levels[entry.priority].append(entry)


def next_priority(queue: KeptQueue, ageing: Ageing) -> int:
    """The priority that is served next."""
    heads = [level[-1].ts if level else None for level in queue.levels]
    return next_level(heads, queue.times, queue.oldests, ageing.beta, log2(ageing.clamp))


def earliest(
    scores: Mapping[K, int], now_ms: int, count: int, member: Callable[[K], bytes]
) -> list[K]:
    """The first ``count`` whose score has come, in the order of a Redis sorted set."""
    come = (key for key, score in scores.items() if score <= now_ms)
    return list(islice(sorted(come, key=lambda key: (scores[key], member(key))), max(0, count)))


def member_of(held: tuple[str, Entry]) -> bytes:
    token, entry = held
    return token.encode() + b":" + _encode(entry)


def count_rate(counts: Counter[int], now: datetime, amount: int) -> None:
    second = to_ms(now) // 1000
    if not amount:
        return
    counts[second] += amount
    for at in [at for at in counts if at < second - KEPT_SECONDS]:
        del counts[at]


def in_turn(
    deferred: Mapping[str, deque[Entry]], host: str, now_ms: int, ageing: Ageing
) -> Iterator[Entry]:
    """The heads of the host's lists, one after the other: each is to be taken before the next."""
    ticks: tuple[list[float], list[float]] | None = None
    while True:
        lists = [deferred.get(place) for place in places(host)]
        heads = [waits[0].ts if waits else None for waits in lists]
        if ticks is None:
            ticks = aged(min((ts for ts in heads if ts is not None), default=0), now_ms, ageing)
        level = next_level(heads, *ticks, ageing.beta, log2(ageing.clamp))
        if level == NONE or not (waits := lists[level]):
            return
        yield waits[0]
