"""Begin leased requests when their host slots have come and a permit is free.

Nothing here asks Redis: what the fleet grants is in each request, and this worker keeps to it.
"""

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from itertools import count
from typing import Final, TypeAlias

from crawlfleet.kernel.fairness import FairParts
from crawlfleet.kernel.time import STEADY, SteadyTime
from crawlfleet.requests.leased import LeasedRequest

#: A host and a tenant.
HostKey: TypeAlias = tuple[str, str]
#: Timers are not exact: a slot this near has come.
_NEAR_SECONDS: Final = 0.002
#: A request that begins with no more delay than this began in time.
_IN_TIME_SECONDS: Final = 0.01


class _Host:
    __slots__ = ("blocked", "next_at", "permits", "running", "slots")

    def __init__(self) -> None:
        self.permits, self.running = 1, 0
        #: Nothing begins before: late slots keep their distance.
        self.next_at = 0.0
        #: Requests that have a slot and have not begun.
        self.slots = 0
        self.blocked: deque[LeasedRequest] = deque()


#: Chooses the tenant that has the next runner, of those of which something waits for one.
First: TypeAlias = Callable[[Iterable[str]], str]
#: Returns the share of a tenant.
Share: TypeAlias = Callable[[str], float]


def first_come(tenants: Iterable[str]) -> str:
    """Choose the tenant of which something has waited first."""
    return next(iter(tenants))


def same_share(_: str) -> float:
    """Give all tenants one share."""
    return 1.0


class _Ready:
    """The requests that wait for a runner; each tenant's in their order.

    A tenant that has its part of the runners has no more of them while others may want theirs.
    None ends a runner, once as many were taken as had come before it.
    """

    def __init__(self, now: Callable[[], float], first: First, share: Share) -> None:
        self._first, self._share = first, share
        self._parts = FairParts[str](now)
        self._of: dict[str, deque[LeasedRequest]] = {}
        self._running: Counter[str] = Counter()
        self._ends: deque[int] = deque()
        self._came = self._went = 0
        self._getters: deque[asyncio.Future[None]] = deque()
        #: How many runners there are; 0 where nobody counts them.
        self.runners = 0

    def waiting(self) -> dict[str, int]:
        """Count the requests by tenant."""
        return {tenant: len(part) for tenant, part in self._of.items()}

    def empty(self) -> bool:
        """Tell whether there is nothing to take now."""
        return not self._is_end() and not self._able()

    def put_nowait(self, item: LeasedRequest | None) -> None:
        """Add a request, or None."""
        if item is None:
            self._ends.append(self._came)
        else:
            self._came += 1
            _, tenant = item.host
            self._of.setdefault(tenant, deque()).append(item)
        self._wake()

    async def get(self) -> LeasedRequest | None:
        """Take the next one, once there is one."""
        while True:
            with suppress(asyncio.QueueEmpty):
                return self.get_nowait()
            coming = asyncio.get_running_loop().create_future()
            self._getters.append(coming)
            try:
                await coming
            except asyncio.CancelledError:
                if coming.done() and not coming.cancelled():
                    self._wake()
                else:
                    self._getters.remove(coming)
                raise

    def get_nowait(self) -> LeasedRequest | None:
        """Take the next one; raises QueueEmpty."""
        if self._is_end():
            self._ends.popleft()
            return None
        able = self._able()
        if not able:
            raise asyncio.QueueEmpty
        tenant = self._first(able)
        part = self._of[tenant]
        self._went += 1
        self._running[tenant] += 1
        leased = part.popleft()
        if not part:
            del self._of[tenant]
        return leased

    def ended(self, leased: LeasedRequest) -> None:
        """Note that the runner of a request is free again."""
        _, tenant = leased.host
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        if self._of:
            # Those for whom a runner was kept may want it no more.
            self._wake()

    def _is_end(self) -> bool:
        return bool(self._ends) and self._ends[0] <= self._went

    def _able(self) -> Collection[str]:
        """Return the tenants whose requests may begin now."""
        if not self.runners or self._ends or not self._of:
            return self._of  # runners that are to end take what there is, whose it may be
        return self._parts.able(self.runners, self._running, self.waiting(), self._share)

    def _wake(self) -> None:
        while self._getters:
            coming = self._getters.popleft()
            if not coming.done():
                coming.set_result(None)
                return


class LocalScheduler:
    """Order the leased requests of a worker by their slots. Used from the event loop only.

    Runners take from ``ready``; for each request that they take, :meth:`end` follows. Of those that
    wait for a runner ``first`` chooses the tenant whose turn it is, of those that have not their
    part of the runners by their ``share``.
    """

    def __init__(
        self,
        steady: SteadyTime = STEADY,
        first: First = first_come,
        share: Share = same_share,
    ) -> None:
        self._now = steady.now
        self.ready = _Ready(steady.now, first, share)
        self._hosts: dict[HostKey, _Host] = {}
        self._timed: list[tuple[float, int, LeasedRequest]] = []
        # The host of each request in flight: redirects lead to other hosts.
        self._places: dict[LeasedRequest, HostKey] = {}
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def waiting(self) -> dict[str, int]:
        """Count the requests that could begin now and have no runner, by tenant."""
        return self.ready.waiting()

    def running(self, key: HostKey, but: LeasedRequest | None = None) -> int:
        """Count the requests in flight or with a slot; ``but`` one. Safe in any thread.

        A request that goes on at its host needs no second permit there: it would wait for itself.
        """
        host = self._hosts.get(key)
        if host is None:
            return 0
        own = but is not None and self._places.get(but) == key
        return max(0, host.running + host.slots - own)

    def busy(self) -> dict[HostKey, int]:
        """:meth:`running` of every host that has any."""
        return {key: host.running + host.slots for key, host in self._hosts.items()}

    def hosts(self, most: int) -> tuple[HostKey, ...]:
        """Get up to so many hosts of :meth:`busy`. Safe in any thread."""
        return tuple(self._hosts)[:most]

    def add(self, leased: LeasedRequest) -> None:
        """Add a request that has a slot, or needs none."""
        host = self._hosts.get(leased.host)
        if host is None:
            host = self._hosts[leased.host] = _Host()
        host.permits = max(1, leased.permits)
        host.slots += 1
        if leased.slot_at is None or leased.slot_at <= self._now() + _NEAR_SECONDS:
            self._come(host, leased)
        else:
            self._wait(leased, leased.slot_at)

    def end(self, leased: LeasedRequest) -> None:
        """End a request that a runner took, however it ended."""
        self.ready.ended(leased)
        self._leave(leased)

    def _leave(self, leased: LeasedRequest) -> None:
        """Give back the permit of a request at its host."""
        key = self._places.pop(leased)
        host = self._hosts[key]
        host.running -= 1
        for _ in range(min(len(host.blocked), host.permits - host.running)):
            self._come(host, host.blocked.popleft())
        if not host.running and not host.slots:
            del self._hosts[key]

    def go_on(self, leased: LeasedRequest, key: HostKey) -> None:
        """Move a request in flight to a host where it has a slot; it leaves the last one."""
        if self._places.get(leased, key) == key:
            return
        self._leave(leased)
        self._hosts.setdefault(key, _Host()).running += 1
        self._places[leased] = key

    def close(self, runners: int) -> None:
        """End each runner once it has nothing left to take."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.retire(runners)

    def retire(self, runners: int) -> None:
        """End so many runners, once each has nothing left to take."""
        for _ in range(runners):
            self.ready.put_nowait(None)

    def _come(self, host: _Host, leased: LeasedRequest) -> None:
        if host.running >= host.permits:
            host.blocked.append(leased)
            return
        now = self._now()
        if host.next_at > now + _NEAR_SECONDS:
            self._wait(leased, host.next_at)
            return
        # A slot that comes in time sets the pace, not the timer's little delay.
        slot_at = leased.slot_at
        begun_at = now if slot_at is None or now - slot_at > _IN_TIME_SECONDS else slot_at
        host.next_at = begun_at + leased.interval_seconds
        host.slots -= 1
        host.running += 1
        self._places[leased] = leased.host
        self.ready.put_nowait(leased)

    def _wait(self, leased: LeasedRequest, until: float) -> None:
        heapq.heappush(self._timed, (until, next(self._order), leased))
        self._set_timer()

    def _set_timer(self) -> None:
        first = self._timed[0][0]
        if self._timer is not None:
            if self._rings_at <= first:
                return
            self._timer.cancel()
        self._rings_at = first
        delay = max(0.0, first - self._now())
        self._timer = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._now() + _NEAR_SECONDS
        come = []
        while self._timed and self._timed[0][0] <= now:
            come.append(heapq.heappop(self._timed)[2])
        for leased in come:
            self._come(self._hosts[leased.host], leased)
        if self._timed:
            self._set_timer()
