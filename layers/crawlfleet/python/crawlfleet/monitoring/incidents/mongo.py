"""Incidents on the home node: the present in one collection, what is past in another for a while.

``incidents`` has one document a thing that is, or lately was, wrong; its ``_id`` is the incident's
key, so there is never a second one of it. ``incidents_past`` keeps by ``id`` what will not change
any more. ``incident_desk`` holds the lock and what has been sent. ``incident_handlings`` has by key
who acknowledged or silenced it: only the API writes it, as the monitor replaces whole incidents.
"""

import logging
from collections.abc import Collection as Keys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import fields
from pymongo import ASCENDING, DESCENDING, DeleteOne, IndexModel, ReplaceOne
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.monitoring.incidents.handling import Acknowledgement, Handling, Silence
from crawlfleet.monitoring.incidents.lifecycle import LEAVING, MOST
from crawlfleet.monitoring.incidents.models import Book, Desk, Incident, Life

log = logging.getLogger(__name__)

#: How long what is past is kept.
LIFE: Final = timedelta(days=90)
#: The time for all incidents together: this very call reports parts that are away.
SECONDS: Final = 5.0

_DESK: Final = "desk"
_NEVER: Final = from_ms(0)


class MongoIncidentBook:
    """The incidents of the stage, of now and of the last months."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._sure = False
        self._sure_of_handlings = False

    def acquire_lock(self, by: str, now: datetime, term: timedelta) -> bool:
        """Take the lock of the evaluations until the term ends or it is released.

        False while another has it: two evaluations at once would notify twice.
        """
        free = {"_id": _DESK, "$or": [{"until": {"$lte": now}}, {"by": by}, {"until": None}]}
        with border(SECONDS):
            try:
                self._desk().update_one(
                    free, {"$set": {"by": by, "until": now + term}}, upsert=True
                )
            except DuplicateKeyError:  # there is a desk, and it is not free
                return False
        return True

    def release_lock(self, by: str) -> None:
        """Release the lock, unless another has it by now."""
        with border(SECONDS):
            self._desk().update_one({"_id": _DESK, "by": by}, {"$set": {"until": _NEVER}})

    def read(self) -> Book:
        """Read the present."""
        with border(SECONDS):
            # A writer that died may have left those there that had to make room.
            found = self._present().find().sort("_id", ASCENDING).limit(LEAVING + 2 * MOST)
            incidents = tuple(_readable(found))
            desk = self._desk().find_one({"_id": _DESK}) or {}
        return Book(incidents, _sent(desk))

    def write(
        self, incidents: Iterable[Incident], desk: Desk, past: Iterable[Incident] = ()
    ) -> None:
        """Put incidents in the place of what was known of them, by key and ``id``.

        ``past`` will not change any more: they are kept for three months for people who ask, but
        for such as were only ever suspected.
        """
        gone = tuple(past)
        kept = [
            ReplaceOne({"_id": each.id}, _document(each), upsert=True)
            for each in gone
            if each.opened_at is not None
        ]
        # First where it is to stay: a death in between leaves it twice, and never nowhere.
        changes: list[ReplaceOne[Document] | DeleteOne] = [
            *(ReplaceOne({"_id": each.key}, _document(each), upsert=True) for each in incidents),
            *(DeleteOne({"_id": each.key, "id": each.id}) for each in gone),
        ]
        with border(SECONDS):
            if kept:
                self._past().bulk_write(kept, ordered=False)
            if changes:
                self._present().bulk_write(changes, ordered=False)
            sent = msgspec.to_builtins(desk, builtin_types=(datetime,))
            self._desk().update_one({"_id": _DESK}, {"$set": sent}, upsert=True)

    def find(
        self,
        tenants: Sequence[str] | None,
        *,
        open_only: bool,
        before: tuple[int, str] | None,
        limit: int,
    ) -> list[Incident]:
        """Find incidents that opened once, the newest first: by ``opened_at``, then by ``id``.

        ``tenants`` are whose; the empty name is the platform, None is everybody. ``before`` is the
        place behind which they lie: epoch milliseconds of ``opened_at``, and ``id``.
        """
        match: Document = {"opened_at": {"$type": "date"}}
        if tenants is not None:
            match["place.tenant"] = {"$in": list(tenants)}
        if before is not None:
            at, name = from_ms(before[0]), before[1]
            match["$or"] = [{"opened_at": {"$lt": at}}, {"opened_at": at, "id": {"$lt": name}}]
        if open_only:
            match["life"] = Life.OPEN.value
        order = [("opened_at", DESCENDING), ("id", DESCENDING)]
        found: dict[str, Incident] = {}
        with border():
            for place in (self._present(),) if open_only else (self._past(), self._present()):
                listed = _readable(place.find(match).sort(order).limit(limit))
                found |= {each.id: each for each in listed}
        return sorted(found.values(), key=_newest, reverse=True)[:limit]

    def open_one(self, tenants: Sequence[str] | None, name: str) -> Incident | None:
        """Find an incident by its id among those that may still change; ``tenants`` as above."""
        match: Document = {"id": name, "opened_at": {"$type": "date"}}
        if tenants is not None:
            match["place.tenant"] = {"$in": list(tenants)}
        with border():
            return next(_readable(self._present().find(match).limit(1)), None)

    def handlings(self, keys: Keys[str]) -> dict[str, Handling]:
        """Read how what is wrong under these keys is handled."""
        if not keys:
            return {}
        with border(SECONDS):
            found = list(self._handlings().find({"_id": {"$in": list(keys)}}))
        return {each.key: each for each in _readable_handlings(found)}

    def handle(self, incident: Incident, change: Acknowledgement | Silence) -> Handling:
        """Keep an acknowledgement or a silence of an incident in the place of an earlier one."""
        name = "acknowledged" if isinstance(change, Acknowledgement) else "silenced"
        kept = {
            name: msgspec.to_builtins(change, builtin_types=(datetime,)),
            "tenant": incident.place.tenant,
            "at": change.at,
        }
        with border():
            self._handlings(sure=True).update_one(
                {"_id": incident.key}, {"$set": kept}, upsert=True
            )
        return self.handlings([incident.key])[incident.key]

    def unsilence(self, incident: Incident, now: datetime) -> Handling | None:
        """Take back an acknowledgement, and end a silence now; None where there was neither.

        The silence stays readable: of what opened within it people are still to be told.
        """
        known, ended = {"_id": incident.key}, {"$set": {"silenced.until": now}}
        with border():
            handlings = self._handlings()
            handlings.update_one({**known, "silenced.until": {"$gt": now}}, ended)
            handlings.update_one(known, {"$unset": {"acknowledged": ""}})
        return self.handlings([incident.key]).get(incident.key)

    def _handlings(self, *, sure: bool = False) -> Collection[Document]:
        handlings = self._nodes.control("incident_handlings")
        if sure and not self._sure_of_handlings:
            life = int(LIFE.total_seconds())
            handlings.create_indexes(
                [
                    IndexModel([("at", ASCENDING)], name="ttl", expireAfterSeconds=life),
                    IndexModel([("tenant", ASCENDING)], name="by_tenant"),
                ]
            )
            self._sure_of_handlings = True
        return handlings

    def _present(self) -> Collection[Document]:
        return self._nodes.control("incidents")

    def _desk(self) -> Collection[Document]:
        return self._nodes.control("incident_desk")

    def _past(self) -> Collection[Document]:
        past = self._nodes.control("incidents_past")
        if not self._sure:
            life = int(LIFE.total_seconds())
            by_time = [("opened_at", DESCENDING), ("id", DESCENDING)]
            past.create_indexes(
                [
                    IndexModel(by_time, name="by_time"),
                    IndexModel([("place.tenant", DESCENDING), *by_time], name="by_tenant"),
                    IndexModel([("over_at", ASCENDING)], name="ttl", expireAfterSeconds=life),
                ]
            )
            self._sure = True
        return past


def _document(incident: Incident) -> Document:
    document: Document = msgspec.to_builtins(incident, builtin_types=(datetime,))
    return document


def _readable(documents: Iterable[Document]) -> Iterator[Incident]:
    """Incidents as they were written; what another version wrote otherwise is left alone."""
    for document in documents:
        try:
            yield msgspec.convert(document, Incident)
        except msgspec.ValidationError as error:
            which: Any = document.get("_id")
            log.warning("an incident cannot be read", extra={"id": which, "reason": str(error)})


def _readable_handlings(documents: Iterable[Document]) -> Iterator[Handling]:
    """Handlings as they were written; what another version wrote otherwise is left alone."""
    for document in documents:
        try:
            yield msgspec.convert({**document, "key": document["_id"]}, Handling)
        except msgspec.ValidationError as error:
            log.warning("a handling cannot be read", extra={"reason": str(error)})


def _sent(desk: Document) -> Desk:
    """Return what has been sent, or nothing where another version wrote it otherwise.

    A measure that begins anew lets a few messages more through; one that fails sends none.
    """
    known = {each.name: desk[each.name] for each in fields(Desk) if each.name in desk}
    try:
        return msgspec.convert(known, Desk)
    except msgspec.ValidationError as error:
        log.warning("what has been sent cannot be read", extra={"reason": str(error)})
        return Desk()


def _newest(incident: Incident) -> tuple[int, str]:
    return 0 if incident.opened_at is None else to_ms(incident.opened_at), incident.id
