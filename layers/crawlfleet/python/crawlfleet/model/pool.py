"""A pool: one kind of worker (SPEC.md B12, C1): so much memory, in a region, behind a network.

The usual pool has no name in queues, keys or functions: a stage without pools has only that.
"""

from typing import Final

import msgspec

#: What the usual pool is called where it has to be called something.
MAIN_POOL: Final = "main"
#: Names that no further pool may have: the usual one's, and what its figures are kept under.
TAKEN_NAMES: Final = frozenset({MAIN_POOL, "fleet"})
#: Pools of a stage beside the usual one, at most: each is looked at and scaled with every tick.
MOST_POOLS: Final = 16


class Pool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What infrastructure says of a kind of worker, in ``CRAWLFLEET_POOLS`` as JSON.

    Attributes:
        name: ``main``, or a slug of its own.
        memory_mb: Of each worker.
        region: Where it runs, for people.
        network: What its downloads leave through, for people.
        function: Name of the consumer function of the pool; its ARN where it runs in another region
            than who reads this, as it is called there.
        ceiling: Most invocations of it at once.
    """

    name: str = MAIN_POOL
    memory_mb: int = 1024
    region: str = ""
    network: str = ""
    function: str = ""
    ceiling: int = 1
