"""Which worker a host belongs to while others live too (SPEC.md D3): rendezvous hashing.

What a worker keeps for a host (a connection with its TLS, cookies, robots.txt) is worth something
only if the next request goes the same way. A worker that comes takes one host in n from the others,
one that goes leaves its hosts to all of them evenly; no other host moves.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final

from crawlfleet.model.politeness import Parked
from crawlfleet.policy.routing import mix

#: A host whose time came so long ago is anybody's: its own worker is busy, or gone.
PATIENCE_MS: Final = 400


def salt(name: str) -> int:
    """64 bits of a worker's or a host's name, the same everywhere.

    >>> salt("example.org") == salt("example.org") != salt("example.com")
    True
    """
    return int.from_bytes(blake2b(name.encode(errors="replace"), digest_size=8).digest(), "big")


def owner(host: str, salts: Sequence[tuple[int, str]]) -> str | None:
    """Whose a host is of workers given by their salts; None where there are none.

    >>> owner("example.org", [(salt("a"), "a")])
    'a'
    """
    at = salt(host)
    return max(((mix(at ^ each), name) for each, name in salts), default=(0, None))[1]


def chosen(parked: Sequence[Parked], is_mine: Callable[[str], bool], now_ms: int) -> list[Parked]:
    """Of hosts whose time has come, those that a worker looks at: its own, and what is late."""
    return [one for one in parked if one.ready_ts <= now_ms - PATIENCE_MS or is_mine(one.host)]
