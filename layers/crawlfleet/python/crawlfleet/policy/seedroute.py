"""On which node a seed is kept: by its key, over the nodes and databases of a generation.

The generation is the one in force when the seed's segment begins, going by the segment's name alone
(policy.segment.anchor_of): whoever knows what a seed is called knows where it is. For a segment
that has begun that is history, which nobody changes (policy.route_change). Only a seed of a later
segment may find another generation in force when its time comes; so a seed is looked for wherever
any generation would have it, and is stored once all those places have been asked.
"""

from crawlfleet.model.biz import Biz
from crawlfleet.policy.routing import Shard, generation_at, shard_of
from crawlfleet.policy.segment import anchor_of


def homes(biz: Biz) -> tuple[Shard, ...]:
    """Every place that seeds may be kept at, those of the newest generation first."""
    found = {
        Shard(node, database, 0): None
        for generation in reversed(biz.generations)
        for node in generation.nodes
        for database in generation.databases
    }
    return tuple(found)


def candidates(biz: Biz, seed_id: str) -> tuple[Shard, ...]:
    """Where the seed ``segment/key`` may be, first where it is stored now."""
    segment, _, key = seed_id.rpartition("/")
    now = generation_at(biz.generations, anchor_of(segment))
    found: dict[Shard, None] = {}
    for generation in (now, *biz.generations):
        shard = shard_of(generation, key)
        found[Shard(shard.node, shard.database, 0)] = None
    return tuple(found)
