"""Host affinity: which worker a host belongs to (SPEC.md D3), by rendezvous hashing.

What a worker keeps for a host (a connection with its TLS, cookies, robots.txt) is worth something
only if the next request goes the same way. A worker that comes takes one host in n from the others,
one that goes leaves its hosts to all of them evenly; no other host moves.
Who works is asked anew every few seconds, less often the more there are.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final

from crawlfleet.config.in_force import SsmConfig
from crawlfleet.config.lookup import shares_work
from crawlfleet.fleet.scaling import PoolScaling
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.queue.ageing import DeferredHost
from crawlfleet.requests.routing import mix

#: A host whose time came so long ago is anybody's: its own worker is busy, or gone.
PATIENCE_MS: Final = 400
#: Where a worker's own looks are far between, on a machine or at a store that is slow, so are the
#: owner's: its time came before the last look but one, or so long ago.
MOST_PATIENCE_MS: Final = 2_000


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


def patience_ms(now_ms: int, looks: Sequence[int]) -> int:
    """Return how late a host of another's has to be, by when this worker looked its last times.

    >>> patience_ms(10_000, [9_900, 9_950]), patience_ms(10_000, [8_900, 9_400])
    (400, 1100)
    """
    cycle = now_ms - looks[0] if len(looks) == LOOKS else 0
    return max(PATIENCE_MS, min(MOST_PATIENCE_MS, cycle))


def chosen(
    deferred: Sequence[DeferredHost], is_mine: Callable[[str], bool], late_before_ms: int
) -> list[DeferredHost]:
    """Choose the hosts that a worker looks at: its own, and those whose time came long ago."""
    return [one for one in deferred if one.ready_ts <= late_before_ms or is_mine(one.host)]


#: Hosts of which it is remembered whose they are.
REMEMBERED: Final = 20_000
#: Of more workers than this nobody has to choose: each host has somebody near by luck alone, and
#: to ask all of them would cost more than a connection.
MOST_WORKERS: Final = 1_000
#: Of more than so many it is asked so much later for each who works: an answer names all, and all
#: ask.
SOME_WORKERS: Final = 100
ASK_EACH: Final = timedelta(seconds=0.05)
#: Looks that are remembered.
LOOKS: Final = 2


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

    def __init__(self, scaling: PoolScaling, worker: str, config: SsmConfig) -> None:
        self._scaling = scaling
        self._config = config
        self._bound = _Owners(worker)
        self._unbound = _Owners(worker)
        self._asked_at = datetime.min.replace(tzinfo=UTC)
        self._known = 0
        self._looks: dict[QueueKey, deque[int]] = defaultdict(lambda: deque(maxlen=LOOKS))

    def refresh(self, now: datetime) -> None:
        """Learn who works, unless that was learnt a moment ago.

        While nobody says so everything stays as it was.
        """
        if timedelta() <= now - self._asked_at < (self._known - SOME_WORKERS) * ASK_EACH:
            return
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
        self._asked_at, self._known = now, len(own) + len(beside)
        self._bound.set(own)
        self._unbound.set([*own, *beside])

    def is_left(self, queue_key: QueueKey, host: str, seconds: float) -> bool:
        """Tell whether requests that the host takes ``seconds`` to serve are left to its worker.

        Only at the host's pace is one worker enough for them, and the fewer that meet it the
        fewer connections it sees. What would be over before the owner is late goes to whoever has
        it.
        """
        owners = self._owners(queue_key)
        return seconds * 1000 > PATIENCE_MS and bool(owners.salts) and not owners.is_mine(host)

    def _owners(self, queue_key: QueueKey) -> _Owners:
        return self._unbound if queue_key.pool is None else self._bound

    def choose(
        self, queue_key: QueueKey, deferred: Sequence[DeferredHost], now: datetime
    ) -> list[DeferredHost]:
        """Choose of a queue's hosts whose time has come those that this worker looks at."""
        owners = self._owners(queue_key)
        if not owners.salts:
            return list(deferred)
        at = to_ms(now)
        looks = self._looks[queue_key]
        patience = patience_ms(at, tuple(looks))
        looks.append(at)
        return chosen(deferred, owners.is_mine, at - patience)
