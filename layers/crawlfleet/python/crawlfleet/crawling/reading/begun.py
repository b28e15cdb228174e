"""Pages that spiders read, slice by slice, as the worker has them read (SPEC.md H5)."""

from __future__ import annotations

from typing import Any

from crawlfleet.config.documents.rule import Spider
from crawlfleet.crawling.executors.base import LINK_DEPTH_MAX, Owner
from crawlfleet.crawling.executors.masking import masked, masked_error
from crawlfleet.crawling.reading import messages
from crawlfleet.crawling.reading.channel import CPU, BlamedError, Channel, LostError
from crawlfleet.crawling.reading.readers import Readers
from crawlfleet.kernel.errors import ExtractError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.redaction import Mask
from crawlfleet.kernel.urls import METHODS, problem_with
from crawlfleet.requests.models import Body, Link, Skipped


class BegunPage:
    """A page of a spider; what it gives is taken slice by slice.

    Where its reader dies of another page the next one begins again, and leaves out what was taken.
    """

    def __init__(
        self, reader: Readers, spider: Spider, page: Page, body: Body, mask: Mask, owner: Owner
    ) -> None:
        self._reader = reader
        self._spider = messages.written(spider) if mask else reader.wire(spider)
        self._content, self._mask, self._owner = page.body, mask, owner
        self._facts = messages.PageFacts.of(page, body)
        self._number = reader.number()
        self._taken = 0
        self._channel: Channel | None = None
        self._is_alone = False
        self._ended = False

    async def next(self, seconds: float) -> tuple[list[Any], bool, float]:
        """Return the next things, whether there may be more, and the CPU seconds they took.

        Raises as :meth:`reader.PageReader.harvest`; nothing that is given or raised holds a secret.
        """
        while True:
            try:
                channel = await self._at()
                question = messages.Next(self._reader.number(), self._number, seconds)
                answer = await self._ask(channel, question, b"")
            except LostError:
                self._forsake()
            except BlamedError as error:
                self._drop()
                if error.limit == CPU or self._is_alone:
                    raise self._reader.killed(error) from None
                await self._reader.alone.acquire()
                self._is_alone = True
            else:
                if isinstance(answer, messages.Slice):
                    return self._given(answer)
                self._ended = True
                raise masked_error(failure_of(answer), self._mask)

    def leave(self) -> None:
        """Have the reader forget the page."""
        channel = self._channel
        self._drop()
        if self._is_alone:
            self._reader.alone.release()
            self._is_alone = False
            if channel is not None:
                self._reader.close_soon(channel)
        elif channel is not None:
            self._close_at(channel)

    async def _at(self) -> Channel:
        """Return the reader that has the page open."""
        if self._channel is not None and self._channel.alive:
            return self._channel
        self._drop()
        reader = self._reader
        alone, tenant = self._is_alone, self._owner[0]
        channel = await (reader.forked() if alone else reader.channel(tenant))
        self._channel = channel
        channel.begun += 1
        opening = messages.Open(
            reader.number(), self._number, self._spider, self._facts, self._owner, self._taken
        )
        answer = await self._ask(channel, opening, self._content)
        if not isinstance(answer, messages.Closed):
            self._ended = True
            raise masked_error(failure_of(answer), self._mask)
        return channel

    async def _ask(
        self, channel: Channel, question: messages.Question, content: bytes
    ) -> messages.Answer:
        """Ask; raises LostError, too, where long pages of others are not to be waited for."""
        tenant = self._owner[0]
        before = channel.others_before(tenant)
        answer = channel.ask(question, content, tenant)
        if before and await self._reader.is_held_up(channel, answer, tenant, before):
            raise LostError
        return await answer

    def _forsake(self) -> None:
        """Go on at another reader."""
        channel = self._channel
        self._drop()
        if channel is not None:
            self._close_at(channel)

    def _close_at(self, channel: Channel) -> None:
        if not channel.alive:
            return
        if not self._ended:
            closing = channel.ask(messages.Close(self._reader.number(), self._number), b"")
            closing.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._reader.retire(channel)

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.begun -= 1
            self._channel = None

    def _given(self, answer: messages.Slice) -> tuple[list[Any], bool, float]:
        found: list[Any] = [*answer.records, *answer.skipped]
        self._taken += len(found) + len(answer.links)
        for link in answer.links:
            why = link_problem(link, LINK_DEPTH_MAX)
            found.append(link if why is None else Skipped(f"link {link.url[:300]}", why))
        if self._mask:
            found = list(masked(iter(found), self._mask))
        self._ended = not answer.more
        return found, answer.more, answer.seconds


class ReadingError(Exception):
    """A rule or an executor failed in a way that nobody foresaw."""


def failure_of(answer: messages.Answer) -> Exception:
    """Make the error of an answer that is none of those that were wanted."""
    if isinstance(answer, messages.Failed) and answer.field:
        return ExtractError(answer.field, answer.why, answer.seconds)
    return ReadingError(answer.why if isinstance(answer, messages.Failed) else "no such answer")


def link_problem(link: Link, deepest: int) -> str | None:
    """Return what is wrong with a link, whoever has sent it; its fields are of the right types."""
    if not 0 <= link.depth <= deepest:
        return f"lies more than {deepest} links deep"
    if link.method not in METHODS:
        return "has a method that is none"
    return problem_with(link.url)
