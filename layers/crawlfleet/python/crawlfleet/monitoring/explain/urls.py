"""Explain why a URL was or was not crawled (SPEC.md H6): its seeds, their last request, its visit.

A URL is found by its keys, in the newest segments there are, and among the visits; the newest
seed's request has its chain as by its id. What would stop it now comes beside: the segment that
knows it, the site's robots.txt as the fleet last read it, a back-off of its host. Redis away takes
the latter with it, never the explanation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.policies import Robots
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.frontier.adding import Frontier
from crawlfleet.crawling.frontier.fingerprint import keys_of
from crawlfleet.crawling.frontier.models import Seed, SeedState, Segment
from crawlfleet.crawling.politeness.models import RobotsCopy
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.crawling.politeness.robots_txt import SiteRules, product_of
from crawlfleet.crawling.recrawl.mongo import MongoVisits
from crawlfleet.kernel.errors import (
    InvalidRequestError,
    NotFoundError,
    StoreUnavailableError,
    UnknownRuleError,
)
from crawlfleet.kernel.hosts import host_of, origin_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.urls import problem_with
from crawlfleet.kernel.validation import named
from crawlfleet.monitoring.explain.service import (
    ExplainingPorts,
    Explanation,
    Fact,
    Standing,
    Step,
    StepKind,
    UrlExplanation,
    explain,
)
from crawlfleet.requests.models import Visit

T = TypeVar("T")

_BY_ID: Final = (
    "a request that was submitted as it is, by a rule that follows no links, is no seed: it is "
    "found by its id"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlPorts:
    """The stores that explanations of URLs are read from."""

    requests: ExplainingPorts
    seeds: Frontier
    visits: MongoVisits
    robots: RedisRobotsCache
    hosts: RedisHosts


@dataclass(slots=True)
class _Case:
    """A URL and what was found of it."""

    ports: UrlPorts
    queue_key: QueueKey
    biz: Biz
    url: str
    keys: list[bytes]
    segment: Segment
    seeds: list[Seed]
    visit: Visit | None
    request: Explanation | None = None
    facts: dict[str, Fact] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def now_known(self) -> Seed | None:
        """Return the seed that keeps the URL from being accepted now."""
        return next((seed for seed in self.seeds if seed.segment == self.segment.name), None)

    def of_redis(self, what: str, ask: Callable[[], T]) -> T | None:
        """Ask Redis; None while it is away."""
        try:
            return ask()
        except StoreUnavailableError as error:
            warn(f"{what} could not be asked for", error)
            self.missing.append(f"Redis does not answer: {what} is not known")
            return None


def explain_url(
    ports: UrlPorts,
    tree: Tree,
    tenant: str,
    biz_name: str,
    url: str,
    rule: str | None,
    now: datetime,
) -> UrlExplanation:
    """Explain what became of a page, by any URL of it, and what would become of it now.

    ``rule`` is a rule or spider of the biz, whose seeds alone are meant; without one all are.

    Raises:
        InvalidRequestError: it is no URL.
        UnknownRuleError: the biz has no such rule.
        StoreUnavailableError: MongoDB does not answer.
    """
    queue_key, biz = biz_of(tree, tenant, biz_name)
    if fault := problem_with(url):
        raise InvalidRequestError.of("url", fault)
    keys = _keys(ports, biz, url, rule)
    texts = [key.hex() for key in keys]
    seeds = [
        seed
        for seed in ports.seeds.seeds.of_keys(queue_key, biz, texts)
        if rule in {None, seed.spec.rule}
    ]
    visits = [
        visit
        for visit in ports.visits.known(queue_key, biz, texts).values()
        if rule in {None, visit.rule}
    ]
    case = _Case(
        ports=ports,
        queue_key=queue_key,
        biz=biz,
        url=url,
        keys=keys,
        segment=ports.seeds.segments(biz.seeds, now),
        seeds=seeds,
        visit=max(visits, key=lambda visit: visit.visited_at, default=None),
    )
    sentences = [_past(case, tree, tenant, now), _future(case), *_obstacles(case)]
    return UrlExplanation(
        url=url,
        keys=tuple(texts),
        steps=tuple(sorted(_steps(case), key=lambda step: step.at)),
        standing=Standing(sentence=" ".join(filter(None, sentences)), facts=case.facts),
        missing="; ".join(case.missing) or None,
    )


def _keys(ports: UrlPorts, biz: Biz, url: str, rule: str | None) -> list[bytes]:
    if rule is None:
        return keys_of(url, biz, ports.seeds.resolver)
    if biz.reader(rule) is None:
        there = named(biz.readers, rule)
        raise UnknownRuleError(f"there is no rule or spider {rule[:64]!r}; this biz has {there}")
    return [ports.seeds.resolver(biz, rule)(url, biz.seeds.keys)]


# ---- what was ------------------------------------------------------------------------------------


def _past(case: _Case, tree: Tree, tenant: str, now: datetime) -> str:
    """Explain what became of the newest seed, or of the page without one."""
    if case.visit is not None:
        case.facts["visited_at"] = _at(case.visit.visited_at)
        if case.visit.next_at is not None:
            case.facts["next_at"] = _at(case.visit.next_at)
    if not case.seeds:
        case.missing.append(_BY_ID)
        return _unsown(case)
    newest = case.seeds[0]
    case.facts |= {"seed": newest.id, "seed_state": newest.state.label}
    segment = f"Its newest seed is of segment {newest.segment}"
    if newest.state is SeedState.READY:
        if newest.due_at > now:
            return f"{segment} and waits for its time: {_at(newest.due_at)}."
        return (
            f"{segment} and waits to be handed out: at most {case.biz.seeds.ahead:,} are queued "
            "at once."
        )
    case.facts["request_id"] = None if newest.request is None else str(newest.request)
    ended = {SeedState.FINISHED: " and finished", SeedState.FAILED: " and failed"}
    reported = f"{segment}{ended.get(newest.state, '')}, as request {newest.request}."
    if newest.state is SeedState.FAILED:
        reported = f"{reported[:-1]}: {newest.why}. `crawlfleet seeds release` has it tried again."
    try:
        case.request = explain(
            case.ports.requests, tree, tenant, case.queue_key.biz, str(newest.request), now
        )
    except NotFoundError:
        case.missing.append(f"request {newest.request} is gone: expired, or purged")
        return reported
    case.facts["request_state"] = case.request.tracked.state
    if case.request.missing:
        case.missing.append(case.request.missing)
    return f"{reported} {case.request.standing.sentence}"


def _unsown(case: _Case) -> str:
    visit = case.visit
    if visit is None:
        return "It is no seed that is kept, and nothing is known of its page."
    again = "" if visit.next_at is None else f"; it is due again at {_at(visit.next_at)}"
    return f"It is no seed that is kept; its page was read at {_at(visit.visited_at)}{again}."


def _steps(case: _Case) -> Iterator[Step]:
    for seed in case.seeds:
        spec = seed.spec
        by = "a client" if spec.found_by is None else f"request {spec.found_by}"
        why = f"offered in segment {seed.segment} as {spec.url}, for {spec.rule}"
        why += f", {spec.depth} links deep" if spec.depth else ""
        yield Step(at=seed.offered_at, kind=StepKind.SEED, by=by, why=why)
        if seed.handed_at is not None:
            tries = f", for the {seed.tries}. time" if seed.tries > 1 else ""
            why = f"handed out as request {seed.request}{tries}"
            yield Step(at=seed.handed_at, kind=StepKind.SEED, by="seeds", why=why)
        if seed.state in {SeedState.FINISHED, SeedState.FAILED}:
            why = f"failed: {seed.why}" if seed.why else "finished"
            yield Step(at=seed.due_at, kind=StepKind.SEED, by="seeds", why=why)
    if case.visit is not None:
        times = f"{case.visit.visits:,} times in all, {case.visit.changes:,} changes"
        why = f"read by {case.visit.rule}; {times}"
        yield Step(at=case.visit.visited_at, kind=StepKind.VISIT, by="a worker", why=why)
    if case.request is not None:
        yield from case.request.steps


# ---- what would be -------------------------------------------------------------------------------


def _future(case: _Case) -> str:
    """Explain whether it would be accepted as a seed now."""
    segment = case.segment
    known = case.now_known
    case.facts["segment"] = segment.name
    case.facts["accepted_now"] = known is None
    if known is not None:
        until = "" if segment.ends_at is None else f" until that ends at {_at(segment.ends_at)}"
        return f"Offered now it is a duplicate: known in segment {segment.name}{until}."
    if not case.biz.seeds.exact and _in_filter(case):
        case.facts["accepted_now"] = False
        return (
            f"Offered now it is taken for a duplicate by the filter of segment {segment.name}, "
            f"wrongly, as {case.biz.seeds.error_rate:g} of all are; `seeds.exact` looks again."
        )
    return f"Offered now it is accepted, in segment {segment.name}."


def _in_filter(case: _Case) -> bool:
    filters, segment = case.ports.seeds.filter, case.segment
    seen = case.of_redis(
        "the segment's filter", lambda: filters.seen(case.queue_key, case.biz, segment, case.keys)
    )
    return any(seen or ())


def _obstacles(case: _Case) -> Sequence[str]:
    """List what would stop a request of it now."""
    found = []
    origin, host = origin_of(case.url), host_of(case.url)
    if case.biz.politeness.robots is not Robots.IGNORE:
        copy = case.of_redis("its robots.txt", lambda: case.ports.robots.load(origin))
        if copy is not None:
            found.append(_robots(case, origin, copy))
    states = case.of_redis("its host", lambda: case.ports.hosts.states([host]))
    until = states[0].back_off_until if states else None
    if until is not None:
        case.facts["back_off_until"] = _at(until)
        found.append(f"Its host {host} is left alone until {_at(until)}.")
    return found


def _robots(case: _Case, origin: str, copy: RobotsCopy) -> str:
    product = product_of(case.biz.politeness, case.biz.fetch)
    verdict = SiteRules(origin, copy).verdict(case.url, product)
    case.facts["robots_allow"] = None if verdict.unknown else verdict.allowed
    return "" if verdict.allowed else f"{verdict.why}."


def _at(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
