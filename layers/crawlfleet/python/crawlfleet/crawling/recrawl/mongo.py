"""Keep what is known of pages since they were last read (SPEC.md H7).

A page lies beside the biz's requests, in one collection a database: ``{biz}.{collection}_visits``
of the node and database that its key is routed to by the generation in force when it was visited.
A later generation may route it elsewhere; it is looked up in all of their places, and moves when
it is visited again. Each document says itself until when it is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import msgspec
from msgspec.structs import replace
from pymongo import ASCENDING, DeleteOne, IndexModel, ReplaceOne, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, OperationFailure

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.policies import RecrawlPolicy
from crawlfleet.crawling.frontier.segments import homes
from crawlfleet.crawling.recrawl.policy import META_ROOM, with_room
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Recent, from_ms, to_ms
from crawlfleet.requests.mongo.sharding import BY_ID
from crawlfleet.requests.routing import Shard, generation_at, shard_of
from crawlfleet.requests.visits import Validators, Visit, VisitTotals

BY_NEXT: Final = "by_next"
BY_COUNTS: Final = "by_counts"

_DUPLICATE_KEY: Final = 11000
#: Names in a document by the visit's, of what is kept as it is.
_NAMES: Final = {
    **{name: name for name in ("url", "rule", "depth", "visits", "changes", "saved")},
    "rule_version": "version",
    "interval_seconds": "interval",
    "visited_at": "at",
    "changed_at": "changed",
}
#: The request's meta is MessagePack, as names in it may be any.
_decode_meta: Final = msgspec.msgpack.Decoder(dict[str, Any]).decode
#: Many due pages are counted no further than this.
_COUNTED: Final = 1_000_000
_INDEXES: Final = [
    IndexModel(
        [("next", ASCENDING)], name=BY_NEXT, partialFilterExpression={"next": {"$exists": True}}
    ),
    # Has all that totals are made of: they are summed up without looking at a page.
    IndexModel(
        [("saved", ASCENDING), ("changes", ASCENDING), ("visits", ASCENDING)], name=BY_COUNTS
    ),
    IndexModel([("forget", ASCENDING)], name="ttl", expireAfterSeconds=0),
]
#: Not among those: to build it where there are many visits of an earlier version takes longer than
#: whoever keeps one may wait. There it is built by hand, and without it nothing is summed.
BY_SPARED: Final = "by_spared"
_SPARED: Final = IndexModel(
    [("spared", ASCENDING)],
    name=BY_SPARED,
    partialFilterExpression={"spared": {"$exists": True}},
)
#: Visits that are read within a few seconds, and how long building an index may take.
SMALL: Final = 1_000_000
_BUILD_SECONDS: Final = 15.0
_BAD_VALUE: Final = 2
_BY_HAND: Final = (
    'build the index by hand: createIndex({spared: 1}, {name: "by_spared", '
    "partialFilterExpression: {spared: {$exists: true}}})"
)


class MongoVisits:
    """Pages by their seed key; forgotten after the policy's time without a visit.

    At most ``meta_room`` bytes of ``meta`` are returned at once. An index of ``small`` visits at
    most is built in passing.
    """

    def __init__(
        self, nodes: MongoNodes, *, meta_room: int = META_ROOM, small: int = SMALL
    ) -> None:
        self._nodes, self._meta_room, self._small = nodes, meta_room, small
        self._sure = Recent()
        self._summed: set[tuple[str, str, str]] = set()

    def known(self, queue_key: QueueKey, biz: Biz, keys: Sequence[str]) -> dict[str, Visit]:
        """Return the visits of these pages; unknown ones are missing."""
        places: dict[Shard, list[bytes]] = defaultdict(list)
        for key in dict.fromkeys(keys):
            for place in _places(biz, key):
                places[place].append(bytes.fromhex(key))
        found: dict[str, Visit] = {}
        with border():
            for place, some in places.items():
                for one in self._at(queue_key, biz, place).find({"_id": {"$in": some}}, hint=BY_ID):
                    visit = _visit(one)
                    standing = found.get(visit.key)
                    if standing is None or standing.visited_at < visit.visited_at:
                        found[visit.key] = visit
        return found

    def saw(self, queue_key: QueueKey, biz: Biz, visits: Sequence[Visit]) -> None:
        """Keep visits, each unless a later one is kept."""
        homes: dict[Shard, list[Visit]] = defaultdict(list)
        former: dict[Shard, list[Visit]] = defaultdict(list)
        for visit in visits:
            home = _home(biz, visit.key, visit.visited_at)
            homes[home].append(visit)
            for place in _places(biz, visit.key):
                if place != home:
                    former[place].append(visit)
        policy = biz.recrawl or RecrawlPolicy()
        with border():
            for place, some in homes.items():
                _keep(self._at(queue_key, biz, place, made_sure=True), some, policy)
            # Only now: a page that is in two places is found, one that is in none is not.
            for place, some in former.items():
                self._at(queue_key, biz, place).bulk_write(
                    [DeleteOne(_until(visit), hint=BY_ID) for visit in some], ordered=False
                )

    def spared(self, queue_key: QueueKey, biz: Biz, keys: Sequence[str]) -> None:
        """Count a download that was not made of each of these pages."""
        places: dict[Shard, list[bytes]] = defaultdict(list)
        for key in keys:
            for place in _places(biz, key):
                places[place].append(bytes.fromhex(key))
        with border():
            for place, some in places.items():
                match = {"_id": {"$in": some}}
                kept = self._at(queue_key, biz, place)
                kept.update_many(match, {"$inc": {"spared": 1}}, hint=BY_ID)
        for place in places:
            self._index_spared(queue_key, biz, place)

    def due(self, queue_key: QueueKey, biz: Biz, now: datetime, limit: int) -> list[Visit]:
        """Return pages to be read again by ``now``, longest due first.

        They are fewer than ``limit`` where what they carry is large (policy.with_room).
        """
        sized: list[tuple[tuple[datetime, str, Shard, Visit], int]] = []
        places = homes(biz)
        with border():
            for place in places:
                due = self._at(queue_key, biz, place).find(
                    {"next": {"$lte": now}}, sort=[("next", ASCENDING)], limit=limit, hint=BY_NEXT
                )
                # Each place by itself too: what there is no room for is not even read.
                some = with_room(((one, _size(one)) for one in due), self._meta_room)
                sized += [
                    ((one["next"], one["_id"].hex(), place, _visit(one)), _size(one))
                    for one in some
                ]
        found = with_room(sorted(sized, key=lambda one: one[0][:2])[:limit], self._meta_room)
        if len(places) > 1:
            found = self._without_copies(queue_key, biz, found)
        return [visit for *_, visit in found]

    def _without_copies(
        self, queue_key: QueueKey, biz: Biz, found: list[tuple[datetime, str, Shard, Visit]]
    ) -> list[tuple[datetime, str, Shard, Visit]]:
        """Remove what is not the latest of its page: it was left behind when that moved."""
        latest = self.known(queue_key, biz, [key for _, key, *_ in found])
        standing = {}
        for one in found:
            _, key, place, visit = one
            if latest.get(key) == visit:
                standing[key] = one
            elif key in latest and latest[key].visited_at > visit.visited_at:
                with border():
                    self._at(queue_key, biz, place).delete_one(_until(visit), hint=BY_ID)
        return list(standing.values())

    def put_off(
        self, queue_key: QueueKey, biz: Biz, offs: Sequence[tuple[Visit, datetime]]
    ) -> list[Visit]:
        """Put each off until its time; return, so put off, those that were still due as given.

        What somebody else has put off or seen since it was read is left as it is.
        """
        token = uuid4().bytes
        places: dict[Shard, list[UpdateOne]] = defaultdict(list)
        off = [replace(visit, next_at=from_ms(to_ms(until))) for visit, until in offs]
        for (visit, _), later in zip(offs, off, strict=True):
            match = {"_id": bytes.fromhex(visit.key), "next": visit.next_at}
            change = {"$set": {"next": later.next_at, "by": token}}
            for place in _places(biz, visit.key):
                places[place].append(UpdateOne(match, change, hint=BY_ID))
        these = {"_id": {"$in": [bytes.fromhex(visit.key) for visit in off]}, "by": token}
        mine: set[str] = set()
        with border():
            for place, updates in places.items():
                kept = self._at(queue_key, biz, place)
                kept.bulk_write(updates, ordered=False)
                mine.update(one["_id"].hex() for one in kept.find(these, {"_id": 1}, hint=BY_ID))
        return [visit for visit in off if visit.key in mine]

    def totals(self, queue_key: QueueKey, biz: Biz, now: datetime) -> VisitTotals:
        """Sum over all pages that are known."""
        sums = {name: {"$sum": f"${name}"} for name in ("visits", "changes", "saved")}
        counted: Counter[str] = Counter()
        with border():
            for place in homes(biz):
                kept = self._at(queue_key, biz, place)
                stages: list[Document] = [
                    {"$match": {"saved": {"$gte": 0}}},
                    {"$group": {"_id": None, "pages": {"$sum": 1}, **sums}},
                    {"$unset": "_id"},
                ]
                for one in kept.aggregate(stages, hint=BY_COUNTS):
                    counted.update(one)
                counted["spared"] += _spared(kept)
                due = {"next": {"$lte": now}}
                counted["due"] += kept.count_documents(due, hint=BY_NEXT, limit=_COUNTED)
        return VisitTotals(**counted)

    def _at(
        self, queue_key: QueueKey, biz: Biz, place: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        name = f"{queue_key.biz}.{biz.collection}_visits"
        kept = self._nodes.collection(place.node, queue_key.tenant, place.database, name)
        sure = (place.node, kept.database.name, name)
        if made_sure and sure not in self._sure:
            kept.create_indexes(_INDEXES)
            self._sure.add(sure)
        return kept

    def _index_spared(self, queue_key: QueueKey, biz: Biz, place: Shard) -> None:
        """Build what sums spared downloads where that is cheap; tried once a process."""
        kept = self._at(queue_key, biz, place)
        summed = (place.node, kept.database.name, kept.name)
        if summed in self._summed:
            return
        with border(_BUILD_SECONDS):
            many = kept.estimated_document_count()
            if not many:
                return  # pages come here with their next visits
            self._summed.add(summed)
            if many <= self._small:
                kept.create_indexes([_SPARED])
                return
        large = f"{kept.database.name}.{kept.name} has about {many:,} visits"
        warn("downloads that were spared are not summed", StoreError(f"{large}; {_BY_HAND}"))


def _spared(kept: Collection[Document]) -> int:
    """Sum the downloads that were spared: 0 without the index of those."""
    stages: list[Document] = [
        {"$match": {"spared": {"$gte": 1}}},
        {"$group": {"_id": None, "spared": {"$sum": "$spared"}}},
    ]
    try:
        return sum(one["spared"] for one in kept.aggregate(stages, hint=BY_SPARED))
    except OperationFailure as error:
        if error.code != _BAD_VALUE:
            raise
        return 0


def _keep(kept: Collection[Document], visits: Iterable[Visit], policy: RecrawlPolicy) -> None:
    """Store each visit unless a later one stands: what stands is no match, and then a duplicate.

    So is what another writer has just inserted; that may be an earlier one.
    """
    waiting = {visit.key: _document(visit, policy) for visit in _latest(visits)}
    for upsert in (True, False):
        try:
            kept.bulk_write(
                [
                    ReplaceOne(
                        {"_id": document["_id"], "at": {"$lte": document["at"]}},
                        document,
                        upsert=upsert,
                        hint=BY_ID,
                    )
                    for document in waiting.values()
                ],
                ordered=False,
            )
        except BulkWriteError as error:
            faults = error.details["writeErrors"]
            if error.details.get("writeConcernErrors") or any(
                fault["code"] != _DUPLICATE_KEY for fault in faults
            ):
                raise
            again = [list(waiting)[fault["index"]] for fault in faults]
            waiting = {key: waiting[key] for key in again}
        else:
            return


def _latest(visits: Iterable[Visit]) -> Iterable[Visit]:
    latest: dict[str, Visit] = {}
    for visit in visits:
        standing = latest.get(visit.key)
        if standing is None or standing.visited_at <= visit.visited_at:
            latest[visit.key] = visit
    return latest.values()


def _home(biz: Biz, key: str, moment: datetime) -> Shard:
    """Return where a page is written: one place a node and database; shards do not matter."""
    return replace(shard_of(generation_at(biz.generations, moment), key), number=0)


def _places(biz: Biz, key: str) -> tuple[Shard, ...]:
    """List where a page may be, newest first; it is written once a place."""
    newest_first = reversed(biz.generations)
    places = (replace(shard_of(generation, key), number=0) for generation in newest_first)
    return tuple(dict.fromkeys(places))


def _until(visit: Visit) -> Document:
    return {"_id": bytes.fromhex(visit.key), "at": {"$lte": visit.visited_at}}


def _document(visit: Visit, policy: RecrawlPolicy) -> Document:
    document: Document = {
        **{name: getattr(visit, field) for field, name in _NAMES.items()},
        "_id": bytes.fromhex(visit.key),
        "content": bytes.fromhex(visit.content),
        "forget": visit.visited_at + timedelta(seconds=policy.forget_seconds),
    }
    if visit.next_at is not None:
        document["next"] = visit.next_at
    if visit.spared:
        document["spared"] = visit.spared
    if visit.meta:
        document["meta"] = msgspec.msgpack.encode(visit.meta)
    if visit.validators.etag is not None:
        document["etag"] = visit.validators.etag
    if visit.validators.last_modified is not None:
        document["modified"] = visit.validators.last_modified
    return document


def _visit(document: Document) -> Visit:
    return Visit(
        **{field: document[name] for field, name in _NAMES.items()},
        key=document["_id"].hex(),
        meta=_decode_meta(document["meta"]) if "meta" in document else {},
        next_at=document.get("next"),
        spared=document.get("spared", 0),
        validators=Validators(etag=document.get("etag"), last_modified=document.get("modified")),
        content=document["content"].hex(),
    )


def _size(document: Document) -> int:
    return len(document.get("meta", b""))
