"""Decide the priority that is served next: what waits gains on what is above it (SPEC.md C4).

A task of priority 0 to 10 weighs ``priority + 1``, so that 0 grows too (CLAIMS.md s2.4).
On a fixed clock, at every tick, what is queued is judged by its age beside that of the oldest that
is queued then::

    alpha = (tick - created) / (tick - oldest)
    weight *= 2 ** alpha     where alpha > beta

and no weight passes a clamp. The sources sweep at each pop, so that their boost depends on how
often somebody pops; by ticks it depends on time alone. Of two weights the larger one is served
first; of two that are equal the older task, then the one of the higher priority.

No task is rewritten: a tick is kept as its time and the oldest ``created`` then, and what a task
weighs follows from the ticks after its creation. Inside one priority what came first is served
first, and an older task weighs at least as much as a younger one, since each of its terms is at
least as large; so only the head of each priority's list is ever judged: a pop costs eleven of
these, however long the lists are. Ticks that were not noted are made up for at the next pop.
Weights are kept as their logarithms to base 2: sums that every machine computes alike.

**How long a task waits.** Let T be put into the queue at b: when it comes, or when it comes back
with its old time, as its retry is due, its lease has ended or it was given back. What comes back is
served next of its priority, so it may stand before older ones. Let D be the age at b of the oldest
task that is not done by then: one that is queued, leased, to come back, or lost and to
be recovered. Whatever comes back after b is one of those, or was created later, so nothing that is
queued from then on was created before ``b - D``.

1. What stands before T in its list was created by b, and so was all that comes to stand there: to
   come back it must have been served before, and what is created after b stands behind T. So the
   list's head H, T or another, is of the age ``t - b`` at least at a tick t, and of the oldest
   ``t - b + D`` is the most. Its alpha is more than beta from ``beta / (1 - beta) * D`` after b on
   (at once if D is 0).
2. From there on each tick adds more than beta to the logarithm of whatever is H. After
   ``k = ceil(log2(11) / beta)`` ticks that is ``log2(11)``: 7 with a beta of a half. The oldest
   task of all gains 1 a tick, and is there after 4.
3. Let U be created after that, of any priority. At each later tick alpha of H is at least that of
   U, which is younger. So H stays ahead of U by what it had gained, which is no less than the most
   that priorities differ by; where both come to the clamp the older one, H, is first. That ticks
   are forgotten does not change it: :func:`kept` of them lift H to the clamp by themselves.

So from ``beta / (1 - beta) * D`` and k + 1 intervals after it was queued on (the longest wait),
whatever is created is not served before T. Before T are served no more than were not done when it
was queued, and came within that time, each as often as it comes back: nothing starves as long as
anything is served and what is tried again is tried a limited number of times.

**What that leaves out.** A dead letter that is replayed has its old time, though it had been done
with. Where it is older than ``b - D``, T may gain less than beta at each tick at which it waits:
such ticks come on top. The oldest of all rises first, and is at the clamp at once where ticks are
remembered, so these are the ticks that serving what is replayed takes. What is deferred
for a host is in no such queue; what holds of it follows.

**What is deferred.** Recovery queues again what is pending and older than all that is queued, since
the queue is served oldest first. So it has to know of the oldest that is deferred, too. A host's
list is served in the order of deferral, which is not the order of age: a retry joins it at the end.
The least ``ts`` is therefore kept of two parts, what was there when it was last taken anew and what
came since; when the first part is served the second one takes its place. It may be lower than what
is there, never higher, and it costs the same however long the list is.

A site (scheme, host and port) has a list for each priority that waits for it, each with figures of
its own: its *place*. That of the usual priority is named as the site is (kernel.hosts.site_of: the
host alone where it is https at its usual port), those of others by the site, a blank, which no
site's name has, and the priority. Older versions know hosts alone; to them a place is a host of an
odd name, of which they ask slots, and then the true host's for what they find there.

Which priority of a host is served next follows from the heads of its lists, with ticks that are
made up as if nobody had looked before. The oldest head is then no older than the oldest was at any
of these ticks, so nothing grows slower than by ticks that were noted, and what waits for one host
does not slow what waits for another. Let T be deferred at p, behind others of its list, the host's
oldest entry being older than each of these by D at most. All of them were created before p. By
``longest wait (D)`` after p each has gained what priorities differ by at most on whatever is
created then, or has come to the clamp where the older one is first. So nothing that is created
later than that is served at this host before T.
"""

from collections.abc import Iterable, Sequence
from math import ceil, log2
from typing import Final

import msgspec

from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, LEVELS


def kept(beta: float, clamp: float) -> int:
    """Return how many ticks are remembered: those that lift any task to the clamp.

    >>> kept(0.5, 1024.0)
    21
    """
    return ceil(log2(clamp) / beta) + 1


class DeferredHost(msgspec.Struct, frozen=True, kw_only=True):
    """Count requests of a queue that wait for a site, and say when it may be asked again.

    ``host`` is the site's name: the host alone where it is https at its usual port.
    """

    host: str
    count: int
    ready_ts: int


#: Above every ``ts``, and exact as a Lua number: the least of nothing.
NO_TS: Final = 2**53
#: What a host counts for as work to be had, at most: what one lease has slots for. The other
#: thousands that wait for it need no more workers.
READY_EACH: Final = 20
#: Hosts by which the work at hand is counted; of more it is estimated by these.
LOOKED_AT: Final = 64


def ready_count(counts: Sequence[int], due: int) -> int:
    """Estimate the work at hand by the first hosts of ``due`` whose time has come.

    >>> ready_count([100, 3], 2), ready_count([1] * LOOKED_AT, 10 * LOOKED_AT)
    (23, 640)
    """
    found = sum(min(count, READY_EACH) for count in counts)
    return found if due <= len(counts) else -(-found * due // len(counts))


#: How the names of lists begin that wait for an account of a quota, in the place of a site.
PARKED: Final = "quota://"


def is_parked(place: str) -> bool:
    """Tell whether a place waits for a quota, not for a host.

    >>> is_parked("quota://limit/user:ann:requests:all 7"), is_parked("http://quota.example")
    (True, False)
    """
    return place.startswith(PARKED)


def place(host: str, priority: int) -> str:
    """Name a site's list of a priority.

    >>> place("a.example", 5), place("a.example", 10)
    ('a.example', 'a.example 10')
    """
    return host if priority == DEFAULT_PRIORITY else f"{host} {priority}"


def places(host: str) -> tuple[str, ...]:
    """Name a site's lists of the priorities 0 to 10."""
    return tuple(place(host, priority) for priority in range(LEVELS))


def site_of(place: str) -> str:
    """Return the site of a place.

    >>> site_of("a.example:8080 10"), site_of("a.example")
    ('a.example:8080', 'a.example')
    """
    return place.partition(" ")[0]


def host_of(place: str) -> str:
    """Return the host of a place, or of a site.

    >>> host_of("http://a.example:8080 10"), host_of("a.example"), host_of("[::1]:99")
    ('a.example', 'a.example', '[::1]')
    """
    authority = site_of(place).rpartition("://")[2]
    inside, closed, _ = authority.partition("]")
    return inside + closed if closed else authority.partition(":")[0]


def by_host(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Sum what waits at places by their hosts, in the order in which these come first.

    >>> by_host([("b 10", 3), ("a", 1), ("b", 4)])
    {'b': 7, 'a': 1}
    """
    return _summed((host_of(at), count) for at, count in counts)


def by_account(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Sum what waits for each account of a quota; what waits for hosts is left out.

    >>> by_account([("quota://limit/a 7", 3), ("a.example", 1), ("quota://limit/a", 4)])
    {'quota://limit/a': 7}
    """
    return _summed((site_of(at), count) for at, count in counts if is_parked(at))


def _summed(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, count in counts:
        found[name] = found.get(name, 0) + count
    return found


def deferred_hosts(places: Iterable[tuple[str, int, int]]) -> list[DeferredHost]:
    """Return the sites of places, each with its count and until when it waits, in epoch ms."""
    each = list(places)
    times: dict[str, int] = {}
    for at, _, ready_ts in each:
        times.setdefault(site_of(at), ready_ts)
    counts = _summed((site_of(at), count) for at, count, _ in each)
    return [DeferredHost(host=at, count=n, ready_ts=times[at]) for at, n in counts.items()]


def hosts_among(places: int, seen: int, hosts: int) -> int:
    """Estimate how many hosts so many places are of, if ``seen`` of them are of ``hosts``.

    >>> hosts_among(4, 4, 2), hosts_among(9, 4, 2), hosts_among(3, 0, 0)
    (2, 5, 3)
    """
    return -(-places * hosts // seen) if seen else places
