"""What waits for a host, in figures: how much, and how old at most (SPEC.md A5, H3).

Recovery queues again what is pending and older than all that is queued, because the queue is served
oldest first. So it has to know of the oldest that is parked, too. A host's list is served in the
order of parking, which is not the order of age: a retry joins it at the end. The least ``ts`` is
therefore kept of two parts, what was there when it was last taken anew and what came since; when
the first part is served the second one takes its place. What it says may be lower than what is
there, never higher, and it costs the same however long the list is.

A host has a list for each priority that waits for it, and each has figures of its own: its *place*.
That of the usual priority is named as the host is, those of others by the host, a blank, which no
host's name has, and the priority. Older versions know hosts alone; to them a place is a host of an
odd name, of which they ask turns, and then the true host's for what they find there.

**Which priority of a host is served next** is what :mod:`crawlfleet.requests.queue.ageing` says of
the heads of its lists, with the ticks that :func:`aged` makes up: as if nobody had looked before.
The oldest head is then no older than the oldest was at any of these ticks, so nothing grows slower
than by ticks that were noted, and what waits for one host does not slow what waits for another. Let
T be parked at p, behind others of its list, the host's oldest entry being older than each of these
by D at most. All of them were created before p. By ``longest_wait(interval, beta, D)`` after p each
has gained what priorities differ by at most on whatever is created then, or has come to the clamp
where the older one is first. So nothing that is created later than that is served at this host
before T.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, LEVELS, Ageing
from crawlfleet.requests.queue.ageing import kept, settle


class DeferredHost(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of a lane that wait for their host: how many, and when it may be asked for again."""

    host: str
    count: int
    ready_ts: int


#: Above every ``ts``, and exact as a Lua number: the least of nothing.
NONE: Final = 2**53
#: What a host counts for as work to be had, at most: one look's turns at the usual rate. The other
#: thousands that wait for it need no more workers.
READY_EACH: Final = 20
#: Hosts that are looked at to tell how much work there is; of more it is estimated by these.
LOOKED_AT: Final = 64


class Waiting(msgspec.Struct, frozen=True):
    """``old`` of the ``count`` entries are the first part; each part's least ``ts``."""

    count: int
    old: int
    least_of_old: int
    least_of_new: int = NONE

    @property
    def low(self) -> int:
        """No entry is older."""
        return min(self.least_of_old, self.least_of_new)


def joined(waiting: Waiting | None, many: int, least: int) -> Waiting:
    """So many more wait, none older than ``least``.

    >>> joined(joined(None, 2, 50), 1, 40).low
    40
    """
    if waiting is None:
        return Waiting(many, many, least)
    new = min(waiting.least_of_new, least)
    return Waiting(waiting.count + many, waiting.old, waiting.least_of_old, new)


def served(waiting: Waiting, many: int) -> Waiting | None:
    """The first ``many`` are gone; None if those were all.

    >>> served(Waiting(3, 2, 10, 30), 2)
    Waiting(count=1, old=1, least_of_old=30, least_of_new=9007199254740992)
    """
    count, old = waiting.count - many, waiting.old - many
    if count <= 0:
        return None
    if old <= 0:
        return Waiting(count, count, waiting.least_of_new)
    return Waiting(count, old, waiting.least_of_old, waiting.least_of_new)


def ready(counts: Sequence[int], due: int) -> int:
    """About how much work there is, by the first hosts of ``due`` whose time has come.

    >>> ready([100, 3], 2), ready([1] * LOOKED_AT, 10 * LOOKED_AT)
    (23, 640)
    """
    found = sum(min(count, READY_EACH) for count in counts)
    return found if due <= len(counts) else -(-found * due // len(counts))


def place(host: str, priority: int) -> str:
    """What a host's list of a priority is known by.

    >>> place("a.example", 5), place("a.example", 10)
    ('a.example', 'a.example 10')
    """
    return host if priority == DEFAULT_PRIORITY else f"{host} {priority}"


def places(host: str) -> tuple[str, ...]:
    """Those of the priorities 0 to 10."""
    return tuple(place(host, priority) for priority in range(LEVELS))


def host_of(place: str) -> str:
    """The host of a place.

    >>> host_of("a.example 10"), host_of("a.example")
    ('a.example', 'a.example')
    """
    return place.partition(" ")[0]


def by_host(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """What waits at places, by their hosts, in the order in which these come first.

    >>> by_host([("b 10", 3), ("a", 1), ("b", 4)])
    {'b': 7, 'a': 1}
    """
    found: dict[str, int] = {}
    for at, count in counts:
        host = host_of(at)
        found[host] = found.get(host, 0) + count
    return found


def together(places: Iterable[tuple[str, int, int]]) -> list[DeferredHost]:
    """The hosts of places, each with what waits there and until when it waits, in epoch ms."""
    each = list(places)
    times: dict[str, int] = {}
    for at, _, ready_ts in each:
        times.setdefault(host_of(at), ready_ts)
    counts = by_host((at, count) for at, count, _ in each)
    return [
        DeferredHost(host=host, count=count, ready_ts=times[host]) for host, count in counts.items()
    ]


def hosts_among(places: int, seen: int, hosts: int) -> int:
    """About how many hosts so many places are of, if ``seen`` of them are of ``hosts``.

    >>> hosts_among(4, 4, 2), hosts_among(9, 4, 2), hosts_among(3, 0, 0)
    (2, 5, 3)
    """
    return -(-places * hosts // seen) if seen else places


def aged(oldest: int, now_ms: int, ageing: Ageing) -> tuple[list[float], list[float]]:
    """The latest ticks of a host, as queue.ageing takes them; ``oldest`` is its oldest head's."""
    times: list[float] = []
    oldests: list[float] = []
    most = kept(ageing.beta, ageing.clamp)
    settle(times, oldests, now_ms, oldest, ageing.interval_ms, most)
    return times, oldests
