"""Try a rule through the API, before it is in force (SPEC.md H8).

::

    find the biz, and the rule in it -> reserve host slots -> ask the function (trials.service)

Whoever answers the API has the stores, and no parser; the function that tries has parsers, and no
store. So the former reserves the slots and reads what the fleet knows of robots.txt, one step of
the latter after the other, and takes no word of the latter for more than it can know: how the sites
answered that it was let ask. Nothing is stored, but what every download reports of its host.
"""

import asyncio
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.documents.secret import Secret, references
from crawlfleet.config.lookup import biz_of, proxies_of, share_of
from crawlfleet.crawling.fetching.secrets import AGAIN_SECONDS, SecretTexts, why_unread
from crawlfleet.crawling.fetching.stores import StorePlaces
from crawlfleet.crawling.politeness import models
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.crawling.trials.messages import (
    FETCH_SECONDS,
    PATIENCE_SECONDS,
    TRIAL_SECONDS,
    Answer,
    Confidential,
    Failure,
    Learnt,
    Question,
    Terms,
    Tried,
    Wanted,
)
from crawlfleet.kernel import errors
from crawlfleet.kernel.hosts import host_of, origin_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.urls import problem_with
from crawlfleet.kernel.validation import named

#: Steps of one trial: robots.txt and page, with the redirects of both at other hosts.
MOST_STEPS: Final = 64
#: A step that is begun later than this would not be over in time.
LEAST_SECONDS: Final = 1.0
_SHORTEST_PAUSE_SECONDS: Final = 0.05


class TrialWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A trial as a client asks for it: a rule or spider of a biz by name, or a rule as it is.

    On a page that is given, or on one that is fetched from ``url``; ``depth`` counts links from
    where the crawl would have begun.
    """

    rule: str | Rule
    page: Page | None = None
    url: str | None = None
    depth: int = 0


class Trials(Protocol):
    """The function that tries rules.

    A Protocol, as the fleet, which calls functions, stands above crawling.
    """

    def ask(self, question: Question) -> Answer:
        """Have a step done within its ``seconds``; StoreUnavailableError if nobody has done it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialService:
    """Tries rules for callers of the API.

    ``read_secret`` reads a secret anew by its whole name, ``read_tenant_secret`` by tenant and
    name; both may raise anything. ``stores`` are the addresses of the stage's own stores.
    """

    trials: Trials
    hosts: RedisHosts
    robots: RedisRobotsCache
    read_secret: Callable[[str], str]
    read_tenant_secret: Callable[[str, str], str]
    stores: Callable[[], StorePlaces]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def try_rule(self, tree: Tree, tenant: str, biz_name: str, wanted: TrialWanted) -> Tried:
        """Return what a rule yields of a page.

        Raises UnknownBizError or UnknownRuleError, InvalidRequestError for errors of the rule or a
        URL, StoreUnavailableError if the function could not be asked, or nobody grants host slots.
        """
        _, biz = biz_of(tree, tenant, biz_name)
        name, reader = _reader(biz, wanted.rule)
        given = {"url": wanted.url, "page.url": None if wanted.page is None else wanted.page.url}
        faults = {field: problem_with(url) for field, url in given.items() if url is not None}
        if problems := [errors.Problem(at, why) for at, why in faults.items() if why is not None]:
            raise errors.InvalidRequestError(problems)
        try:
            confidential = self._confidential(tree, tenant, biz, reader, url=wanted.url)
        except errors.FetchError as error:
            return Tried(version=reader.version, failure=Failure.of(error))
        pool = None if wanted.url is None else proxies_of(tree.stage, biz, MAIN_POOL)
        question = Question(
            tenant=tenant,
            biz=biz_name,
            name=name,
            rule=reader if isinstance(reader, Rule) else None,
            spider=reader if isinstance(reader, Spider) else None,
            page=wanted.page,
            url=wanted.url,
            depth=wanted.depth,
            terms=Terms(
                robots_agent=tree.stage.user_agent,
                allow_private_addresses=tree.stage.allow_private_addresses,
                ports=tree.stage.ports,
                reading=tree.stage.reading,
                stores=StorePlaces() if wanted.url is None else self.stores(),
                fetch=biz.fetch,
                politeness=biz.politeness,
                readers=() if name else tuple(biz.readers),
                pool=pool,
                proxies=None if pool is None else tree.stage.proxies.get(pool),
            ),
            confidential=confidential,
        )
        tried = _Trial(self, tree, biz, question).run()
        if tried.mistakes:
            raise errors.InvalidRequestError(
                errors.Problem(f"rule.{one.field}".rstrip("."), one.message)
                for one in tried.mistakes
            )
        return tried

    def _confidential(
        self, tree: Tree, tenant: str, biz: Biz, reader: Rule | Spider, url: str | None
    ) -> Confidential:
        """Read what this trial needs of the tenant's secrets; NotReadyError where one is not had.

        Of a list of proxies that is one of them, at random.
        """
        parameters = reader.parameters if isinstance(reader, Spider) else {}
        names = {name for _, name in references(parameters)}
        if url is None:
            return Confidential(texts=self._texts(tenant, names))
        headers = biz.fetch.headers.values()
        names |= {one.secret for one in headers if isinstance(one, Secret)}
        pool = proxies_of(tree.stage, biz, MAIN_POOL)
        proxies = None if pool is None else tree.stage.proxies.get(pool)
        proxy = "" if proxies is None else self._proxy(pool or "", proxies.secret)
        return Confidential(texts=self._texts(tenant, names), proxy=proxy)

    def _texts(self, tenant: str, names: set[str]) -> dict[str, str]:
        if not names:
            return {}
        texts = SecretTexts(self.read_tenant_secret)
        return asyncio.run(texts.of(tenant, sorted(names)))

    def _proxy(self, pool: str, secret: str) -> str:
        try:
            text = self.read_secret(secret)
        except Exception as error:  # noqa: BLE001  whatever reads it
            raise errors.NoProxyError(
                f"the pool of proxies {pool!r} has none: the secret {secret!r} cannot be read: "
                f"{why_unread(error)}",
                again_seconds=AGAIN_SECONDS,
            ) from None  # its text may quote the secret
        lines = [line.strip() for line in text.splitlines()]
        found = [line for line in lines if _names_a_host(line)]
        return random.choice(found) if found else ""  # noqa: S311  any of them will do


def _names_a_host(line: str) -> bool:
    try:
        return not line.startswith("#") and bool(urlsplit(line).hostname)
    except ValueError:
        return False


@dataclass(slots=True)
class _Trial:
    """One trial under way, from step to step."""

    service: TrialService
    tree: Tree
    biz: Biz
    question: Question
    _who: str = field(default_factory=lambda: f"trial-{secrets.token_hex(8)}")
    _began: float = field(init=False)
    #: Origins at which a slot was asked for: others the function cannot have seen.
    _asked: set[str] = field(default_factory=set)
    _seen: dict[str, models.Observation] = field(default_factory=dict)
    _waited: float = 0.0

    def __post_init__(self) -> None:
        self._began = self.service.clock()

    def run(self) -> Tried:
        """Take steps until there is a result."""
        if self.question.url is not None:
            origin = origin_of(self.question.url)
            self.question = replace(self.question, origin=origin, robots=self._robots(origin))
        try:
            for _ in range(MOST_STEPS):
                answer = self._step()
                if answer.tried is not None:
                    return answer.tried
                if answer.wanted is None:
                    raise errors.StoreUnavailableError("trials", "the answer is no trial's")
                self._supply(answer.wanted)
        except errors.FetchError as error:
            return Tried(version=self._version, failure=Failure.of(error))
        finally:
            self._report()
        raise errors.StoreUnavailableError("trials", "the function goes on without an end")

    def _step(self) -> Answer:
        left, left_to_fetch = self._left(TRIAL_SECONDS), self._left(FETCH_SECONDS)
        if self.question.url is not None and left_to_fetch < LEAST_SECONDS:
            raise errors.FetchTimeoutError(f"not there within {FETCH_SECONDS:g} seconds")
        question = replace(self.question, seconds=left, fetch_seconds=max(0.0, left_to_fetch))
        answer = self.service.trials.ask(question)
        for one in answer.seen:
            if one.origin in self._asked:
                self._seen[one.origin] = one
        if answer.learnt is not None and question.with_slot:
            self._learn(answer.learnt)
        return answer

    def _left(self, seconds: float) -> float:
        return self._began + seconds - self.service.clock()

    def _supply(self, wanted: Wanted) -> None:
        """Get what the next step needs; ThrottledError where no slot is free soon."""
        if (problem := problem_with(wanted.origin)) is not None:
            raise errors.StoreUnavailableError("trials", f"asks for an origin that {problem}")
        if not wanted.robots:
            self._wait_for_slot(wanted.origin, wanted.crawl_delay)
            self.question = replace(self.question, with_slot=True, followed=wanted.followed)
            return
        robots = self._robots(wanted.origin)
        if robots is None:
            self._wait_for_slot(wanted.origin, None)
        self.question = replace(
            self.question,
            with_slot=robots is None,
            followed=wanted.followed,
            origin=wanted.origin,
            robots=robots,
        )

    def _robots(self, origin: str) -> models.RobotsCopy | None:
        try:
            return self.service.robots.load(origin)
        except errors.StoreError as error:
            warn("robots.txt could not be read from the cache", error)
            return None

    def _learn(self, learnt: Learnt) -> None:
        if learnt.origin != self.question.origin:
            return
        self.question = replace(self.question, robots=learnt.copy)
        try:
            tenant = self.question.tenant
            self.service.robots.save(learnt.origin, learnt.copy, learnt.seconds, tenant)
        except errors.StoreError as error:
            warn("robots.txt could not be saved to the cache", error)

    def _wait_for_slot(self, origin: str, crawl_delay: float | None) -> None:
        service, host = self.service, host_of(origin)
        limits = models.limits_for(self.tree.stage, self.biz, host)
        ask = models.HostAsk(
            host=host,
            origin=origin,
            tenant=self.question.tenant,
            count=1,
            running=0,
            interval_seconds=models.interval_of(limits, crawl_delay),
            concurrency=limits.concurrency,
            share=share_of(self.tree, self.question.tenant),
        )
        while True:
            self._asked.add(origin)
            [grant] = service.hosts.reserve([ask], self._who)
            if grant.count:
                service.sleep(max(0.0, grant.wait_seconds))
                return
            pause = max(_SHORTEST_PAUSE_SECONDS, grant.ready_seconds)
            self._waited += pause
            if self._waited > PATIENCE_SECONDS or pause > self._left(FETCH_SECONDS):
                why = models.reason(grant.why).partition(": ")[2]
                raise errors.ThrottledError(
                    f"{host} has no free slot now: {why}; ask again in {max(1, round(pause))} s",
                    status=0,
                    retry_after_seconds=pause,
                )
            service.sleep(pause)

    def _report(self) -> None:
        """Report how hosts answered, and that nothing is in flight there any more."""
        stage, tenant = self.tree.stage, self.question.tenant
        reports = []
        for origin in self._asked:
            host = host_of(origin)
            seen, limits = self._seen.get(origin), models.host_limits(stage, host)
            reports.append(
                models.HostReport(host=host, tenant=tenant, running=0, limits=limits)
                if seen is None
                else seen.report(host, tenant, limits)
            )
        if not reports:
            return
        try:
            self.service.hosts.report(reports, self._who)
        except errors.StoreError as error:
            warn("how a host answered could not be reported", error)

    @property
    def _version(self) -> str:
        reader = self.question.rule or self.question.spider
        return "" if reader is None else reader.version


def _reader(biz: Biz, rule: str | Rule) -> tuple[str, Rule | Spider]:
    if isinstance(rule, Rule):
        return "", rule
    reader = biz.reader(rule)
    if reader is None:
        there = named(biz.readers, rule)
        message = f"there is no rule or spider called {rule[:64]!r} in this biz; it has {there}"
        raise errors.UnknownRuleError(message)
    return rule, reader
