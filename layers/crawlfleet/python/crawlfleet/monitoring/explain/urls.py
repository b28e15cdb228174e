"""Explain why a URL was or was not crawled (SPEC.md H6): its seeds, their last request, its visit.

A URL is found by its keys, in the newest segments there are, among the visits and among the newest
requests that were submitted as they are; the newest seed's request has its chain as by its id. Of a
URL that no page has led to the rules say why. What would stop it now comes beside: the segment that
knows it, the site's robots.txt as the fleet last read it, a back-off of its host. Those two are
shown of hosts alone that the biz has requests or seeds of, or names in its rules: of others they
would say what other tenants do there. Redis away takes them with it, never the explanation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.policies import Robots
from crawlfleet.config.documents.rule import Reach
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.extract.links import within
from crawlfleet.crawling.frontier.adding import Frontier
from crawlfleet.crawling.frontier.fingerprint import is_page, keys_of
from crawlfleet.crawling.frontier.models import Seed, SeedSpec, SeedState, Segment
from crawlfleet.crawling.politeness.models import RobotsCopy
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.crawling.politeness.robots_txt import SiteRules, product_of
from crawlfleet.crawling.recrawl.mongo import MongoVisits
from crawlfleet.kernel import errors
from crawlfleet.kernel.hosts import host_of, origin_of
from crawlfleet.kernel.ids import OWN_FINAL, State
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.urls import problem_with
from crawlfleet.kernel.validation import named
from crawlfleet.monitoring.explain import service as chain
from crawlfleet.monitoring.explain.limits import Fact
from crawlfleet.monitoring.explain.links import why_not_followed
from crawlfleet.monitoring.explain.standing import Standing, at_second
from crawlfleet.requests.models import NEWEST_REQUESTS, Body, Request, Tracked
from crawlfleet.requests.outcomes import ROBOTS_DENIED
from crawlfleet.requests.visits import Visit

T = TypeVar("T")

#: Requests that are searched for those that were submitted as they are, which no index has by URL.
SEARCHED: Final = 5_000
_ONLY_NEWEST: Final = (
    f"the newest {SEARCHED:,} requests alone were searched for what was submitted as it is"
)
_NOT_OWN: Final = (
    "robots.txt and the host's state are shown of hosts alone that this biz has requests or seeds "
    "of, or names in its rules"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlExplainer:
    """Explain URLs by what the stores keep of their seeds, requests and pages."""

    requests: chain.RequestExplainer
    seeds: Frontier
    visits: MongoVisits
    robots: RedisRobotsCache
    hosts: RedisHosts

    def explain(
        self, tree: Tree, tenant: str, biz_name: str, url: str, rule: str | None, now: datetime
    ) -> chain.UrlExplanation:
        """Explain what became of a page, by any URL of it, and what would become of it now.

        ``rule`` is a rule or spider of the biz, whose seeds alone are meant; without one all are.

        Raises:
            InvalidRequestError: it is no URL.
            UnknownRuleError: the biz has no such rule.
            StoreUnavailableError: MongoDB does not answer.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        if fault := problem_with(url):
            raise errors.InvalidRequestError.of("url", fault)
        keys = _keys(self, biz, url, rule)
        texts = [key.hex() for key in keys]
        # By time: the segment of a job sorts behind that of its day, whenever its seed came.
        seeds = sorted(
            (
                seed
                for seed in self.seeds.seeds.of_keys(queue_key, biz, texts)
                if rule in {None, seed.spec.rule}
            ),
            key=lambda seed: seed.handed_at or seed.offered_at,
            reverse=True,
        )
        visits = [
            visit
            for visit in self.visits.known(queue_key, biz, texts).values()
            if rule in {None, visit.rule}
        ]
        searched = _Searched() if seeds else _search(self, queue_key, biz, rule, set(keys), now)
        case = _Case(
            stores=self,
            queue_key=queue_key,
            biz=biz,
            url=url,
            rule=rule,
            keys=keys,
            segment=self.seeds.segments(biz.seeds, now),
            seeds=seeds,
            searched=searched,
            visit=max(visits, key=lambda visit: visit.visited_at, default=None),
            now=now,
        )
        sentences = [_past(case, tree, tenant, now), _future(case), *_obstacles(case)]
        return chain.UrlExplanation(
            url=url,
            keys=tuple(texts),
            steps=tuple(sorted(_steps(case), key=lambda step: step.at)),
            standing=Standing(" ".join(filter(None, sentences)), case.facts),
            missing="; ".join(case.missing) or None,
        )


@dataclass(slots=True)
class _Case:
    """A URL and what was found of it."""

    stores: UrlExplainer
    queue_key: QueueKey
    biz: Biz
    url: str
    rule: str | None
    keys: list[bytes]
    segment: Segment
    seeds: list[Seed]
    searched: "_Searched"
    visit: Visit | None
    now: datetime
    request: chain.Explanation | None = None
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
        except errors.StoreUnavailableError as error:
            warn(f"{what} could not be asked for", error)
            self.missing.append(f"Redis does not answer: {what} is not known")
            return None


def _keys(stores: UrlExplainer, biz: Biz, url: str, rule: str | None) -> list[bytes]:
    if rule is None:
        return keys_of(url, biz, stores.seeds.resolver)
    if biz.reader(rule) is None:
        there = named(biz.readers, rule)
        raise errors.UnknownRuleError(
            f"there is no rule or spider {rule[:64]!r}; this biz has {there}"
        )
    return [stores.seeds.resolver(biz, rule)(url, biz.seeds.keys)]


def _past(case: _Case, tree: Tree, tenant: str, now: datetime) -> str:
    """Explain what became of the newest seed, or of the page without one."""
    if case.visit is not None:
        case.facts["visited_at"] = at_second(case.visit.visited_at)
        if case.visit.next_at is not None:
            case.facts["next_at"] = at_second(case.visit.next_at)
    if case.searched.plain is not None:
        return _of_request(case, case.searched.plain, tree, tenant, now)
    if not case.seeds:
        return _without_seed(case)
    newest = case.seeds[0]
    case.facts |= {"seed": newest.id, "seed_state": newest.state.label}
    segment = f"Its newest seed is of segment {newest.segment}"
    if newest.state is SeedState.READY:
        if newest.due_at > now:
            return f"{segment} and waits for its time: {at_second(newest.due_at)}."
        return (
            f"{segment} and waits to be dispatched: at most {case.biz.seeds.ahead:,} are queued "
            "at once."
        )
    case.facts["request_id"] = None if newest.request is None else str(newest.request)
    ended = {SeedState.FINISHED: " and finished", SeedState.FAILED: " and failed"}
    sentence = f"{segment}{ended.get(newest.state, '')}, as request {newest.request}."
    try:
        case.request = case.stores.requests.explain(
            tree, tenant, case.queue_key.biz, str(newest.request), now
        )
    except errors.NotFoundError:
        case.missing.append(f"request {newest.request} is gone: expired, or purged")
        if newest.state is SeedState.FAILED:  # else its request says why
            sentence = f"{sentence[:-1]}: {newest.why}."
        return f"{sentence}{_release(case, newest)}"
    case.facts["request_state"] = case.request.tracked.state
    if case.request.missing:
        case.missing.append(case.request.missing)
    again = "" if case.request.tracked.reason == ROBOTS_DENIED else _release(case, newest)
    return f"{sentence}{again} {case.request.standing.sentence}"


def _release(case: _Case, seed: Seed) -> str:
    """Advise how a seed that failed is tried again."""
    if seed.state is not SeedState.FAILED:
        return ""
    biz, seed_id = case.queue_key.biz, seed.id
    return f" `crawlfleet seeds release {biz} {seed_id}` has it tried again."


@dataclass(slots=True)
class _Searched:
    """The newest request of a URL that was submitted as it is, and the pages that were read.

    Of requests that are not ``all`` there are, older ones may be of the URL. ``hosts`` are theirs.
    """

    plain: Request | None = None
    hosts: set[str] = field(default_factory=set)
    read: list[Body] = field(default_factory=list)
    all: bool = True


def _search(
    stores: UrlExplainer,
    queue_key: QueueKey,
    biz: Biz,
    rule: str | None,
    keys: set[bytes],
    now: datetime,
) -> _Searched:
    store = stores.requests.store
    newest = store.find(queue_key, biz, NEWEST_REQUESTS, limit=SEARCHED, now=now, brief=True)
    found = _Searched(all=len(newest) < SEARCHED)
    is_meant = is_page(keys, biz, stores.seeds.resolver)
    for tracked in newest:
        request, body = tracked.request, tracked.request.body
        found.hosts.add(host_of(body.url))
        if _was_read(tracked):
            found.read.append(body)
        if found.plain is not None or rule not in {None, body.rule}:
            continue
        if is_meant(body):
            found.plain = request
    return found


def _was_read(tracked: Tracked) -> bool:
    """Tell whether its page was read; what is done may be in a final state of the biz's own now."""
    done = tracked.state >= OWN_FINAL and tracked.attempts > 0 and tracked.reason is None
    return done or tracked.state == State.DONE


def _of_request(case: _Case, request: Request, tree: Tree, tenant: str, now: datetime) -> str:
    """Explain what became of a page that was submitted as it is."""
    case.facts["request_id"] = str(request.id)
    under = "" if request.job is None else f", under job {request.job}"
    sentence = f"It was submitted as it is, as request {request.id}{under}."
    try:
        case.request = case.stores.requests.explain(
            tree, tenant, case.queue_key.biz, str(request.id), now
        )
    except errors.NotFoundError:
        return sentence
    case.facts["request_state"] = case.request.tracked.state
    if case.request.missing:
        case.missing.append(case.request.missing)
    return f"{sentence} {case.request.standing.sentence}"


def _without_seed(case: _Case) -> str:
    visit = case.visit
    if not case.searched.all:
        case.missing.append(_ONLY_NEWEST)
    if visit is None:
        said = ["It was not submitted, and is no seed: no page that was read has led to it."]
        pages = case.searched.read
        said += why_not_followed(case.queue_key.biz, case.biz, case.url, pages, case.rule)
        return " ".join(said)
    again = "" if visit.next_at is None else f"; it is due again at {at_second(visit.next_at)}"
    return f"It is no seed that is kept; its page was read at {at_second(visit.visited_at)}{again}."


def _steps(case: _Case) -> Iterator[chain.Step]:
    for seed in case.seeds:
        spec = seed.spec
        by = "a client" if spec.found_by is None else f"request {spec.found_by}"
        why = f"offered in segment {seed.segment} as {spec.url}, for {spec.rule}"
        why += f", {spec.depth} links deep" if spec.depth else ""
        yield chain.Step(seed.offered_at, chain.StepKind.SEED, by, why)
        if seed.handed_at is not None:
            tries = f", for the {seed.tries}. time" if seed.tries > 1 else ""
            why = f"dispatched as request {seed.request}{tries}"
            yield chain.Step(seed.handed_at, chain.StepKind.SEED, "seeds", why)
        if seed.state in {SeedState.FINISHED, SeedState.FAILED}:
            why = f"failed{_why(case, seed)}" if seed.why else "finished"
            yield chain.Step(seed.due_at, chain.StepKind.SEED, "seeds", why)
    if case.visit is not None:
        times = f"{case.visit.visits:,} times in all, {case.visit.changes:,} changes"
        why = f"read by {case.visit.rule}; {times}"
        yield chain.Step(case.visit.visited_at, chain.StepKind.VISIT, "a worker", why)
    if case.request is not None:
        yield from case.request.steps


def _why(case: _Case, seed: Seed) -> str:
    """Say why a seed failed, where its request is not among the steps and does."""
    request = None if case.request is None else case.request.tracked.request.id
    return ", as its request" if seed.request == request else f": {seed.why}"


def _future(case: _Case) -> str:
    """Explain whether it would be accepted as a seed now."""
    segment = case.segment
    known = case.now_known
    case.facts["segment"] = segment.name
    case.facts["accepted_now"] = known is None
    if known is not None:
        until = (
            "" if segment.ends_at is None else f" until that ends at {at_second(segment.ends_at)}"
        )
        return f"Offered now it is a duplicate: known in segment {segment.name}{until}."
    if not case.biz.seeds.exact and _in_filter(case):
        case.facts["accepted_now"] = False
        return (
            f"Offered now it is taken for a duplicate by the filter of segment {segment.name}, "
            f"wrongly, as {case.biz.seeds.error_rate:g} of all are; `seeds.exact` looks again."
        )
    sparing = case.stores.seeds.sparing
    if sparing is not None and case.visit is not None:
        spared = sparing.undue(case.queue_key, case.biz, {case.visit.key: _offer(case, case.visit)})
        if why := spared.get(case.visit.key):
            case.facts["accepted_now"] = False
            return f"Offered now it is not fetched: it was {why} (`recrawl.due_only`)."
    return f"Offered now it is accepted, in segment {segment.name}."


def _offer(case: _Case, visit: Visit) -> Seed:
    """Return the seed that the page would be now."""
    return Seed(
        key=visit.key,
        segment=case.segment.name,
        spec=SeedSpec(url=case.url, rule=visit.rule),
        state=SeedState.READY,
        offered_at=case.now,
        due_at=case.now,
    )


def _in_filter(case: _Case) -> bool:
    filters, segment = case.stores.seeds.filter, case.segment
    seen = case.of_redis(
        "the segment's filter", lambda: filters.seen(case.queue_key, case.biz, segment, case.keys)
    )
    return any(seen or ())


def _obstacles(case: _Case) -> Sequence[str]:
    """List what would stop a request of it now."""
    found: list[str] = []
    origin, host = origin_of(case.url), host_of(case.url)
    if not _is_own(case, host):
        case.missing.append(_NOT_OWN)
        return found
    if case.biz.politeness.robots is not Robots.IGNORE:
        copy = case.of_redis("its robots.txt", lambda: case.stores.robots.load(origin))
        if copy is not None:
            found.append(_robots(case, origin, copy))
    whose = {host: case.queue_key.tenant}
    states = case.of_redis("its host", lambda: case.stores.hosts.states([host], whose))
    ends = states[0].back_offs if states else {}
    until = max((ends[name] for name in ("", origin) if name in ends), default=None)
    if until is not None:
        case.facts["back_off_until"] = at_second(until)
        found.append(f"Its host {host} is left alone until {at_second(until)}.")
    return found


def _is_own(case: _Case, host: str) -> bool:
    """Tell whether the biz has to do with the host: by seeds, pages, requests or its rules."""
    if case.seeds or case.visit is not None or host in case.searched.hosts:
        return True
    return any(
        not isinstance(follow.domains, Reach) and within(follow.domains, host, "")
        for rule in case.biz.rules.values()
        for follow in rule.follow
    )


def _robots(case: _Case, origin: str, copy: RobotsCopy) -> str:
    product = product_of(case.biz.politeness, case.biz.fetch)
    verdict = SiteRules(origin, copy).verdict(case.url, product)
    case.facts["robots_allow"] = None if verdict.unknown else verdict.allowed
    ended = None if case.request is None else case.request.tracked.error
    if verdict.allowed or (ended is not None and verdict.why in ended):  # which was said
        return ""
    return f"{verdict.why}: a request of it would end dead, unread."
