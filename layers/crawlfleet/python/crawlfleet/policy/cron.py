"""When a schedule fires (SPEC.md B1): cron lines in a time zone.

Daylight saving is handled as Debian's cron does: no fire time is skipped or run twice.
"""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from crawlfleet.errors import Problem
from crawlfleet.model.schedule import Missed, Schedule


def problems_with(cron: str, time_zone: str, now: datetime) -> list[Problem]:
    """What is wrong with a cron line and a time zone; empty when nothing is."""
    found = []
    zone = None
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        found.append(Problem("time_zone", f"no IANA time zone is called {time_zone[:64]!r}"))
    try:
        next(CronSim(cron, now.astimezone(zone or UTC)))
    except (CronSimError, StopIteration, ValueError) as error:
        reason = str(error) or "it never fires"
        found.append(Problem("cron", f"{cron[:64]!r} is no cron expression: {reason}"))
    return found


def next_fire(schedule: Schedule, after: datetime) -> datetime | None:
    """The first fire time later than ``after``, in UTC; None if there is none in fifty years."""
    zone = ZoneInfo(schedule.time_zone)
    try:
        return next(CronSim(schedule.cron, after.astimezone(zone))).astimezone(UTC)
    except StopIteration:
        return None


def fires_due(schedule: Schedule, now: datetime, limit: int) -> list[datetime]:
    """Fire times from ``next_at`` up to now that are to be created, oldest first.

    With ``missed: latest`` only the last of them; with ``all`` at most ``limit``, the rest next
    time.
    """
    found: list[datetime] = []
    moment = schedule.next_at
    if schedule.missed is Missed.LATEST:
        latest = None
        while moment is not None and moment <= now:
            latest, moment = moment, next_fire(schedule, moment)
        return [latest] if latest is not None else []
    while moment is not None and moment <= now and len(found) < limit:
        found.append(moment)
        moment = next_fire(schedule, moment)
    return found
