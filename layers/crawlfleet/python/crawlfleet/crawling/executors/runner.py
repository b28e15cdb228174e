"""Run the executors of spiders, and bound what they give.

Selectors, casts and their cost belong to whoever applies rules. A streaming executor cuts the page
into records as they are written, puts some of them into a small page of the same kind, and has the
rule read that (:class:`Chunks`): so neither memory nor time runs out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from threading import Lock
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.crawling.executors.base import (
    LINK_DEPTH_MAX,
    PAGE_BOUNDS,
    RECORD_BYTES_MAX,
    SKIPPED_REPORTED,
    Context,
    Executor,
    Found,
    Meter,
    PageBounds,
)
from crawlfleet.crawling.executors.registry import Registry, read_parameters
from crawlfleet.crawling.extract.extractor import RuleExtractor
from crawlfleet.kernel.errors import ConfigError, CrawlfleetError, ExtractError
from crawlfleet.kernel.page import Page
from crawlfleet.requests.models import Body, Link, Skipped

#: Executors kept, the least recently used going first.
EXECUTORS_KEPT: Final = 256

_END: Final = object()


def _now() -> datetime:
    return datetime.now(UTC)


class SpiderExecutors:
    """Reads pages by spiders. Safe to share between threads.

    Args:
        registry: The executors there are.
        rules: What applies rules inside of executors.
        clock: Says when a page is read.
        bounds: What a page may give and cost.
        kept: Executors that stay constructed.
    """

    def __init__(
        self,
        registry: Registry,
        rules: RuleExtractor,
        *,
        clock: Callable[[], datetime] = _now,
        bounds: PageBounds = PAGE_BOUNDS,
        kept: int = EXECUTORS_KEPT,
    ) -> None:
        self._registry, self._rules, self._clock = registry, rules, clock
        self._bounds = bounds
        self._kept = kept
        self._executors: OrderedDict[str, Executor[Any]] = OrderedDict()
        self._last: tuple[Spider, Executor[Any]] | None = None
        self._lock = Lock()

    def read(
        self, spider: Spider, page: Page, body: Body
    ) -> Iterator[dict[str, object] | Link | Skipped]:
        """Read records, links and what is left out, as they are found; links once each.

        Raises:
            ExtractError: names what could not be read, or ``executor`` or a parameter where the
                spider itself is wrong.
        """
        executor = self.executor(spider)
        meter = Meter(self._bounds)
        context = Context(
            page.url, body.rule, depth=body.depth, meta=body.meta, now=self._clock(), meter=meter
        )
        return _Bounded(spider.executor, meter, self._bounds).all(executor.read(page, context))

    def starts(self, spider: Spider) -> tuple[str, ...]:
        """List the URLs that the spider's parameters begin with, if they name any."""
        executor = self.executor(spider)
        return tuple(executor.starts(executor.parameters))

    def executor(self, spider: Spider) -> Executor[Any]:
        """Return the executor of a spider, constructed once; raises as :meth:`read`."""
        last = self._last
        if last is not None and last[0] is spider:
            return last[1]
        # A spider holds mappings and has no hash; its version stands for all it says.
        version = spider.version
        with self._lock:
            executor = self._executors.get(version)
            if executor is not None:
                self._executors.move_to_end(version)
        if executor is None:
            executor = self._constructed(spider)
            with self._lock:
                self._executors[version] = executor
                while len(self._executors) > self._kept:
                    self._executors.popitem(last=False)
        self._last = (spider, executor)
        return executor

    def _constructed(self, spider: Spider) -> Executor[Any]:
        try:
            kind = self._registry.find(spider.executor)
        except ConfigError as error:
            problem = error.problems[0]
            raise ExtractError(problem.field, problem.message) from error
        parameters, problems = read_parameters(kind, spider)
        if problems:
            raise ExtractError(problems[0].field, problems[0].message)
        try:
            return kind(parameters, self._rules)
        except CrawlfleetError:
            raise
        except Exception as error:
            raise _unforeseen(spider.executor, error) from error


class _Bounded:
    """Counts, times and checks what an executor gives of one page."""

    def __init__(self, name: str, meter: Meter, bounds: PageBounds) -> None:
        self._name, self._bounds, self._meter = name, bounds, meter
        self._records = 0
        self._links: set[tuple[str, str]] = set()
        self._skipped = 0

    def all(self, found: Iterator[Found]) -> Iterator[dict[str, object] | Link | Skipped]:
        items: Iterator[object] = iter(found)
        try:
            while (item := self._next(items)) is not _END:
                if isinstance(item, Link):
                    item = self._link(item)
                if isinstance(item, Skipped):
                    self._skip()
                    if self._skipped > SKIPPED_REPORTED:
                        continue
                if isinstance(item, Link | Skipped):
                    yield item
                elif isinstance(item, Mapping):
                    yield self._record(item)
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
        if self._skipped > SKIPPED_REPORTED:
            more = self._skipped - SKIPPED_REPORTED
            yield Skipped("page", f"{more:,} more were left out")

    def _next(self, items: Iterator[object]) -> object:
        self._meter.resume()
        try:
            item = next(items, _END)
        except CrawlfleetError:
            raise
        except Exception as error:
            raise _unforeseen(self._name, error) from error
        self._meter.pause()
        if item is _END or isinstance(item, Link | Skipped | Mapping):
            return item
        message = f"gave {type(item).__name__}, which is no record, link or Skipped"
        raise ExtractError(f"executor {self._name}", message)

    def _skip(self) -> None:
        self._skipped += 1
        if self._skipped > (most := self._bounds.skipped):
            raise ExtractError("page", f"has more than {most:,} things that cannot be read")

    def _record(self, fields: Mapping[str, object]) -> dict[str, object]:
        self._records += 1
        if self._records > (most := self._bounds.records):
            raise ExtractError("page", f"gives more than {most:,} records")
        return fields if isinstance(fields, dict) else dict(fields)

    def _link(self, link: Link) -> Link | Skipped | None:
        if (link.url, link.rule) in self._links:
            return None
        self._links.add((link.url, link.rule))
        if len(self._links) > (most := self._bounds.links):
            raise ExtractError("page", f"gives more than {most:,} links")
        if link.depth > LINK_DEPTH_MAX:
            return Skipped(link.url, f"lies more than {LINK_DEPTH_MAX} links deep")
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


class Chunks:
    """Applies a rule to pieces. ``page_of`` makes the body of a page of them."""

    def __init__(
        self,
        rules: RuleExtractor,
        rule: Rule,
        page_of: Callable[[Sequence[bytes]], bytes],
        bad_records: BadRecords,
    ) -> None:
        self._rules, self._rule, self._page_of = rules, rule, page_of
        self.bad = bad_records

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
            if len(piece.written) > RECORD_BYTES_MAX:
                yield self.bad.left_out(piece.place, f"is larger than {RECORD_BYTES_MAX:,} bytes")
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
        body = self._page_of([piece.written for piece in pieces])
        # Now it is UTF-8, and small.
        small = replace(page, body=body, headers={"content-type": "; charset=utf-8"})
        try:
            harvest = self._rules.harvest(self._rule, small, context.depth, context.meta)
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
