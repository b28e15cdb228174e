"""Pools: the kinds of worker that a stage has beside the usual one, and the fleet with them.

A pool is one more consumer function: the same code, with memory, a ceiling and a way out of its
own. It shares the stage's queues, which means its Redis, its MongoDB nodes, its secrets and its
parameters. Where the stage has a VPC, a pool stands in it: Redis is reached from nowhere else, and
workers of another region would need a VPC there that is peered with this one, which no stack here
makes. Such a stage is refused, instead of being given workers that reach no queue.

Where a stage has no VPC, its stores are reached from anywhere, and a pool may stand in another
region: its function, layers, log and role are in a stack of their own there, and read
parameters and secrets where the stage is. Its functions are named by their ARNs on either side.

A stage without pools has the fleet of ``fleet.py``, to the letter.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from crawlfleet.kernel import names
from infra.fleet import FLEET, Fleet, FunctionSpec

#: As the runtime has it; infra imports nothing of the runtime but names, and a test compares.
_TAKEN: Final = frozenset({"main", "fleet"})
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_MEMORY: Final = (128, 10_240)
#: Lambda takes function names of so many characters.
_LONGEST: Final = 64
_REGION: Final = re.compile(r"[a-z]{2,4}(-[a-z]{2,12}){1,3}-[0-9]{1,2}\Z")
#: What the names of regions begin with in the parts of AWS that are none of the usual one.
_PARTITIONS: Final = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
    "eusc-": "aws-eusc",
}
#: Names that lead to private addresses, those of AWS's own stores among them.
_PRIVATE: Final = (".localhost", ".internal", ".local")
_OF_A_VPC: Final = re.compile(r"\.(cache|memorydb\.[a-z0-9-]+)\.amazonaws\.com(\.cn)?\Z")
#: Pools of a stage, as ``crawlfleet.kernel.queue_key`` has it; a test compares.
MOST_POOLS: Final = 16
#: Most bytes of the pools in a function's environment. Lambda takes 4,096 of all variables.
_MOST_BYTES: Final = 3_000
#: What only a connection by TLS may be called: it crosses the networks of others.
_BY_TLS: Final = ("rediss", "rediss+cluster")


class Egress(StrEnum):
    """The way out of a pool's downloads."""

    #: As the stage's other functions: both families in a VPC, AWS's own addresses without one.
    DEFAULT = "default"
    #: IPv4 alone, so that everything is seen from the addresses of the stage's NAT.
    NAT = "nat"
    #: IPv6 where a site has it, free of charge; IPv4 through the NAT.
    DUAL_STACK = "dual-stack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A stage as its pools see it.

    Attributes:
        stage: Its name.
        has_vpc: Whether its stores are reached from its own network alone.
        region: Where it stands, if it says so.
        redis_url: Its Redis; empty where the stage makes one.
        has_token: Whether that Redis asks for a password.
    """

    stage: str
    has_vpc: bool
    region: str = ""
    redis_url: str = ""
    has_token: bool = False

    def keeps_pools_from(self, region: str) -> Iterator[str]:
        """Return why no pool can stand in another region."""
        if self.has_vpc:
            yield (
                "a pool stands in its stage's vpc, and so in its region: Redis is reached from"
                " nowhere else; leave region empty, or deploy a stage without a vpc, whose Redis"
                " (rediss://) and MongoDB are reached from anywhere"
            )
            return
        if not self.region:
            yield "the stage does not say its own: set its region, where parameters and secrets are"
        elif region == self.region:
            yield "the stage stands there itself: leave region empty"
        elif partition(region) != partition(self.region):
            yield f"no role of {partition(self.region)} is let in from {partition(region)}"
        address = urlsplit(self.redis_url)
        if address.scheme not in _BY_TLS or _is_private(address.hostname or ""):
            # Never quotes the address: it may hold a password in spite of the rule.
            yield (
                "redis.url is not reached from there in safety: it needs TLS (rediss:// or"
                " rediss+cluster://) and a public address"
            )
        elif not self.has_token:
            yield "a Redis at a public address needs a password: say has_token"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolKind:
    """A kind of worker of a stage.

    Attributes:
        name: Part of the function's name, and what configurations call it.
        memory_mb: Of each worker; CPU comes with it (1,769 MB is one virtual CPU).
        concurrency: Most of its workers at once, reserved for them beside the usual ones'.
        network: What its downloads leave through.
        region: Where its workers run, such as ``eu-central-1``; empty where the stage does. Another
            region needs a stage without a VPC that says its own, and a Redis by TLS.
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

    def description(self, *, region: str, function: str) -> dict[str, str | int]:
        """Return what functions know of it (kernel.queue_key.Pool)."""
        return {
            "name": self.name,
            "memory_mb": self.memory_mb,
            "region": region,
            "network": self.network.value,
            "function": function,
            "ceiling": self.concurrency,
        }

    def errors(self, home: Home) -> Iterator[str]:
        """Yield what cannot be, or what AWS would refuse in the middle of a deployment."""
        if self.name in _TAKEN or not _NAME.match(self.name):
            yield f"pool {self.name!r} is no name of a pool: a-z, 0-9 and -, not {sorted(_TAKEN)}"
        elif len(names.function_name(home.stage, self.function)) > _LONGEST:
            yield f"pool {self.name!r}: its function's name is longer than {_LONGEST} characters"
        least, most = _MEMORY
        if not least <= self.memory_mb <= most:
            yield f"pool {self.name!r}: memory_mb is not within {least} to {most:,}"
        if self.concurrency < 1:
            yield f"pool {self.name!r}: concurrency is below 1"
        if self.network is not Egress.DEFAULT and not home.has_vpc:
            yield f"pool {self.name!r}: network {self.network} needs a vpc, and there is none"
        if self.region and not _REGION.match(self.region):
            yield f"pool {self.name!r}: {self.region!r} is no region of AWS"
        elif self.region:
            for reason in home.keeps_pools_from(self.region):
                yield f"pool {self.name!r}: region {self.region}: {reason}"


def is_region(name: str) -> bool:
    """Return whether a region of AWS may be called so.

    >>> is_region("us-gov-west-1"), is_region("Frankfurt")
    (True, False)
    """
    return _REGION.match(name) is not None


def partition(region: str) -> str:
    """The part of AWS that a region is of; accounts and their roles are of one alone.

    >>> partition("eu-west-1"), partition("cn-north-1")
    ('aws', 'aws-cn')
    """
    parts = ((name, part) for name, part in _PARTITIONS.items() if region.startswith(name))
    return next((part for _, part in parts), "aws")


def _is_private(host: str) -> bool:
    """Return whether a host is an address that is reached from its own network alone."""
    try:
        return not ip_address(host).is_global
    except ValueError:
        host = host.rstrip(".").lower()
        return "." not in host or host.endswith(_PRIVATE) or bool(_OF_A_VPC.search(host))


def regions(pools: Sequence[PoolKind]) -> tuple[str, ...]:
    """The regions in which pools stand away from their stage, each once, in their order."""
    return tuple(dict.fromkeys(pool.region for pool in pools if pool.region))


def compute_in(region: str) -> str:
    """The stack with the functions of the pools of another region.

    >>> compute_in("eu-central-1")
    'compute-eu-central-1'
    """
    return f"compute-{region}"


def errors(pools: Sequence[PoolKind], home: Home) -> Iterator[str]:
    """Yield what cannot be, or what AWS would refuse in the middle of a deployment."""
    for place, pool in enumerate(pools):
        yield from pool.errors(home)
        if pool.name in {other.name for other in pools[:place]}:
            yield f"pool {pool.name!r} is named twice"
    if len(pools) > MOST_POOLS:
        yield f"pools: {len(pools)} of them; the most is {MOST_POOLS}"
    elif (taken := _bytes_of(pools, home)) > _MOST_BYTES:
        yield (
            f"pools: the environment of functions takes {taken:,} bytes for them;"
            f" the most is {_MOST_BYTES:,}: have fewer of them in other regions"
        )


def _bytes_of(pools: Sequence[PoolKind], home: Home) -> int:
    """Return the bytes that pools take in the environment of a function that calls all of them."""

    def called(pool: PoolKind) -> str:
        name = names.function_name(home.stage, pool.function)
        return f"arn:aws:lambda:{pool.region}:123456789012:function:{name}" if pool.region else name

    whole = [
        pool.description(region=pool.region or home.region, function=called(pool)) for pool in pools
    ]
    return len(json.dumps(whole))


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
    if spec.name in {names.ID_ISSUER, names.TRIALS}:
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
        region=pool.region,
    )
