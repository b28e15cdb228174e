"""In-memory fakes keep incidents and notifications."""

import threading
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from tests.kit.incidents import (
    Acknowledgement,
    Book,
    Bulletin,
    Desk,
    Handling,
    Incident,
    Life,
    Notification,
    Silence,
)
from tests.kit.kernel import to_ms


class MemoryIncidentBook:
    """In-memory ``MongoIncidentBook`` that forgets nothing."""

    def __init__(self) -> None:
        self._present: dict[str, Incident] = {}
        self._past: dict[str, Incident] = {}
        self._desk = Desk()
        self._holder: tuple[str, datetime] | None = None
        self._handlings: dict[str, Handling] = {}
        self._lock = threading.Lock()

    def acquire_lock(self, by: str, now: datetime, term: timedelta) -> bool:
        with self._lock:
            if self._holder is not None and self._holder[0] != by and self._holder[1] > now:
                return False
            self._holder = by, now + term
            return True

    def release_lock(self, by: str) -> None:
        with self._lock:
            if self._holder is not None and self._holder[0] == by:
                self._holder = None

    def read(self) -> Book:
        with self._lock:
            return Book(tuple(self._present[key] for key in sorted(self._present)), self._desk)

    def write(
        self, incidents: Iterable[Incident], desk: Desk, past: Iterable[Incident] = ()
    ) -> None:
        with self._lock:
            self._present |= {each.key: each for each in incidents}
            self._desk = desk
            for each in past:
                present = self._present.get(each.key)
                if present is not None and present.id == each.id:
                    del self._present[each.key]
                if each.opened_at is not None:
                    self._past[each.id] = each

    def find(
        self,
        tenants: Sequence[str] | None,
        *,
        open_only: bool,
        before: tuple[int, str] | None,
        limit: int,
    ) -> list[Incident]:
        with self._lock:
            known = self._past | {each.id: each for each in self._present.values()}
        placed = [
            ((to_ms(each.opened_at), each.id), each)
            for each in known.values()
            if each.opened_at is not None
            and (tenants is None or each.place.tenant in tenants)
            and (not open_only or each.life is Life.OPEN)
        ]
        found = [(place, each) for place, each in placed if before is None or place < before]
        return [each for _, each in sorted(found, key=lambda one: one[0], reverse=True)][:limit]

    def open_one(self, tenants: Sequence[str] | None, name: str) -> Incident | None:
        with self._lock:
            found = [
                each
                for each in self._present.values()
                if each.id == name
                and each.opened_at is not None
                and (tenants is None or each.place.tenant in tenants)
            ]
        return next(iter(found), None)

    def handlings(self, keys: Iterable[str]) -> dict[str, Handling]:
        with self._lock:
            return {key: self._handlings[key] for key in keys if key in self._handlings}

    def handle(self, incident: Incident, change: Acknowledgement | Silence) -> Handling:
        name = "acknowledged" if isinstance(change, Acknowledgement) else "silenced"
        with self._lock:
            known = self._handlings.get(incident.key) or Handling(key=incident.key)
            self._handlings[incident.key] = replace(known, **{name: change})
            return self._handlings[incident.key]

    def unsilence(self, incident: Incident, now: datetime) -> Handling | None:
        with self._lock:
            known = self._handlings.get(incident.key)
            if known is None:
                return None
            ended = known.silence(now)
            silenced = known.silenced if ended is None else replace(ended, until=now)
            self._handlings[incident.key] = replace(known, acknowledged=None, silenced=silenced)
            return self._handlings[incident.key]


class MemoryNotifier:
    """In-memory ``SnsNotifier`` that keeps its notifications."""

    def __init__(self) -> None:
        self.notifications: list[Notification] = []
        self.woken: list[Notification] = []
        self.bulletins: list[Bulletin] = []

    def notify_people(self, notification: Notification) -> None:
        self.notifications.append(notification)

    def notify_phones(self, notification: Notification) -> None:
        self.woken.append(notification)

    def notify_machines(self, bulletin: Bulletin) -> None:
        self.bulletins.append(bulletin)
