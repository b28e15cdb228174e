"""Keep versions of the configuration on the home node of MongoDB (SPEC.md A3).

``config_versions`` has one document a version, ``config_changes`` one for each document that it
changes, with the text that came into force, compressed. ``config_newest`` is one document that all
who keep a version write in their transaction: so each change is found against the version before
it, and none is kept behind a newer one.
"""

import re
import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.config.documents.history import HistoryTerms
from crawlfleet.config.parameters import MAX_DOCUMENT_BYTES
from crawlfleet.config.versions import models
from crawlfleet.config.versions.models import Change, Note, Version
from crawlfleet.kernel.errors import InvalidRequestError, NotFoundError
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.kernel.mongo.transactions import (
    TRANSACTION_SECONDS,
    MetAnotherError,
    in_transaction,
)
from crawlfleet.kernel.paging import Listing

_NEWEST: Final = "all"
#: Texts that one query asks for.
_TEXTS_AT_ONCE: Final = 500
_CURSOR: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[\x21-\x7e]{0,100}\Z")


class MongoVersions:
    """Versions of a stage's configuration.

    ``tenant`` bounds what is read to documents of one tenant; None is for operators.
    """

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._is_indexed = False

    def knows(self, revision: str) -> bool:
        """Tell whether a revision is kept."""
        with border():
            return self._versions().find_one({"revision": revision}, {"_id": True}) is not None

    def keep(
        self,
        revision: str,
        documents: Mapping[str, str],
        now: datetime,
        terms: HistoryTerms,
        note: Note | None = None,
    ) -> bool:
        """Keep a revision with its documents; return whether it was new.

        One that is kept already gets the ``note``, as somebody else may have seen it first. One
        that is older than the newest that is kept is left out.
        """
        said = msgspec.to_builtins(note or Note())
        with border(TRANSACTION_SECONDS):
            found = self._versions().find_one({"revision": revision}, {"_id": True})
            if found is not None:
                if note is not None:
                    self._versions().update_one({"_id": found["_id"]}, {"$set": said})
                return False
            order = models.order_of(revision, now)

            def write(session: ClientSession) -> bool:
                try:
                    return self._written(order, revision, documents, said, session)
                except DuplicateKeyError as error:
                    raise MetAnotherError from error

            is_new = in_transaction(self._versions().database.client, write)
            if is_new:
                self._prune(now, terms)
            elif note is not None:  # somebody else has kept it in between
                self._versions().update_one({"revision": revision}, {"$set": said})
            return is_new

    def _written(
        self,
        order: str,
        revision: str,
        documents: Mapping[str, str],
        said: Mapping[str, str],
        session: ClientSession,
    ) -> bool:
        """Write a version and what it changes, unless one that is as new is kept."""
        before = self._newest().find_one_and_update(
            {"_id": _NEWEST}, {"$max": {"order": order}}, upsert=True, session=session
        )
        if before is not None and before["order"] >= order:
            return False
        known = {one["_id"]: one["digest"] for one in self._latest({}, session)}
        if changes := models.changes_between(known, documents):
            rows = [_row(order, revision, change) for change in changes]
            self._changes().insert_many(rows, session=session)
        self._versions().insert_one({"_id": order, "revision": revision, **said}, session=session)
        return True

    def made_since(self, tenant: str, since: datetime) -> int:
        """Count the versions that a tenant's keys have made since some time."""
        match = {"_id": {"$gte": models.order_of("", since)}, "by": tenant}
        with border():
            return self._versions().count_documents(match)

    def find(self, revision: str, tenant: str | None) -> Version:
        """Return a version.

        Raises:
            NotFoundError: it is not kept, or changes nothing of the tenant.
        """
        match = _of(tenant, None)
        with border():
            header = self._versions().find_one({"revision": revision})
            if header is not None:
                changed = self._changed({"order": header["_id"], **match}, 1)
                if changed or tenant is None:
                    return _version(header, changed.get(header["_id"], {}))
        raise NotFoundError(f"no version {revision[:100]!r} of the configuration is kept")

    def page(
        self, tenant: str | None, path: str | None, cursor: str | None, limit: int
    ) -> Listing[Version]:
        """List versions, the newest first; those alone that change the tenant's, or one document.

        Raises:
            InvalidRequestError: the cursor is none of this list.
        """
        before: Document = {}
        if cursor is not None:
            if not _CURSOR.match(cursor):
                raise InvalidRequestError.of("cursor", "is no cursor of this list")
            before = {"$lt": cursor}
        with border():
            if tenant is None and path is None:
                match = {"_id": before} if before else {}
                found = list(self._versions().find(match).sort("_id", DESCENDING).limit(limit + 1))
                orders = [one["_id"] for one in found]
                changed = self._changed({"order": {"$in": orders}}, limit + 1)
            else:
                of = _of(tenant, path) | ({"order": before} if before else {})
                changed = self._changed(of, limit + 1)
                # What stands below the oldest version that is kept is listed no more.
                headers = self._versions().find({"_id": {"$in": list(changed)}})
                found = list(headers.sort("_id", DESCENDING))
        items = [_version(one, changed.get(one["_id"], {})) for one in found[:limit]]
        more = len(found) > limit
        return Listing(items, found[limit - 1]["_id"] if more else None, more)

    def documents(self, revision: str, tenant: str | None, path: str | None) -> dict[str, str]:
        """Read the documents of a version by path, or one of them.

        Raises:
            NotFoundError: it is not kept.
        """
        with border():
            latest = self._at(revision, tenant, path)
            return self._texts(list(latest))

    def differences(
        self, before: str, after: str, tenant: str | None, path: str | None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Read the documents that two versions have differently: texts by path of each.

        Raises:
            NotFoundError: one of them is not kept.
        """
        with border():
            old, new = self._at(before, tenant, path), self._at(after, tenant, path)
            digests = {one["_id"]: one["digest"] for one in old}
            others = {one["_id"]: one["digest"] for one in new}
            differ = {p for p in digests | others if digests.get(p) != others.get(p)}
            return (
                self._texts(one for one in old if one["_id"] in differ),
                self._texts(one for one in new if one["_id"] in differ),
            )

    def _at(self, revision: str, tenant: str | None, path: str | None) -> list[Document]:
        """Find the change by which each document stands at a version; none of those that went."""
        header = self._versions().find_one({"revision": revision})
        if header is None:
            said = f"no version {revision[:100]!r} of the configuration is kept"
            raise NotFoundError(said)
        match = _of(tenant, path) | {"order": {"$lte": header["_id"]}}
        return [one for one in self._latest(match) if one["digest"]]

    def _latest(self, match: Document, session: ClientSession | None = None) -> Iterable[Document]:
        """Find the latest change of each document: its id, order and digest by path."""
        stages: list[Document] = [
            {"$match": match},
            {"$sort": {"tenant": ASCENDING, "path": ASCENDING, "order": DESCENDING}},
            {
                "$group": {
                    "_id": "$path",
                    "order": {"$first": "$order"},
                    "digest": {"$first": "$digest"},
                    "tenant": {"$first": "$tenant"},
                }
            },
        ]
        return self._changes().aggregate(stages, hint="of_document", session=session)

    def _texts(self, latest: Iterable[Document]) -> dict[str, str]:
        waiting = [{"order": one["order"], "path": one["_id"]} for one in latest]
        found: dict[str, str] = {}
        while waiting:
            batch, waiting = waiting[:_TEXTS_AT_ONCE], waiting[_TEXTS_AT_ONCE:]
            for one in self._changes().find({"_id": {"$in": batch}}):
                found[one["path"]] = _unpacked(one["text"])
        return dict(sorted(found.items()))

    def _changed(self, match: Document, limit: int) -> dict[str, Document]:
        """Count and name the documents that the latest matching versions change, by order."""
        stages: list[Document] = [
            {"$match": match},
            {"$sort": {"order": DESCENDING, "path": ASCENDING}},
            {
                "$group": {
                    "_id": "$order",
                    "paths": {"$push": "$path"},
                    "count": {"$sum": 1},
                }
            },
            {"$sort": {"_id": DESCENDING}},
            {"$limit": limit},
            {"$set": {"paths": {"$slice": ["$paths", models.MOST_PATHS]}}},
        ]
        return {one["_id"]: one for one in self._changes().aggregate(stages)}

    def _prune(self, now: datetime, terms: HistoryTerms) -> None:
        """Forget versions beyond the terms; what stands at the oldest that is kept stays."""
        orders = self._versions().find({}, {"_id": True}).sort("_id", DESCENDING)
        kept = [one["_id"] for one in orders.limit(terms.versions)]
        horizon = now - timedelta(days=terms.days)
        young = [order for order in kept if models.moment_of(order) >= horizon]
        oldest = min(young or kept[:1])
        if not self._versions().delete_many({"_id": {"$lt": oldest}}).deleted_count:
            return
        for one in list(self._latest({"order": {"$lte": oldest}})):
            is_over = not one["digest"] and one["order"] < oldest  # it went, and nobody is told
            below: Document = {"$lte" if is_over else "$lt": one["order"]}
            match = {"tenant": one["tenant"], "path": one["_id"], "order": below}
            self._changes().delete_many(match)

    def _newest(self) -> Collection[Document]:
        return self._nodes.control("config_newest")

    def _versions(self) -> Collection[Document]:
        self._index()
        return self._nodes.control("config_versions")

    def _changes(self) -> Collection[Document]:
        return self._nodes.control("config_changes")

    def _index(self) -> None:
        if self._is_indexed:
            return
        self._nodes.control("config_versions").create_indexes(
            [IndexModel(["revision"], name="revision", unique=True)]
        )
        self._nodes.control("config_changes").create_indexes(
            [
                IndexModel(
                    [
                        *(("tenant", ASCENDING), ("path", ASCENDING)),
                        *(("order", DESCENDING), ("digest", ASCENDING)),
                    ],
                    name="of_document",
                ),
                IndexModel([("order", DESCENDING), ("path", ASCENDING)], name="of_version"),
                IndexModel([("tenant", ASCENDING), ("order", DESCENDING)], name="of_tenant"),
            ]
        )
        self._is_indexed = True


def _of(tenant: str | None, path: str | None) -> Document:
    """Match changes of a tenant's documents, or everybody's for None, or of one of these."""
    if path is None:
        return {} if tenant is None else {"tenant": tenant}
    return {"tenant": models.owner_of(path) if tenant is None else tenant, "path": path}


def _row(order: str, revision: str, change: Change) -> Document:
    row: dict[str, Any] = {
        "_id": {"order": order, "path": change.path},
        "order": order,
        "revision": revision,
        "path": change.path,
        "tenant": models.owner_of(change.path),
        "digest": models.digest_of(change.text),
    }
    if change.text is not None:
        row["text"] = zlib.compress(change.text.encode(), 9)
    return row


def _unpacked(packed: bytes) -> str:
    return zlib.decompressobj().decompress(packed, 2 * MAX_DOCUMENT_BYTES).decode()


def _version(header: Document, changed: Document) -> Version:
    return Version(
        revision=header["revision"],
        at=models.moment_of(header["_id"]),
        note=msgspec.convert({name: header.get(name, "") for name in Note.__struct_fields__}, Note),
        paths=tuple(changed.get("paths", ())),
        changes=changed.get("count", 0),
    )
