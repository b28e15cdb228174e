"""Attempt a request: download the page and read it; whatever happens becomes an outcome.

A rule gives all of a page at once. A spider may go on for long, over a file of a million rows: what
it gives is taken in slices, so that the event loop goes on, and stored in parts, so that a worker's
memory does not depend on the page.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sized
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.crawling.fetching.models import FetchContext
from crawlfleet.crawling.frontier.adding import problem_with_seed, spec_of_link
from crawlfleet.crawling.politeness.client import Waiting
from crawlfleet.crawling.politeness.hop_guard import HopGuards, NoSlotError
from crawlfleet.crawling.records.pipeline import LONGEST_REPORTED, MOST_REPORTED, prepare
from crawlfleet.crawling.records.redis import coverage_of
from crawlfleet.crawling.recrawl import service as recrawling
from crawlfleet.crawling.recrawl.policy import NOT_MODIFIED, PageContent
from crawlfleet.kernel.errors import (
    CrawlfleetError,
    ExtractError,
    LeaseLostError,
    NoProxyError,
    StoreError,
    UnknownRuleError,
)
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.page import Answer, Page
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import Coverage, Link, Record, Skipped, Visit
from crawlfleet.requests.outcomes import (
    CUT_OFF,
    INTERNAL,
    UNSTORABLE,
    Dead,
    Done,
    Outcome,
    Retry,
    after_failure,
    cut_off,
    reason_of,
)
from crawlfleet.worker.heartbeat import Ownership
from crawlfleet.worker.session import Session
from crawlfleet.worker.telemetry import Telemetry

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


class Attempts:
    """The attempts of one worker, all in its event loop."""

    def __init__(
        self, session: Session, hop_guards: HopGuards, ownership: Ownership, telemetry: Telemetry
    ) -> None:
        self._services = session.services
        self._report = session.report
        self._account = session.account
        self._hop_guards = hop_guards
        self._politeness = hop_guards.client
        self._is_ours = ownership.still
        self._telemetry = telemetry
        self._parser = Parser(session)

    async def attempt(self, leased: LeasedRequest) -> Outcome | Waiting:
        """Download and read one request: every failure becomes an outcome.

        One that was not begun waits, which is no attempt: its slot was needed for its site's
        robots.txt, or its pool has no proxies.
        """
        body, biz = leased.claim.request.body, leased.biz
        now = self._services.clock
        if (reason := cut_off(leased.claim.attempt, biz.retry)) is not None:
            return Dead(reason, CUT_OFF)
        if leased.rule is None:
            gone = f"rule {body.rule!r} version {body.rule_version} is not known any more"
            return Dead(gone, reason_of(UnknownRuleError()))
        page: Page | None = None
        try:
            page = await self._fetch(leased)
            try:
                return await self._parser.read(leased, leased.rule, page)
            except ExtractError as error:
                error.answer = Answer.of_page(page)
                raise
        except NoSlotError as error:
            until = now() + timedelta(seconds=error.again_seconds)
            return Waiting(leased.host[0], [leased], until, "robots")
        except NoProxyError as error:
            # Whoever has set up the pool mends it; until then nothing can be asked for, or is lost.
            until = now() + timedelta(seconds=error.again_seconds)
            return Waiting(leased.host[0], [leased], until, "proxies", f"deferred: {error}"[:500])
        except LeaseLostError as error:
            return Retry(now(), str(error))  # of what is not leased any more nothing is written
        except StoreError as error:
            if error.retryable:
                return self._after(error, leased)
            answer = None if page is None else Answer.of_page(page)
            return Dead(f"cannot be stored: {error}"[:500], UNSTORABLE, answer)
        except CrawlfleetError as error:
            return after_failure(
                error, leased.claim.attempt, biz.retry, now(), self._services.jitter()
            )
        except Exception as error:  # noqa: BLE001  a page or a rule provoked what nobody foresaw
            warn("a request failed in a way nobody foresaw", error)
            answer = None if page is None else Answer.of_page(page)
            return Dead(f"{type(error).__name__}: {error}"[:500], INTERNAL, answer)

    def _after(self, error: CrawlfleetError, leased: LeasedRequest) -> Outcome:
        now, jitter = self._services.clock(), self._services.jitter()
        return after_failure(error, leased.claim.attempt, leased.biz.retry, now, jitter)

    async def _fetch(self, leased: LeasedRequest) -> Page:
        started = time.perf_counter()
        try:
            page = await self._services.fetcher.fetch(
                leased.claim.request.body,
                leased.biz.fetch,
                self._hop_guards.of(leased, self._is_ours),
                self._fetch_context(leased),
            )
        except CrawlfleetError as error:
            answer = getattr(error, "answer", None)
            self._politeness.saw(leased.host, 0.0 if answer is None else answer.seconds, error)
            raise
        self._politeness.saw(leased.host, page.seconds, None)
        # A polite worker waits for its slot at a host: that is not the host being slow.
        waited = time.perf_counter() - started - page.seconds
        self._account.add(leased.queue_key, "fetch", page.seconds)
        self._account.add(leased.queue_key, "wait", max(0.0, waited))
        self._report.bytes += len(page.body)
        self._telemetry.usage.arrived(leased.queue_key, leased.claim.request.job, page)
        self._report.saved += page.status == NOT_MODIFIED
        return page

    def _fetch_context(self, leased: LeasedRequest) -> FetchContext:
        stage = self._services.config.current().stage
        pool = leased.biz.fetch.proxies or stage.default_proxies
        return FetchContext(
            queue_key=leased.queue_key,
            job=leased.claim.request.job,
            pool=pool,
            proxies=None if pool is None else stage.proxies.get(pool),
            validators=None if leased.known is None else leased.known.validators,
        )


class ReadingGate:
    """Lets pages be read while the event loop, and memory for their outcomes, have room."""

    def __init__(self, session: Session, heavy_bytes: int = HEAVY_BYTES) -> None:
        self._in_flight = session.in_flight
        self._account = session.account
        self._spell_seconds = session.services.pauses.spell
        self._heavy_bytes = heavy_bytes
        self._spell = 0.0

    async def enter(self) -> None:
        """Wait until it makes sense to read a page."""
        while True:
            if self._in_flight.weight > self._heavy_bytes:
                await asyncio.sleep(HEAVY_PAUSE_SECONDS)
            elif self._spell > self._spell_seconds:
                await asyncio.sleep(0)
            else:
                return

    def spent(self, queue_key: QueueKey, seconds: float) -> None:
        """Add to the time that the event loop was held; its next round begins at nothing.

        A hundred pages that arrive at once and take seconds each would else keep the leases from
        being renewed until all are read, and other workers would read them again.
        """
        if not self._spell:
            asyncio.get_running_loop().call_soon(self._breathe)
        self._spell += seconds
        self._account.add(queue_key, "extract", seconds)

    def _breathe(self) -> None:
        self._spell = 0.0


class Parser:
    """Reads the pages of one worker, all in its event loop.

    A slice of what a spider gives ends after ``slice_seconds``, however small it is.
    """

    def __init__(
        self,
        session: Session,
        gate: ReadingGate | None = None,
        slice_seconds: float = SLICE_SECONDS,
        most_links: int = MOST_LINKS,
    ) -> None:
        self._session = session
        self._services = session.services
        self._gate = gate or ReadingGate(session)
        self._slice_seconds = slice_seconds
        self._most_links = most_links

    async def read(self, leased: LeasedRequest, reader: Rule | Spider, page: Page) -> Done:
        """Read a page.

        Raises:
            ExtractError: it could not be read.
            LeaseLostError: another worker owns the request by now.
        """
        await self._gate.enter()
        if page.status == NOT_MODIFIED:
            return Done((), page.status, visit=self._visit(leased, page, ""))
        if isinstance(reader, Rule):
            return self._by_rule(leased, reader, page)
        return await self._by_spider(leased, reader, page)

    def _by_rule(self, leased: LeasedRequest, rule: Rule, page: Page) -> Done:
        started = time.perf_counter()
        try:
            body = leased.claim.request.body
            harvest = self._services.extractor.harvest(rule, page, body.depth, body.meta)
            prepared = prepare(
                self._services.validator, rule, leased.claim, page.url, harvest.records, self._now()
            )
            visit = None
            if leased.known is not None:
                content = PageContent(rule)
                for record in prepared.records:
                    content.add(record.fields)
                visit = self._visit(leased, page, content.digest(page))
        finally:
            self._gate.spent(leased.queue_key, time.perf_counter() - started)
        counted = replace(harvest.coverage, rejected=prepared.rejected_count)
        self._count(leased, counted)
        leased.weight = _weight(page, prepared.records, harvest.links)
        links, unfit = self._fit(leased, harvest.links)
        return Done(
            prepared.records,
            page.status,
            links=tuple(links),
            rejected=(*prepared.rejected, *map(str, unfit))[:MOST_REPORTED],
            rejected_count=prepared.rejected_count + len(unfit),
            visit=visit,
        )

    async def _by_spider(self, leased: LeasedRequest, spider: Spider, page: Page) -> Done:
        given = self._services.executors.read(spider, page, leased.claim.request.body)
        records: list[Record] = []
        links: dict[tuple[str, str], Link] = {}
        reported: list[str] = []
        content = None if leased.known is None else PageContent(spider)
        reported_count = stored = index = place = 0
        more = True
        while more:
            started = time.perf_counter()
            try:
                found, more = _slice(given, self._slice_seconds)
                fields = [one for one in found if not isinstance(one, Link | Skipped)]
                part = prepare(
                    self._services.validator,
                    spider,
                    leased.claim,
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
                self._gate.spent(leased.queue_key, time.perf_counter() - started)
            index, place = part.next_index, place + len(fields)
            records += part.records
            fit, unfit = self._fit(leased, [one for one in found if isinstance(one, Link)])
            for one in fit:
                if len(links) < self._most_links:
                    links.setdefault((one.url, one.rule), one)
            skipped = [str(one) for one in (*found, *unfit) if isinstance(one, Skipped)]
            reported += [*part.rejected, *skipped][: MOST_REPORTED - len(reported)]
            reported_count += part.rejected_count + len(skipped)
            # What has not even a normal form has no fields to count.
            read = [*(record.fields for record in part.records), *part.unfit]
            counted = coverage_of(read, pages=0 if more else 1)
            count = len(part.records) + part.rejected_count
            counted = replace(counted, records=count, rejected=part.rejected_count)
            self._count(leased, counted)
            if more and len(records) >= PART:
                await self._store_part(leased, records)
                stored += len(records)
                records = []
            if more:
                await asyncio.sleep(0)
        leased.weight = _weight(page, records, links)
        return Done(
            tuple(records),
            page.status,
            links=tuple(links.values()),
            stored=stored,
            rejected=tuple(reported),
            rejected_count=reported_count,
            visit=None if content is None else self._visit(leased, page, content.digest(page)),
        )

    async def _store_part(self, leased: LeasedRequest, records: list[Record]) -> None:
        ours = await self._session.threaded(
            self._services.store.store_part,
            leased.queue_key,
            leased.biz,
            leased.claim,
            records,
            self._services.clock(),
        )
        if not ours:
            raise LeaseLostError("another worker owns it")

    def _fit(
        self, leased: LeasedRequest, links: Iterable[Link]
    ) -> tuple[list[Link], list[Skipped]]:
        """Return the links that can be seeds, and why the others cannot."""
        fit: list[Link] = []
        unfit: list[Skipped] = []
        for link in links:
            # A link that is only a URL was checked when it was found.
            unknown = bool(link.rule) and leased.biz.reader(link.rule) is None
            if unknown or link.meta or link.headers:
                spec = spec_of_link(leased.claim, link)
                problem = problem_with_seed(leased.biz, spec, self._services.clock())
                if problem is not None:
                    unfit.append(Skipped(f"link {link.url[:LONGEST_REPORTED]}", str(problem)))
                    continue
            fit.append(link)
        return fit, unfit

    def _visit(self, leased: LeasedRequest, page: Page, content: str) -> Visit | None:
        if leased.known is None:
            return None
        body = leased.claim.request.body
        return recrawling.seen(
            leased.biz, leased.known, body, page, content, self._services.clock()
        )

    def _now(self) -> datetime:
        return from_ms(to_ms(self._services.clock()))

    def _count(self, leased: LeasedRequest, coverage: Coverage) -> None:
        body = leased.claim.request.body
        key = leased.queue_key, body.rule, body.rule_version
        self._session.account.count(key, coverage)


def _weight(page: Page, records: Sized, links: Sized) -> int:
    """Estimate the bytes of an outcome; a small page may hold a large one, compressed."""
    return len(page.body) + len(records) * RECORD_BYTES + len(links) * LINK_BYTES


def _slice(given: Iterator[Any], seconds: float) -> tuple[list[Any], bool]:
    """Return the next things, and whether there may be more."""
    found: list[Any] = []
    until = time.perf_counter() + seconds
    for one in islice(given, SLICE):
        found.append(one)
        if time.perf_counter() > until:
            return found, True
    return found, len(found) == SLICE
