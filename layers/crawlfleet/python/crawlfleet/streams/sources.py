"""Sources: one reader of a stream for all subscribers whose filters it covers (SPEC.md D3, D5).

Subscriptions to one channel need as many sources as there are filters that no other one covers. A
source is there as long as a subscription needs it: made with the first, ended with the last. Which
ones are needed follows from the subscriptions alone, in whatever order they came, so that two who
work it out agree. A worker is chosen by rendezvous hashing of what the source is: one that comes
takes its part from all others, one that goes leaves its sources to all of them, no other moves.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from crawlfleet.streams.filters import Filter, Group, Node, Op, covers
from crawlfleet.streams.filters import leaves as leaves_of


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription as sources see it: its id, the channel that it is to, and its filter."""

    id: str
    channel: str
    filter: Filter


class Source(NamedTuple):
    """A source: a channel, and the digest of the filter that it is read by."""

    channel: str
    digest: str

    @property
    def name(self) -> str:
        """The canonical form by which it is placed and held."""
        return f"{self.channel}\n{self.digest}"


class Needed(msgspec.Struct, frozen=True):
    """The sources that subscriptions need, and the one that serves each of these, by its id."""

    filters: Mapping[Source, Filter]
    serving: Mapping[str, Source]


class Reload(NamedTuple):
    """A soft reload: sources to end, to begin, and those whose subscribers changed."""

    ended: tuple[Source, ...]
    begun: tuple[Source, ...]
    changed: tuple[Source, ...]


NOTHING: Final = Needed(MappingProxyType({}), MappingProxyType({}))


def needed(subscriptions: Iterable[Subscription]) -> Needed:
    """Return the sources that these subscriptions need, and who is served by which."""
    by_channel: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    filters: dict[str, Filter] = {}
    for one in subscriptions:
        by_channel[one.channel][one.filter.digest].append(one.id)
        filters[one.filter.digest] = one.filter
    found: dict[Source, Filter] = {}
    serving: dict[str, Source] = {}
    for channel, asked in by_channel.items():
        home = _homes([filters[digest] for digest in asked])
        for digest, ids in asked.items():
            source = Source(channel, home[digest].digest)
            found[source] = home[digest]
            serving.update(dict.fromkeys(ids, source))
    return Needed(found, serving)


def reload(before: Needed, after: Needed) -> Reload:
    """Return what has to be done so that what is needed now is there, and nothing else changes."""
    ended = sorted(before.filters.keys() - after.filters.keys())
    begun = sorted(after.filters.keys() - before.filters.keys())
    changed: set[Source] = set()
    for one in before.serving.keys() | after.serving.keys():
        was, is_now = before.serving.get(one), after.serving.get(one)
        if was != is_now:
            changed.update(source for source in (was, is_now) if source is not None)
    changed &= before.filters.keys() & after.filters.keys()
    return Reload(tuple(ended), tuple(begun), tuple(sorted(changed)))


def worker_of(source: Source, workers: Iterable[str]) -> str | None:
    """Return the worker that a source belongs to; None where there is none.

    >>> worker_of(Source("x", "d"), ["w1", "w2"]) == worker_of(Source("x", "d"), ["w2", "w1"])
    True
    """
    name = source.name.encode()
    return max(workers, key=lambda worker: (_weight(name, worker), worker), default=None)


def _weight(name: bytes, worker: str) -> bytes:
    return blake2b(
        name, digest_size=8, key=blake2b(worker.encode(), digest_size=16).digest()
    ).digest()


def _homes(filters: list[Filter]) -> dict[str, Filter]:
    """Return the filter of the source that serves each one, by its digest.

    Those that cover most others come first, so that one that covers another comes before it. Only
    filters that share a value may cover each other, so only those are compared.
    """
    having: dict[str, list[Filter]] = defaultdict(list)
    for one in filters:
        for value in {leaf.value for leaf in leaves_of(one.root)}:
            having[value].append(one)
    wider = {
        one.digest: [other for other in _alike(one, having) if covers(other, one)]
        for one in filters
    }
    covering: dict[str, int] = defaultdict(int)
    for each in wider.values():
        for other in each:
            covering[other.digest] += 1
    home: dict[str, Filter] = {}
    for one in sorted(filters, key=lambda it: (-covering[it.digest], it.digest)):
        standing = [other for other in wider[one.digest] if home.get(other.digest) == other]
        best = min(standing, key=lambda it: (-covering[it.digest], it.digest), default=one)
        home[one.digest] = best
    return home


def _alike(one: Filter, having: Mapping[str, list[Filter]]) -> list[Filter]:
    """List filters that share a value with the first alternative of this one, or a word of it."""
    first: Node = one.root
    while isinstance(first, Group) and first.op is Op.OR:
        first = first.members[0]
    values = {leaf.value for leaf in leaves_of(first)}
    values |= {word for value in values for word in value.split(" ")}
    found = {other.digest: other for value in sorted(values) for other in having.get(value, ())}
    return list(found.values())
