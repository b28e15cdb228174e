"""Read pages in a process of their own (SPEC.md H5): the worker's side.

The worker speaks HTTP and hands on what came; the reader parses it by rule or spider, and gives
records and links, which are decoded within bounds and checked as if a stranger had sent them. A
page that ends its reader is a ReaderKilledError; all others are read again by the next reader, and
nobody counts an attempt. Where no reader can be started nothing is read: NoReaderError.

A page that takes long keeps no other tenant's waiting: these get another reader, the first is its.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from types import TracebackType
from typing import Any, Final, Self

from msgspec.structs import replace

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.documents.stage import ReadingLimits
from crawlfleet.crawling.executors.base import LINK_DEPTH_MAX, LINKS_MAX, Owner
from crawlfleet.crawling.executors.masking import masked, masked_error
from crawlfleet.crawling.reading import arena, messages
from crawlfleet.crawling.reading.begun import BegunPage, failure_of, link_problem
from crawlfleet.crawling.reading.channel import CPU, CRASH, MEMORY, BlamedError, Channel, LostError
from crawlfleet.crawling.reading.defences import OK
from crawlfleet.crawling.reading.in_worker import WorkerExecutors, WorkerPage
from crawlfleet.crawling.reading.spawner import Spawner, no_reader
from crawlfleet.kernel.errors import Problem, ReaderKilledError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.redaction import NO_SECRETS, Mask
from crawlfleet.requests.models import Body, Harvest, Link, Skipped, Trial

#: A page may take so many times its CPU seconds by the clock: others work on the machine, too.
WALL_RATIO: Final = 4
#: Pages of another tenant are waited for so long, if each of them takes that long.
HELD_UP_SECONDS: Final = 0.25
LONG_SECONDS: Final = 0.05
#: Headers that rules read.
_READ_HEADERS: Final = ("content-type", "x-robots-tag")
_log: Final = logging.getLogger(__name__)


class PageReader:
    """Reads pages, for one event loop; a context manager.

    ``limits`` are those in force now; a reader begun under others is replaced. None gets more than
    ``most_memory_mb``. ``in_worker`` are executors that read where they are not kept from anything.
    """

    def __init__(
        self,
        spawner: Spawner,
        limits: Callable[[], ReadingLimits] = ReadingLimits,
        most_memory_mb: int | None = None,
        wall_seconds: float | None = None,
        in_worker: WorkerExecutors | None = None,
    ) -> None:
        self._spawner = spawner
        self._in_worker = in_worker
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

    async def __aenter__(self) -> Self:
        self._spawner.start()  # it loads parsers while stores are connected to
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closed = True
        for channel in tuple(self._channels):
            await channel.close()

    async def ready(self) -> None:
        """Have a reader ready; raises NoReaderError where none can be had."""
        await self.channel()

    async def harvest(
        self, rule: Rule, page: Page, body: Body, tenant: str = ""
    ) -> tuple[Harvest, float]:
        """Read a page of a ``tenant`` by a rule.

        Return what it gives, and the CPU seconds that took. Raises:
            ExtractError: names what could not be read.
            ReaderKilledError: reading it ended the reader.
            NoReaderError: no reader can be started.
        """
        headers = {name: text for name in _READ_HEADERS if (text := page.headers.get(name))}
        facts = messages.PageFacts.of(page, body, headers=headers)
        question = messages.ByRule(self.number(), self.wire(rule), facts)
        answer = await self._answer(question, page.body, tenant)
        if not isinstance(answer, messages.Harvested):
            raise failure_of(answer)
        _check_links(answer.links, body.depth + 1)
        records: tuple[Any, ...] = answer.records
        return Harvest(
            records=records, links=answer.links, coverage=answer.coverage
        ), answer.seconds

    @asynccontextmanager
    async def begin(
        self,
        spider: Spider,
        page: Page,
        body: Body,
        mask: Mask = NO_SECRETS,
        owner: Owner = ("", ""),
    ) -> AsyncIterator[BegunPage | WorkerPage]:
        """Begin to read a page by a spider, whose secrets are the mask's.

        The reader holds all of it until the context ends: whoever begins bounds how many.
        """
        if self._in_worker is not None and self._in_worker.has(spider):
            yield self._in_worker.begin(spider, page, body, mask, owner)
            return
        begun = BegunPage(self, spider, page, body, mask, owner)
        try:
            yield begun
        finally:
            begun.leave()

    async def tried(
        self,
        reader: Rule | Spider,
        page: Page,
        body: Body,
        mask: Mask = NO_SECRETS,
        owner: Owner = ("", ""),
    ) -> Trial:
        """Try a rule or a spider on a page; raises as :meth:`harvest`, but for ExtractError."""
        facts, wire = messages.PageFacts.of(page, body), messages.written(reader)
        is_rule = isinstance(reader, Rule)
        question = messages.Try(
            self.number(), wire if is_rule else b"", b"" if is_rule else wire, facts, owner
        )
        answer = await self._answer(question, page.body)
        if not isinstance(answer, messages.Tried):
            raise masked_error(failure_of(answer), mask)
        _check_links(answer.trial.links, max(body.depth + 1, LINK_DEPTH_MAX))
        trial = replace(answer.trial, records=answer.records)
        return _masked_trial(trial, mask) if mask else trial

    async def checked(self, rule: Rule) -> list[Problem]:
        """List the errors that parsers find in a rule; raises as :meth:`tried`."""
        question = messages.Check(self.number(), messages.written(rule))
        answer = await self._answer(question, b"")
        if not isinstance(answer, messages.Checked):
            raise failure_of(answer)
        return list(answer.problems)

    async def _answer(
        self, question: messages.Question, content: bytes, tenant: str = ""
    ) -> messages.Answer:
        """Ask any reader, and another one alone where it has died of this, by chance perhaps."""
        while True:
            channel = await self.channel(tenant)
            before = channel.others_before(tenant)
            try:
                answer = channel.ask(question, content, tenant)
                if before and await self.is_held_up(channel, answer, tenant, before):
                    continue
                return await answer
            except LostError:
                continue
            except BlamedError as error:
                if error.limit == CPU:
                    raise self.killed(error) from None
                break
            finally:
                self.retire(channel)
        async with self.alone:
            while True:
                channel = await self.forked()
                try:
                    return await channel.ask(question, content)
                except LostError:
                    continue
                except BlamedError as error:
                    raise self.killed(error) from None
                finally:
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


def _check_links(links: tuple[Link, ...], deepest: int) -> None:
    """Refuse links that no rule gives: whoever has sent them is no reader of ours any more."""
    if len(links) > LINKS_MAX or any(link_problem(link, deepest) is not None for link in links):
        raise ReaderKilledError(CRASH, "its reader gave links that nobody can request")


def _masked_trial(trial: Trial, mask: Mask) -> Trial:
    found = list(masked(iter((*trial.records, *trial.links)), mask))
    left_out = [str(one) for one in found if isinstance(one, Skipped)]
    return replace(
        trial,
        records=tuple(one for one in found if not isinstance(one, Link | Skipped)),
        links=tuple(one for one in found if isinstance(one, Link)),
        left_out=tuple(map(mask.text, (*trial.left_out, *left_out))),
        left_out_count=trial.left_out_count + len(left_out),
        problems=tuple(Problem(mask.text(p.field), mask.text(p.message)) for p in trial.problems),
    )
