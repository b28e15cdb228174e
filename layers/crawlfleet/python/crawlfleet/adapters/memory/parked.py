"""What waits for a host in memory, in the order of serving."""

from collections import deque
from collections.abc import Iterator, Mapping
from math import log2

from crawlfleet.model.priority import Ageing
from crawlfleet.model.request import Entry
from crawlfleet.policy.ageing import NONE, next_level
from crawlfleet.policy.parking import aged, places


def in_turn(
    parked: Mapping[str, deque[Entry]], host: str, now_ms: int, ageing: Ageing
) -> Iterator[Entry]:
    """The heads of the host's lists, one after the other: each is to be taken before the next."""
    ticks: tuple[list[float], list[float]] | None = None
    while True:
        lists = [parked.get(place) for place in places(host)]
        heads = [waits[0].ts if waits else None for waits in lists]
        if ticks is None:
            ticks = aged(min((ts for ts in heads if ts is not None), default=0), now_ms, ageing)
        level = next_level(heads, *ticks, ageing.beta, log2(ageing.clamp))
        if level == NONE or not (waits := lists[level]):
            return
        yield waits[0]
