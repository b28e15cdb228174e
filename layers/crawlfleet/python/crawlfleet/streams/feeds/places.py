"""Divide the places of a feed reader among tenants (SPEC.md C7): slow feeds are no loophole.

A place is held from the request until the feed is read, for as long as its site takes. What a
tenant may hold :class:`FairParts` says. A feed of several tenants takes a place of the one that
holds fewest: so nobody takes places of others by subscribing to their feeds.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from crawlfleet.kernel.fairness import FairParts
from crawlfleet.kernel.hosts import host_of

#: Feeds of one host that are asked for at once.
OF_HOST: Final = 4
#: A tenant that wanted places is kept them for so long: feeds are due every few minutes.
KEPT_SECONDS: Final = 60.0
#: Tenants of one feed that may have it asked for: what so many share takes nobody's part.
MOST_TENANTS: Final = 16
#: Feeds of a reader that knows no tenants are all of this one.
NOBODY: Final = ("",)


def tenants_of_feeds(owners: Iterable[tuple[str, Collection[str]]]) -> dict[str, tuple[str, ...]]:
    """Map feeds to their tenants, from the feeds of each.

    >>> tenants_of_feeds([("acme", ["/a", "/b"]), ("rival", ["/b"]), ("acme", ["/b"])])
    {'/a': ('acme',), '/b': ('acme', 'rival')}
    """
    found: dict[str, tuple[str, ...]] = {}
    # Of 100,000 feeds most have the same few tenants.
    same: dict[tuple[str, ...], tuple[str, ...]] = {}
    for tenant, feeds in owners:
        for feed in feeds:
            before = found.get(feed, ())
            if tenant not in before and len(before) < MOST_TENANTS:
                both = (*before, tenant)
                found[feed] = same.setdefault(both, both)
    return found


class FeedPlaces:
    """The places of one reader, and whose feeds hold them."""

    def __init__(
        self,
        now: Callable[[], float],
        tenants: Callable[[], Mapping[str, Sequence[str]]] = dict,
        share: Callable[[str], float] = lambda _: 1.0,
    ) -> None:
        self._parts = FairParts[str](now, KEPT_SECONDS)
        self._tenants, self._share = tenants, share
        self._holders: dict[str, str] = {}
        self._held: Counter[str] = Counter()
        self._hosts: Counter[str] = Counter()

    def holder(self, feed: str) -> str:
        """Return the tenant whose place a feed holds; "" where it holds none."""
        return self._holders.get(feed, "")

    def choose(self, due: Sequence[str], places: int) -> list[str]:
        """Have feeds that are due hold what is free of so many places; return them.

        ``due`` begins with the one that is due for longest. Few are of a host: its slots would hold
        up all others.
        """
        held, waiting = self._held, Counter[str]()
        tenants = self._tenants()
        wanted: dict[str, str] = {}
        for feed in due:
            of = tenants.get(feed, NOBODY)
            # What several want counts where least is wanted beside it.
            tenant = of[0] if len(of) == 1 else min(of, key=lambda one: held[one] + waiting[one])
            wanted[feed] = tenant
            waiting[tenant] += 1
        able = self._parts.able(places, held, waiting, self._share)
        found: list[str] = []
        for feed, tenant in wanted.items():
            if not able:
                break
            host = host_of(feed)
            may = [one for one in tenants.get(feed, NOBODY) if one in able]
            if not may or self._hosts[host] >= OF_HOST:
                continue
            holder = min(may, key=held.__getitem__)
            self._holders[feed] = holder
            held[holder] += 1
            self._hosts[host] += 1
            waiting[tenant] -= 1
            found.append(feed)
            able = self._parts.able(places, held, waiting, self._share)
        return found

    def leave(self, feeds: Iterable[str]) -> None:
        """Have feeds hold no places any more."""
        for feed in feeds:
            tenant = self._holders.pop(feed, None)
            if tenant is not None:
                for counts, one in ((self._held, tenant), (self._hosts, host_of(feed))):
                    counts[one] -= 1
                    if not counts[one]:
                        del counts[one]
