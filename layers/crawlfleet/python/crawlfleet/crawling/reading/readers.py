"""Choose, of the processes that read pages, the one that is asked next (SPEC.md H5).

All pages go to one reader. Those of a tenant whose pages take long keep no other tenant's waiting:
that reader is left to them, at less of the processor, and others get another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import Final

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.documents.stage import ReadingLimits
from crawlfleet.crawling.reading import arena, messages
from crawlfleet.crawling.reading.channel import CPU, MEMORY, BlamedError, Channel, LostError
from crawlfleet.crawling.reading.defences import OK
from crawlfleet.crawling.reading.spawner import Spawner, no_reader
from crawlfleet.kernel.errors import ReaderKilledError

#: A page may take so many times its CPU seconds by the clock: others work on the machine, too.
WALL_RATIO: Final = 4
#: Pages of another tenant are waited for so long, if each of them takes that long.
HELD_UP_SECONDS: Final = 0.25
LONG_SECONDS: Final = 0.05
_log: Final = logging.getLogger(__name__)


class Readers:
    """The readers of one event loop.

    ``limits`` are those in force now; a reader begun under others is replaced. None gets more than
    ``most_memory_mb``.
    """

    def __init__(
        self,
        spawner: Spawner,
        limits: Callable[[], ReadingLimits] = ReadingLimits,
        most_memory_mb: int | None = None,
        wall_seconds: float | None = None,
    ) -> None:
        self._spawner = spawner
        self._limits = limits
        self._most_memory_mb = most_memory_mb
        self._wall_seconds = wall_seconds
        self._numbers = count(1)
        self._is_closed = False
        self._main: Channel | None = None
        self._slow: Channel | None = None  # A reader of long pages, and whose they are.
        self._slow_tenant = ""
        self._channels: set[Channel] = set()
        self._starting = asyncio.Lock()
        self.alone = asyncio.Lock()  #: Whoever has it has a reader to itself.
        self._written: dict[int, tuple[Rule | Spider, bytes]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.defences: dict[str, str] = {}  #: By name, ``ok`` or why it does not hold.

    def start(self) -> None:
        """Start what forks readers."""
        self._spawner.start()

    async def close(self) -> None:
        """End all readers."""
        self._is_closed = True
        for channel in tuple(self._channels):
            await channel.close()

    def killed(self, error: BlamedError) -> ReaderKilledError:
        """Make the error of a page that has ended its reader."""
        shown = {
            CPU: f": reading it took more than {self._limits().cpu_seconds} CPU seconds",
            MEMORY: f": reading it took more than {self._memory_mb()} MB of memory",
        }.get(error.limit, f": its reader {error.why}")
        # Of a page that ended its reader otherwise nobody knows what it took.
        seconds = float(self._limits().cpu_seconds) if error.limit == CPU else 0.0
        why = f"ended the process that reads pages{shown}"
        return ReaderKilledError(error.limit, why, seconds)

    async def is_held_up(
        self, channel: Channel, answer: asyncio.Future[messages.Answer], tenant: str, before: int
    ) -> bool:
        """Wait for an answer, but not for long pages of others: these get a reader alone.

        ``before`` is how many pages of others were asked about before it.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not (await asyncio.wait((answer,), timeout=HELD_UP_SECONDS))[0]:
            gone = before - channel.others_before(tenant, answer)
            if loop.time() - began < LONG_SECONDS * (gone + 1):
                continue
            other = channel.held_up_by(tenant)
            if other and channel is self._main and not self._is_slow_busy():
                self._set_slow(channel, other)
            if other and channel is self._slow and tenant != self._slow_tenant:
                # That reader goes on in order: it reads this page, too, for nobody.
                answer.add_done_callback(lambda done: done.cancelled() or done.exception())
                return True
        return False

    def _is_slow_busy(self) -> bool:
        return self._slow is not None and self._slow.alive and not self._slow.is_idle

    def _set_slow(self, channel: Channel, tenant: str) -> None:
        """Leave a reader to the tenant of long pages; others come before it at the processor."""
        last, self._main = self._slow, None
        self._slow, self._slow_tenant = channel, tenant
        channel.yield_to_others()
        if last is not None:
            last.retiring = True
            self.retire(last)

    async def channel(self, tenant: str = "") -> Channel:
        """Return the reader that pages of a tenant are given to, a new one if need be."""
        slow = self._slow
        if tenant and tenant == self._slow_tenant and slow is not None:
            if self._serves(slow):
                return slow
            self._slow, slow.retiring = None, True
            self.retire(slow)
        main = self._main
        if main is not None and self._serves(main):
            return main
        async with self._starting:
            main = self._main
            if main is not None and self._serves(main):
                return main
            self._main = await self.forked()
            if main is not None and main.alive:
                main.retiring = True
                self.retire(main)
            return self._main

    def _serves(self, channel: Channel) -> bool:
        """Tell whether a reader lives, has limits that are in force, and may read more."""
        limits = self._limits()
        if limits is not channel.limits:
            if limits != channel.limits:
                return False
            channel.limits = limits
        return channel.alive and channel.pages < limits.pages

    def _memory_mb(self) -> int:
        return min(self._limits().memory_mb, self._most_memory_mb or 1_000_000)

    async def forked(self) -> Channel:
        """Return a new reader; raises NoReaderError."""
        if self._is_closed:
            raise no_reader("the worker ends")
        limits = self._limits()
        wall_seconds = self._wall_seconds or limits.cpu_seconds * WALL_RATIO
        bodies = arena.made()
        try:
            ours, pid = await self._spawner.fork(
                limits.cpu_seconds, self._memory_mb(), None if bodies is None else bodies.fd
            )
        except BaseException:
            if bodies is not None:
                bodies.close()
            raise
        channel = Channel(ours, bodies, lambda: self._end(pid), limits, wall_seconds, pid)
        self._channels.add(channel)
        try:
            hello = await channel.expect(0, (messages.Hello,))
        except (BlamedError, LostError) as error:
            raise no_reader(f"it {error}") from None
        except asyncio.CancelledError:
            self.close_soon(channel)
            raise
        if isinstance(hello, messages.Hello) and not self.defences:
            self.defences = hello.defences
            missing = {name: why for name, why in hello.defences.items() if why != OK}
            if missing:
                _log.info("defences that readers of pages lack here", extra={"missing": missing})
        return channel

    async def _end(self, pid: int) -> int:
        status = await self._spawner.end(pid)
        self._channels = {one for one in self._channels if one.alive}
        return status

    def retire(self, channel: Channel) -> None:
        """Close a reader that has read enough once nobody waits for it."""
        if channel.retiring and channel.alive and channel.is_idle:
            self.close_soon(channel)

    def close_soon(self, channel: Channel) -> None:
        """Close a reader without waiting for it."""
        closing = asyncio.get_running_loop().create_task(channel.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def number(self) -> int:
        """Return the number of the next question."""
        return next(self._numbers)

    def wire(self, reader: Rule | Spider) -> bytes:
        """Write a reader; those in force are written once."""
        known = self._written.get(id(reader))
        if known is not None and known[0] is reader:
            return known[1]
        if len(self._written) >= messages.SLICE:
            self._written.clear()
        wire = messages.written(reader)
        self._written[id(reader)] = reader, wire
        return wire
