"""Validate documents of the config centre, and a change of a biz (SPEC.md A3, A4, D11, H8).

A request is found by the generation that was in force when its id was made (DESIGN.md 3), so what
has started is history and history is not edited. A new generation starts only after every router
has had the time to learn of it; else two of them would write the same moment's ids by two routes.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from crawlfleet.config.documents.biz import Biz, Generation, Needs, Stage, Tenant, Tree
from crawlfleet.config.documents.policies import HostLimits, SeedPolicy, Span
from crawlfleet.config.documents.quota import quota_problems
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.rule_validation import MAX_DEPTH, shape_problems
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.ids import State, is_final
from crawlfleet.kernel.queue_key import TAKEN_NAMES
from crawlfleet.kernel.validation import join, named

#: Characters of a digest: 48 bits, for telling apart, not for keeping out.
_LENGTH: Final = 12
_encode = msgspec.json.Encoder(order="deterministic").encode
#: What the one who reads pages by it says about a rule or a spider; field paths start there.
ReaderCheck: TypeAlias = Callable[[Rule | Spider], list[Problem]]
#: Collections of one generation; each is a file or two on a node, and one more to search.
MAX_SHARDS: Final = 4096
_LABELS: Final = {state.label: int(state) for state in State}
#: States of every biz that a call may change into one of the biz's own, and the other way round. A
#: worker has what is leased; what has expired is about to go.
_LEFT: Final = frozenset({State.PENDING, State.WAITING, State.DONE, State.DEAD, State.CANCELLED})
_ENTERED: Final = frozenset({State.PENDING, State.DONE, State.DEAD, State.CANCELLED})
#: How far ahead a new generation must start: several polls of the revision, and the clocks' error.
LEAD: Final = timedelta(seconds=30)
_DEAD: Final = State.DEAD.label
_DAY: Final = 86_400.0
#: The longest segment of each span, in seconds; one in which the clock is shifted is a little
#: longer.
_SPANS: Final = {Span.HOUR: 3_600.0, Span.DAY: _DAY, Span.WEEK: 7 * _DAY, Span.MONTH: 31 * _DAY}
#: Pages that are read again come up to a tenth of their interval later.
_SPREAD: Final = 1.1


def digest_of(tree: Tree) -> str:
    """Digest all documents in force, whatever their revision is called.

    Defaults are part of it: another version of the code may come to another one.
    """
    return sha256(_encode((tree.stage, tree.tenants, tree.bizs))).hexdigest()[:_LENGTH]


def target_problems(rule: Rule, readers: AbstractSet[str]) -> Iterator[Problem]:
    """Find links that are to be read by what is none of the biz's ``readers``."""
    for number, follow in enumerate(rule.follow):
        if follow.rule is not None and follow.rule not in readers:
            there = named(sorted(readers), follow.rule)
            said = f"{follow.rule!r} is no rule or spider of this biz; it has {there}"
            yield Problem(f"follow[{number}].rule", said)


def unchecked(reader: Rule | Spider) -> list[Problem]:  # noqa: ARG001  a ReaderCheck
    """Check nothing: for those who extract nothing and carry no parser."""
    return []


def stage_problems(stage: Stage) -> Iterator[Problem]:
    """Find every error of a stage document."""
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
        if pool.proxies is not None and pool.proxies not in stage.proxies:
            yield Problem(f"{join('pools', name)}.proxies", f"{pool.proxies} is none of proxies")
    yield from _host_problems("hosts", stage.hosts)
    for host, limits in stage.host_limits.items():
        yield from _host_problems(join("host_limits", host), limits)
    if stage.default_proxies is not None and stage.default_proxies not in stage.proxies:
        yield Problem("default_proxies", f"{stage.default_proxies} is none of proxies")
    if stage.otlp_headers and stage.otlp_endpoint is None:
        yield Problem("otlp_headers", "go to otlp_endpoint, which is missing")
    if stage.bidding is not None and not any(msgspec.structs.astuple(stage.bidding.weights)):
        yield Problem("bidding.weights", "are all 0: nothing would decide who gets a job")
    for name, channel in stage.streams.channels.items():
        for field, wrong in channel.problems().items():
            yield Problem(f"{join('streams.channels', name)}.{field}", wrong)


def tenant_problems(tenant: Tenant) -> Iterator[Problem]:
    """Find every error of a tenant document."""
    yield from needs_problems(tenant.needs)
    yield from quota_problems("quotas", tenant.quotas)
    yield from quota_problems("user_quotas", tenant.user_quotas)
    for name, quotas in tenant.users.items():
        yield from quota_problems(join("users", name), quotas)


def needs_problems(needs: Needs | None) -> Iterator[Problem]:
    """Find what is wrong with the needs that a tenant's or a biz's document states."""
    if needs is not None and (needs.workers is None) == (needs.requests_per_hour is None):
        yield Problem("needs", "says one of workers and requests_per_hour")


def _host_problems(place: str, limits: HostLimits) -> Iterator[Problem]:
    if limits.max_backoff_seconds < limits.backoff_seconds:
        yield Problem(f"{place}.max_backoff_seconds", "is less than backoff_seconds")


def biz_problems(
    biz: Biz, check: ReaderCheck, others: AbstractSet[str] = frozenset()
) -> Iterator[Problem]:
    """Find every error of a biz document that it shows by itself.

    ``others`` are rules and spiders of it that are wrong: links may name them all the same.
    """
    yield from _generations_problems(biz)
    yield from _states_problems(biz)
    yield from _transitions_problems(biz)
    yield from needs_problems(biz.needs)
    yield from quota_problems("quotas", biz.quotas, biz.fetch.max_body_bytes)
    if biz.retry.max_seconds < biz.retry.base_seconds:
        yield Problem("retry.max_seconds", "is less than base_seconds")
    yield from _seed_problems(biz.seeds)
    yield from _recrawl_problems(biz)
    for name in sorted(biz.rules.keys() & biz.spiders.keys()):
        yield Problem(join("spiders", name), "is the name of a rule, too")
    for name, rule in biz.rules.items():
        found = shape_problems(rule)
        if not any(f"more than {MAX_DEPTH} deep" in problem.message for problem in found):
            blamed = {problem.field for problem in found}  # one error is reported once
            found += [each for each in checked(rule, check) if each.field not in blamed]
        found += target_problems(rule, biz.rules.keys() | biz.spiders.keys() | others)
        yield from _below(join("rules", name), found)
    for name, spider in biz.spiders.items():
        yield from _below(join("spiders", name), checked(spider, check))


def no_reader_problems(biz: Biz) -> Iterator[Problem]:
    """Find a biz without rules and spiders; not to be asked of a part of a document."""
    if not biz.rules and not biz.spiders:
        yield Problem("rules", "has no rule, and spiders no spider: nothing would read a page")


def _below(place: str, found: list[Problem]) -> Iterator[Problem]:
    for problem in dict.fromkeys(found):
        yield Problem(f"{place}.{problem.field}" if problem.field else place, problem.message)


def checked(reader: Rule | Spider, check: ReaderCheck) -> list[Problem]:
    """Find what the reader of pages says about a rule or a spider."""
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


def _transitions_problems(biz: Biz) -> Iterator[Problem]:
    numbers = _LABELS | biz.states
    left = {name for name, number in numbers.items() if name in biz.states or number in _LEFT}
    entered = {name for name, number in numbers.items() if name in biz.states or number in _ENTERED}
    for before, afters in biz.transitions.items():
        place = join("transitions", before)
        if before not in left:
            yield Problem(place, f"may not be left by a call; {named(sorted(left), before)} may")
            continue
        yield from repeated(place, afters)
        for index, after in enumerate(afters):
            if after not in entered:
                said = f"may not become {after} by a call; {named(sorted(entered), after)} may be"
            elif before not in biz.states and after not in biz.states:
                said = f"neither {before} nor {after} is a state of the biz's own"
            elif before == after:
                said = "is the state itself"
            elif is_final(numbers[before]) and not is_final(numbers[after]):
                said = f"{before} has ended and {after} is open: numbers of final states are 1,000"
                said += " and more"
            elif after == _DEAD and (others := _entered_from(biz, before) - {_DEAD}):
                # A dead letter says why it died; nothing else has a reason.
                said = f"only what was dead may become it again: {before} may have been "
                said += " or ".join(sorted(others))
            else:
                continue
            yield Problem(f"{place}[{index}]", said)


def _entered_from(biz: Biz, state: str) -> set[str]:
    return {name for name, afters in biz.transitions.items() if state in afters}


def repeated(place: str, values: tuple[str, ...]) -> Iterator[Problem]:
    """Find values that are named twice."""
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            yield Problem(f"{place}[{index}]", f"names {value} a second time")
        seen.add(value)


def retired_problems(tenant: Tenant) -> Iterator[Problem]:
    """Find keys that both stay and go."""
    for key in tenant.api_keys:
        if key in tenant.retiring_keys:
            yield Problem(f"retiring_keys.{key}", "is one of api_keys, too, which have no end")


def ended_at(biz: Biz, index: int) -> datetime | None:
    """Return when nothing of a generation is left, by the TTLs of ``biz``; None for never.

    The last generation never ends, nor does any whose records or seeds are kept for ever. Seeds
    that were offered for a later time, or wait in a backlog, are not foreseen here: they have no
    TTL, and who removes a generation looks first whether there are any.
    """
    seeds = _seeds_seconds(biz)
    if index + 1 >= len(biz.generations) or biz.records_ttl_seconds is None or seeds is None:
        return None
    seconds = max(
        biz.ttl_seconds * 2,  # what routing.live_shards allows for
        biz.ttl_seconds + biz.expiry_grace_seconds,
        biz.records_ttl_seconds + biz.ttl_seconds,  # a record may be made as late as the TTL
        seeds,
        _visits_seconds(biz),
    )
    return biz.generations[index + 1].starts_at + timedelta(seconds=seconds)


def _seeds_seconds(biz: Biz) -> float | None:
    """Return the longest life of seeds: of the last segment that began under a generation.

    They are dispatched, end with their requests, and are kept from the segment's end on. Of a
    resolver's segments nobody knows when they end, and their names need not tell when they began:
    such seeds are stored by the oldest generation.
    """
    if biz.seeds.span is Span.FOREVER or biz.seeds.segment_resolver is not None:
        return None
    span = _SPANS.get(biz.seeds.span) or biz.seeds.span_seconds or _DAY
    return span + _DAY + biz.ttl_seconds + biz.seeds.archive_days * _DAY


def _visits_seconds(biz: Biz) -> float:
    """Return the seconds until every page that is read again has moved on.

    Where that is not done, a visit that is not found costs a download and nothing else.
    """
    if biz.recrawl is None or not biz.recrawl.schedule:
        return 0.0
    return max(biz.recrawl.first_seconds, biz.recrawl.max_seconds) * _SPREAD + biz.ttl_seconds


def change_problems(old: Biz, new: Biz, now: datetime) -> Iterator[Problem]:
    """Find what forbids replacing ``old``, which is in force, by ``new``; each is valid."""
    if new.collection != old.collection:
        said = f"may not change from {old.collection}: stored requests are found there"
        yield Problem("collection", said)
    fixed = now + LEAD
    kept = {generation.starts_at: generation for generation in new.generations}
    for index, generation in enumerate(old.generations):
        stands = generation.starts_at > fixed or kept.get(generation.starts_at) == generation
        if not stands and not _has_ended(old, new, index, now):
            yield _history_problem(generation, new, now)
    known = {generation.starts_at for generation in old.generations}
    for index, generation in enumerate(new.generations):
        if generation.starts_at <= fixed and generation.starts_at not in known:
            said = f"must be later than {_written(fixed)}: a new generation starts at least"
            said += f" {LEAD.seconds} s from now, so that every router knows it first"
            yield Problem(f"generations[{index}].starts_at", said)


def _has_ended(old: Biz, new: Biz, index: int, now: datetime) -> bool:
    """Return whether the generation has ended by both documents: a shorter TTL frees nothing."""
    by_new = msgspec.structs.replace(new, generations=old.generations)
    ends = (ended_at(old, index), ended_at(by_new, index))
    return all(end is not None and end < now for end in ends)


def _history_problem(generation: Generation, new: Biz, now: datetime) -> Problem:
    written = _written(generation.starts_at)
    for index, candidate in enumerate(new.generations):
        if candidate.starts_at == generation.starts_at:
            said = f"started at {written} and may not change: ids made under it are found by it;"
            said += " add a generation that starts later instead"
            return Problem(f"generations[{index}]", said)
    started = "started at" if generation.starts_at <= now else "is about to start at"
    if new.records_ttl_seconds is None:
        until = "while records are kept for ever (records_ttl_seconds is not set)"
    elif _seeds_seconds(new) is None:
        until = "while seeds are kept for ever (seeds.span is forever, or they have a resolver)"
    else:
        until = "before the TTL of what was stored under it has passed"
    return Problem("generations", f"the one that {started} {written} may not be removed {until}")


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
