"""Share the price of an item among those who take it, and allot it by their limits. Pure.

An item is bought once, however many take it: each subscription that takes it pays an equal share,
in whole nano-dollars that sum to the price. What does not divide is paid by some of them, a
nano-dollar each, others for each item.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from crawlfleet.config.documents.quota import QuotaUnit
from crawlfleet.fleet.quotas.models import Limit


def shares_of(price: int, takers: Sequence[str], item: str) -> dict[str, int]:
    """Share a price among takers, each of whom stands there once; the shares sum to it.

    >>> sorted(shares_of(5_000_000, ["a", "b", "c"], "1").values())
    [1666666, 1666667, 1666667]
    """
    each, rest = divmod(price, len(takers))
    shares = dict.fromkeys(takers, each)
    for taker in _in_turn(sorted(takers), item)[:rest]:
        shares[taker] += 1
    return shares


class Allotted(NamedTuple):
    """The takers of an item, and what each uses of its limits."""

    takers: list[str]
    uses: dict[str, dict[Limit, int]]


def allot(
    item: str,
    takers: Mapping[str, Sequence[Limit]],
    price: int,
    room: Callable[[Limit], int],
) -> Allotted:
    """Allot an item to those of its takers whose limits have room for it.

    Where a limit has too little for all who are under it, some of them go without, in turn by item.
    As then the shares of the others rise, this is done until all that are left have room.
    """
    left = list(takers)
    while left:
        paid = shares_of(price, left, item)
        uses = {
            one: {
                limit: 1 if limit.quota.unit is QuotaUnit.ITEMS else paid[one]
                for limit in takers[one]
            }
            for one in left
        }
        needed: Counter[Limit] = Counter()
        for own in uses.values():
            needed.update(own)
        lacking = {
            limit: lack for limit, amount in needed.items() if (lack := amount - room(limit)) > 0
        }
        if not lacking:
            return Allotted(left, uses)
        gone: set[str] = set()
        for one in reversed(_in_turn(sorted(left), item)):
            if any(lacking.get(limit, 0) > 0 for limit in takers[one]):
                gone.add(one)
                for limit, amount in uses[one].items():
                    if limit in lacking:
                        lacking[limit] -= amount
        left = [one for one in left if one not in gone]
    return Allotted([], {})


def _in_turn(takers: list[str], item: str) -> list[str]:
    """Begin with another one for each item."""
    digest = blake2b(item.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    first = int.from_bytes(digest) % len(takers)
    return takers[first:] + takers[:first]
