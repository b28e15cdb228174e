"""Schedules and their fire times, on the home node (SPEC.md B1)."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from pymongo import ASCENDING, IndexModel, ReturnDocument
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.adapters.mongo.connection import Document, MongoNodes, border
from crawlfleet.adapters.mongo.documents import read_id
from crawlfleet.model.schedule import Fire, Missed, Schedule
from crawlfleet.model.times import to_ms

#: A fire is remembered this long after it was created, longer than any scheduler can be late.
_FIRE_LIFE: Final = timedelta(days=7)


class MongoSchedules:
    """ports.ScheduleStore."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._sure = False

    def put(self, schedule: Schedule) -> None:
        """See ports.ScheduleStore.put."""
        with border():
            self._schedules().replace_one(
                {"_id": _key(schedule.tenant, schedule.biz, schedule.name)},
                _document(schedule),
                upsert=True,
            )

    def get(self, tenant: str, biz: str, name: str) -> Schedule | None:
        """See ports.ScheduleStore.get."""
        with border():
            found = self._schedules().find_one({"_id": _key(tenant, biz, name)})
        return _schedule(found) if found else None

    def of_biz(self, tenant: str, biz: str) -> list[Schedule]:
        """See ports.ScheduleStore.of_biz."""
        with border():
            cursor = self._schedules().find({"tenant": tenant, "biz": biz}).sort("name", ASCENDING)
            return [_schedule(found) for found in cursor]

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        """See ports.ScheduleStore.delete."""
        with border():
            return bool(
                self._schedules().delete_one({"_id": _key(tenant, biz, name)}).deleted_count
            )

    def due(self, now: datetime, limit: int) -> list[Schedule]:
        """See ports.ScheduleStore.due."""
        with border():
            cursor = (
                self._schedules()
                .find({"enabled": True, "next_at": {"$lte": now}})
                .sort("next_at", ASCENDING)
                .limit(limit)
            )
            return [_schedule(found) for found in cursor]

    def open_fire(self, fire: Fire) -> Fire:
        """See ports.ScheduleStore.open_fire."""
        with border():
            found: Any = self._standing(
                self._fires(),
                {"_id": _fire_key(fire)},
                {
                    "$setOnInsert": {
                        "tenant": fire.tenant,
                        "biz": fire.biz,
                        "schedule": fire.schedule,
                        "fire_at": fire.fire_at,
                        "queued_at": fire.queued_at,
                        "ids": list(fire.ids),
                        "rule_version": fire.rule_version,
                        "done": False,
                    }
                },
            )
        return Fire(
            tenant=found["tenant"],
            biz=found["biz"],
            schedule=found["schedule"],
            fire_at=found["fire_at"],
            queued_at=found["queued_at"],
            ids=tuple(map(read_id, found["ids"])),
            rule_version=found["rule_version"],
            done=found["done"],
        )

    @staticmethod
    def _standing(fires: Collection[Document], match: Document, change: Document) -> Any:
        # Two upserts of one key may both find nothing; the later one then finds what stands.
        with suppress(DuplicateKeyError):
            return fires.find_one_and_update(
                match, change, upsert=True, return_document=ReturnDocument.AFTER
            )
        return fires.find_one(match)

    def close_fire(self, fire: Fire) -> None:
        """See ports.ScheduleStore.close_fire."""
        with border():
            self._fires().update_one({"_id": _fire_key(fire)}, {"$set": {"done": True}})

    def advance(self, schedule: Schedule, fired_at: datetime, next_at: datetime | None) -> bool:
        """See ports.ScheduleStore.advance."""
        match = {
            "_id": _key(schedule.tenant, schedule.biz, schedule.name),
            "next_at": schedule.next_at,
            "cron": schedule.cron,
            "time_zone": schedule.time_zone,
        }
        with border():
            result = self._schedules().update_one(
                match, {"$set": {"next_at": next_at, "last_fired_at": fired_at}}
            )
        return bool(result.matched_count)

    def _schedules(self) -> Collection[Document]:
        self._make_sure()
        return self._nodes.control("schedules")

    def _fires(self) -> Collection[Document]:
        self._make_sure()
        return self._nodes.control("fires")

    def _make_sure(self) -> None:
        if self._sure:
            return
        schedules = self._nodes.control("schedules")
        schedules.create_indexes(
            [
                IndexModel([("enabled", ASCENDING), ("next_at", ASCENDING)], name="due"),
                IndexModel([("tenant", ASCENDING), ("biz", ASCENDING), ("name", ASCENDING)]),
            ]
        )
        self._nodes.control("fires").create_index(
            [("queued_at", ASCENDING)], expireAfterSeconds=int(_FIRE_LIFE.total_seconds())
        )
        self._sure = True


def _key(tenant: str, biz: str, name: str) -> str:
    return f"{tenant}/{biz}/{name}"


def _fire_key(fire: Fire) -> str:
    return f"{_key(fire.tenant, fire.biz, fire.schedule)}@{to_ms(fire.fire_at)}"


def _document(schedule: Schedule) -> Document:
    return {
        "tenant": schedule.tenant,
        "biz": schedule.biz,
        "name": schedule.name,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "rule": schedule.rule,
        "urls": list(schedule.urls),
        "missed": schedule.missed.value,
        "enabled": schedule.enabled,
        "next_at": schedule.next_at,
        "last_fired_at": schedule.last_fired_at,
    }


def _schedule(document: dict[str, Any]) -> Schedule:
    return Schedule(
        tenant=document["tenant"],
        biz=document["biz"],
        name=document["name"],
        cron=document["cron"],
        time_zone=document["time_zone"],
        rule=document["rule"],
        urls=tuple(document["urls"]),
        missed=Missed(document["missed"]),
        enabled=document["enabled"],
        next_at=document["next_at"],
        last_fired_at=document["last_fired_at"],
    )
