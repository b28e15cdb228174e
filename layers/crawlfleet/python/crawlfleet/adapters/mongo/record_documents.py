"""How a record looks in MongoDB.

A record of a page::

    _id      {r: the request's id, i: its place on the page}: a second copy is impossible
    tenant, biz, at, url, rule, version, fields

One with a key of its own, in a collection of its own::

    _id      {k: its key}
    request, index   whose page it was found on last, and where
    put              when the item was put that it came as, epoch ns; without one it is as old as at
    tenant, biz, at, url, rule, version, fields
"""

from collections.abc import Iterable
from typing import Any

from bson.dbref import DBRef

from crawlfleet.adapters.mongo.connection import Document
from crawlfleet.model.ids import RequestId
from crawlfleet.model.record import Record


def record_document(tenant: str, record: Record) -> Document:
    """A record as it is stored."""
    if record.key is None:
        place: Document = {"_id": {"r": record.request_id, "i": record.index}}
    else:
        place = {
            "_id": {"k": record.key},
            "request": record.request_id,
            "index": record.index,
        }
        if record.put is not None:
            place["put"] = record.put
    return {
        **place,
        "tenant": tenant,
        "biz": record.biz,
        "at": record.stored_at,
        "url": record.url,
        "rule": record.rule,
        "version": record.rule_version,
        "fields": record.fields,
    }


def record_of(document: Document) -> Record:
    """The record in a document of either kind."""
    place: dict[str, Any] = document["_id"]
    key = place.get("k")
    request_id, index = (
        (place["r"], place["i"]) if key is None else (document["request"], document["index"])
    )
    put = document.get("put")
    return Record(
        request_id=int(request_id) if isinstance(request_id, int) else request_id,
        index=int(index),
        biz=document["biz"],
        url=document["url"],
        rule=document["rule"],
        rule_version=document["version"],
        stored_at=document["at"],
        fields=_plain(document["fields"]),
        key=key,
        put=None if put is None else int(put),
    )


def keys_of(request_id: RequestId, first: int = 0) -> Document:
    """The range of the keys of a request's records, from the index ``first`` on."""
    return {"$gte": {"r": request_id, "i": first}, "$lte": {"r": request_id, "i": 2**31 - 1}}


def latest_of(records: Iterable[Record]) -> dict[str, Record]:
    """Of records that have keys, by key the one that counts: the newest, or the last of these."""
    found: dict[str, Record] = {}
    for record in records:
        key = record.key
        if key is not None and (key not in found or found[key].version_ns <= record.version_ns):
            found[key] = record
    return found


def _plain(value: Any) -> Any:
    """What was read, without the classes that the driver makes of it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, DBRef):  # a mapping that a site has given such names
        value = value.as_doc()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
