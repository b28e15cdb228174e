"""The twin of MongoDB's schedule store."""

import threading
from datetime import datetime
from typing import TypeAlias

import msgspec

from crawlfleet.model.schedule import Fire, Schedule

_Key: TypeAlias = tuple[str, str, str]


class MemorySchedules:
    """ports.ScheduleStore in memory."""

    def __init__(self) -> None:
        self._schedules: dict[_Key, Schedule] = {}
        self._fires: dict[tuple[str, str, str, datetime], Fire] = {}
        self._lock = threading.Lock()

    def put(self, schedule: Schedule) -> None:
        """See ports.ScheduleStore.put."""
        with self._lock:
            self._schedules[_key(schedule)] = schedule

    def get(self, tenant: str, biz: str, name: str) -> Schedule | None:
        """See ports.ScheduleStore.get."""
        with self._lock:
            return self._schedules.get((tenant, biz, name))

    def of_biz(self, tenant: str, biz: str) -> list[Schedule]:
        """See ports.ScheduleStore.of_biz."""
        with self._lock:
            kept = sorted(self._schedules.items())
        return [schedule for key, schedule in kept if key[:2] == (tenant, biz)]

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        """See ports.ScheduleStore.delete."""
        with self._lock:
            return self._schedules.pop((tenant, biz, name), None) is not None

    def due(self, now: datetime, limit: int) -> list[Schedule]:
        """See ports.ScheduleStore.due."""
        with self._lock:
            found = [
                (schedule.next_at, _key(schedule), schedule)
                for schedule in self._schedules.values()
                if schedule.enabled and schedule.next_at is not None and schedule.next_at <= now
            ]
        return [schedule for _, _, schedule in sorted(found, key=lambda one: one[:2])[:limit]]

    def open_fire(self, fire: Fire) -> Fire:
        """See ports.ScheduleStore.open_fire."""
        with self._lock:
            return self._fires.setdefault(_fire_key(fire), fire)

    def close_fire(self, fire: Fire) -> None:
        """See ports.ScheduleStore.close_fire."""
        with self._lock:
            standing = self._fires.get(_fire_key(fire))
            if standing is not None:
                self._fires[_fire_key(fire)] = msgspec.structs.replace(standing, done=True)

    def advance(self, schedule: Schedule, fired_at: datetime, next_at: datetime | None) -> bool:
        """See ports.ScheduleStore.advance."""
        with self._lock:
            standing = self._schedules.get(_key(schedule))
            if standing is None or (standing.next_at, standing.cron, standing.time_zone) != (
                schedule.next_at,
                schedule.cron,
                schedule.time_zone,
            ):
                return False
            self._schedules[_key(schedule)] = msgspec.structs.replace(
                standing, next_at=next_at, last_fired_at=fired_at
            )
            return True


def _key(schedule: Schedule) -> _Key:
    return schedule.tenant, schedule.biz, schedule.name


def _fire_key(fire: Fire) -> tuple[str, str, str, datetime]:
    return fire.tenant, fire.biz, fire.schedule, fire.fire_at
