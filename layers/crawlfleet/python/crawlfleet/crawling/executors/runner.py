"""Run the executors of spiders, and bound what they give.

Selectors, casts and their cost belong to whoever applies rules. A streaming executor cuts the page
into records as they are written, puts some of them into a small page of the same kind, and has the
rule read that (:class:`Chunks`): so neither memory nor time runs out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.documents.secret import references
from crawlfleet.crawling.executors import base
from crawlfleet.crawling.executors.base import (
    PAGE_BOUNDS,
    Context,
    Executor,
    Found,
    Meter,
    Owner,
)
from crawlfleet.crawling.executors.masking import masked
from crawlfleet.crawling.executors.registry import Registry, read_parameters
from crawlfleet.crawling.extract.extractor import RuleExtractor
from crawlfleet.crawling.extract.limits import Kept
from crawlfleet.kernel.errors import ConfigError, CrawlfleetError, ExtractError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.redaction import NO_SECRETS, Mask
from crawlfleet.requests.models import Body, Link, Skipped

_now: Final = partial(datetime.now, UTC)
EXECUTORS_KEPT: Final = 256  #: Executors kept, the least recently used going first.

_END: Final = object()


class SpiderExecutors:
    """Reads pages by spiders; ``kept`` executors stay constructed. Safe to share between threads.

    ``rules`` applies rules inside of executors, ``clock`` says when a page is read, ``bounds`` what
    it may give and cost.
    """

    def __init__(
        self,
        registry: Registry,
        rules: RuleExtractor,
        *,
        clock: Callable[[], datetime] = _now,
        bounds: base.PageBounds = PAGE_BOUNDS,
        kept: int = EXECUTORS_KEPT,
    ) -> None:
        self._registry, self._rules, self._clock = registry, rules, clock
        self._bounds = bounds
        self._executors = Kept(self._constructed, kept)

    def read(
        self,
        spider: Spider,
        page: Page,
        body: Body,
        mask: Mask = NO_SECRETS,
        owner: Owner = ("", ""),
    ) -> Iterator[dict[str, object] | Link | Skipped]:
        """Read records, links and what is left out, as they are found; links once each.

        Nothing that is given or raised holds what ``mask`` has: the secrets of the parameters. What
        an executor keeps, such as a Scrapy spider, is of one ``owner``: a tenant and its biz.

        Raises ExtractError: names what could not be read, or ``executor`` or a parameter where the
        spider itself is wrong.
        """
        executor = self.executor(spider, owner)
        meter = Meter(self._bounds)
        context = Context(
            page.url, body.rule, depth=body.depth, meta=body.meta, now=self._clock(), meter=meter
        )
        given = _Bounded(spider.executor, meter, self._bounds).all(executor.read(page, context))
        return masked(given, mask) if mask else given

    def executor(self, spider: Spider, owner: Owner = ("", "")) -> Executor[Any]:
        """Return the executor of an owner's spider, constructed once; raises as :meth:`read`."""
        return self._executors.of(spider, owner)

    def _constructed(self, spider: Spider) -> Executor[Any]:
        try:
            kind = self._registry.find(spider.executor)
        except ConfigError as error:
            problem = error.problems[0]
            raise ExtractError(problem.field, problem.message) from error
        for place, name in references(spider.parameters):
            message = f"is the secret {name!r}, which workers alone read: try it with --remote"
            raise ExtractError(f"parameters.{place}", message)
        parameters, problems = read_parameters(kind, spider)
        if problems:
            raise ExtractError(problems[0].field, problems[0].message)
        try:
            return kind(parameters, self._rules)
        except (CrawlfleetError, MemoryError):
            raise
        except Exception as error:
            raise _unforeseen(spider.executor, error) from error


class _Bounded:
    """Counts, times and checks what an executor gives of one page."""

    def __init__(self, name: str, meter: Meter, bounds: base.PageBounds) -> None:
        self._name, self._bounds, self._meter = name, bounds, meter
        self._records = 0
        self._links: set[tuple[object, ...]] = set()
        self._skipped = 0

    def all(self, found: Iterator[Found]) -> Iterator[dict[str, object] | Link | Skipped]:
        items: Iterator[object] = iter(found)
        try:
            while (item := self._next(items)) is not _END:
                if isinstance(item, Link):
                    item = self._link(item)
                if isinstance(item, Skipped):
                    self._skipped += 1
                    if self._skipped > (most := self._bounds.skipped):
                        why = f"has more than {most:,} things that cannot be read"
                        raise ExtractError("page", why)
                    if self._skipped > base.SKIPPED_REPORTED:
                        continue
                if isinstance(item, Link | Skipped):
                    yield item
                elif isinstance(item, Mapping):
                    self._records += 1
                    if self._records > (most := self._bounds.records):
                        raise ExtractError("page", f"gives more than {most:,} records")
                    yield item if isinstance(item, dict) else dict(item)
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
        if self._skipped > base.SKIPPED_REPORTED:
            more = self._skipped - base.SKIPPED_REPORTED
            yield Skipped("page", f"{more:,} more were left out")

    def _next(self, items: Iterator[object]) -> object:
        self._meter.resume()
        try:
            item = next(items, _END)
        except (CrawlfleetError, MemoryError):
            raise
        except Exception as error:
            raise _unforeseen(self._name, error) from error
        self._meter.pause()
        if item is _END or isinstance(item, Link | Skipped | Mapping):
            return item
        message = f"gave {type(item).__name__}, which is no record, link or Skipped"
        raise ExtractError(f"executor {self._name}", message)

    def _link(self, link: Link) -> Link | Skipped | None:
        if link.identity in self._links:
            return None
        self._links.add(link.identity)
        if len(self._links) > (most := self._bounds.links):
            raise ExtractError("page", f"gives more than {most:,} links")
        if link.depth > base.LINK_DEPTH_MAX:
            return Skipped(link.url, f"lies more than {base.LINK_DEPTH_MAX} links deep")
        return link


def _unforeseen(name: str, error: Exception) -> ExtractError:
    return ExtractError(f"executor {name}", f"{type(error).__name__}: {error}"[:500])


#: Records, and bytes of them, that are read at once.
CHUNK_RECORDS: Final = 200
CHUNK_BYTES: Final = 500_000


class BadRecords(StrEnum):
    """The treatment of a record that cannot be read.

    ``skip`` leaves it out and lists it; with ``fail`` nothing of the page is stored.
    """

    SKIP = "skip"
    FAIL = "fail"

    def left_out(self, place: str, why: str) -> Skipped:
        """Return what is given for a bad record, or fail the page by an ExtractError."""
        if self is BadRecords.FAIL:
            raise ExtractError(place, why)
        return Skipped(place, why)


class Piece(NamedTuple):
    """A piece of a page: one record as the page writes it; errors call it ``place``."""

    place: str
    written: bytes


@dataclass(slots=True)
class Chunks:
    """Applies a rule to pieces. ``page_of`` makes the body of a page of them."""

    rules: RuleExtractor
    rule: Rule
    page_of: Callable[[Sequence[bytes]], bytes]
    bad: BadRecords

    def read(
        self, pieces: Iterable[Piece | Skipped], page: Page, context: Context
    ) -> Iterator[Found]:
        """Read records and links in the page's order; skipped pieces stay as they are."""
        waiting: list[Piece] = []
        size = 0
        for piece in pieces:
            if isinstance(piece, Skipped):
                yield piece
                continue
            if len(piece.written) > base.RECORD_BYTES_MAX:
                yield self.bad.left_out(
                    piece.place, f"is larger than {base.RECORD_BYTES_MAX:,} bytes"
                )
                continue
            waiting.append(piece)
            size += len(piece.written)
            if len(waiting) >= CHUNK_RECORDS or size >= CHUNK_BYTES:
                yield from self._some(waiting, page, context)
                waiting, size = [], 0
        yield from self._some(waiting, page, context)

    def _some(self, pieces: Sequence[Piece], page: Page, context: Context) -> Iterator[Found]:
        if not pieces:
            return
        context.tick()
        body = self.page_of([piece.written for piece in pieces])
        # Now it is UTF-8, and small.
        small = replace(page, body=body, headers={"content-type": "; charset=utf-8"})
        try:
            harvest = self.rules.harvest(self.rule, small, context.depth, context.meta)
        except ExtractError as error:
            if len(pieces) == 1:
                field = error.field.removeprefix("items[0]").lstrip(".")
                why = str(error).removeprefix(f"{error.field}: ")
                place = pieces[0].place
                yield self.bad.left_out(
                    f"{place}.{field}" if field not in ("", "page", "items") else place, why
                )
                return
            # One of them is bad, or all are too much at once: one at a time it shows.
            for piece in pieces:
                yield from self._some([piece], page, context)
            return
        yield from harvest.records
        yield from harvest.links
