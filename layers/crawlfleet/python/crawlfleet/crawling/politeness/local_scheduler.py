"""When a held request may begin: its turn at its host has come, and a permit there is free.

The fleet's word on both comes with the grants (flows.politeness); here is the worker's own part of
it, which costs nothing while nobody has to wait.
"""

import asyncio
import heapq
from collections import deque
from itertools import count
from typing import Final, TypeAlias

from crawlfleet.kernel.time import STEADY, SteadyTime
from crawlfleet.requests.leased import LeasedRequest

#: A host as one tenant's requests see it.
HostKey: TypeAlias = tuple[str, str]
#: Timers are not exact; a turn that is this near has come.
_NEAR_SECONDS: Final = 0.002
#: One that begins with no more delay than this began in time.
_IN_TIME_SECONDS: Final = 0.01


class _Host:
    __slots__ = ("blocked", "next_at", "permits", "running", "slots")

    def __init__(self) -> None:
        self.permits = 1
        self.running = 0
        #: Nothing begins before: turns that come late keep their distance.
        self.next_at = 0.0
        #: Requests that have a turn and have not begun.
        self.slots = 0
        self.blocked: deque[LeasedRequest] = deque()


class LocalScheduler:
    """The order in which runners begin what is held. Used from the event loop only.

    ``ready`` is what runners take from; for each request that they take, :meth:`end` follows.
    """

    def __init__(self, steady: SteadyTime = STEADY) -> None:
        self._now = steady.now
        self.ready: asyncio.Queue[LeasedRequest | None] = asyncio.Queue()
        self._hosts: dict[HostKey, _Host] = {}
        self._timed: list[tuple[float, int, LeasedRequest]] = []
        # Where each that is under way is: redirects lead to other hosts.
        self._places: dict[LeasedRequest, HostKey] = {}
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    @property
    def waiting(self) -> int:
        """How many could begin now and have no runner."""
        return self.ready.qsize()

    def running(self, key: HostKey, but: LeasedRequest | None = None) -> int:
        """How many ``but`` this one are under way, or have a turn; may be called from any thread.

        Who goes on at its host needs no second permit there: it would wait for itself.
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
        """Up to so many hosts of :meth:`busy`. May be called from any thread."""
        return tuple(self._hosts)[:most]

    def add(self, held: LeasedRequest) -> None:
        """A request that has a turn, or is not to wait for one."""
        host = self._hosts.get(held.host)
        if host is None:
            host = self._hosts[held.host] = _Host()
        host.permits = max(1, held.permits)
        host.slots += 1
        if held.slot_at is None or held.slot_at <= self._now() + _NEAR_SECONDS:
            self._come(host, held)
        else:
            self._wait(held, held.slot_at)

    def end(self, held: LeasedRequest) -> None:
        """A request that a runner took is over, however it ended."""
        key = self._places.pop(held)
        host = self._hosts[key]
        host.running -= 1
        for _ in range(min(len(host.blocked), host.permits - host.running)):
            self._come(host, host.blocked.popleft())
        if not host.running and not host.slots:
            del self._hosts[key]

    def go_on(self, held: LeasedRequest, key: HostKey) -> None:
        """A request under way goes on at a host where it has got a turn, and leaves the last."""
        if self._places.get(held, key) == key:
            return
        self.end(held)
        self._hosts.setdefault(key, _Host()).running += 1
        self._places[held] = key

    def close(self, runners: int) -> None:
        """No more comes: each of the runners finds that out when it has nothing left to take."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _ in range(runners):
            self.ready.put_nowait(None)

    def _come(self, host: _Host, held: LeasedRequest) -> None:
        if host.running >= host.permits:
            host.blocked.append(held)
            return
        now = self._now()
        if host.next_at > now + _NEAR_SECONDS:
            self._wait(held, host.next_at)
            return
        # A turn that comes in time sets the pace, not the timer's little delay.
        slot_at = held.slot_at
        begun_at = now if slot_at is None or now - slot_at > _IN_TIME_SECONDS else slot_at
        host.next_at = begun_at + held.interval_seconds
        host.slots -= 1
        host.running += 1
        self._places[held] = held.host
        self.ready.put_nowait(held)

    def _wait(self, held: LeasedRequest, until: float) -> None:
        heapq.heappush(self._timed, (until, next(self._order), held))
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
        for held in come:
            self._come(self._hosts[held.host], held)
        if self._timed:
            self._set_timer()
