"""Pools of a local cloud: further kinds of worker, as ``--pool NAME:KEY=VALUE,...`` says them.

A pool is one more consumer function, as on AWS (``infra/pools.py``), with processes of its own.
``memory`` in MB is what its workers are told, and what they are ended beyond, as Lambda does; where
there is no ``/proc``, as on macOS, it is told and no more. ``address`` is the one of this machine
by which its downloads leave, so that a site can treat it otherwise: 127.0.0.2 is there on Linux.
``network`` and ``region`` are words for people.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from crawlfleet.kernel import names
from infra.fleet import Fleet
from infra.local.parts import PartError
from infra.local.state import STAGE
from infra.pools import Home, PoolKind, errors, fleet_of

#: How a pool is said, for messages.
SHAPE: Final = "NAME:memory=MB,consumers=N,address=IP,network=WORD,region=WORD"
_KEYS: Final = ("memory", "consumers", "address", "network", "region")
_MEMORY_MB: Final = 1024
_CONSUMERS: Final = 2
#: A word for people, not a page.
_LONGEST: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPool:
    """A kind of worker of this machine.

    Attributes:
        kind: As AWS would have it.
        address: By which its downloads leave; empty for any.
        network: A word for people.
        region: Another one.
    """

    kind: PoolKind
    address: str = ""
    network: str = ""
    region: str = ""

    def __str__(self) -> str:
        words = [f"{self.kind.memory_mb:,} MB", self.network, self.region]
        words += [f"leaves by {self.address}"] if self.address else []
        return f"{self.kind.name} ({', '.join(word for word in words if word)})"


def parse_pools(said: Sequence[str]) -> tuple[LocalPool, ...]:
    """The pools that are said.

    >>> [str(pool) for pool in parse_pools(["far:memory=512,address=127.0.0.2"])]
    ['far (512 MB, leaves by 127.0.0.2)']

    Raises:
        PartError: one is not said as :data:`SHAPE` has it; names all errors.
    """
    wrong: list[str] = []
    found = [_pool(one, wrong) for one in said]
    wrong += errors([pool.kind for pool in found], Home(stage=STAGE, has_vpc=False))
    if wrong:
        raise PartError(f"--pool: {'; '.join(wrong)}; say it as {SHAPE}")
    return tuple(found)


def _pool(said: str, wrong: list[str]) -> LocalPool:
    name, _, rest = said.partition(":")
    values: dict[str, str] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if key not in _KEYS or not equals or key in values:
            wrong.append(f"{said!r} has {pair!r}, which is none of {', '.join(_KEYS)} said once")
        elif len(value) > _LONGEST or not value.isprintable():
            wrong.append(f"{said!r}: {key} is longer than {_LONGEST} characters, or none")
        else:
            values[key] = value
    address = values.get("address", "")
    try:
        ip_address(address or "127.0.0.1")
    except ValueError:
        wrong.append(f"{said!r}: {address!r} is no IP address")
    kind = PoolKind(
        name=name,
        memory_mb=_number(said, values, "memory", _MEMORY_MB, wrong),
        concurrency=_number(said, values, "consumers", _CONSUMERS, wrong),
    )
    return LocalPool(
        kind=kind,
        address=address,
        network=values.get("network", ""),
        region=values.get("region", ""),
    )


def _number(said: str, values: dict[str, str], key: str, default: int, wrong: list[str]) -> int:
    value = values.get(key, str(default))
    if value.isdecimal() and len(value) < len("1000000"):
        return int(value)
    wrong.append(f"{said!r}: {key} is no number: {value!r}")
    return default


def local_fleet(pools: Sequence[LocalPool]) -> Fleet:
    """The fleet with these pools."""
    return fleet_of([pool.kind for pool in pools])


def pools_json(pools: Sequence[LocalPool], region: str) -> str:
    """Write the pools as functions read them (kernel.queue_key.Pool); empty without any."""
    if not pools:
        return ""
    return json.dumps(
        [
            {
                "name": pool.kind.name,
                "memory_mb": pool.kind.memory_mb,
                "region": pool.region or region,
                "network": pool.network,
                "function": names.function_name(STAGE, pool.kind.function),
                "ceiling": pool.kind.concurrency,
            }
            for pool in pools
        ]
    )
