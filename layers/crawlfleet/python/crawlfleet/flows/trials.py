"""A rule tried by a worker: on a page that came along, or on one that is fetched (SPEC.md H8).

::

    check the rule -> fetch (robots.txt, a turn at the host, redirects) -> read -> check records

What is fetched is fetched as for a crawl: by the biz's limits, at most :data:`FETCH_SECONDS`, and a
site that wants to be left alone is. Nothing is stored, but what every download tells the fleet of
its host.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

import msgspec

from crawlfleet.errors import (
    CrawlfleetError,
    FetchError,
    FetchTimeoutError,
    InvalidRequestError,
    Problem,
    StoreError,
    ThrottledError,
)
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.courtesy import Courtesy, reason
from crawlfleet.flows.holding import Held
from crawlfleet.flows.robots import RobotsBook
from crawlfleet.flows.trial_reading import TrialReading, read_page
from crawlfleet.flows.turns import Turns
from crawlfleet.model.biz import Biz
from crawlfleet.model.harvest import Link
from crawlfleet.model.lane import Lane
from crawlfleet.model.outcome import Page
from crawlfleet.model.request import Body, Claim, Entry, Request
from crawlfleet.model.rule import Rule
from crawlfleet.model.spider import Spider
from crawlfleet.model.times import to_ms
from crawlfleet.model.trial import Failure, Question, Seen, Tried
from crawlfleet.policy.coverage import countable
from crawlfleet.policy.document_checks import ReaderCheck
from crawlfleet.policy.follow_targets import target_problems
from crawlfleet.policy.normal_form import normal_form
from crawlfleet.policy.politeness import host_of
from crawlfleet.policy.retry import reason_of
from crawlfleet.policy.rule_shape import MAX_DEPTH, shape_problems
from crawlfleet.ports import (
    Clock,
    ConfigCentre,
    Errand,
    Executors,
    Fetcher,
    Hosts,
    RobotsCache,
    RuleTrial,
    Validator,
)

#: A page, robots.txt and turns included, takes no longer: somebody waits for the answer.
FETCH_SECONDS: Final = 20.0
#: So much of it may be spent on waiting for turns.
PATIENCE_SECONDS: Final = 10.0
_SHORTEST_PAUSE_SECONDS: Final = 0.05
#: What an answer shows at most: records, links, and bytes of each as JSON.
MOST_RECORDS: Final = 200
MOST_LINKS: Final = 1_000
RECORD_BYTES: Final = 700_000
LINK_BYTES: Final = 250_000
#: Mistakes, and characters of a message.
MOST_PROBLEMS: Final = 100
_LONGEST: Final = 500

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPorts:
    """What a trial needs of the world; ``check`` finds the mistakes that parsers would.

    ``warn`` is told what is wrong but not fatal.
    """

    config: ConfigCentre
    hosts: Hosts
    robots: RobotsCache
    fetcher: Fetcher
    executors: Executors
    validator: Validator
    clock: Clock
    check: ReaderCheck
    read: RuleTrial
    warn: Callable[[str, Exception], None]


async def tried(ports: TrialPorts, question: Question, who: str) -> Tried:
    """The answer to a question. ``who`` is what the fleet knows the asker of turns by.

    Raises:
        UnknownBizError: this worker's configuration has no such biz, yet or any more.
        InvalidRequestError: it is no whole question.
        StoreUnavailableError: nobody can say whose turn it is.
    """
    lane, biz = biz_of(ports.config.current(), question.tenant, question.biz)
    reader = question.rule or question.spider
    if reader is None or (question.page is None) == (question.url is None):
        raise InvalidRequestError.of("trial", "needs a reader, and a page or a url")
    if isinstance(reader, Rule) and not question.name:
        mistakes = _mistakes(reader, biz, ports.check)
        if mistakes:
            return Tried(version=reader.version, mistakes=_told(mistakes))
    held = _held(lane, biz, question, reader, ports)
    page, seen = question.page, None
    if page is None:
        try:
            page = await _Visit(ports, held, who).fetch()
        except FetchError as error:
            return Tried(version=reader.version, failure=_failure(error), seen=_answered(error))
        seen = _seen(page)
    return msgspec.structs.replace(_read(ports, held, reader, page), seen=seen)


def _mistakes(rule: Rule, biz: Biz, check: ReaderCheck) -> list[Problem]:
    """Every mistake of a rule that is in no document yet; each field is blamed once."""
    found = shape_problems(rule)
    if not any(f"more than {MAX_DEPTH} deep" in problem.message for problem in found):
        blamed = {problem.field for problem in found}
        found += [problem for problem in check(rule) if problem.field not in blamed]
    found += target_problems(rule, biz.rules.keys() | biz.spiders.keys())
    return list(dict.fromkeys(found))


def _held(
    lane: Lane, biz: Biz, question: Question, reader: Rule | Spider, ports: TrialPorts
) -> Held:
    """The request that this page would be, for those who go by one; nobody stores it."""
    url = question.url or (question.page.url if question.page is not None else "")
    now = ports.clock()
    body = Body(url=url, rule=question.name, rule_version=reader.version, depth=question.depth)
    request = Request(id=0, tenant=lane.tenant, biz=lane.biz, queued_at=now, body=body)
    entry = Entry(0, lane.biz, to_ms(now))
    return Held(lane, biz, Claim(request=request, entry=entry, token="", attempt=1), reader)


# ---- fetching ------------------------------------------------------------------------------------


async def _threaded(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    return await asyncio.to_thread(function, *args, **kwargs)


class _Visit:
    """One download, with the manners of a worker (flows.courtesy, flows.robots)."""

    def __init__(self, ports: TrialPorts, held: Held, who: str) -> None:
        self._ports = ports
        self._held = held
        self._robots = RobotsBook(
            ports.fetcher,
            ports.robots,
            ports.clock,
            _threaded,
            self._robots_turn_at,
            ports.warn,
            lambda: ports.config.current().stage.user_agent,
        )
        self._courtesy = Courtesy(
            ports.hosts, ports.config, self._robots, Turns(), who, ports.clock
        )
        self._patient_until = time.monotonic() + PATIENCE_SECONDS
        self._sent = False

    async def fetch(self) -> Page:
        """The page.

        Raises:
            FetchError: there is none, or none now.
        """
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                page = await self._ask()
        except TimeoutError as error:
            late = FetchTimeoutError(f"not there within {FETCH_SECONDS:g} seconds")
            self._saw(late)
            raise late from error
        except FetchError as error:
            self._saw(error)
            raise
        else:
            self._courtesy.saw(self._held.host, page.seconds, None)
            return page
        finally:
            await self._report()

    async def _ask(self) -> Page:
        held, stage = self._held, self._ports.config.current().stage
        fetch = held.biz.fetch
        limits = msgspec.structs.replace(
            fetch, cookies=False, total_seconds=min(fetch.total_seconds, FETCH_SECONDS)
        )
        pool = fetch.proxies or stage.default_proxies
        proxies = None if pool is None else stage.proxies.get(pool)
        errand = Errand(lane=held.lane, pool=pool, proxies=proxies)
        body = held.claim.request.body
        return await self._ports.fetcher.fetch(body, limits, self._passage, errand)

    async def _passage(self, url: str) -> None:
        self._sent = False
        await self._robots.check(self._held, url)
        await self._turn_at(self._held, host_of(url))
        self._sent = True

    async def _robots_turn_at(self, held: Held, host: str, **_: bool) -> None:
        await self._turn_at(held, host)

    async def _turn_at(self, held: Held, host: str) -> None:
        """Wait for a turn, for a little while.

        Raises:
            ThrottledError: says when there may be one.
        """
        while True:
            tree = self._ports.config.current()
            turns = await _threaded(self._courtesy.ask, tree, held.lane, held.biz, {host: 1})
            turn, now = turns[host], time.monotonic()
            if turn.count:
                await asyncio.sleep(max(0.0, turn.first_at - now))
                return
            pause = max(_SHORTEST_PAUSE_SECONDS, turn.again_seconds)
            if now + pause > self._patient_until:
                why = reason(turn.why).partition(": ")[2]
                raise ThrottledError(
                    f"{host} has no turn now: {why}; ask again in {max(1, round(pause))} s",
                    status=0,
                    retry_after_seconds=pause,
                )
            await asyncio.sleep(pause)

    def _saw(self, error: FetchError) -> None:
        # Who got no turn has learnt nothing of the host.
        if self._sent:
            answer = error.answer
            self._courtesy.saw(self._held.host, 0.0 if answer is None else answer.seconds, error)

    async def _report(self) -> None:
        try:
            await _threaded(self._courtesy.report, self._courtesy.take_reports(last=True))
        except StoreError as error:
            self._ports.warn("what was seen of a host could not be told", error)


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


# ---- reading -------------------------------------------------------------------------------------


def _read(ports: TrialPorts, held: Held, reader: Rule | Spider, page: Page) -> Tried:
    parts = TrialReading(
        executors=ports.executors, validator=ports.validator, clock=ports.clock, read=ports.read
    )
    body = held.claim.request.body
    trial = read_page(parts, reader, page, body, held.lane.tenant, held.lane.biz)
    if trial.problems:
        problems = _told(trial.problems)
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


def _plain(links: Iterable[Link]) -> Iterator[Link]:
    """Links in the form that travels; one that cannot be stored would not be followed either."""
    for link in links:
        try:
            yield msgspec.convert(normal_form(msgspec.structs.asdict(link)), Link)
        except CrawlfleetError:
            continue


def _first(found: Sequence[R], most: int, room: int) -> tuple[R, ...]:
    """The first ones, as many as there is room for."""
    shown = []
    for one in found[:most]:
        room -= len(msgspec.json.encode(one))
        if room < 0:
            break
        shown.append(one)
    return tuple(shown)


def _told(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    listed = list(problems)[:MOST_PROBLEMS]
    return tuple(Problem(_text(one.field), _text(one.message)) for one in listed)


def _text(text: str, longest: int = _LONGEST) -> str:
    """Text that any answer can carry."""
    return text[:longest].encode(errors="replace").decode()
