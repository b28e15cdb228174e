"""What is read of a page: records through the data processor, links, what is known of it now.

A rule gives all of it at once. A spider may go on for long, over a file of a million rows: what it
gives is taken in slices, so that the event loop goes on, and stored in parts, so that a worker's
memory does not depend on the page.

Where a worker's time goes.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sized
from datetime import datetime
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.crawling.frontier.offers import problem_with_seed, spec_of_link
from crawlfleet.crawling.records.coverage import coverage_of, together
from crawlfleet.crawling.records.pipeline import LONGEST_TOLD, MOST_REPORTED, prepare
from crawlfleet.crawling.recrawl import service as recrawling
from crawlfleet.crawling.recrawl.policy import NOT_MODIFIED, PageContent
from crawlfleet.kernel.errors import LeaseLostError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import PAUSES, from_ms, to_ms
from crawlfleet.requests.leased import InFlight, LeasedRequest
from crawlfleet.requests.models import Coverage, Link, Record, Skipped, Visit
from crawlfleet.requests.outcomes import Done
from crawlfleet.worker.ports import WorkPorts


class Phases:
    """Where the time goes, in seconds by lane and phase, until it is written to the account."""

    def __init__(self) -> None:
        self._spent: dict[QueueKey, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, queue_key: QueueKey, phase: str, seconds: float) -> None:
        """Time was spent."""
        self._spent[queue_key][phase] += seconds

    def take(self) -> dict[QueueKey, dict[str, float]]:
        """What has come together since the last call."""
        spent, self._spent = self._spent, defaultdict(lambda: defaultdict(float))
        return spent


#: No page is read while outcomes that are still to be written take more than about this.
HEAVY_BYTES: Final = 64_000_000
HEAVY_PAUSE_SECONDS: Final = 0.1
#: What a record takes beside its text, and a link with it.
RECORD_BYTES: Final = 500
LINK_BYTES: Final = 500
#: What a spider gives is taken in slices of so many things, or as many as come in this time.
SLICE: Final = 200
SLICE_SECONDS: Final = 0.05
#: Records are stored when there are so many; fewer come with the outcome.
PART: Final = 1_000
#: Links of one page.
MOST_LINKS: Final = 100_000


class Pace:
    """Pages wait for their turn in the event loop, and for room for their outcomes.

    Args:
        holding: Weighs the outcomes that are still to be written.
        phases: Is told how long reading took.
        spell_seconds: After so long in one go, whoever else is due gets the event loop.
        heavy_bytes: While outcomes weigh more than this no page is read.
    """

    def __init__(
        self,
        holding: InFlight,
        phases: Phases,
        spell_seconds: float = PAUSES.spell,
        heavy_bytes: int = HEAVY_BYTES,
    ) -> None:
        self._in_flight = holding
        self._phases = phases
        self._spell_seconds = spell_seconds
        self._heavy_bytes = heavy_bytes
        self._spell = 0.0

    async def turn(self) -> None:
        """Wait until it makes sense to read a page."""
        while True:
            if self._in_flight.weight > self._heavy_bytes:
                await asyncio.sleep(HEAVY_PAUSE_SECONDS)
            elif self._spell > self._spell_seconds:
                await asyncio.sleep(0)
            else:
                return

    def spent(self, queue_key: QueueKey, seconds: float) -> None:
        """Add to what the event loop was held for; it starts from nothing in the loop's next round.

        A hundred pages that arrive at once and take seconds each would else keep the leases from
        being renewed until all are read, and other workers would read them again.
        """
        if not self._spell:
            asyncio.get_running_loop().call_soon(self._breathe)
        self._spell += seconds
        self._phases.add(queue_key, "extract", seconds)

    def _breathe(self) -> None:
        self._spell = 0.0


class Reading:
    """The reading of one worker, all in its event loop.

    Args:
        ports: The world.
        pace: Says when to read.
        threaded: Calls a part without stopping the event loop.
        slice_seconds: A slice of what a spider gives ends after this, however small it is.
        most_links: Links of one page that are followed.
    """

    def __init__(
        self,
        ports: WorkPorts,
        pace: Pace,
        threaded: Callable[..., Awaitable[Any]],
        slice_seconds: float = SLICE_SECONDS,
        most_links: int = MOST_LINKS,
    ) -> None:
        self._ports = ports
        self._pace = pace
        self._threaded = threaded
        self._slice_seconds = slice_seconds
        self._most_links = most_links
        self._coverage: dict[tuple[QueueKey, str, str], Coverage] = {}

    async def read(self, held: LeasedRequest, reader: Rule | Spider, page: Page) -> Done:
        """What comes of a page.

        Raises:
            ExtractError: it could not be read.
            LeaseLostError: another worker owns the request by now.
        """
        await self._pace.turn()
        if page.status == NOT_MODIFIED:
            return Done((), page.status, visit=self._visit(held, page, ""))
        if isinstance(reader, Rule):
            return self._by_rule(held, reader, page)
        return await self._by_spider(held, reader, page)

    def take_coverage(self) -> dict[tuple[QueueKey, str, str], Coverage]:
        """What was counted since the last call, by lane, rule and version."""
        found, self._coverage = self._coverage, {}
        return found

    def _by_rule(self, held: LeasedRequest, rule: Rule, page: Page) -> Done:
        started = time.perf_counter()
        try:
            body = held.claim.request.body
            harvest = self._ports.extractor.harvest(rule, page, body.depth, body.meta)
            prepared = prepare(
                self._ports.validator, rule, held.claim, page.url, harvest.records, self._now()
            )
            visit = None
            if held.known is not None:
                content = PageContent(rule)
                for record in prepared.records:
                    content.add(record.fields)
                visit = self._visit(held, page, content.digest(page))
        finally:
            self._pace.spent(held.queue_key, time.perf_counter() - started)
        counted = replace(harvest.coverage, rejected=prepared.rejected_count)
        self._count(held, counted)
        held.weight = _weight(page, prepared.records, harvest.links)
        links, unfit = self._fit(held, harvest.links)
        return Done(
            prepared.records,
            page.status,
            links=tuple(links),
            rejected=(*prepared.rejected, *map(str, unfit))[:MOST_REPORTED],
            rejected_count=prepared.rejected_count + len(unfit),
            visit=visit,
        )

    async def _by_spider(self, held: LeasedRequest, spider: Spider, page: Page) -> Done:
        given = self._ports.executors.read(spider, page, held.claim.request.body)
        records: list[Record] = []
        links: dict[tuple[str, str], Link] = {}
        told: list[str] = []
        content = None if held.known is None else PageContent(spider)
        reported_count = stored = index = place = 0
        more = True
        while more:
            started = time.perf_counter()
            try:
                found, more = _slice(given, self._slice_seconds)
                fields = [one for one in found if not isinstance(one, Link | Skipped)]
                part = prepare(
                    self._ports.validator,
                    spider,
                    held.claim,
                    page.url,
                    fields,
                    self._now(),
                    index,
                    place,
                )
                if content is not None:
                    for record in part.records:
                        content.add(record.fields)
            finally:
                self._pace.spent(held.queue_key, time.perf_counter() - started)
            index, place = part.next_index, place + len(fields)
            records += part.records
            fit, unfit = self._fit(held, [one for one in found if isinstance(one, Link)])
            for one in fit:
                if len(links) < self._most_links:
                    links.setdefault((one.url, one.rule), one)
            skipped = [str(one) for one in (*found, *unfit) if isinstance(one, Skipped)]
            told += [*part.rejected, *skipped][: MOST_REPORTED - len(told)]
            reported_count += part.rejected_count + len(skipped)
            # What has not even a normal form has no fields to count.
            read = [*(record.fields for record in part.records), *part.unfit]
            counted = coverage_of(read, pages=0 if more else 1)
            count = len(part.records) + part.rejected_count
            counted = replace(counted, records=count, rejected=part.rejected_count)
            self._count(held, counted)
            if more and len(records) >= PART:
                await self._store_part(held, records)
                stored += len(records)
                records = []
            if more:
                await asyncio.sleep(0)
        held.weight = _weight(page, records, links)
        return Done(
            tuple(records),
            page.status,
            links=tuple(links.values()),
            stored=stored,
            rejected=tuple(told),
            rejected_count=reported_count,
            visit=None if content is None else self._visit(held, page, content.digest(page)),
        )

    async def _store_part(self, held: LeasedRequest, records: list[Record]) -> None:
        ours = await self._threaded(
            self._ports.store.store_part,
            held.queue_key,
            held.biz,
            held.claim,
            records,
            self._ports.clock(),
        )
        if not ours:
            raise LeaseLostError("another worker owns it")

    def _fit(self, held: LeasedRequest, links: Iterable[Link]) -> tuple[list[Link], list[Skipped]]:
        """Those that a seed can be made of, and why not of the others.

        They are told of the page, as whoever offers them later has nobody to tell.
        """
        fit: list[Link] = []
        unfit: list[Skipped] = []
        for link in links:
            # What has nothing but its URL was looked at when it was found.
            unknown = bool(link.rule) and held.biz.reader(link.rule) is None
            if unknown or link.meta or link.headers:
                spec = spec_of_link(held.claim, link)
                problem = problem_with_seed(held.biz, spec, self._ports.clock())
                if problem is not None:
                    unfit.append(Skipped(f"link {link.url[:LONGEST_TOLD]}", str(problem)))
                    continue
            fit.append(link)
        return fit, unfit

    def _visit(self, held: LeasedRequest, page: Page, content: str) -> Visit | None:
        if held.known is None:
            return None
        body = held.claim.request.body
        return recrawling.seen(held.biz, held.known, body, page, content, self._ports.clock())

    def _now(self) -> datetime:
        return from_ms(to_ms(self._ports.clock()))

    def _count(self, held: LeasedRequest, coverage: Coverage) -> None:
        body = held.claim.request.body
        key = held.queue_key, body.rule, body.rule_version
        before = self._coverage.get(key)
        self._coverage[key] = coverage if before is None else together(before, coverage)


def _weight(page: Page, records: Sized, links: Sized) -> int:
    """About how many bytes an outcome takes; a small page may hold a large one, compressed."""
    return len(page.body) + len(records) * RECORD_BYTES + len(links) * LINK_BYTES


def _slice(given: Iterator[Any], seconds: float) -> tuple[list[Any], bool]:
    """The next things, and whether there may be more."""
    found: list[Any] = []
    until = time.perf_counter() + seconds
    for one in islice(given, SLICE):
        found.append(one)
        if time.perf_counter() > until:
            return found, True
    return found, len(found) == SLICE
