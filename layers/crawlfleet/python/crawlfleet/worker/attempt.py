"""Attempt a request: download the page and read it; whatever happens becomes an outcome.

A rule gives all of a page at once. A spider may go on for long, over a file of a million rows: what
it gives is taken in slices, so that the event loop goes on, and stored in parts, so that a worker's
memory does not depend on the page.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sized
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from msgspec.structs import replace

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.lookup import proxies_of
from crawlfleet.crawling.fetching.models import FetchContext
from crawlfleet.crawling.frontier.adding import problem_with_seed, spec_of_link
from crawlfleet.crawling.politeness.client import Waiting
from crawlfleet.crawling.politeness.hop_guard import HopGuards, NoSlotError
from crawlfleet.crawling.records.coverage import countable, coverage_of, together
from crawlfleet.crawling.records.normalise import LONGEST_REPORTED, MOST_REPORTED
from crawlfleet.crawling.records.preparation import prepare
from crawlfleet.crawling.recrawl import service as recrawling
from crawlfleet.crawling.recrawl.policy import NOT_MODIFIED, PageContent
from crawlfleet.kernel import errors
from crawlfleet.kernel.hosts import host_of, origin_of, site_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.page import Answer, Page
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests import outcomes
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import SCRAPY_META, Coverage, Link, Record, Skipped
from crawlfleet.requests.visits import Visit
from crawlfleet.worker.ownership import Ownership
from crawlfleet.worker.session import Session
from crawlfleet.worker.shares import HEAVY_BYTES
from crawlfleet.worker.telemetry import Telemetry
from crawlfleet.worker.tracing import AttemptTrace

#: What requests wait for, by the error; without a secret else.
NOT_READY: Final[Mapping[type[errors.NotReadyError], str]] = {
    errors.NoProxyError: "proxies",
    errors.NoReaderError: "reader",
}
#: Outcomes of all tenants that are to be written take so many times as much as one's may, at most.
MOST_OVER: Final = 1.5
HEAVY_PAUSE_SECONDS: Final = 0.1
#: What a record takes beside its text, and a link with it.
RECORD_BYTES: Final = 500
LINK_BYTES: Final = 500
#: What a spider gives is taken in slices of as many things as come in this time.
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
        self._traces = session.traces
        self._hop_guards = hop_guards
        self._politeness = hop_guards.client
        self._is_ours = ownership.still
        self._telemetry = telemetry
        self._parser = Parser(session)

    async def attempt(self, leased: LeasedRequest) -> outcomes.Outcome | Waiting:
        """Download and read one request: every failure becomes an outcome.

        One that was not begun waits, which is no attempt: its slot was needed for its site's
        robots.txt, or its pool has no proxies.
        """
        body, now = leased.claim.request.body, self._services.clock
        if (reason := outcomes.cut_off(leased.claim.attempt, leased.biz.retry)) is not None:
            return outcomes.Dead(reason, outcomes.CUT_OFF)
        if leased.rule is None:
            gone = f"rule {body.rule!r} version {body.rule_version} is not known any more"
            return outcomes.Dead(gone, outcomes.reason_of(errors.UnknownRuleError()))
        page: Page | None = None
        trace = self._traces.begin(leased)
        try:
            # A spider whose secret is not there costs its site no request.
            if isinstance(leased.rule, Spider):
                await self._services.secrets.filled(leased.queue_key.tenant, leased.rule)
            await self._services.reader.ready()
            page = await self._fetch(leased, trace)
            try:
                done = await self._parser.read(leased, leased.rule, page)
                return replace(done, peers=page.peers)
            except (errors.ExtractError, errors.ReaderKilledError) as error:
                error.answer = Answer.of_page(page)
                raise
        except NoSlotError as error:
            until = now() + timedelta(seconds=error.again_seconds)
            return Waiting(site_of(leased.origin), [leased], until, "robots")
        except errors.NotReadyError as error:
            # Whoever has set it up mends it; until then nothing can be asked for, or is lost.
            until = now() + timedelta(seconds=error.again_seconds)
            why = NOT_READY.get(type(error), "secrets")
            return Waiting(site_of(leased.origin), [leased], until, why, f"deferred: {error}"[:500])
        except errors.LeaseLostError as error:
            # Of what is not leased any more nothing is written.
            return outcomes.Retry(now(), str(error))
        except errors.StoreError as error:
            if error.retryable:
                return self._after(error, leased, page)
            return _dead(f"cannot be stored: {error}", outcomes.UNSTORABLE, page)
        except errors.CrawlfleetError as error:
            return self._after(error, leased, page)
        except Exception as error:  # noqa: BLE001  a page or a rule provoked what nobody foresaw
            warn("a request failed in a way nobody foresaw", error)
            return _dead(f"{type(error).__name__}: {error}", outcomes.INTERNAL, page)
        finally:
            if trace is not None:
                trace.ended()

    def _after(
        self, error: errors.CrawlfleetError, leased: LeasedRequest, page: Page | None
    ) -> outcomes.Outcome:
        now, jitter = self._services.clock(), self._services.jitter()
        end = outcomes.after_failure(error, leased.claim.attempt, leased.biz.retry, now, jitter)
        return replace(end, peers=getattr(error, "peers", ()) if page is None else page.peers)

    async def _fetch(self, leased: LeasedRequest, trace: AttemptTrace | None) -> Page:
        started, tenant = time.perf_counter(), leased.queue_key.tenant
        fetch_context = self._fetch_context(leased)
        proxies = fetch_context.proxies
        usd_per_gb = None if proxies is None else proxies.usd_per_gb
        saw = partial(self._politeness.saw, proxied=proxies is not None)
        hop_guard = self._hop_guards.of(leased, self._is_ours)
        try:
            page = await self._services.fetcher.fetch(
                leased.claim.request.body,
                leased.biz.fetch,
                hop_guard if trace is None else trace.guarding(hop_guard),
                fetch_context,
            )
        except errors.CrawlfleetError as error:
            answer = getattr(error, "answer", None)
            saw(leased.origin, tenant, 0.0 if answer is None else answer.seconds, error)
            raise
        saw(_answered_at(leased, page), tenant, page.seconds)
        if trace is not None:
            trace.fetched(page)
        # A polite worker waits for its slot at a host: that is not the host being slow.
        waited = time.perf_counter() - started - page.seconds
        self._account.add(leased.queue_key, "fetch", page.seconds)
        self._account.add(leased.queue_key, "wait", max(0.0, waited))
        leased.received = len(page.body)
        self._report.bytes += leased.received
        job = leased.claim.request.job
        self._telemetry.usage.arrived(leased.queue_key, job, page, usd_per_gb, leased.bill)
        self._report.saved += page.status == NOT_MODIFIED
        return page

    def _fetch_context(self, leased: LeasedRequest) -> FetchContext:
        stage = self._services.config.current().stage
        pool = proxies_of(stage, leased.biz, self._services.pool)
        return FetchContext(
            queue_key=leased.queue_key,
            job=leased.claim.request.job,
            pool=pool,
            proxies=None if pool is None else stage.proxies.get(pool),
            validators=None if leased.known is None else leased.known.validators,
        )


def _dead(why: str, reason: str, page: Page | None) -> outcomes.Dead:
    if page is None:
        return outcomes.Dead(why[:500], reason)
    return outcomes.Dead(why[:500], reason, Answer.of_page(page), page.peers)


class ReadingGate:
    """Lets pages be read while the event loop, and memory for their outcomes, have room."""

    def __init__(self, session: Session, heavy_bytes: int = HEAVY_BYTES) -> None:
        self._in_flight = session.in_flight
        self._account = session.account
        self._part = session.shares.part
        self._spell_seconds = session.services.pauses.spell
        self._heavy_bytes = heavy_bytes
        self._spell = 0.0

    async def enter(self, tenant: str) -> None:
        """Wait until it makes sense to read a page of a tenant."""
        while True:
            if self._is_heavy(tenant):
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

    def _is_heavy(self, tenant: str) -> bool:
        """Tell whether outcomes of a tenant, or of all, are to be written first.

        Who comes late has its part at once, beside what others have filled.
        """
        in_flight = self._in_flight
        if in_flight.weight > self._heavy_bytes * MOST_OVER:
            return True
        part = self._part(tenant, in_flight.by_tenant())
        return in_flight.weight_of(tenant) > self._heavy_bytes * part


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

    async def read(self, leased: LeasedRequest, reader: Rule | Spider, page: Page) -> outcomes.Done:
        """Read a page, or raise ExtractError; LeaseLostError where it is another worker's."""
        await self._gate.enter(leased.queue_key.tenant)
        if page.status == NOT_MODIFIED:
            return outcomes.Done((), page.status, visit=self._visit(leased, page, ""))
        try:
            if isinstance(reader, Rule):
                return await self._by_rule(leased, reader, page)
            return await self._by_spider(leased, reader, page)
        except (errors.ExtractError, errors.ReaderKilledError) as error:
            self._session.account.add(leased.queue_key, "extract", error.seconds)
            raise

    async def _by_rule(self, leased: LeasedRequest, rule: Rule, page: Page) -> outcomes.Done:
        body = leased.claim.request.body
        read = self._services.reader.harvest(rule, page, body, leased.queue_key.tenant)
        harvest, read_seconds = await read
        self._session.account.add(leased.queue_key, "extract", read_seconds)
        started = time.perf_counter()
        try:
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
        coverage = replace(harvest.coverage, rejected=prepared.rejected_count)
        self._count(leased, coverage)
        leased.weight = _weight(page, prepared.records, harvest.links)
        links, unfit = self._fit(leased, rule, harvest.links)
        return outcomes.Done(
            prepared.records,
            page.status,
            links=tuple(links),
            rejected=(*prepared.rejected, *map(str, unfit))[:MOST_REPORTED],
            rejected_count=prepared.rejected_count + len(unfit),
            visit=visit,
            coverage=countable(coverage),
        )

    async def _by_spider(self, leased: LeasedRequest, spider: Spider, page: Page) -> outcomes.Done:
        filled, mask = await self._services.secrets.filled(leased.queue_key.tenant, spider)
        owner = leased.queue_key.tenant, leased.queue_key.biz
        body = leased.claim.request.body
        records: list[Record] = []
        links: dict[tuple[object, ...], Link] = {}
        reported: list[str] = []
        content = None if leased.known is None else PageContent(spider)
        reported_count = stored = index = place = 0
        coverage, more = Coverage(), True
        reader = self._services.reader
        async with (
            self._session.begun.of(leased.queue_key.tenant),
            reader.begin(filled, page, body, mask, owner) as begun,
        ):
            while more:
                found, more, read_seconds = await begun.next(self._slice_seconds)
                self._session.account.add(leased.queue_key, "extract", read_seconds)
                started = time.perf_counter()
                try:
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
                fit, unfit = self._fit(
                    leased, spider, (one for one in found if isinstance(one, Link))
                )
                for one in fit:
                    if len(links) < self._most_links:
                        links.setdefault(one.identity, one)
                skipped = [str(one) for one in (*found, *unfit) if isinstance(one, Skipped)]
                reported += [*part.rejected, *skipped][: MOST_REPORTED - len(reported)]
                reported_count += part.rejected_count + len(skipped)
                # What could not be normalised has no fields to count.
                read = [*(record.fields for record in part.records), *part.unfit]
                counted = coverage_of(read, pages=0 if more else 1)
                count = len(part.records) + part.rejected_count
                counted = replace(counted, records=count, rejected=part.rejected_count)
                self._count(leased, counted)
                coverage = together(coverage, countable(counted))
                if more and len(records) >= PART:
                    await self._store_part(leased, records)
                    stored += len(records)
                    records = []
                if more:
                    await asyncio.sleep(0)
        leased.weight = _weight(page, records, links)
        return outcomes.Done(
            tuple(records),
            page.status,
            links=tuple(links.values()),
            stored=stored,
            rejected=tuple(reported),
            rejected_count=reported_count,
            visit=None if content is None else self._visit(leased, page, content.digest(page)),
            coverage=coverage,
        )

    async def _store_part(self, leased: LeasedRequest, records: list[Record]) -> None:
        if leased.take_records is not None:
            await leased.take_records(len(records))
        store, now = self._services.store, self._services.clock()
        ours = await self._session.threaded(
            store.store_part, leased.queue_key, leased.biz, leased.claim, records, now
        )
        if not ours:
            raise errors.LeaseLostError("another worker owns it")

    def _fit(
        self, leased: LeasedRequest, reader: Rule | Spider, links: Iterable[Link]
    ) -> tuple[list[Link], list[Skipped]]:
        """Return the links that can be seeds, and why the others cannot."""
        fit: list[Link] = []
        unfit: list[Skipped] = []
        issues = isinstance(reader, Spider) and reader.executor == "scrapy"
        for link in links:
            if SCRAPY_META in link.meta and not issues:
                why = f"has meta.{SCRAPY_META}, which the executor scrapy alone writes"
                unfit.append(Skipped(f"link {link.url[:LONGEST_REPORTED]}", why))
                continue
            # A link that is only a URL was checked when it was found.
            unknown = bool(link.rule) and leased.biz.reader(link.rule) is None
            if unknown or link.meta or link.headers or link.body or link.method != "GET":
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
        body, now = leased.claim.request.body, self._services.clock()
        return recrawling.seen(leased.biz, leased.known, body, page, content, now)

    def _now(self) -> datetime:
        return from_ms(to_ms(self._services.clock()))

    def _count(self, leased: LeasedRequest, coverage: Coverage) -> None:
        body = leased.claim.request.body
        key = leased.queue_key, body.rule, body.rule_version
        self._session.account.count(key, coverage)


def _answered_at(leased: LeasedRequest, page: Page) -> str:
    """Get the origin that answered, where redirects led to another one of the request's host."""
    same_host = host_of(page.url) == leased.host[0]
    return origin_of(page.url) if same_host else leased.origin


def _weight(page: Page, records: Sized, links: Sized) -> int:
    """Estimate the bytes of an outcome; a small page may hold a large one, compressed."""
    return len(page.body) + len(records) * RECORD_BYTES + len(links) * LINK_BYTES
