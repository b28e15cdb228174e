"""Host affinity: which worker a host belongs to (SPEC.md D3), by rendezvous hashing.

What a worker keeps for a host (a connection with its TLS, cookies, robots.txt) is worth something
only if the next request goes the same way. A worker that comes takes one host in n from the others,
one that goes leaves its hosts to all of them evenly; no other host moves.
Who works is asked anew every few seconds.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Final

from crawlfleet.config.lookup import ConfigCentre, shares_work
from crawlfleet.fleet.scaling import PoolScaling
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.queue.ageing import DeferredHost
from crawlfleet.requests.routing import mix

#: A host whose time came so long ago is anybody's: its own worker is busy, or gone.
PATIENCE_MS: Final = 400


def salt(name: str) -> int:
    """Hash a worker's or a host's name to 64 bits, the same everywhere.

    >>> salt("example.org") == salt("example.org") != salt("example.com")
    True
    """
    return int.from_bytes(blake2b(name.encode(errors="replace"), digest_size=8).digest(), "big")


def owner(host: str, salts: Sequence[tuple[int, str]]) -> str | None:
    """Return the owner of a host among workers, given by salts; None where there are none.

    >>> owner("example.org", [(salt("a"), "a")])
    'a'
    """
    at = salt(host)
    return max(((mix(at ^ each), name) for each, name in salts), default=(0, None))[1]


def chosen(
    deferred: Sequence[DeferredHost], is_mine: Callable[[str], bool], now_ms: int
) -> list[DeferredHost]:
    """Choose the hosts that a worker looks at: its own, and those whose time came long ago."""
    return [one for one in deferred if one.ready_ts <= now_ms - PATIENCE_MS or is_mine(one.host)]


#: Hosts of which it is remembered whose they are.
REMEMBERED: Final = 20_000
#: Of more workers than this nobody has to choose: each host has somebody near by luck alone, and
#: to ask all of them would cost more than a connection.
MOST_WORKERS: Final = 1_000


class _Owners:
    """The workers among whom hosts are shared out, as one of them sees it."""

    def __init__(self, worker: str) -> None:
        self._id = worker
        self._names: frozenset[str] = frozenset()
        self._mine: dict[str, bool] = {}
        self.salts: list[tuple[int, str]] = []

    def set(self, names: Iterable[str]) -> None:
        """Set the workers; this one is among them, whether or not it is known yet."""
        now = frozenset({*names, self._id})
        if now != self._names:
            self._names = now
            chooses = 1 < len(now) <= MOST_WORKERS
            self.salts = [(salt(name), name) for name in now] if chooses else []
            self._mine = {}

    def is_mine(self, host: str) -> bool:
        """Tell whether the host is this worker's."""
        mine, salts = self._mine, self.salts
        known = mine.get(host)
        if known is None:
            if len(mine) >= REMEMBERED:
                mine.clear()
            known = mine[host] = owner(host, salts) == self._id
        return known


class HostAffinity:
    """The hosts that are one worker's own. Its threads may ask at the same time.

    What is bound for a pool is shared out among its workers; what is bound for none, among those of
    every pool that takes it, so that a host has one owner there and not one in each pool.
    """

    def __init__(self, scaling: PoolScaling, worker: str, config: ConfigCentre) -> None:
        self._scaling = scaling
        self._config = config
        self._bound = _Owners(worker)
        self._unbound = _Owners(worker)

    def refresh(self, now: datetime) -> None:
        """Learn who works. While nobody says so everything stays as it was."""
        stage, scaling = self._config.current().stage, self._scaling
        beside: list[str] = []
        try:
            own = scaling.workers.staying(now)
            if shares_work(stage, scaling.pool):
                for pool, other in scaling.elsewhere.items():
                    if shares_work(stage, pool):
                        beside += other.workers.staying(now)
        except StoreUnavailableError as error:
            warn("who else works is not known", error)
            return
        self._bound.set(own)
        self._unbound.set([*own, *beside])

    def choose(
        self, queue_key: QueueKey, deferred: Sequence[DeferredHost], now: datetime
    ) -> list[DeferredHost]:
        """Choose of a queue's hosts whose time has come those that this worker looks at."""
        owners = self._unbound if queue_key.pool is None else self._bound
        if not owners.salts:
            return list(deferred)
        return chosen(deferred, owners.is_mine, to_ms(now))
