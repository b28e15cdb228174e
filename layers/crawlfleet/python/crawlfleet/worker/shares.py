"""The shares of a worker's tenants (SPEC.md C7): what each takes here, and whose turn it is.

Each worker divides what it has, and knows all that it needs for that: so the fleet is divided, for
no command to Redis and no counter that workers share. What a tenant takes is seconds of the worker:

- of its runners, each second of one, whether it waits for a slow site or not, divided by how many
  there are: slow hosts are no loophole;
- of its event loop, which reads pages one after another, and of what leases: each second whole;
- of what stores outcomes, divided by how many do; or of the processor, where that takes longer, as
  for a page with a thousand links: nothing else goes on here meanwhile;
- of the memory for outcomes that are to be written, each second of a byte, divided by how many
  there may be;
- of what makes requests of its seeds and tasks of its jobs, and of the processor where its sites'
  robots.txt is parsed.

Where a few things go on at once, of storing and of parsing, :class:`TenantSlots` says whose.

Seconds of runners and of memory count as they pass. What is leased and has not ended is charged
what requests of its tenant took on average; its end takes that back. Of what waits for a runner the
tenant that took least by its share has the next one, but for runners that are kept for others.

Of the requests in flight a tenant has a part by its share among those who have work, or all while
no other has any. Beyond its part it is leased nothing once the worker is full; who comes then is
leased its part at once, beside what is there, up to :data:`MOST_OVER` times of what fits.
"""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from crawlfleet.config.documents.biz import FleetLimits, Tree
from crawlfleet.config.lookup import share_of
from crawlfleet.kernel.fairness import FairParts, FairShares
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import SteadyTime

#: Queues whose outcomes are stored at once.
SETTLED_QUEUES: Final = 3
#: No page of a tenant is read while its outcomes that are still to be written take more than about
#: its part of this, by its share.
HEAVY_BYTES: Final = 64_000_000
#: Phases of which each second is one of the worker, as no other tenant has it.
WHOLE: Final = frozenset(("lease", "claim", "turn", "extract"))
#: What a request takes of a runner until any of its tenant has ended, and how fast that is learnt.
GUESS_SECONDS: Final = 1.0
LEARNT_PART: Final = 1 / 8
#: What tenants that come late are leased beside what fits.
MOST_OVER: Final = 2


def store_cost(seconds: float, cpu_seconds: float) -> float:
    """Return the seconds of a worker that storing took: of its places, or of its processor.

    >>> store_cost(0.3, 0.01), store_cost(0.3, 0.25)
    (0.09999999999999999, 0.25)
    """
    return max(seconds / SETTLED_QUEUES, cpu_seconds)


def places(limits: FleetLimits) -> int:
    """Return how many requests a worker has in flight: more would only wait."""
    return limits.concurrency + 3 * limits.batch


class TenantShares:
    """The shares of one worker's tenants in its time. Threads may call this."""

    def __init__(self, steady: SteadyTime) -> None:
        self._now = steady.now
        self._at = steady.now()
        self._lock = threading.Lock()
        self._fair = FairShares[str]()
        self._shares: dict[str, float] = {}
        self._running: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._guess: dict[str, float] = {}
        #: How many runners there are; the worker changes it as its configuration does.
        self.runners = 1

    def spend(self, queue_key: QueueKey, phase: str, seconds: float) -> None:
        """Charge a phase of the work; what runners wait for is charged as it passes."""
        if phase in WHOLE:
            self.charge(queue_key.tenant, seconds)

    def charge(self, tenant: str, cost: float) -> None:
        """Charge seconds of the worker."""
        with self._lock:
            self._charge(tenant, cost)

    def began(self, tenant: str) -> None:
        """Note that a runner has begun with a request."""
        with self._lock:
            self._pass()
            self._running[tenant] += 1

    def ended(self, tenant: str, seconds: float) -> None:
        """Note that a runner is free again, after so long."""
        with self._lock:
            self._pass()
            self._running[tenant] -= 1
            if not self._running[tenant]:
                del self._running[tenant]
            before = self._guess.get(tenant, GUESS_SECONDS)
            self._guess[tenant] = before + (seconds - before) * LEARNT_PART

    def holds(self, tenant: str, change: int) -> None:
        """Note that a tenant's outcomes that are to be written take so many bytes more, or less."""
        with self._lock:
            self._pass()
            self._bytes[tenant] += change
            if not self._bytes[tenant]:
                del self._bytes[tenant]

    def order(self, tree: Tree, ready: Iterable[str], in_flight: Mapping[str, int]) -> list[str]:
        """Return the tenants with work that is ready: first the one that took least."""
        with self._lock:
            self._pass()
            shares = self._shares = {one: share_of(tree, one) for one in (*ready, *in_flight)}
            self._guess = {one: at for one, at in self._guess.items() if one in shares}
            working = {one: shares[one] for one in ready}
            return self._fair.order(working, self._guesses(in_flight))

    def share(self, tenant: str) -> float:
        """Return the share of a tenant, as it was when tenants were last put in order."""
        return self._shares.get(tenant, 1.0)

    def part(self, tenant: str, among: Iterable[str]) -> float:
        """Return the part of a tenant of what it and others divide, from 0 to 1."""
        share = self.share(tenant)
        return share / (share + sum(self.share(one) for one in among if one != tenant))

    def first(self, tenants: Iterable[str]) -> str:
        """Return the tenant that took least, of those of which something waits for a runner."""
        found = tuple(tenants)
        if len(found) == 1:
            return found[0]
        with self._lock:
            self._pass()
            guesses = self._guesses(self._running)

            def key(one: str) -> float:
                return self._fair.taken(one) + guesses.get(one, 0.0) / self._shares.get(one, 1.0)

            return min(found, key=key)

    def passed(self, tenant: str) -> None:
        """Note that nothing came of whose turn it was."""
        with self._lock:
            self._fair.passed(tenant)

    def lull(self) -> None:
        """Forget who is ahead: nobody had anything to take."""
        with self._lock:
            self._fair.lull()

    def _guesses(self, counts: Mapping[str, int]) -> dict[str, float]:
        seconds = self._guess
        return {
            one: count * seconds.get(one, GUESS_SECONDS) / self.runners
            for one, count in counts.items()
        }

    def _pass(self) -> None:
        """Charge the seconds of runners and of memory since this was last called."""
        now = self._now()
        passed, self._at = now - self._at, now
        for tenant, count in self._running.items():
            self._charge(tenant, count * passed / self.runners)
        for tenant, count in self._bytes.items():
            self._charge(tenant, count * passed / HEAVY_BYTES)

    def _charge(self, tenant: str, cost: float) -> None:
        self._fair.spend(tenant, self._shares.get(tenant, 1.0), cost)


class TenantSlots:
    """Slots that tenants have for a while; a free one goes to who took least of those that wait.

    While several tenants have work none has the last slot: who comes next never waits for all that
    another one has begun. With ``parts`` none has more than its part either, by its share, while
    others want theirs. Used from one event loop.
    """

    def __init__(
        self,
        count: int,
        first: Callable[[Iterable[str]], str],
        is_shared: Callable[[], bool],
        share: Callable[[str], float] = lambda _: 1.0,
        parts: FairParts[str] | None = None,
    ) -> None:
        self._count, self._first, self._is_shared = count, first, is_shared
        self._share, self._parts = share, parts
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[None]:
        """Have a slot, once there is one for this tenant."""
        coming = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(coming)
        self._hand_out()
        try:
            await coming
        except asyncio.CancelledError:
            if coming.done() and not coming.cancelled():
                self._leave(tenant)
            else:
                self._forget(tenant, coming)
            raise
        try:
            yield
        finally:
            self._leave(tenant)

    def _leave(self, tenant: str) -> None:
        self._held[tenant] -= 1
        self._hand_out()

    def _forget(self, tenant: str, coming: "asyncio.Future[None]") -> None:
        part = self._waiting[tenant]
        part.remove(coming)
        if not part:
            del self._waiting[tenant]

    def _hand_out(self) -> None:
        free = self._count - self._held.total()
        while free > 0:
            most = max(1, self._count - 1) if self._is_shared() else self._count
            able = [one for one in self._able() if self._held[one] < most]
            if not able:
                return
            tenant = self._first(able)
            coming = self._waiting[tenant][0]
            self._forget(tenant, coming)
            self._held[tenant] += 1
            free -= 1
            coming.set_result(None)

    def _able(self) -> Collection[str]:
        if self._parts is None:
            return self._waiting
        waiting = {one: len(part) for one, part in self._waiting.items()}
        return self._parts.able(self._count, self._held, waiting, self._share)


def is_full(in_flight: Mapping[str, int], waiting: Mapping[str, int], limits: FleetLimits) -> bool:
    """Tell whether more would only wait, of those in flight or of those that could begin now."""
    return sum(in_flight.values()) >= places(limits) or sum(waiting.values()) >= limits.batch


def rooms(
    tree: Tree,
    ready: Iterable[str],
    in_flight: Mapping[str, int],
    waiting: Mapping[str, int],
    limits: FleetLimits,
) -> dict[str, int]:
    """Return how many more requests each tenant with work is leased at once, if any.

    That is a batch. Once the worker is full it is what is left of the tenant's part, of those in
    flight, and nothing where its part of those that could begin now waits already.

    >>> from crawlfleet.config.documents.biz import Stage
    >>> tree = Tree(revision="", stage=Stage(), tenants={}, bizs={})
    >>> limits = FleetLimits(concurrency=40, batch=20)
    >>> rooms(tree, ["a", "b"], {"a": 99}, {}, limits)
    {'a': 20, 'b': 20}
    >>> rooms(tree, ["a", "b"], {"a": 100, "b": 40}, {}, limits)
    {'b': 10}
    """
    if not is_full(in_flight, waiting, limits):
        return dict.fromkeys(ready, limits.batch)
    there, fits = tuple(ready), places(limits)
    over = min(limits.batch, fits * MOST_OVER - sum(in_flight.values()))
    shares = {one: share_of(tree, one) for one in {*there, *in_flight}}
    whole = sum(shares.values())
    left = {
        one: min(over, int(fits * shares[one] / whole) - in_flight.get(one, 0))
        for one in there
        if waiting.get(one, 0) * whole < limits.batch * shares[one]
    }
    return {one: room for one, room in left.items() if room > 0}
