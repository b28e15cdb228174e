"""The process that reads pages: it answers questions one by one, and knows nothing else.

It is forked from a spawner that has the parsers loaded and was itself started with an empty
environment; it has one descriptor, of which questions come and answers go. It ends when that ends.
"""

from __future__ import annotations

import io
import mmap
import os
import socket
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.crawling.executors.base import Owner
from crawlfleet.crawling.executors.runner import SpiderExecutors
from crawlfleet.crawling.extract.extractor import RuleExtractor
from crawlfleet.crawling.reading import messages
from crawlfleet.crawling.reading.defences import CpuLimit, Limits, harden
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.page import Page
from crawlfleet.requests.models import Body, Link, Skipped, Trial

#: Rules and spiders that are kept as they were decoded.
_KEPT: Final = 256
_READ_AHEAD: Final = 65_536

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReaders:
    """The parts by which a reader answers: rules, executors, trials, checks of rules."""

    extractor: RuleExtractor
    executors: SpiderExecutors
    try_page: Callable[[Rule | Spider, Page, Body, Owner], Trial]
    check: Callable[[Rule | Spider], list[Problem]]


@dataclass(slots=True)
class _Begun:
    """A page that a spider reads."""

    given: Iterator[Any]
    skip: int  #: So many things are still to be left out, as they were taken already.


class Answering:
    """A reader's answers to its worker's questions, in the process that it is."""

    def __init__(self, readers: PageReaders) -> None:
        self._readers = readers
        self._begun: dict[int, _Begun] = {}
        self._rules: OrderedDict[bytes, Rule] = OrderedDict()
        self._spiders: OrderedDict[bytes, Spider] = OrderedDict()

    def answer(self, question: messages.Question, content: bytes) -> bytes:
        """Return the answer as it is sent; MemoryError alone comes through."""
        started = time.thread_time()
        try:
            return self._answer(question, content, started)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  whatever a page provokes is its answer
            return messages.failed(question.number, time.thread_time() - started, error)

    def _answer(self, question: messages.Question, content: bytes, started: float) -> bytes:
        number = question.number
        if isinstance(question, messages.ByRule):
            facts = question.facts
            harvest = self._readers.extractor.harvest(
                self._rule(question.rule), facts.page(content), facts.depth, facts.meta
            )
            seconds = time.thread_time() - started
            return messages.written_harvest(
                number, seconds, harvest.records, harvest.links, harvest.coverage
            )
        if isinstance(question, messages.Next):
            return self._slice(question, started)
        if isinstance(question, messages.Open):
            self._open(question, content)
            return messages.answered(messages.Closed(number))
        if isinstance(question, messages.Try):
            reader = self._rule(question.rule) if question.rule else self._spider(question.spider)
            facts = question.facts
            trial = self._readers.try_page(
                reader, facts.page(content), facts.body(), question.owner
            )
            return messages.written_trial(number, time.thread_time() - started, trial)
        if isinstance(question, messages.Check):
            reader_of = self._spider if question.spider else self._rule
            problems = self._readers.check(reader_of(question.rule))
            clean = messages.clean
            plain = tuple(Problem(clean(one.field), clean(one.message)) for one in problems)
            return messages.answered(messages.Checked(number, plain))
        self._close(question.page)
        return messages.answered(messages.Closed(number))

    def _open(self, question: messages.Open, content: bytes) -> None:
        page = question.facts.page(content)
        spider = self._spider(question.spider)
        given = self._readers.executors.read(
            spider, page, question.facts.body(), owner=question.owner
        )
        self._begun[question.page] = _Begun(given, question.skip)

    def _slice(self, question: messages.Next, started: float) -> bytes:
        begun = self._begun[question.page]
        until = time.perf_counter() + question.seconds
        records: list[Any] = []
        links: list[Any] = []
        skipped: list[Skipped] = []
        count = size = 0
        more = False
        try:
            for one in begun.given:
                count += 1
                if begun.skip:
                    begun.skip -= 1
                elif isinstance(one, Link):
                    sound, unsound = messages.written_links((one,))
                    links += sound
                    skipped += unsound
                elif isinstance(one, Skipped):
                    skipped.append(Skipped(messages.clean(one.place), messages.clean(one.why)))
                else:
                    records.append(written := messages.written_fields(one))
                    size += len(written)
                more = (
                    count >= messages.SLICE
                    or size > messages.SLICE_BYTES
                    or time.perf_counter() > until
                )
                if more:
                    break
        except BaseException:
            self._close(question.page)
            raise
        if not more:
            self._close(question.page)
        return messages.answered(
            messages.Slice(
                question.number,
                time.thread_time() - started,
                tuple(records),
                tuple(links),
                tuple(skipped),
                more,
            )
        )

    def _close(self, page: int) -> None:
        begun = self._begun.pop(page, None)
        close = getattr(begun.given, "close", None) if begun is not None else None
        if close is not None:
            close()

    def _rule(self, content: bytes) -> Rule:
        return _kept(self._rules, content, messages.rule_of)

    def _spider(self, content: bytes) -> Spider:
        return _kept(self._spiders, content, messages.spider_of)


def _kept(kept: OrderedDict[bytes, T], content: bytes, decode: Callable[[bytes], T]) -> T:
    found = kept.get(content)
    if found is None:
        found = kept[content] = decode(content)
        if len(kept) > _KEPT:
            kept.popitem(last=False)
    else:
        kept.move_to_end(content)
    return found


def serve(
    channel: socket.socket, bodies: mmap.mmap | None, limits: Limits, readers: PageReaders
) -> None:
    """Answer what comes over a channel until it ends; does not return."""
    status = 0
    try:
        sys.dont_write_bytecode = True
        cpu = CpuLimit(limits.cpu_seconds)
        defences = harden(limits, cpu)
        limited = defences["cpu"] == "ok"
        _send(channel, messages.answered(messages.Hello(0, defences)))
        questions = io.BufferedReader(socket.SocketIO(channel, "r"), _READ_AHEAD)
        answering = Answering(readers)
        while (question := _next_of(questions, bodies)) is not None:
            if limited:
                cpu.renew()
            _send(channel, answering.answer(*question))
    except MemoryError:
        status = messages.NO_MEMORY
    except (OSError, EOFError):
        status = 0  # whoever asked has gone
    finally:
        os._exit(status)


def _next_of(
    questions: io.BufferedReader[socket.SocketIO], bodies: mmap.mmap | None
) -> tuple[messages.Question, bytes] | None:
    lengths = questions.read(messages.QUESTION.size)
    if len(lengths) < messages.QUESTION.size:
        return None
    header_length, content_length, place = messages.QUESTION.unpack(lengths)
    header = questions.read(header_length)
    if place != messages.FOLLOWS and bodies is not None:
        return messages.questions.decode(header), bodies[place : place + content_length]
    content = questions.read(content_length) if content_length else b""
    if len(header) < header_length or len(content) < content_length:
        return None
    return messages.questions.decode(header), content


def _send(channel: socket.socket, answer: bytes) -> None:
    channel.sendall(answer)
