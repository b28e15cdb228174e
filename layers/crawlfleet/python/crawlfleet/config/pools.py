"""Which pool does what (SPEC.md B12): one place that says it, for whoever leases or starts workers.

All pools share the stage's Redis, MongoDB and configuration; what differs is who takes what. The
usual pool takes whatever is bound for no other. A further one takes what is bound for it and, where
its limits say so (``bound_only`` false), the usual work as well.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from crawlfleet.config.documents.biz import FleetLimits, PoolLimits, Stage, Tree
from crawlfleet.kernel.queue_key import MAIN_POOL, Lane, bound

#: What holds of a pool that the stage document says nothing of: nobody is kept there.
UNSAID = PoolLimits()


def pool_limits(stage: Stage, pool: str) -> PoolLimits:
    """What the stage document says of a pool beside the usual one."""
    return stage.pools.get(pool, UNSAID)


def shares_work(stage: Stage, pool: str) -> bool:
    """Whether workers of a pool take what is bound for none, and do the chores of the fleet.

    >>> shares_work(Stage(), "main"), shares_work(Stage(), "large")
    (True, False)
    """
    return pool == MAIN_POOL or not pool_limits(stage, pool).bound_only


def serves(stage: Stage, pool: str, lane: Lane) -> bool:
    """Whether workers of a pool take work of a lane.

    >>> [serves(Stage(), pool, Lane("a", "b", "main@large")) for pool in ("main", "large", "far")]
    [False, True, False]
    """
    return shares_work(stage, pool) if lane.pool is None else lane.pool == pool


def served_lanes(tree: Tree, pool: str) -> tuple[Lane, ...]:
    """The lanes whose work workers of a pool take, those that are bound for it first."""
    own = tree.bound_lanes(pool)
    return (*own, *tree.lanes()) if shares_work(tree.stage, pool) else own


def limits_of(stage: Stage, pool: str) -> FleetLimits:
    """How many workers a pool has and how they behave: as the fleet's, but for their number."""
    if pool == MAIN_POOL:
        return stage.fleet
    limits = pool_limits(stage, pool)
    return replace(
        stage.fleet, min_consumers=limits.min_consumers, max_consumers=limits.max_consumers
    )


def lanes_beside(tree: Tree, lane: Lane) -> tuple[Lane, ...]:
    """What else a biz has, beside its usual lane: one lane for each further pool."""
    return tuple(bound(lane, pool) for pool in tree.further_pools)


def lane_of(lane: Lane, pool: str | None) -> Lane:
    """Where a request of the biz is queued that is bound for a pool, or for none."""
    return bound(lane, MAIN_POOL if pool is None else pool)


def every_lane(tree: Tree, beside: Iterable[str] = ()) -> tuple[Lane, ...]:
    """The lanes of all pools: whoever looks for what the dead held has to look at all of them.

    ``beside`` are pools that this configuration may know nothing of, as live workers name them.
    """
    pools = sorted({*tree.further_pools, *beside} - {MAIN_POOL})
    return (*tree.lanes(), *(lane for pool in pools for lane in tree.bound_lanes(pool)))
