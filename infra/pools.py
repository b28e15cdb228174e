"""Pools: the kinds of worker that a stage has beside the usual one, and the fleet with them.

A pool is one more consumer function: the same code, with memory, a ceiling and a way out of its
own. It shares the stage's queues, which means its Redis, its MongoDB nodes, its secrets and its
parameters; so it stands in the stage's VPC, and in the stage's region. Workers of another region
would need a VPC there that reaches this one's Redis (peering, and a Redis that is not isolated),
which no stack here makes: a stage that asks for it is refused, instead of being given workers that
reach no queue.

A stage without pools has the fleet of ``fleet.py``, to the letter.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from crawlfleet import names
from infra.fleet import FLEET, Fleet, FunctionSpec

#: As the runtime has it; infra imports nothing of the runtime but names, and a test compares.
_TAKEN: Final = frozenset({"main", "fleet"})
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_MEMORY: Final = (128, 10_240)
#: Lambda takes function names of so many characters.
_LONGEST: Final = 64


class Egress(StrEnum):
    """What a pool's downloads leave through."""

    #: As the stage's other functions: both families in a VPC, AWS's own addresses without one.
    DEFAULT = "default"
    #: IPv4 alone, so that everything is seen from the addresses of the stage's NAT.
    NAT = "nat"
    #: IPv6 where a site has it, free of charge; IPv4 through the NAT.
    DUAL_STACK = "dual-stack"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolKind:
    """A kind of worker of a stage.

    Attributes:
        name: Part of the function's name, and what configurations call it.
        memory_mb: Of each worker; CPU comes with it (1,769 MB is one virtual CPU).
        concurrency: Most of its workers at once, reserved for them beside the usual ones'.
        network: What its downloads leave through.
        region: Empty, as it is the stage's; anything else is refused.
    """

    name: str
    memory_mb: int
    concurrency: int
    network: Egress = Egress.DEFAULT
    region: str = ""

    @property
    def function(self) -> str:
        """Its consumer function, as ``fleet.py`` names functions.

        >>> PoolKind(name="large", memory_mb=3_008, concurrency=4).function
        'consumer-large'
        """
        return names.consumer(self.name)

    def mistakes(self, stage: str, *, has_vpc: bool) -> Iterator[str]:
        """What cannot be, or what AWS would refuse in the middle of a deployment."""
        if self.name in _TAKEN or not _NAME.match(self.name):
            yield f"pool {self.name!r} is no name of a pool: a-z, 0-9 and -, not {sorted(_TAKEN)}"
        elif len(names.function_name(stage, self.function)) > _LONGEST:
            yield f"pool {self.name!r}: its function's name is longer than {_LONGEST} characters"
        least, most = _MEMORY
        if not least <= self.memory_mb <= most:
            yield f"pool {self.name!r}: memory_mb is not within {least} to {most:,}"
        if self.concurrency < 1:
            yield f"pool {self.name!r}: concurrency is below 1"
        if self.network is not Egress.DEFAULT and not has_vpc:
            yield f"pool {self.name!r}: network {self.network} needs a vpc, and there is none"
        if self.region:
            yield (
                f"pool {self.name!r}: region {self.region}: a pool stands in its stage's region, as"
                " it works on the stage's Redis, which no other region reaches; deploy a stage of"
                " its own there, or use proxies of that region"
            )


def mistakes(pools: Sequence[PoolKind], stage: str, *, has_vpc: bool) -> Iterator[str]:
    """Everything that is wrong with the pools of a stage."""
    for place, pool in enumerate(pools):
        yield from pool.mistakes(stage, has_vpc=has_vpc)
        if pool.name in {other.name for other in pools[:place]}:
            yield f"pool {pool.name!r} is named twice"


def fleet_of(pools: Sequence[PoolKind]) -> Fleet:
    """The fleet with these pools: each worker calls for those of any pool, where one has died.

    >>> fleet_of(()) is FLEET
    True
    """
    if not pools:
        return FLEET
    more = tuple(pool.function for pool in pools)
    usual = FLEET.function(names.CONSUMER)
    functions: list[FunctionSpec] = []
    for spec in FLEET.functions:
        functions.append(_aware(spec, more))
        if spec is usual:
            functions += [_worker(_aware(usual, more), pool) for pool in pools]
    return Fleet(
        functions=tuple(functions),
        clocks=FLEET.clocks,
        routes=FLEET.routes,
        vendor_groups=FLEET.vendor_groups,
    )


def _aware(spec: FunctionSpec, more: tuple[str, ...]) -> FunctionSpec:
    """A function that knows of the pools, where it starts workers or tells of them."""
    grants = spec.grants
    if spec.name == names.ID_ISSUER:
        return spec
    # A submission wakes a usual worker: the router calls no others.
    starts = names.CONSUMER in grants.invokes and spec.name != names.ROUTER
    return replace(
        spec,
        grants=replace(
            grants,
            invokes=(*grants.invokes, *more) if starts else grants.invokes,
            limits=(*grants.limits, *more) if grants.limits else (),
            knows_pools=True,
        ),
    )


def _worker(usual: FunctionSpec, pool: PoolKind) -> FunctionSpec:
    """The consumer function of a pool."""
    return replace(
        usual,
        name=pool.function,
        purpose=f"As the consumer, of the pool {pool.name}.",
        memory_mb=pool.memory_mb,
        reserved_concurrency=pool.concurrency,
        code=usual.name,
        pool=pool.name,
        ipv6=pool.network is not Egress.NAT,
    )
