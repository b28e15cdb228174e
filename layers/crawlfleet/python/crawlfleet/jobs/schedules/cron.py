"""Compute when a schedule fires (SPEC.md B1): a cron line in a time zone.

Daylight saving is handled as Debian's cron does: no fire time is skipped or run twice.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files
from itertools import chain, islice, pairwise, takewhile
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec.structs import replace

from crawlfleet.jobs.schedules.models import Missed, Overlap, Run, Schedule
from crawlfleet.kernel.errors import Problem

#: The fields of a line, in their order.
_FIELDS: Final = ("minute", "hour", "day of the month", "month", "day of the week")
#: What each field takes.
_TAKES: Final = {
    "minute": "*, 0 to 59, A-B, */N",
    "hour": "*, 0 to 23, A-B, */N",
    "day of the month": "*, 1 to 31, L, A-B, */N",
    "month": "*, 1 to 12, JAN to DEC, A-B, */N",
    "day of the week": "*, 0 to 7, SUN to SAT, A-B, */N, A#1 to A#5, AL",
}

#: Fire times that wait for the ones before them under ``overlap: queue``; the latest ones do.
QUEUED_FIRES: Final = 60
#: How far back the latest fire times are searched, step by step: each step costs at most some
#: dozen times what it finds, whatever the line and however long ago the last tick was.
_BACK: Final = tuple(timedelta(hours=hours) for hours in (1, 24, 32 * 24, 366 * 24, 8 * 366 * 24))

#: A line that fires so soon after the minute that has begun loses nothing by leaving that one out.
_NEXT_MINUTE: Final = timedelta(minutes=1)

#: For so long after a shift of clocks the library may skip fire times.
_SKIPPED_SECONDS: Final = 7_200


class Due(NamedTuple):
    """Fire times that are due, oldest first.

    ``passed`` is how the missed ones before were passed over, for people; "" where none was.
    ``resume_at`` is the first fire time that still counts where none is due.
    """

    fires: list[datetime]
    passed: str = ""
    resume_at: datetime | None = None


def problems_with(cron: str, time_zone: str, now: datetime) -> list[Problem]:
    """Find what is wrong with a cron line and a time zone."""
    found = []
    zone = None
    if time_zone in _zones():
        zone = ZoneInfo(time_zone)
    else:
        found.append(Problem("time_zone", f"no IANA time zone is called {time_zone[:64]!r}"))
    if len(cron.split()) != len(_FIELDS):
        # The library takes seconds before them, EventBridge a year behind: each would misread one
        # of the other's.
        wanted = f"it has five fields: {', '.join(_FIELDS)}"
        return [*found, Problem("cron", f"{cron[:64]!r} is no cron expression: {wanted}")]
    try:
        next(CronSim(cron, now.astimezone(zone or UTC)))
    except (CronSimError, StopIteration, ValueError) as error:
        reason = _reason(cron, str(error))
        found.append(Problem("cron", f"{cron[:64]!r} is no cron expression: {reason}"))
    return found


def _reason(cron: str, said: str) -> str:
    """Name the field that the library refuses, its value and what it takes."""
    name = said.removeprefix("Bad ").replace("day-of-", "day of the ")
    if name not in _FIELDS:
        return said or "it never fires"
    values = dict(zip(_FIELDS, cron.split(), strict=True))
    if name == "day of the month" and _fires(f"0 0 {values[name]} * *"):
        return f"{name}: no month of {values['month']!r} has {values[name]!r}"
    return f"{name}: {values[name][:64]!r} is none of {_TAKES[name]}, nor a list of them"


def _fires(cron: str) -> bool:
    try:
        return next(CronSim(cron, datetime(2024, 1, 1, tzinfo=UTC)), None) is not None
    except (CronSimError, ValueError):
        return False


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    """Load the IANA's zones from our package: those of a machine differ."""
    listed = files("tzdata").joinpath("zones").read_text(encoding="utf-8")
    return frozenset(listed.split()) - {"Factory"}


def fires_after(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    """Yield fire times later than ``after``, in UTC, ascending, until fifty years have none."""
    zone = ZoneInfo(schedule.time_zone)
    last, line = after, CronSim(schedule.cron, after.astimezone(zone))
    while (local := next(line, None)) is not None:
        found = local.astimezone(UTC)
        if found <= last:
            # In the hour that clocks go through twice the library begins with the first time.
            continue
        early = _skipped(schedule.cron, zone, last, found)
        if early is not None:
            found, line = early, CronSim(schedule.cron, early.astimezone(zone))
        last = found
        yield found


def next_fire(schedule: Schedule, after: datetime) -> datetime | None:
    """Return the first fire time later than ``after``, in UTC; None if fifty years have none."""
    return next(fires_after(schedule, after), None)


def first_fire(schedule: Schedule, now: datetime) -> datetime | None:
    """Return the first fire time of a schedule that is put now, or whose line is.

    Under ``missed: all`` that may be the minute that has just begun: who names the present minute
    means it, and not the one a day later. It is no fire time that the schedule had before, and not
    where the next minute is one, too: a tick would run both in that one.
    """
    begun = now.replace(second=0, microsecond=0)
    if schedule.missed is Missed.ALL and begun < now:
        first = next_fire(schedule, begun - timedelta(seconds=1))
        last, following = schedule.last_fired_at, next_fire(schedule, now)
        is_soon = following is not None and following - begun <= _NEXT_MINUTE
        if first == begun and not is_soon and (last is None or last < begun):
            return begun
    return next_fire(schedule, now)


def due_at(schedule: Schedule, fire_at: datetime) -> datetime:
    """Add the jitter to a fire time: up to ``jitter_seconds``, but before the next fire time.

    It follows from the schedule's name and the fire time alone, so it is always the same, and
    schedules of one cron line are spread.
    """
    if not schedule.jitter_seconds:
        return fire_at
    following = next_fire(schedule, fire_at)
    room = schedule.jitter_seconds
    if following is not None:
        room = min(room, int((following - fire_at).total_seconds()) - 1)
    text = f"{'/'.join(schedule.key)}@{int(fire_at.timestamp())}"
    number = int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
    return fire_at + timedelta(seconds=number % (room + 1))


def planned(schedule: Schedule, fire_at: datetime | None) -> Schedule:
    """Set the next fire time of a schedule."""
    next_at = None if fire_at is None else due_at(schedule, fire_at)
    return replace(schedule, fire_at=fire_at, next_at=next_at)


def fires_due(schedule: Schedule, now: datetime, limit: int, since: datetime | None = None) -> Due:
    """List the fire times from ``fire_at`` up to now that still count.

    With ``missed: latest`` it is the last of them; with ``skip`` those that are not too late; with
    ``all`` each, of which :data:`QUEUED_FIRES` wait where they queue. At most ``limit``, the rest
    next time. Since ``since`` schedulers have run and not come to it: what had not been too late by
    then is not too late.
    """
    first = schedule.fire_at
    if first is None or schedule.next_at is None or schedule.next_at > now:
        return Due([])
    if schedule.missed is Missed.SKIP:
        return _in_time(schedule, first, now, limit, min(since or now, now))
    if schedule.missed is Missed.LATEST:
        return _latest(schedule, first, now, 1)
    if schedule.overlap is Overlap.QUEUE:
        due = _latest(schedule, first, now, QUEUED_FIRES)
        return due._replace(fires=due.fires[:limit])
    return Due(_due(schedule, _from(schedule, first), now, limit))


def preview(schedule: Schedule, now: datetime, count: int) -> list[Run]:
    """List the next runs of a schedule, as if it were enabled, from its open fire time on."""
    zone = ZoneInfo(schedule.time_zone)
    first = schedule.fire_at or next_fire(schedule, now)
    if first is None:
        return []
    fires = [first, *islice(fires_after(schedule, first), count - 1)]
    locals_ = [due_at(schedule, fire).astimezone(zone) for fire in fires]
    before = [now.astimezone(zone), *locals_]
    return [
        Run(
            fire_at=fire,
            at=local.astimezone(UTC),
            local_at=local,
            shift_seconds=_offset(later) - _offset(earlier),
        )
        for fire, local, (earlier, later) in zip(fires, locals_, pairwise(before), strict=True)
    ]


def _skipped(cron: str, zone: ZoneInfo, last: datetime, found: datetime) -> datetime | None:
    """Return the first fire time that the library has skipped between two; usually None.

    It goes through a day in steps of an hour, so it skips times after clocks were shifted by less
    (on Lord Howe Island by half an hour), also where it began after that: those minutes are tried
    one by one.
    """
    begin = last - timedelta(seconds=_SKIPPED_SECONDS)
    offset = _offset(begin.astimezone(zone))
    if (_offset(found.astimezone(zone)) - offset) % 3_600 == 0:
        return None
    low, high = int(begin.timestamp()), int(found.timestamp())
    while high - low > 1:
        middle = (low + high) // 2
        same = _offset(datetime.fromtimestamp(middle, zone)) == offset
        low, high = (middle, high) if same else (low, middle)
    for second in range(high, min(high + _SKIPPED_SECONDS, int(found.timestamp())), 60):
        moment = datetime.fromtimestamp(second, UTC)
        before = (moment - timedelta(seconds=1)).astimezone(zone)
        if moment > last and next(CronSim(cron, before)).astimezone(UTC) == moment:
            return moment
    return None


def _from(schedule: Schedule, first: datetime) -> Iterator[datetime]:
    return chain([first], fires_after(schedule, first))


def _due(
    schedule: Schedule, fires: Iterator[datetime], now: datetime, limit: int | None = None
) -> list[datetime]:
    """Take the consecutive fire times that are due, the first ``limit`` of them."""
    past = takewhile(lambda fire: fire <= now, fires)
    found = list(past if limit is None else islice(past, limit + 1))
    if limit is not None and len(found) > limit:
        return found[:limit]
    # Every one but the last is due: its jitter ends before the next one.
    if found and due_at(schedule, found[-1]) > now:
        found.pop()
    return found


def _latest(schedule: Schedule, first: datetime, now: datetime, count: int) -> Due:
    """Take the last ``count`` of them, without going through all of a long time."""
    for back in _BACK:
        if now - back <= first:
            break
        found = _due(schedule, fires_after(schedule, now - back), now)
        if len(found) >= count:
            return _kept(first, found[-count:])
    return _kept(first, _due(schedule, _from(schedule, first), now)[-count:])


def _kept(first: datetime, kept: list[datetime]) -> Due:
    if not kept or kept[0] <= first:
        return Due(kept)
    return Due(kept, f"fire times from {_utc(first)} on, before this one, were passed over")


def _in_time(
    schedule: Schedule, first: datetime, now: datetime, limit: int, since: datetime
) -> Due:
    """Take those that are late by no more than the tolerance."""
    oldest = since - timedelta(seconds=schedule.tolerance_seconds)
    if due_at(schedule, first) >= oldest:
        return Due(_due(schedule, _from(schedule, first), now, limit))
    after = max(first, oldest - timedelta(seconds=schedule.jitter_seconds + 1))
    fires = (fire for fire in fires_after(schedule, after) if due_at(schedule, fire) >= oldest)
    resume_at = next(fires, None)
    passed = f"{_utc(first)} was late by more than {schedule.tolerance_seconds} seconds"
    if resume_at is None:
        return Due([], passed)
    return Due(_due(schedule, _from(schedule, resume_at), now, limit), passed, resume_at)


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _offset(moment: datetime) -> int:
    offset = moment.utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
