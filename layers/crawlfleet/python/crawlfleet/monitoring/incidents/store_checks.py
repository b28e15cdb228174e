"""Detect what is wrong with Redis or a MongoDB node, by its figures (SPEC.md A11)."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from crawlfleet.config.documents.stage import Thresholds
from crawlfleet.kernel import metric_names as names
from crawlfleet.kernel.redaction import one_line, plain
from crawlfleet.monitoring.incidents.kinds import Kind
from crawlfleet.monitoring.incidents.models import Finding, Place, key_of
from crawlfleet.monitoring.models import Unread
from crawlfleet.requests.queue.stats import NodeHealth

#: What sampling calls the parts.
REDIS: Final = "redis"
MONGODB: Final = "mongodb"
_QUOTED: Final = 300


class _Rule(NamedTuple):
    """A figure of a part, the threshold's field, and how both are written."""

    kind: Kind
    figure: str
    field: str
    what: str
    form: str = "{:,.0f}"


_SHARE: Final = "{:.0%}"
_SHARED: Final = (
    _Rule(
        Kind.CONNECTIONS,
        names.CONNECTIONS_RATIO,
        "connections_ratio",
        "{value} of its connections are open, more than {limit}",
        _SHARE,
    ),
    _Rule(
        Kind.SLOW_OPERATIONS,
        names.SLOW_OPERATIONS,
        "slow_operations",
        "{value} operations are slow, more than {limit}",
    ),
    _Rule(
        Kind.LATENCY,
        names.LATENCY,
        "latency_seconds",
        "a ping takes {value}, more than {limit}",
        "{:.3f} s",
    ),
)
_OF_REDIS: Final = (
    *_SHARED,
    _Rule(
        Kind.REDIS_MEMORY,
        names.MEMORY_RATIO,
        "redis_memory_ratio",
        "{value} of its memory is used, more than {limit}",
        _SHARE,
    ),
)
_OF_MONGODB: Final = (
    *_SHARED,
    _Rule(
        Kind.MEMORY,
        names.CACHE_RATIO,
        "memory_ratio",
        "{value} of its cache is used, more than {limit}",
        _SHARE,
    ),
    _Rule(
        Kind.STORAGE,
        names.STORAGE_BYTES,
        "storage_bytes",
        "{value} bytes are stored, more than {limit}",
    ),
    _Rule(
        Kind.REPLICA_UNWELL,
        names.MEMBERS_UNWELL,
        "unwell_replicas",
        "{value} members of its replica set are not well, more than {limit}",
    ),
    _Rule(
        Kind.REPLICA_LAG,
        names.LAG_SECONDS,
        "lag_seconds",
        "a secondary is {value} behind, more than {limit}",
        "{:,.0f} s",
    ),
)


def part_findings(
    part: NodeHealth, before: NodeHealth | None, thresholds: Thresholds
) -> Iterator[Finding]:
    """Find what is wrong with a part; nothing of a figure that is missing."""
    place = part_place(part)
    if not part.up:
        why = plain(part.error or "", _QUOTED) or "it gave no reason"
        yield Finding(kind=Kind.PART_DOWN, place=place, value=1, threshold=0, said=why)
        return
    for rule in _rules(part):
        value, limit = part.figures.get(rule.figure), float(getattr(thresholds, rule.field))
        if value is not None and value > limit:
            said = rule.what.format(value=rule.form.format(value), limit=rule.form.format(limit))
            yield Finding(kind=rule.kind, place=place, value=value, threshold=limit, said=said)
    evicted = _evicted(part, before)
    if evicted is not None and evicted > thresholds.evicted_keys:
        yield Finding(
            kind=Kind.EVICTIONS,
            place=place,
            value=evicted,
            threshold=thresholds.evicted_keys,
            said=f"{evicted:,.0f} keys were evicted since the last evaluation",
        )
    if part.part == REDIS:
        yield from _replicas_of_redis(part, thresholds)


def _replicas_of_redis(part: NodeHealth, thresholds: Thresholds) -> Iterator[Finding]:
    """Judge replicas: a replica reports a lost primary; a primary only how many replicas it has."""
    expected = thresholds.redis_replicas
    gone = expected - part.figures.get(names.REPLICAS, expected)
    if part.figures.get(names.LINK_DOWN):
        value, said = 1.0, "it is a replica, and its link to the primary is down"
    elif gone > 0:
        verb = "is" if gone == 1 else "are"
        value, said = gone, f"{gone:,.0f} of its {expected:,} replicas {verb} gone"
    else:
        return
    place = part_place(part)
    yield Finding(kind=Kind.REPLICA_UNWELL, place=place, value=value, threshold=0, said=said)


def judged(part: NodeHealth, before: NodeHealth | None, thresholds: Thresholds) -> NodeHealth:
    """Put what is wrong into the part's ``error``; one that is down has its own."""
    if not part.up:
        return part
    said = [finding.said for finding in part_findings(part, before, thresholds)]
    return replace(part, error="; ".join(said)) if said else part


def unwatched(part: NodeHealth, borne: Collection[str] = ()) -> Iterator[Unread]:
    """Group needed figures that could not be read by the reason; none of a part that is down.

    What they would show is hidden, so that itself is a finding; but for those that are ``borne``
    with.
    """
    if not part.up:
        return
    needed = judged_figures(part.part) - set(borne)
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for figure in sorted(needed.intersection(part.unread)):
        by_reason[part.missing[figure]].append(figure)
    for why, figures in by_reason.items():
        yield Unread(what=f"figures of {part_place(part)}: {', '.join(figures)}", why=why)


def judged_figures(part: str) -> frozenset[str]:
    """Return the figures of a part that findings need."""
    of_rules = {rule.figure for rule in (_OF_REDIS if part == REDIS else _OF_MONGODB)}
    more = (names.EVICTED_KEYS, names.LINK_DOWN, names.REPLICAS) if part == REDIS else ()
    return frozenset(of_rules.union(more))


def unknown_of_part(part: NodeHealth, before: NodeHealth | None) -> Iterator[str]:
    """Yield keys of what is not known: all figures of a part that is down, or the missing ones."""
    place = part_place(part)
    for rule in _rules(part):
        if not part.up or rule.figure not in part.figures:
            yield key_of(rule.kind, place)
    if part.part == REDIS:
        if not part.up or _evicted(part, before) is None:
            yield key_of(Kind.EVICTIONS, place)
        if not part.up or names.LINK_DOWN not in part.figures:
            yield key_of(Kind.REPLICA_UNWELL, place)


def _rules(part: NodeHealth) -> tuple[_Rule, ...]:
    return _OF_REDIS if part.part == REDIS else _OF_MONGODB


def _evicted(part: NodeHealth, before: NodeHealth | None) -> float | None:
    """Count keys evicted since the sample before; None where that is not known.

    Redis counts them since it started: fewer than before are all of a new life.
    """
    now = part.figures.get(names.EVICTED_KEYS)
    was = None if before is None else before.figures.get(names.EVICTED_KEYS)
    if now is None or was is None:
        return None
    return now - was if now >= was else now


def part_place(part: NodeHealth) -> Place:
    """Return the place of a part."""
    return Place(part=one_line(part.part, 32), name=one_line(part.name, 64))
