"""Segments: the time slice of a moment (SPEC.md F1), and the node that a seed of it is kept on.

Every instant lies in exactly one segment, and names sort as time does. Days, weeks and months are
those of the policy's time zone and are named by them: ``2026-03-01``, ``2026-W09``, ``2026-03``. A
day begins when its midnight is first reached, or, where the clock skips that, when it has been
skipped; so days have 23 or 25 hours twice a year, and none has a gap. Hours are those of the wall
clock as well, and a shift of the clock ends one; they, and spans of a biz's own, are named by when
they begin in UTC, as an hour of the wall clock may come twice: ``2026-10-25T00:00Z``,
``2026-10-25T00:00:00Z``. A segment of one job alone is named by when that began and by its name:
``2026-10-25T00:00:00Z.nightly``.

A seed is kept by its key, over the nodes and databases of the generation that is in force when its
segment begins, going by the segment's name alone (:func:`anchor_of`): the id of a seed says where
it is. For a segment that has begun that is history, which nobody changes (config.validation). Only
a seed of a later segment may find another generation in force when its time comes; so a seed is
looked up wherever any generation would have it, and stored once all those places have answered.
"""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.policies import SeedPolicy, Span
from crawlfleet.config.documents.rule import Rule
from crawlfleet.crawling.frontier.models import Segment, SegmentChoice
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
    r"(\d{4})(?:-W(\d\d)|-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d))?Z(?:\.[A-Za-z0-9._-]+)?)?)?)\Z",
    re.ASCII,
)
#: Of a job's name its segment has so much; a longer one is told from others by a digest.
_OF_NAME: Final = 43
_DIGEST: Final = 8
#: Spans that a start may choose, by their longest.
_SPANS: Final[dict[str, tuple[Span, timedelta]]] = {
    SegmentChoice.HOUR: (Span.HOUR, _HOUR),
    SegmentChoice.DAY: (Span.DAY, _DAY),
    SegmentChoice.WEEK: (Span.WEEK, 7 * _DAY),
    SegmentChoice.MONTH: (Span.MONTH, 31 * _DAY),
}


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


def choice_in_force(choice: SegmentChoice | None, reader: object) -> SegmentChoice | None:
    """Return the choice that holds for a job: its own segment, unless it is said otherwise.

    None where pages of the reader lead nowhere: a rule without ``follow``.
    """
    if isinstance(reader, Rule) and not reader.follow:
        return choice
    return SegmentChoice.JOB if choice is None else choice


def choice_problem(policy: SeedPolicy, choice: SegmentChoice | None) -> str | None:
    """Return why a job of a biz cannot choose a segment; None where it can.

    Seeds are found by the generations of a biz, which may be removed once seeds of its own longest
    segment have gone (config.validation): none may be longer.
    """
    known = _SPANS.get(choice) if choice is not None else None
    if known is None or policy.span is Span.FOREVER or policy.segment_resolver is not None:
        return None
    own = next((longest for span, longest in _SPANS.values() if span is policy.span), None)
    if own is None:
        own = timedelta(seconds=policy.span_seconds or _DAY.total_seconds())
    if known[1] <= own:
        return None
    return f"is longer than a segment of the biz (seeds.span: {policy.span})"


def segment_of_job(choice: SegmentChoice | None, job: str, started_at: datetime) -> str | None:
    """Return what the requests of a job carry of its choice (:func:`segment_in`).

    >>> segment_of_job(SegmentChoice.JOB, "nightly", datetime(2026, 3, 1, 20, tzinfo=UTC))
    '2026-03-01T20:00:00Z.nightly'
    """
    if choice is not SegmentChoice.JOB:
        return None if choice in {None, SegmentChoice.BIZ} else choice
    if len(job) > _OF_NAME:
        digest = blake2b(job.encode(), digest_size=_DIGEST).hexdigest()
        job = f"{job[: _OF_NAME - len(digest) - 1]}.{digest}"
    return f"{started_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}.{job}"


def is_of_job(carried: str | None) -> bool:
    """Tell whether what a request carries is a segment of its job alone."""
    return carried is not None and carried not in _SPANS


def segment_in(
    resolver: "SegmentResolver", policy: SeedPolicy, carried: str | None, at: datetime
) -> Segment:
    """Return the segment of a moment that a request's links are known in.

    ``carried`` is what the request says of it. A job's own goes on for as long as links are found.
    """
    if carried is None:
        return resolver(policy, at)
    if carried in _SPANS:
        return segment_of(replace(policy, span=_SPANS[carried][0]), at)
    return Segment(name=carried, starts_at=anchor_of(carried), ends_at=at + _DAY)


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


def until_of(name: str) -> datetime:
    """Return about when a segment ends, by its name alone; a job's counts from its start.

    Names that say no time, such as ``forever`` and those of other resolvers, have no end.

    >>> [until_of(name).day for name in ("2026-03-01", "2026-W10", "2026-03-01T20:00:00Z.nightly")]
    [2, 9, 1]
    """
    found = _DATED.match(name)
    if found is None or found[1] == "9999":
        return datetime.max.replace(tzinfo=UTC)
    _, week, _, day, hour, _, second = found.groups()
    if hour is not None:
        return anchor_of(name) + (_HOUR if second is None else timedelta())
    return anchor_of(name) + (7 if week is not None else 31 if day is None else 1) * _DAY


def newest_first(names: Iterable[str]) -> list[str]:
    """Sort segments by time; by name the weeks of a year would stand before all of its days."""
    return sorted(names, key=lambda name: (until_of(name), name), reverse=True)


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
