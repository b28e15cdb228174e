"""What can be wrong with one document of the config centre by itself (SPEC.md A3, H8)."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from crawlfleet.errors import Problem
from crawlfleet.model.biz import Biz, Stage
from crawlfleet.model.needs import Needs
from crawlfleet.model.politeness import HostLimits
from crawlfleet.model.pool import TAKEN_NAMES
from crawlfleet.model.request import State
from crawlfleet.model.rule import Rule
from crawlfleet.model.seed import SeedPolicy, Span
from crawlfleet.model.spider import Spider
from crawlfleet.policy.follow_targets import target_problems
from crawlfleet.policy.mistakes import join
from crawlfleet.policy.rule_shape import MAX_DEPTH, shape_problems

#: What the one who reads pages by it says about a rule or a spider; field paths start there.
ReaderCheck: TypeAlias = Callable[[Rule | Spider], list[Problem]]

#: Collections of one generation; each is a file or two on a node, and a place to look.
MAX_SHARDS: Final = 4096

_LABELS: Final = frozenset(state.label for state in State)


def unchecked(reader: Rule | Spider) -> list[Problem]:  # noqa: ARG001  a ReaderCheck
    """The check of those who extract nothing and carry no parser: none."""
    return []


def stage_problems(stage: Stage) -> Iterator[Problem]:
    """Every mistake of a stage document."""
    yield from repeated("nodes", stage.nodes)
    if stage.home_node not in stage.nodes:
        yield Problem("home_node", f"{stage.home_node} is none of nodes")
    if stage.fleet.min_consumers > stage.fleet.max_consumers:
        yield Problem("fleet.min_consumers", "is more than max_consumers")
    for name, pool in stage.pools.items():
        if name in TAKEN_NAMES:
            yield Problem(join("pools", name), "is the usual workers' name; `fleet` is theirs")
        if pool.min_consumers > pool.max_consumers:
            yield Problem(f"{join('pools', name)}.min_consumers", "is more than max_consumers")
    yield from _host_problems("hosts", stage.hosts)
    for host, limits in stage.host_limits.items():
        yield from _host_problems(join("host_limits", host), limits)
    if stage.default_proxies is not None and stage.default_proxies not in stage.proxies:
        yield Problem("default_proxies", f"{stage.default_proxies} is none of proxies")
    if stage.bidding is not None and not any(msgspec.structs.astuple(stage.bidding.weights)):
        yield Problem("bidding.weights", "are all 0: nothing would decide who gets a job")


def needs_problems(needs: Needs | None) -> Iterator[Problem]:
    """What is wrong with what a tenant's or a biz's document states that it needs."""
    if needs is not None and (needs.workers is None) == (needs.requests_per_hour is None):
        yield Problem("needs", "says one of workers and requests_per_hour")


def _host_problems(place: str, limits: HostLimits) -> Iterator[Problem]:
    if limits.max_backoff_seconds < limits.backoff_seconds:
        yield Problem(f"{place}.max_backoff_seconds", "is less than backoff_seconds")


def biz_problems(biz: Biz, check: ReaderCheck) -> Iterator[Problem]:
    """Every mistake of a biz document that it shows by itself."""
    yield from _generations_problems(biz)
    yield from _states_problems(biz)
    yield from needs_problems(biz.needs)
    if biz.retry.max_seconds < biz.retry.base_seconds:
        yield Problem("retry.max_seconds", "is less than base_seconds")
    yield from _seed_problems(biz.seeds)
    yield from _recrawl_problems(biz)
    for name in sorted(biz.rules.keys() & biz.spiders.keys()):
        yield Problem(join("spiders", name), "is the name of a rule, too")
    for name, rule in biz.rules.items():
        found = shape_problems(rule)
        if not any(f"more than {MAX_DEPTH} deep" in problem.message for problem in found):
            blamed = {problem.field for problem in found}  # one mistake is told once
            found += [each for each in _checked(rule, check) if each.field not in blamed]
        found += target_problems(rule, biz.rules.keys() | biz.spiders.keys())
        yield from _below(join("rules", name), found)
    for name, spider in biz.spiders.items():
        yield from _below(join("spiders", name), _checked(spider, check))


def no_reader_problems(biz: Biz) -> Iterator[Problem]:
    """Whether there is anything to read pages by; not to be asked of a part of a document."""
    if not biz.rules and not biz.spiders:
        yield Problem("rules", "has no rule, and spiders no spider: nothing would read a page")


def _below(place: str, found: list[Problem]) -> Iterator[Problem]:
    for problem in dict.fromkeys(found):
        yield Problem(f"{place}.{problem.field}" if problem.field else place, problem.message)


def _checked(reader: Rule | Spider, check: ReaderCheck) -> list[Problem]:
    try:
        return check(reader)
    except Exception as error:  # noqa: BLE001  one tenant's rule must not end everyone's reading
        return [Problem("", f"cannot be checked ({type(error).__name__}: {error})")]


def _seed_problems(seeds: SeedPolicy) -> Iterator[Problem]:
    if (seeds.span is Span.CUSTOM) != (seeds.span_seconds is not None):
        yield Problem("seeds.span_seconds", "belongs to the span custom, and that needs it")
    try:
        ZoneInfo("UTC")
    except (ZoneInfoNotFoundError, OSError):
        return  # a function that carries no zones uses none; `crawlfleet config push` knows them
    try:
        ZoneInfo(seeds.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield Problem("seeds.timezone", f"{seeds.timezone!r} is no time zone, like Europe/Paris")


def _recrawl_problems(biz: Biz) -> Iterator[Problem]:
    policy = biz.recrawl
    if policy is None:
        return
    if policy.max_seconds < policy.min_seconds:
        yield Problem("recrawl.max_seconds", "is less than min_seconds")
    elif not policy.min_seconds <= policy.first_seconds <= policy.max_seconds:
        yield Problem("recrawl.first_seconds", "is not between min_seconds and max_seconds")
    # A visit comes up to a tenth later than its interval.
    if policy.schedule and policy.forget_seconds < 2 * policy.max_seconds:
        yield Problem("recrawl.forget_seconds", "is less than twice max_seconds: never read again")


def _generations_problems(biz: Biz) -> Iterator[Problem]:
    before: datetime | None = None
    for index, generation in enumerate(biz.generations):
        place = f"generations[{index}]"
        if generation.starts_at.tzinfo is None:
            yield Problem(f"{place}.starts_at", "has no time zone: end it with Z or an offset")
        elif before is not None and generation.starts_at <= before:
            yield Problem(f"{place}.starts_at", "is not later than the generation before it")
        else:
            before = generation.starts_at
        yield from repeated(f"{place}.nodes", generation.nodes)
        yield from repeated(f"{place}.databases", generation.databases)
        shards = len(generation.nodes) * len(generation.databases) * generation.shards
        if shards > MAX_SHARDS:
            yield Problem(place, f"makes {shards} collections; the most is {MAX_SHARDS}")


def _states_problems(biz: Biz) -> Iterator[Problem]:
    first: dict[int, str] = {}
    for name, number in biz.states.items():
        if name in _LABELS:
            yield Problem(join("states", name), "is a state that every biz has already")
        if first.setdefault(number, name) != name:
            yield Problem(join("states", name), f"has the number of {first[number]} ({number})")


def repeated(place: str, values: tuple[str, ...]) -> Iterator[Problem]:
    """Values that are named twice."""
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            yield Problem(f"{place}[{index}]", f"names {value} a second time")
        seen.add(value)
