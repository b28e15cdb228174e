"""An in-memory fake keeps schedules."""

import threading
from datetime import datetime
from itertools import chain, zip_longest
from typing import Any, TypeAlias

from msgspec.structs import replace

from tests.kit.schedules import KEPT_VERSIONS, SCAN_GAP, Schedule

_Key: TypeAlias = tuple[str, str, str]


class MemorySchedules:
    """In-memory ``MongoSchedules``."""

    def __init__(self) -> None:
        self._schedules: dict[_Key, Schedule] = {}
        self._versions: dict[_Key, dict[int, Schedule]] = {}
        self._looked_at: datetime | None = None
        self._behind_since: datetime | None = None
        self._lock = threading.Lock()

    def put(self, schedule: Schedule, over: Schedule | None) -> bool:
        with self._lock:
            standing = self._schedules.get(schedule.key)
            if _token(standing) != _token(over):
                return False
            self._schedules[schedule.key] = schedule
            versions = self._versions.setdefault(schedule.key, {})
            for one in filter(None, (over, schedule)):
                versions[one.version] = as_put(one)
            for number in sorted(versions)[:-KEPT_VERSIONS]:
                del versions[number]
            return True

    def get(self, tenant: str, biz: str, name: str) -> Schedule | None:
        with self._lock:
            return self._schedules.get((tenant, biz, name))

    def of_biz(self, tenant: str, biz: str) -> list[Schedule]:
        with self._lock:
            kept = sorted(self._schedules.items(), key=lambda one: one[0])
        return [schedule for key, schedule in kept if key[:2] == (tenant, biz)]

    def count(self, tenant: str, biz: str) -> int:
        return len(self.of_biz(tenant, biz))

    def versions(self, tenant: str, biz: str, name: str, limit: int) -> list[Schedule]:
        with self._lock:
            kept = sorted(self._versions.get((tenant, biz, name), {}).items(), reverse=True)
        return [schedule for _, schedule in kept[:limit]]

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        with self._lock:
            self._versions.pop((tenant, biz, name), None)
            return self._schedules.pop((tenant, biz, name), None) is not None

    def due(self, now: datetime, limit: int) -> list[Schedule]:
        with self._lock:
            found = [
                (schedule.next_at, schedule.key, schedule)
                for schedule in self._schedules.values()
                if schedule.enabled and schedule.next_at is not None and schedule.next_at <= now
            ]
        of_tenants: dict[str, list[Schedule]] = {}
        for _, (tenant, _, _), schedule in sorted(found, key=lambda one: one[:2]):
            of_tenants.setdefault(tenant, []).append(schedule)
        turns = chain.from_iterable(zip_longest(*of_tenants.values()))
        return [schedule for schedule in turns if schedule is not None][:limit]

    def failing(self, limit: int) -> list[Schedule]:
        with self._lock:
            found = sorted(
                (one for one in self._schedules.values() if one.is_failing),
                key=lambda one: (one.next_at is not None, one.next_at, one.key),
            )
        unread: dict[str, Any] = {"urls": (), "start": None, "values": {}}
        of_tenants: dict[str, list[Schedule]] = {}
        for schedule in found:
            of_tenants.setdefault(schedule.tenant, []).append(replace(schedule, **unread))
        turns = chain.from_iterable(zip_longest(*of_tenants.values()))
        return [schedule for schedule in turns if schedule is not None][:limit]

    def next_due(self, after: datetime, until: datetime) -> datetime | None:
        with self._lock:
            found = (one.next_at for one in self._schedules.values() if one.enabled)
            return min((at for at in found if at is not None and after < at <= until), default=None)

    def begin_scan(self, now: datetime) -> datetime:
        with self._lock:
            at, since = self._looked_at, self._behind_since
            goes_on = at is not None and at >= now - SCAN_GAP
            self._behind_since = since if goes_on and since is not None else now
            self._looked_at = now if at is None else max(at, now)
            return min(self._behind_since, now)

    def end_scan(self) -> None:
        with self._lock:
            self._behind_since = None

    def advance(self, read: Schedule, to: Schedule) -> bool:
        with self._lock:
            standing = self._schedules.get(read.key)
            if (
                standing is None
                or _token(standing) != _token(read)
                or standing.next_at != read.next_at
            ):
                return False
            self._schedules[read.key] = replace(
                standing,
                fire_at=to.fire_at,
                next_at=to.next_at,
                last_fired_at=to.last_fired_at,
                last_outcome=to.last_outcome,
                last_failure=to.last_failure,
            )
            return True


def as_put(schedule: Schedule) -> Schedule:
    """A version as it is listed: what the client said, which one it is, and since when."""
    return replace(schedule.content, version=schedule.version, put_at=schedule.put_at)


def _token(schedule: Schedule | None) -> tuple[int, datetime | None] | None:
    return None if schedule is None else (schedule.version, schedule.fire_at)
