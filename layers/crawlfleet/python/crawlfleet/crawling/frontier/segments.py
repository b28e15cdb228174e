"""Segments: the time slice of a moment (SPEC.md F1), and the node that a seed of it is kept on.

Every instant lies in exactly one segment, and names sort as time does. Days, weeks and months are
those of the policy's time zone and are named by them: ``2026-03-01``, ``2026-W09``, ``2026-03``. A
day begins when its midnight is first reached, or, where the clock skips that, when it has been
skipped; so days have 23 or 25 hours twice a year, and none has a gap. Hours are those of the wall
clock as well, and a shift of the clock ends one; they, and spans of a biz's own, are named by when
they begin in UTC, as an hour of the wall clock may come twice: ``2026-10-25T00:00Z``,
``2026-10-25T00:00:00Z``.

A seed is kept by its key, over the nodes and databases of the generation that is in force when its
segment begins, going by the segment's name alone (:func:`anchor_of`): the id of a seed says where
it is. For a segment that has begun that is history, which nobody changes (config.validation). Only
a seed of a later segment may find another generation in force when its time comes; so a seed is
looked up wherever any generation would have it, and stored once all those places have answered.
"""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.policies import SeedPolicy, Span
from crawlfleet.crawling.frontier.models import Segment
from crawlfleet.requests.routing import Shard, generation_at, shard_of

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_LONGEST_SPAN_SECONDS: Final = 3_650 * 86_400
#: No clock is shifted by more at once: in 2011 Samoa went from one side of the date line to the
#: other.
_LARGEST_SHIFT: Final = timedelta(hours=25)

FOREVER: Final = Segment(name="forever", starts_at=_EPOCH, ends_at=None)
#: A name as a client may write it; a resolver's own names must be such too, and hold no slash.
NAME: Final = r"[A-Za-z0-9][A-Za-z0-9:._-]{0,63}"

_DATED: Final = re.compile(
    r"(\d{4})(?:-W(\d\d)|-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d))?Z)?)?)\Z", re.ASCII
)


class SegmentResolver(Protocol):
    """Gives the segment of a moment. Names sort as time, and match :data:`NAME`."""

    def __call__(self, policy: SeedPolicy, at: datetime) -> Segment:
        """Return the segment that the moment lies in."""
        ...


def segment_of(policy: SeedPolicy, at: datetime) -> Segment:
    """Return the segment that a moment lies in.

    >>> segment_of(SeedPolicy(timezone="Asia/Tokyo"), datetime(2026, 3, 1, 20, tzinfo=UTC)).name
    '2026-03-02'
    """
    if policy.span is Span.FOREVER:
        return FOREVER
    at = at.astimezone(UTC)
    zone = ZoneInfo(policy.timezone)
    if policy.span is Span.CUSTOM:
        return _custom(policy.span_seconds or _DAY.total_seconds(), zone, at)
    if policy.span is Span.HOUR:
        return _hour(zone, at)
    day = _first_day(policy.span, _wall(at, zone).date())
    while (ends_at := _reached(_next_day(policy.span, day), policy.timezone)) <= at:
        # The clock was set back over midnight: what has begun goes on.
        day = _next_day(policy.span, day)
    return Segment(
        name=_day_name(policy.span, day), starts_at=_reached(day, policy.timezone), ends_at=ends_at
    )


def anchor_of(name: str) -> datetime:
    """Return a moment near the segment's start, by its name alone: seeds are routed by it.

    A name says nothing about the time zone, and that may change; so it is read as UTC. Names of
    other resolvers are all taken for the oldest time.

    >>> anchor_of("2026-W09").isoformat()
    '2026-02-23T00:00:00+00:00'
    """
    found = _DATED.match(name)
    if found is None:
        return _EPOCH
    year, week, month, day, *time = (None if part is None else int(part) for part in found.groups())
    try:
        if week is not None:
            return datetime.combine(
                date.fromisocalendar(year or 1, week, 1), datetime.min.time(), UTC
            )
        hour, minute, second = (part or 0 for part in time)
        return datetime(year or 1, month or 1, day or 1, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return _EPOCH


def _custom(seconds: float, zone: ZoneInfo, at: datetime) -> Segment:
    """Spans of whole seconds, ten years at most, counted from when 1970 began in the time zone."""
    span = timedelta(seconds=max(1, round(min(seconds, _LONGEST_SPAN_SECONDS))))
    anchor = datetime(1970, 1, 1, tzinfo=zone).astimezone(UTC)
    starts_at = anchor + (at - anchor) // span * span
    return Segment(
        name=f"{starts_at:%Y-%m-%dT%H:%M:%SZ}", starts_at=starts_at, ends_at=starts_at + span
    )


def _hour(zone: ZoneInfo, at: datetime) -> Segment:
    """Return the hour of the wall clock, or the part of it before or after a shift."""
    wall = _wall(at, zone)
    starts_at = at - (wall - wall.replace(minute=0, second=0, microsecond=0))
    ends_at = starts_at + _HOUR
    if _offset(starts_at, zone) != _offset(at, zone):
        starts_at = _shift(starts_at, at, zone)
    if _offset(ends_at - _SECOND, zone) != _offset(at, zone):
        ends_at = _shift(at, ends_at - _SECOND, zone)
    return Segment(name=f"{starts_at:%Y-%m-%dT%H:%MZ}", starts_at=starts_at, ends_at=ends_at)


@lru_cache(maxsize=4096)
def _reached(day: date, timezone: str) -> datetime:
    """Find when the wall clock first shows this day or a later one."""
    zone = ZoneInfo(timezone)
    midnight = datetime.combine(day, datetime.min.time())
    moment = midnight.replace(tzinfo=zone).astimezone(UTC)
    if _wall(moment, zone) == midnight:
        return moment
    return _shift(moment - _LARGEST_SHIFT, moment, zone)


def _shift(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """Find the second in which the clock took on the offset that it has ``after``."""
    seconds = int((after - before) / _SECOND)
    unlike, like = 0, seconds
    while like - unlike > 1:
        middle = (unlike + like) // 2
        if _offset(before + middle * _SECOND, zone) == _offset(after, zone):
            like = middle
        else:
            unlike = middle
    return (before + like * _SECOND).replace(microsecond=0)


def _wall(at: datetime, zone: ZoneInfo) -> datetime:
    return at.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(at: datetime, zone: ZoneInfo) -> timedelta | None:
    return at.astimezone(zone).utcoffset()


def _first_day(span: Span, day: date) -> date:
    if span is Span.WEEK:
        return day - day.weekday() * _DAY
    return day.replace(day=1) if span is Span.MONTH else day


def _next_day(span: Span, day: date) -> date:
    if span is Span.MONTH:
        return (day + 31 * _DAY).replace(day=1)
    return day + (7 * _DAY if span is Span.WEEK else _DAY)


def _day_name(span: Span, day: date) -> str:
    if span is Span.WEEK:
        year, week, _ = day.isocalendar()
        return f"{year:04d}-W{week:02d}"
    return f"{day:%Y-%m}" if span is Span.MONTH else f"{day:%Y-%m-%d}"


def homes(biz: Biz) -> tuple[Shard, ...]:
    """List every place that seeds may be kept at, those of the newest generation first."""
    found = {
        Shard(node, database, 0): None
        for generation in reversed(biz.generations)
        for node in generation.nodes
        for database in generation.databases
    }
    return tuple(found)


def candidates(biz: Biz, seed_id: str) -> tuple[Shard, ...]:
    """List where the seed ``segment/key`` may be, first where it is stored now."""
    segment, _, key = seed_id.rpartition("/")
    now = generation_at(biz.generations, anchor_of(segment))
    found: dict[Shard, None] = {}
    for generation in (now, *biz.generations):
        shard = shard_of(generation, key)
        found[Shard(shard.node, shard.database, 0)] = None
    return tuple(found)
