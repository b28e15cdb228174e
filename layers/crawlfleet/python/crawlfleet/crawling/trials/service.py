"""Try a rule or a spider on one page, and say what a worker would store (SPEC.md H8).

A worker that is asked (:class:`TrialRunner`) gets a page along, or fetches it::

    check the rule -> fetch (robots.txt, a host slot, redirects) -> read -> check records

as for a crawl: by the biz's limits, at most :data:`FETCH_SECONDS`, and a site that wants to be left
alone is. At a terminal :func:`try_rule` and :class:`TrialReader` do the reading. Nothing is stored,
but what every download reports of its host.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.lookup import ConfigCentre, biz_of
from crawlfleet.config.rule_validation import MAX_DEPTH, shape_problems
from crawlfleet.config.validation import ReaderCheck, target_problems
from crawlfleet.crawling.executors.runner import SpiderExecutors
from crawlfleet.crawling.extract.extractor import RuleExtractor, check_rule
from crawlfleet.crawling.fetching.models import Fetcher
from crawlfleet.crawling.politeness.hop_guard import SingleRequest, fetch_context_of
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.crawling.records.normalise import normalised
from crawlfleet.crawling.records.pipeline import LONGEST_REPORTED, MOST_REPORTED, prepare
from crawlfleet.crawling.records.redis import countable, coverage_of
from crawlfleet.crawling.records.schema import SchemaValidator
from crawlfleet.crawling.trials.remote import Failure, Question, RuleTrial, Seen, Tried
from crawlfleet.kernel.errors import (
    CrawlfleetError,
    ExtractError,
    FetchError,
    InvalidRequestError,
    Problem,
)
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Clock, to_ms
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import Body, Claim, Entry, Link, Request, Skipped, Trial
from crawlfleet.requests.outcomes import reason_of

#: A spider is stopped after so many things, or so long.
MOST_READ: Final = 10_000
READ_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReader:
    """Reads pages, and checks the records."""

    executors: SpiderExecutors
    validator: SchemaValidator
    clock: Clock
    read: RuleTrial

    def read_page(
        self, reader: Rule | Spider, page: Page, body: Body, tenant: str, biz: str
    ) -> Trial:
        """Read a page; ``records`` are those that would be stored, as they would be.

        ``body`` is what the page's request would be, ``tenant`` and ``biz`` whose.
        """
        if isinstance(reader, Rule):
            trial = self.read(reader, page, body.depth)
        else:
            trial = _by_spider(self.executors, reader, page, body)
        if trial.problems:
            return trial
        now = self.clock()
        request = Request(id=0, tenant=tenant, biz=biz, queued_at=now, body=body)
        claim = Claim(request=request, entry=Entry(0, biz, to_ms(now)), token="", attempt=1)
        prepared = prepare(self.validator, reader, claim, page.url, trial.records, now)
        return replace(
            trial,
            records=tuple(record.fields for record in prepared.records),
            rejected=prepared.rejected,
            rejected_count=prepared.rejected_count,
        )


def _by_spider(executors: SpiderExecutors, spider: Spider, page: Page, body: Body) -> Trial:
    records: list[dict[str, object]] = []
    links: list[Link] = []
    left_out: list[str] = []
    left_out_count = 0
    unread = False
    started = time.perf_counter()
    try:
        for count, one in enumerate(executors.read(spider, page, body), 1):
            if isinstance(one, Link):
                links.append(one)
            elif isinstance(one, Skipped):
                left_out_count += 1
                if len(left_out) < MOST_REPORTED:
                    left_out.append(str(one)[:LONGEST_REPORTED].encode(errors="replace").decode())
            else:
                records.append(one)
            if count >= MOST_READ or time.perf_counter() - started > READ_SECONDS:
                unread = True
                break
    except ExtractError as error:
        message = str(error).removeprefix(f"{error.field}: ")
        return Trial(problems=(Problem(error.field, message),))
    return Trial(
        records=tuple(records),
        links=tuple(links),
        coverage=coverage_of(records, pages=1),
        left_out=tuple(left_out),
        left_out_count=left_out_count,
        unread=unread,
        seconds=time.perf_counter() - started,
    )


#: A page, robots.txt and host slots included, takes no longer: somebody waits for the answer.
FETCH_SECONDS: Final = 20.0
#: So much of it may be spent on waiting for host slots.
PATIENCE_SECONDS: Final = 10.0
#: What an answer shows at most: records, links, and bytes of each as JSON.
MOST_RECORDS: Final = 200
MOST_LINKS: Final = 1_000
RECORD_BYTES: Final = 700_000
LINK_BYTES: Final = 250_000
#: Errors, and characters of a message.
MOST_PROBLEMS: Final = 100
_LONGEST: Final = 500

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRunner(TrialReader):
    """Answers trials in ``fetch_seconds`` each; ``check`` finds the errors that parsers would."""

    config: ConfigCentre
    hosts: RedisHosts
    robots: RedisRobotsCache
    fetcher: Fetcher
    check: ReaderCheck
    fetch_seconds: float = FETCH_SECONDS

    async def answer(self, question: Question, who: str) -> Tried:
        """Answer a question; ``who`` names the asker of host slots to the fleet.

        Raises:
            UnknownBizError: this worker's configuration has no such biz, yet or any more.
            InvalidRequestError: it is no whole question.
            StoreUnavailableError: nobody can grant a host slot.
        """
        queue_key, biz = biz_of(self.config.current(), question.tenant, question.biz)
        reader = question.rule or question.spider
        if reader is None or (question.page is None) == (question.url is None):
            raise InvalidRequestError.of("trial", "needs a reader, and a page or a url")
        if isinstance(reader, Rule) and not question.name:
            mistakes = _errors(reader, biz, self.check)
            if mistakes:
                return Tried(version=reader.version, mistakes=_reported(mistakes))
        leased = _leased(queue_key, biz, question, reader, self)
        page, seen = question.page, None
        if page is None:
            try:
                page = await self._fetched(leased, who)
            except FetchError as error:
                return Tried(version=reader.version, failure=_failure(error), seen=_answered(error))
            seen = _seen(page)
        return msgspec.structs.replace(self._read(leased, reader, page), seen=seen)

    async def _fetched(self, leased: LeasedRequest, who: str) -> Page:
        """Fetch the page; raises FetchError where there is none, or none now."""
        tree, fetch = self.config.current(), leased.biz.fetch
        limits = msgspec.structs.replace(
            fetch, cookies=False, total_seconds=min(fetch.total_seconds, self.fetch_seconds)
        )
        fetch_context, body = fetch_context_of(tree, leased), leased.claim.request.body
        single = SingleRequest(
            self.config,
            self.hosts,
            self.robots,
            self.fetcher,
            self.clock,
            leased,
            who,
            self.fetch_seconds,
            PATIENCE_SECONDS,
        )
        return await single.ask(
            lambda hop_guard: self.fetcher.fetch(body, limits, hop_guard, fetch_context),
            lambda page: page.seconds,
        )

    def _read(self, leased: LeasedRequest, reader: Rule | Spider, page: Page) -> Tried:
        body = leased.claim.request.body
        trial = self.read_page(reader, page, body, leased.queue_key.tenant, leased.queue_key.biz)
        if trial.problems:
            problems = _reported(trial.problems)
            return Tried(version=reader.version, problems=problems, seconds=trial.seconds)
        links = list(_plain(trial.links))
        return Tried(
            version=reader.version,
            records=_first(trial.records, MOST_RECORDS, RECORD_BYTES),
            record_count=len(trial.records),
            links=_first(links, MOST_LINKS, LINK_BYTES),
            link_count=len(links),
            refused=trial.refused,
            coverage=countable(trial.coverage),
            rejected=trial.rejected,
            rejected_count=trial.rejected_count,
            left_out=trial.left_out,
            left_out_count=trial.left_out_count,
            unread=trial.unread,
            seconds=trial.seconds,
        )


def _errors(rule: Rule, biz: Biz, check: ReaderCheck) -> list[Problem]:
    """List every error of a rule that is in no document yet; each field is blamed once."""
    found = shape_problems(rule)
    if not any(f"more than {MAX_DEPTH} deep" in problem.message for problem in found):
        blamed = {problem.field for problem in found}
        found += [problem for problem in check(rule) if problem.field not in blamed]
    found += target_problems(rule, biz.rules.keys() | biz.spiders.keys())
    return list(dict.fromkeys(found))


def _leased(
    queue_key: QueueKey, biz: Biz, question: Question, reader: Rule | Spider, runner: TrialRunner
) -> LeasedRequest:
    """Make the request that this page would be; nobody stores it."""
    url = question.url or (question.page.url if question.page is not None else "")
    now = runner.clock()
    body = Body(url=url, rule=question.name, rule_version=reader.version, depth=question.depth)
    request = Request(id=0, tenant=queue_key.tenant, biz=queue_key.biz, queued_at=now, body=body)
    entry = Entry(0, queue_key.biz, to_ms(now))
    return LeasedRequest(
        queue_key, biz, Claim(request=request, entry=entry, token="", attempt=1), reader
    )


def _failure(error: FetchError) -> Failure:
    return Failure(
        reason=reason_of(error),
        message=_text(str(error)),
        status=error.status,
        retryable=error.retryable,
        retry_after_seconds=getattr(error, "retry_after_seconds", None),
    )


def _answered(error: FetchError) -> Seen | None:
    answer = error.answer
    if answer is None:
        return None
    kind = answer.headers.get("content-type", "")
    return Seen(url=answer.url, status=answer.status, content_type=kind, seconds=answer.seconds)


def _seen(page: Page) -> Seen:
    return Seen(
        url=_text(page.url, 8_000),
        status=page.status,
        content_type=_text(page.headers.get("content-type", "")),
        bytes=len(page.body),
        seconds=page.seconds,
        redirects=tuple(_text(url, 8_000) for url in page.redirects),
    )


def _plain(links: Iterable[Link]) -> Iterator[Link]:
    """Write links in the form that travels; one that cannot be stored is not followed either."""
    for link in links:
        try:
            yield msgspec.convert(normalised(msgspec.structs.asdict(link)), Link)
        except CrawlfleetError:
            continue


def _first(found: Sequence[R], most: int, room: int) -> tuple[R, ...]:
    """Return the first ones, as many as there is room for."""
    shown = []
    for one in found[:most]:
        room -= len(msgspec.json.encode(one))
        if room < 0:
            break
        shown.append(one)
    return tuple(shown)


def _reported(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    listed = list(problems)[:MOST_PROBLEMS]
    return tuple(Problem(_text(one.field), _text(one.message)) for one in listed)


def _text(text: str, longest: int = _LONGEST) -> str:
    """Cut a text to what any answer can carry."""
    return text[:longest].encode(errors="replace").decode()


def try_rule(
    rule: Rule, page: Page, depth: int = 0, meta: Mapping[str, Any] | None = None
) -> Trial:
    """Apply the rule to the page, or list the errors of a rule that cannot be put in force.

    >>> from crawlfleet.config.documents.rule import Field
    >>> page = Page(url="https://example.org/", status=200, headers={}, body=b"<h1>Hello</h1>")
    >>> try_rule(Rule(fields={"title": Field(css="h1")}), page).records
    ({'title': 'Hello'},)
    >>> try_rule(Rule(fields={"title": Field(css="h1", type="integer")}), page).problems
    (Problem(field='title', message="'Hello' is not an integer"),)
    """
    problems = rule_errors(rule)
    if problems:
        return Trial(problems=problems)
    extractor = RuleExtractor()
    started = time.perf_counter()
    try:
        extractor.trial(rule, page, depth, meta)
        started = time.perf_counter()  # the first reading loaded parsers; workers have them
        harvest, refused = extractor.trial(rule, page, depth, meta)
    except ExtractError as error:
        message = str(error).removeprefix(f"{error.field}: ")
        seconds = time.perf_counter() - started
        return Trial(problems=(Problem(error.field, message),), seconds=seconds)
    return Trial(
        records=harvest.records,
        links=harvest.links,
        refused=refused,
        coverage=harvest.coverage,
        seconds=time.perf_counter() - started,
    )


def rule_errors(rule: Rule) -> tuple[Problem, ...]:
    """List what keeps a rule from being put in force, each field once."""
    found = shape_problems(rule)
    blamed = {problem.field for problem in found}
    found += [problem for problem in check_rule(rule) if problem.field not in blamed]
    return tuple(dict.fromkeys(found))
