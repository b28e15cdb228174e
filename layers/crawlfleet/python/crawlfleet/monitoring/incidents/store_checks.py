"""Detect what is wrong with Redis or a MongoDB node, by its figures (SPEC.md A11)."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from crawlfleet.config.documents.stage import Thresholds
from crawlfleet.kernel import metric_names as names
from crawlfleet.kernel.redaction import one_line, plain
from crawlfleet.monitoring.incidents.kinds import ADVICE, Kind
from crawlfleet.monitoring.incidents.models import Finding, Place, key_of
from crawlfleet.monitoring.models import Unread
from crawlfleet.requests.queue.stats import NodeHealth

#: What sampling calls the parts.
REDIS: Final = "redis"
MONGODB: Final = "mongodb"
_QUOTED: Final = 300
_SHARE: Final = "{:.0%}"
_UNWELL: Final = "{} members of its replica set are not well"


class _Rule(NamedTuple):
    """A figure of a part beyond a threshold of its kind, and how both are written."""

    kind: Kind
    figure: str
    what: str
    form: str = "{:,.0f}"
    threshold: int = 0


_SHARED: Final = (
    _Rule(Kind.CONNECTIONS, names.CONNECTIONS_RATIO, "{} of its connections are open", _SHARE),
    _Rule(Kind.SLOW_OPERATIONS, names.SLOW_OPERATIONS, "{} operations a minute are slow"),
    _Rule(Kind.LATENCY, names.LATENCY, "a ping takes {}", "{:.3f} s"),
)
_OF_REDIS: Final = (
    *_SHARED,
    _Rule(Kind.REDIS_MEMORY, names.MEMORY_RATIO, "{} of its memory is used", _SHARE),
)
_OF_MONGODB: Final = (
    *_SHARED,
    _Rule(Kind.MEMORY, names.CACHE_RATIO, "{} of its cache is used", _SHARE),
    _Rule(Kind.STORAGE, names.STORAGE_RATIO, "{} of its disk is used", _SHARE),
    _Rule(Kind.STORAGE, names.STORAGE_BYTES, "{} bytes are stored", threshold=1),
    _Rule(Kind.REPLICA_UNWELL, names.MEMBERS_UNWELL, _UNWELL),
    _Rule(Kind.REPLICA_LAG, names.LAG_SECONDS, "a secondary is {} behind", "{:,.0f} s"),
)


def part_findings(
    part: NodeHealth, before: NodeHealth | None, thresholds: Thresholds
) -> Iterator[Finding]:
    """Find what is wrong with a part; nothing of a figure that is missing."""
    place = part_place(part)
    if not part.up:
        why = plain(part.error or "", _QUOTED) or "it gave no reason"
        yield Finding(Kind.PART_DOWN, place, 1, 0, why)
        return
    found: set[Kind] = set()
    for rule in _rules(part):
        value = part.figures.get(rule.figure)
        limit = float(getattr(thresholds, ADVICE[rule.kind].thresholds[rule.threshold]))
        if value is not None and value > limit and rule.kind not in found:
            found.add(rule.kind)
            said = rule.what.format(rule.form.format(value))
            said += f", more than {rule.form.format(limit)}"
            yield Finding(rule.kind, place, value, limit, said)
    evicted, most = _evicted(part, before), thresholds.evicted_keys
    if evicted is not None and evicted > most:
        said = f"{evicted:,.0f} keys were evicted since the last evaluation"
        yield Finding(Kind.EVICTIONS, place, evicted, most, said)
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
    yield Finding(Kind.REPLICA_UNWELL, place, value, 0, said)


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
    rules = _rules(part)
    known = {rule.kind for rule in rules if part.up and rule.figure in part.figures}
    yield from (key_of(kind, place) for kind in {rule.kind for rule in rules} - known)
    if part.part == REDIS:
        if not part.up or _evicted(part, before) is None:
            yield key_of(Kind.EVICTIONS, place)
        if not part.up or names.LINK_DOWN not in part.figures:
            yield key_of(Kind.REPLICA_UNWELL, place)


def _rules(part: NodeHealth) -> tuple[_Rule, ...]:
    return _OF_REDIS if part.part == REDIS else _OF_MONGODB


def _evicted(part: NodeHealth, before: NodeHealth | None) -> float | None:
    """Count keys evicted since the sample before; None where that is not known.

    It counts them since it started, as MongoDB does with slow operations.
    """
    return _risen(part, before, names.EVICTED_KEYS)


def _risen(part: NodeHealth, before: NodeHealth | None, figure: str) -> float | None:
    """Count what came since the sample before: fewer than then are all of a new life."""
    now = part.figures.get(figure)
    was = None if before is None else before.figures.get(figure)
    if now is None or was is None:
        return None
    return now - was if now >= was else now


def counted_since(part: NodeHealth, before: NodeHealth | None, seconds: float) -> NodeHealth:
    """Add operations that were slow since the sample before, by the minute, to those that are.

    ``seconds`` lie between the two.
    """
    risen, running = _risen(part, before, names.SLOW_EVER), part.figures.get(names.SLOW_OPERATIONS)
    if risen is None or running is None or seconds <= 0:
        return part
    slow = running + risen * 60 / max(seconds, 60)
    return replace(part, figures={**part.figures, names.SLOW_OPERATIONS: slow})


def part_place(part: NodeHealth) -> Place:
    """Return the place of a part."""
    return Place(part=one_line(part.part, 32), name=one_line(part.name, 64))
