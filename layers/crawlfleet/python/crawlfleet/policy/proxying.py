"""Which proxy a request leaves through, and which ones are left out for a while (SPEC.md C9).

Pure: the clock is handed in, in seconds of any steady clock. A pool in which all rest is used all
the same, by the proxy whose rest ends first: a slow way is better than none.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from crawlfleet.model.proxy import ProxyPool

LONGEST_REST_SECONDS: Final = 3_600.0


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a proxy has done lately: ``failures`` in a row, ``rests`` since it last succeeded."""

    failures: int = 0
    rests: int = 0
    rests_until: float = float("-inf")


NEW: Final = Standing()


def after_failure(standing: Standing, pool: ProxyPool, now: float) -> Standing:
    """A proxy that did not do its work; at ``max_failures`` in a row it rests.

    What fails while it rests was under way before, and does not make it rest for longer. The first
    failure after a rest sends it back to rest, for twice as long.
    """
    if now < standing.rests_until:
        return standing
    failures = standing.failures + 1
    if not standing.rests and failures < pool.max_failures:
        return msgspec.structs.replace(standing, failures=failures)
    doubled = pool.rest_seconds * 2.0 ** min(standing.rests, 32)
    longest = max(LONGEST_REST_SECONDS, pool.rest_seconds)
    return Standing(
        failures=failures, rests=standing.rests + 1, rests_until=now + min(doubled, longest)
    )


def chosen(standings: Sequence[Standing], first: int, now: float) -> int:
    """The first proxy from ``first`` on, in a ring, that does not rest.

    >>> chosen([NEW, Standing(rests_until=9.0), NEW], 1, 5.0)
    2
    >>> chosen([Standing(rests_until=9.0), Standing(rests_until=7.0)], 0, 5.0)
    1
    """
    count = len(standings)
    for step in range(count):
        number = (first + step) % count
        if standings[number].rests_until <= now:
            return number
    return min(range(count), key=lambda number: standings[number].rests_until)


def place_of(key: str, count: int) -> int:
    """The number, below ``count``, that is always the same for one key.

    >>> place_of("job host", 3) == place_of("job host", 3)
    True
    """
    digest = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest) % count
