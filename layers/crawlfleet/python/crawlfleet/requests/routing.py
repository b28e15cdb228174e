"""Routing: the generation, node, database and collection of a request (SPEC.md A4).

The sources take ``id mod n``. The low bits of a Snowflake id are a sequence that is nearly always 0
at low load, so that puts about 95 % of the requests on one of 2^k shards; the 64 bits are mixed
first. Nodes are chosen by rendezvous hashing, so that a new node takes 1/n of the ids.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from hashlib import blake2b
from itertools import product
from typing import Final

import msgspec

from crawlfleet.config.documents.biz import Biz, Generation, Spread
from crawlfleet.kernel.ids import RequestId, issued_at

_MASK: Final = (1 << 64) - 1


class Shard(msgspec.Struct, frozen=True, order=True):
    """Name one collection: a node, the database on it, and the collection's number."""

    node: str
    database: str
    number: int


def mix(value: int) -> int:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014): each input bit moves every output bit.

    >>> hex(mix(1))
    '0x5692161d100b05e5'
    """
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def bits(request_id: RequestId) -> int:
    """Return 64 bits of an id: the number itself, or the two ends of a hex id folded together."""
    if isinstance(request_id, int):
        return request_id
    return (int(request_id[:16], 16) ^ int(request_id[-16:], 16)) & _MASK


def generation_at(generations: Sequence[Generation], moment: datetime) -> Generation:
    """Return the generation in force at a moment; the first one covers all time before it."""
    found = generations[0]
    for generation in generations:
        if generation.starts_at <= moment:
            found = generation
    return found


def shard_of(generation: Generation, request_id: RequestId) -> Shard:
    """Return the shard of an id within one generation."""
    value = bits(request_id)
    nodes, databases = generation.nodes, generation.databases
    if generation.spread is not Spread.RENDEZVOUS:
        mixed = value if generation.spread is Spread.PLAIN_MODULO else mix(value)
        slot = mixed % (len(nodes) * len(databases) * generation.shards)
        slot, number = divmod(slot, generation.shards)
        node, database = divmod(slot, len(databases))
        return Shard(nodes[node], databases[database], number)
    mixed, node_name = mix(value), nodes[0]
    if len(nodes) > 1:
        node_name = max(nodes, key=lambda name: (mix(mixed ^ _salt(name)), name))
    # The node took the bits' comparison, not their value: what is left is still even.
    slot = mixed % (len(databases) * generation.shards)
    database, number = divmod(slot, generation.shards)
    return Shard(node_name, databases[database], number)


def route(biz: Biz, request_id: RequestId, queued_at: datetime) -> Shard:
    """Return the shard a request is written to, and found in when its queueing time is known."""
    moment = issued_at(request_id) or queued_at
    return shard_of(generation_at(biz.generations, moment), request_id)


def candidates(biz: Biz, request_id: RequestId) -> tuple[Shard, ...]:
    """Return the shards an id may be in when nothing else is known of it, the likeliest first.

    For an id that carries its time that is the first one; the others matter for counters.
    """
    newest_first = tuple(reversed(biz.generations))
    moment = issued_at(request_id)
    if moment is not None:
        likeliest = generation_at(biz.generations, moment)
        newest_first = (likeliest, *(g for g in newest_first if g is not likeliest))
    return tuple(dict.fromkeys(shard_of(generation, request_id) for generation in newest_first))


def live_shards(biz: Biz, now: datetime) -> tuple[Shard, ...]:
    """Return every shard that may still hold a request: generations end when their TTL has passed.

    What has ended, dead letters too, is there until the grace has passed as well.
    """
    life = biz.ttl_seconds + max(biz.ttl_seconds, biz.expiry_grace_seconds)
    ended = [
        index
        for index, following in enumerate(biz.generations[1:])
        if (now - following.starts_at).total_seconds() > life
    ]
    return _shards(biz.generations[len(ended) :])


def all_shards(biz: Biz) -> tuple[Shard, ...]:
    """Return every shard that may hold a record: records may live longer than requests."""
    return _shards(biz.generations)


def keyed_home(biz: Biz, moment: datetime) -> Shard:
    """Return the shard of records with keys of their own: one place for all of a biz.

    A key has to meet itself wherever its pages are routed, or a repeat would not replace. It moves
    only with a new generation: to the first node and database of the one in force.
    """
    return _home(generation_at(biz.generations, moment))


def keyed_homes(biz: Biz) -> tuple[Shard, ...]:
    """Return every shard of keyed records, that of the newest generation first.

    What an older one holds too was replaced since.
    """
    return tuple(dict.fromkeys(_home(generation) for generation in reversed(biz.generations)))


def _home(generation: Generation) -> Shard:
    return Shard(generation.nodes[0], generation.databases[0], 0)


def _shards(generations: Sequence[Generation]) -> tuple[Shard, ...]:
    found: dict[Shard, None] = {}
    for one in generations:
        places = product(one.nodes, one.databases, range(one.shards))
        found.update(dict.fromkeys(Shard(*place) for place in places))
    return tuple(found)


@cache
def _salt(node: str) -> int:
    # Not Python's hash(): that differs from process to process.
    return int.from_bytes(blake2b(node.encode(), digest_size=8).digest(), "big")
