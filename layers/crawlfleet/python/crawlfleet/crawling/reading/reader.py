"""Read pages in a process of their own (SPEC.md H5): the worker's side.

The worker speaks HTTP and hands on what came; the reader parses it by rule or spider, and gives
records and links, which are decoded within bounds and checked as if a stranger had sent them. A
page that ends its reader is a ReaderKilledError; all others are read again by the next reader, and
nobody counts an attempt. Where no reader can be started nothing is read: NoReaderError.

Which reader is asked is told by :mod:`crawlfleet.crawling.reading.readers`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self

from msgspec.structs import replace

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.documents.stage import ReadingLimits
from crawlfleet.crawling.executors.base import LINK_DEPTH_MAX, LINKS_MAX, Owner
from crawlfleet.crawling.executors.masking import masked, masked_error
from crawlfleet.crawling.reading import messages
from crawlfleet.crawling.reading.begun import BegunPage, failure_of, link_problem
from crawlfleet.crawling.reading.channel import CPU, CRASH, BlamedError, LostError
from crawlfleet.crawling.reading.in_worker import WorkerExecutors, WorkerPage
from crawlfleet.crawling.reading.readers import Readers
from crawlfleet.crawling.reading.spawner import Spawner
from crawlfleet.kernel.errors import Problem, ReaderKilledError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.redaction import NO_SECRETS, Mask
from crawlfleet.requests.models import Body, Harvest, Link, Skipped, Trial

#: Headers that rules read.
_READ_HEADERS: Final = ("content-type", "x-robots-tag")


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
        self._readers = Readers(spawner, limits, most_memory_mb, wall_seconds)
        self._in_worker = in_worker

    @property
    def defences(self) -> dict[str, str]:
        """Tell of each defence of a reader ``ok`` or why it does not hold; nothing before one."""
        return self._readers.defences

    async def __aenter__(self) -> Self:
        self._readers.start()  # it loads parsers while stores are connected to
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._readers.close()

    async def ready(self) -> None:
        """Have a reader ready; raises NoReaderError where none can be had."""
        await self._readers.channel()

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
        question = messages.ByRule(self._readers.number(), self._readers.wire(rule), facts)
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
        begun = BegunPage(self._readers, spider, page, body, mask, owner)
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
            self._readers.number(), wire if is_rule else b"", b"" if is_rule else wire, facts, owner
        )
        answer = await self._answer(question, page.body)
        if not isinstance(answer, messages.Tried):
            raise masked_error(failure_of(answer), mask)
        _check_links(answer.trial.links, max(body.depth + 1, LINK_DEPTH_MAX))
        trial = replace(answer.trial, records=answer.records)
        return _masked_trial(trial, mask) if mask else trial

    async def checked(self, reader: Rule | Spider) -> list[Problem]:
        """List the errors that parsers find in a rule or a spider; raises as :meth:`tried`."""
        is_spider = isinstance(reader, Spider)
        question = messages.Check(self._readers.number(), messages.written(reader), is_spider)
        answer = await self._answer(question, b"")
        if not isinstance(answer, messages.Checked):
            raise failure_of(answer)
        return list(answer.problems)

    async def _answer(
        self, question: messages.Question, content: bytes, tenant: str = ""
    ) -> messages.Answer:
        """Ask any reader, and another one alone where it has died of this, by chance perhaps."""
        while True:
            channel = await self._readers.channel(tenant)
            before = channel.others_before(tenant)
            try:
                answer = channel.ask(question, content, tenant)
                if before and await self._readers.is_held_up(channel, answer, tenant, before):
                    continue
                return await answer
            except LostError:
                continue
            except BlamedError as error:
                if error.limit == CPU:
                    raise self._readers.killed(error) from None
                break
            finally:
                self._readers.retire(channel)
        async with self._readers.alone:
            while True:
                channel = await self._readers.forked()
                try:
                    return await channel.ask(question, content)
                except LostError:
                    continue
                except BlamedError as error:
                    raise self._readers.killed(error) from None
                finally:
                    await channel.close()


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
