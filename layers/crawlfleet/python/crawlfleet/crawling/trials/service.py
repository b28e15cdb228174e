"""Try a rule or a spider on one page, and say what a worker would store (SPEC.md H8).

This is the side of the function that does it (:class:`TrialRunner`), one step a question::

    check the rule -> fetch (robots.txt, a host slot, redirects) -> read -> check records

It reaches sites and no store. Each request that it sends has a slot, which whoever asks has
reserved: a step ends where it lacks one, or the robots.txt of a site, and another goes on there.
The page is read in a process of its own (crawling.reading). Nothing is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.rule_validation import MAX_DEPTH, shape_problems
from crawlfleet.config.validation import target_problems
from crawlfleet.crawling.executors.base import Owner
from crawlfleet.crawling.fetching.models import Fetcher
from crawlfleet.crawling.fetching.secrets import SecretTexts, nothing_reads
from crawlfleet.crawling.reading.reader import PageReader
from crawlfleet.crawling.records.coverage import countable, coverage_of
from crawlfleet.crawling.records.normalise import normalised
from crawlfleet.crawling.records.preparation import prepare
from crawlfleet.crawling.records.schema import SchemaValidator
from crawlfleet.crawling.trials.messages import (
    MOST_PROBLEMS,
    Answer,
    Failure,
    Question,
    Seen,
    Tried,
    shortened,
)
from crawlfleet.crawling.trials.step import LacksError, Step
from crawlfleet.kernel import errors
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.redaction import NO_SECRETS, Mask
from crawlfleet.kernel.time import Clock, to_ms
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import Body, Claim, Entry, Link, Request, Trial


def prepared(
    validator: SchemaValidator,
    reader: Rule | Spider,
    trial: Trial,
    page: Page,
    body: Body,
    owner: Owner,
    now: datetime,
) -> Trial:
    """Make ``records`` of a trial those that would be stored, as they would be.

    ``body`` is what the page's request would be, of a tenant and its biz.
    """
    if trial.problems:
        return trial
    tenant, biz = owner
    request = Request(id=0, tenant=tenant, biz=biz, queued_at=now, body=body)
    claim = Claim(request=request, entry=Entry(0, biz, to_ms(now)), token="", attempt=1)
    given: tuple[Any, ...] = trial.records  # of a spider some may be Unfit
    stored = prepare(validator, reader, claim, page.url, given, now)
    return replace(
        trial,
        records=tuple(record.fields for record in stored.records),
        coverage=trial.coverage
        if isinstance(reader, Rule)
        else coverage_of([one for one in given if isinstance(one, Mapping)], pages=1),
        rejected=stored.rejected,
        rejected_count=stored.rejected_count,
    )


#: What an answer shows at most: records, links, and bytes of each as JSON.
MOST_RECORDS: Final = 200
MOST_LINKS: Final = 1_000
RECORD_BYTES: Final = 700_000
LINK_BYTES: Final = 250_000

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRunner:
    """Answers the steps of trials; pages and rules are the ``reader``'s to parse."""

    reader: PageReader
    validator: SchemaValidator
    clock: Clock
    fetcher: Fetcher
    secrets: SecretTexts = field(default_factory=partial(SecretTexts, nothing_reads))

    async def answer(self, question: Question) -> Answer:
        """Answer a question; raises InvalidRequestError for half a one."""
        reader = question.rule or question.spider
        if reader is None or (question.page is None) == (question.url is None):
            raise errors.InvalidRequestError.of("trial", "needs a reader, and a page or a url")
        leased = _leased(question, reader, self.clock())
        step = Step(question=question, fetcher=self.fetcher, clock=self.clock)
        try:
            async with asyncio.timeout(question.seconds):
                tried = await self._tried(question, reader, leased, step)
        except LacksError as error:
            return Answer(wanted=step.wanted(error, leased.biz), learnt=step.learnt, seen=step.seen)
        except errors.NoReaderError as error:
            tried = Tried(failure=Failure.of(error))
        except TimeoutError:
            late = errors.Problem("page", "reading it takes longer than a trial may")
            tried = Tried(version=reader.version, problems=(late,))
        return Answer(tried=tried, learnt=step.learnt, seen=step.seen)

    async def _tried(
        self, question: Question, reader: Rule | Spider, leased: LeasedRequest, step: Step
    ) -> Tried:
        if question.checks:
            return Tried(mistakes=_reported(await self.reader.checked(reader)))
        if isinstance(reader, Rule) and not question.name and not question.with_slot:
            mistakes = await self._errors(reader, question.terms.readers)
            if mistakes:
                return Tried(version=reader.version, mistakes=_reported(mistakes))
        page, seen = question.page, None
        filled, mask = reader, NO_SECRETS
        try:
            if isinstance(reader, Spider):
                filled, mask = await self.secrets.filled(question.tenant, reader)
            if page is None:
                page = await step.page(leased)
                seen = _seen(page)
        except errors.FetchError as error:
            failure = Failure.of(error)
            return Tried(version=reader.version, failure=failure, seen=_answered(error))
        tried = await self._read(leased, filled, page, mask)
        return replace(tried, version=reader.version, seen=seen)

    async def _errors(self, rule: Rule, readers: Sequence[str]) -> list[errors.Problem]:
        """List every error of a rule that is in no document yet; each field is blamed once."""
        found = shape_problems(rule)
        if not any(f"more than {MAX_DEPTH} deep" in problem.message for problem in found):
            blamed = {problem.field for problem in found}
            checked = await self.reader.checked(rule)
            found += [problem for problem in checked if problem.field not in blamed]
        found += target_problems(rule, frozenset(readers))
        return list(dict.fromkeys(found))

    async def _read(
        self, leased: LeasedRequest, reader: Rule | Spider, page: Page, mask: Mask
    ) -> Tried:
        body, owner = leased.claim.request.body, (leased.queue_key.tenant, leased.queue_key.biz)
        try:
            tried = await self.reader.tried(reader, page, body, mask, owner)
        except errors.ReaderKilledError as error:
            tried = Trial(problems=(errors.Problem("page", str(error)),))
        except errors.ExtractError as error:
            tried = Trial(problems=(error.problem,))
        trial = prepared(self.validator, reader, tried, page, body, owner, self.clock())
        if trial.problems:
            problems = _reported(trial.problems)
            seconds, empty = trial.seconds, trial.empty
            return Tried(version=reader.version, problems=problems, empty=empty, seconds=seconds)
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
            empty=trial.empty,
            seconds=trial.seconds,
        )


def _leased(question: Question, reader: Rule | Spider, now: datetime) -> LeasedRequest:
    """Make the request that this page would be; nobody stores it."""
    url = question.url or (question.page.url if question.page is not None else "")
    body = Body(url=url, rule=question.name, rule_version=reader.version, depth=question.depth)
    tenant, biz = question.tenant, question.biz
    request = Request(id=0, tenant=tenant, biz=biz, queued_at=now, body=body)
    claim = Claim(request=request, entry=Entry(0, biz, to_ms(now)), token="", attempt=1)
    terms = question.terms
    document = Biz(generations=(), fetch=terms.fetch, politeness=terms.politeness)
    return LeasedRequest(QueueKey(tenant, biz, document.queue), document, claim, reader)


def _answered(error: errors.FetchError) -> Seen | None:
    answer = error.answer
    if answer is None:
        return None
    kind = answer.headers.get("content-type", "")
    return Seen(url=answer.url, status=answer.status, content_type=kind, seconds=answer.seconds)


def _seen(page: Page) -> Seen:
    return Seen(
        url=shortened(page.url, 8_000),
        status=page.status,
        content_type=shortened(page.headers.get("content-type", "")),
        bytes=len(page.body),
        seconds=page.seconds,
        redirects=tuple(shortened(url, 8_000) for url in page.redirects),
    )


def _plain(links: Iterable[Link]) -> Iterator[Link]:
    """Write links in the form that travels; one that cannot be stored is not followed either."""
    for link in links:
        try:
            yield msgspec.convert(normalised(msgspec.structs.asdict(link)), Link)
        except errors.CrawlfleetError:
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


def _reported(problems: Iterable[errors.Problem]) -> tuple[errors.Problem, ...]:
    listed = list(problems)[:MOST_PROBLEMS]
    return tuple(errors.Problem(shortened(one.field), shortened(one.message)) for one in listed)
