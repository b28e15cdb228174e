"""Idempotency keys and rule versions, in the control database of the home node (SPEC.md D13).

A key carries no time and says nothing about a route, so in the shards it would have to be looked
for in every generation. The shards of a call's requests differ, too, while its ids must be written
at once. Rule versions are there, too, so nothing is accepted without it anyway: a document has the
rule as JSON under ``rule``, or the spider under ``spider``.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec
from pymongo import ASCENDING, DeleteMany, UpdateMany
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, DuplicateKeyError
from pymongo.read_concern import ReadConcern

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Recent
from crawlfleet.requests.mongo.documents import read_id
from crawlfleet.requests.mongo.sharding import BY_ID
from crawlfleet.requests.submission.admission import Keyed, KeyName, RuleVersion

_DUPLICATE_KEY: Final = 11000


class MongoSubmissionKeys:
    """Keep the keys of submissions, with the ids they stand for."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes, self._sure = nodes, False

    def find(self, queue_key: QueueKey, names: Sequence[KeyName]) -> dict[KeyName, Keyed]:
        """Return the keys that are kept.

        Only what a majority has: ids that could still be rolled back must not be gone on with.
        """
        if not names:
            return {}
        with border():
            kept = self._collection().with_options(read_concern=ReadConcern("majority"))
            return _read(kept, queue_key, names)

    def open(self, queue_key: QueueKey, keyed: Sequence[Keyed], until: datetime) -> list[Keyed]:
        """Keep each under its key, until then at least; return what stands, in the same order.

        A key that is kept already answers with what it was first given. One round trip, and another
        where some are kept.
        """
        if not keyed:
            return []
        documents = [_document(queue_key, one, until) for one in keyed]
        with border():
            kept = self._collection()
            existing = _insert(kept, documents)
            names = [one.name for one in keyed if _key(queue_key, one.name) in existing]
            standing = _read(kept, queue_key, names) if names else {}
        return [standing.get(one.name, one) for one in keyed]

    def close(self, queue_key: QueueKey, keyed: Sequence[Keyed]) -> None:
        """Note that all requests of these are stored; no effect on what has replaced one."""
        change = {"$set": {"stored": True}}
        updates = [UpdateMany(match, change, hint=BY_ID) for match in _these(queue_key, keyed)]
        if updates:
            with border():
                self._collection().bulk_write(updates, ordered=False)

    def forget(self, queue_key: QueueKey, keyed: Sequence[Keyed]) -> None:
        """Drop these; no effect on one that is closed, or has been replaced."""
        young = [{**match, "stored": False} for match in _these(queue_key, keyed)]
        if deletions := [DeleteMany(match, hint=BY_ID) for match in young]:
            with border():
                self._collection().bulk_write(deletions, ordered=False)

    def _collection(self) -> Collection[Document]:
        kept = self._nodes.control("submission_keys")
        if not self._sure:
            kept.create_index([("until", ASCENDING)], name="ttl", expireAfterSeconds=0)
            self._sure = True
        return kept


def _insert(kept: Collection[Document], documents: Sequence[Document]) -> set[str]:
    """Insert; return the keys that were there already."""
    try:
        kept.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        faults = error.details["writeErrors"]
        others = any(fault["code"] != _DUPLICATE_KEY for fault in faults)
        if others or error.details.get("writeConcernErrors"):
            raise
        return {fault["op"]["_id"] for fault in faults}
    return set()


def _read(
    kept: Collection[Document], queue_key: QueueKey, names: Iterable[KeyName]
) -> dict[KeyName, Keyed]:
    by_key = {_key(queue_key, name): name for name in names}
    found = kept.find({"_id": {"$in": list(by_key)}}, hint=BY_ID)
    return {by_key[one["_id"]]: _keyed(by_key[one["_id"]], one) for one in found}


def _these(queue_key: QueueKey, keyed: Sequence[Keyed]) -> list[Document]:
    """Match these, and not what has replaced one since, by the moment they were given."""
    groups: dict[datetime, list[str]] = defaultdict(list)
    for one in keyed:
        groups[one.queued_at].append(_key(queue_key, one.name))
    return [{"_id": {"$in": keys}, "ts": moment} for moment, keys in groups.items()]


def _key(queue_key: QueueKey, name: KeyName) -> str:
    # The first three hold no slash, so nothing else is written the same, whatever the key holds.
    return f"{queue_key.tenant}/{queue_key.biz}/{name.kind}/{name.key}"


def _document(queue_key: QueueKey, keyed: Keyed, until: datetime) -> Document:
    return {
        "_id": _key(queue_key, keyed.name),
        "digest": keyed.digest,
        "ids": list(keyed.ids),
        "rules": [admitted and [admitted.rule, admitted.version] for admitted in keyed.rules],
        "ts": keyed.queued_at,
        "stored": keyed.stored,
        "until": until,
    }


def _keyed(name: KeyName, document: Document) -> Keyed:
    return Keyed(
        name=name,
        digest=document["digest"],
        ids=tuple(map(read_id, document["ids"])),
        rules=tuple(admitted and RuleVersion(*admitted) for admitted in document["rules"]),
        queued_at=document["ts"],
        stored=document["stored"],
    )


#: Records have their fields in the order of the rule, so that is kept.
_encode = msgspec.json.Encoder().encode
_rule = msgspec.json.Decoder(Rule).decode
_spider = msgspec.json.Decoder(Spider).decode


class MongoRules:
    """Keep versions of rules and spiders; one, once seen, is remembered by the process."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._known: dict[tuple[str, str, str, str], Rule | Spider] = {}
        self._kept = Recent()

    def keep_version(self, queue_key: QueueKey, name: str, rule: Rule | Spider) -> None:
        """Keep this version. No effect when it is kept already."""
        key = (queue_key.tenant, queue_key.biz, name, rule.version)
        if key in self._kept:
            return
        kind = "rule" if isinstance(rule, Rule) else "spider"
        document = {"tenant": queue_key.tenant, "biz": queue_key.biz, kind: _encode(rule)}
        change = {"$setOnInsert": document}
        with border(), suppress(DuplicateKeyError):  # another one kept it at the same time
            self._nodes.control("rules").update_one({"_id": "/".join(key)}, change, upsert=True)
        self._known[key] = rule
        self._kept.add(key)

    def get_version(self, queue_key: QueueKey, name: str, version: str) -> Rule | Spider | None:
        """Return the rule or spider of that version, or None if it was never stored."""
        key = (queue_key.tenant, queue_key.biz, name, version)
        if key not in self._known:
            with border():
                found = self._nodes.control("rules").find_one({"_id": "/".join(key)})
            if found is None:
                return None
            self._known[key] = (
                _spider(found["spider"]) if "spider" in found else _rule(found["rule"])
            )
        return self._known[key]
