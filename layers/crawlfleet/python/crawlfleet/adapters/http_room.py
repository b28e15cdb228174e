"""How many bytes of bodies may be in flight together, over all downloads of one fetcher.

Each body has its own limit, but hundreds at once would still add up to more than a worker has.
"""

import asyncio
from collections import OrderedDict
from types import TracebackType
from typing import Final, Self

#: What a body asks for at a time.
STEP_BYTES: Final = 256 * 1024


class BodyRoom:
    """Room for bodies; whoever finds none waits, first come, first served.

    The body that has had room for the longest never waits, even where that takes more than there
    is. So somebody can always finish, and what is held is at most ``total`` and one body.
    """

    def __init__(self, total: int) -> None:
        self._free = total
        self._holders: dict[Share, None] = {}
        self._queue: OrderedDict[Share, tuple[int, asyncio.Future[None]]] = OrderedDict()

    def share(self) -> "Share":
        """A body's part of the room, a context manager; it takes nothing until it is grown."""
        return Share(self)

    @property
    def free(self) -> int:
        """Bytes left; below zero while the oldest body has gone beyond."""
        return self._free

    async def take(self, share: "Share", count: int) -> None:
        """Give ``count`` bytes to ``share``, or wait until that is possible."""
        if self._is_oldest(share) or (not self._queue and count <= self._free):
            self._grant(share, count)
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue[share] = count, turn
        try:
            await turn
        finally:
            if self._queue.pop(share, None):
                self._settle()  # gave up; those behind may need less than it did

    def leave(self, share: "Share") -> None:
        """Take back all that ``share`` has."""
        self._free += share.held
        share.held = 0
        self._holders.pop(share, None)
        self._settle()

    def _is_oldest(self, share: "Share") -> bool:
        return next(iter(self._holders), share) is share

    def _next(self) -> "Share":
        """Who of those that wait comes first: the oldest body, else the one that came first."""
        oldest = next(iter(self._holders), None)
        if oldest is not None and oldest in self._queue:
            return oldest
        return next(iter(self._queue))

    def _grant(self, share: "Share", count: int) -> None:
        self._free -= count
        share.held += count
        self._holders[share] = None

    def _settle(self) -> None:
        """Let those who wait have what there is now."""
        while self._queue:
            share = self._next()
            count, turn = self._queue[share]
            if not turn.done():
                if not self._is_oldest(share) and count > self._free:
                    return
                self._grant(share, count)
                turn.set_result(None)
            del self._queue[share]


class Share:
    """One body's part of the room. ``held`` is how many bytes it was given."""

    __slots__ = ("_room", "held")

    def __init__(self, room: BodyRoom) -> None:
        self._room = room
        self.held = 0

    async def grow(self, size: int, deadline: float) -> None:
        """Have room for ``size`` bytes in all.

        Raises:
            TimeoutError: there was none by ``deadline``, in the loop's time.
        """
        if size > self.held:
            count = -(-(size - self.held) // STEP_BYTES) * STEP_BYTES
            async with asyncio.timeout_at(deadline):
                await self._room.take(self, count)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.held:
            self._room.leave(self)
