"""How many downloads of this worker may be under way at one host at once.

The fleet-wide limit is another matter; this one keeps a single worker from opening dozens of
connections to one site.
"""

import asyncio
from collections import deque


class _Host:
    __slots__ = ("free", "waiting")

    def __init__(self, limit: int) -> None:
        self.free = limit
        self.waiting: deque[asyncio.Future[None]] = deque()


class HostSlots:
    """Slots by host and limit: bizs with different limits for a host do not share slots.

    First come, first served. A host takes memory only while it is used or waited for. A semaphore
    for each host would do the same at several times the cost of a free slot, the common case.
    """

    def __init__(self) -> None:
        self._hosts: dict[tuple[str, int], _Host] = {}

    def take(self, key: tuple[str, int]) -> bool:
        """Take a slot of ``(host, limit)`` if one is free; else :meth:`wait` for it."""
        host = self._hosts.get(key)
        if host is None:
            host = self._hosts[key] = _Host(key[1])
        if host.free <= 0:
            return False
        host.free -= 1
        return True

    async def wait(self, key: tuple[str, int]) -> None:
        """Wait until a slot has been handed over."""
        turn = asyncio.get_running_loop().create_future()
        self._hosts[key].waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(key)  # it was handed over in the same moment
            raise

    def leave(self, key: tuple[str, int]) -> None:
        """Give a slot back: to the one who has waited longest, if anyone has."""
        host = self._hosts[key]
        while host.waiting:
            turn = host.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        host.free += 1
        if host.free == key[1]:
            del self._hosts[key]

    def __len__(self) -> int:
        return len(self._hosts)
