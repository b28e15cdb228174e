"""Seeds on the nodes of their biz: ``{biz}.{collection}_seeds`` of each database (SPEC.md F1-F5).

A seed::

    _id      segment/key: a key is there once a segment, whoever offers it
    state    0 ready, 1 handed out, 2 finished, 3 failed
    due      when it is to be looked at next: handed out, or looked after; once ended, when it did
    offered  when it was offered
    ends     the end of its segment, None where that has none
    data     the offer in MessagePack
    req, handed    the request that it was last handed out as, and when; tries: how often
    why      why it failed, or was released
    archived_at    ended ones alone: when the time begins for which they are kept
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
from pymongo import ASCENDING, DESCENDING, IndexModel, UpdateMany, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, OperationFailure

from crawlfleet.adapters.mongo.connection import Document, MongoNodes, border
from crawlfleet.adapters.mongo.documents import clean, read_id
from crawlfleet.errors import StoreError
from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.seed import Offer, Seed, SeedState, SeedTotals, Segment
from crawlfleet.policy.routing import Shard
from crawlfleet.policy.seedkey import KEY_BYTES
from crawlfleet.policy.seedroute import candidates, homes

T = TypeVar("T")

#: Segments that totals tell of: the newest.
MOST_SEGMENTS: Final = 31
_LONGEST_WHY: Final = 500
_DAY_SECONDS: Final = 86_400
_DUPLICATE_KEY: Final = 11000
_INDEX_OPTIONS_CONFLICT: Final = 85

_BY_ID: Final = "_id_"
_BY_DUE: Final = "due"
_BY_STATE: Final = "by_state"
_TTL: Final = "ttl"
_READY: Final = int(SeedState.READY)
_HANDED: Final = int(SeedState.HANDED)
_ENDED: Final = {"$in": [int(SeedState.FINISHED), int(SeedState.FAILED)]}
_INDEXES: Final = [
    # What has ended is not in it: it stays as small as what is to be done.
    IndexModel(
        [("state", ASCENDING), ("due", ASCENDING), ("_id", ASCENDING)],
        name=_BY_DUE,
        partialFilterExpression={"state": {"$lte": _HANDED}},
    ),
    IndexModel([("state", ASCENDING), ("_id", ASCENDING)], name=_BY_STATE),
]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Offer)


class MongoSeeds:
    """ports.SeedStore."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        #: By collection, the days for which ended seeds are kept as its index says.
        self._sure: dict[tuple[Shard, str, str], int] = {}

    def insert(self, lane: Lane, biz: Biz, seeds: Sequence[Seed]) -> set[str]:
        """See ports.SeedStore.insert: a statement a place, and a look where a route has changed."""
        known: set[str] = set()
        fresh: dict[str, Seed] = {}
        elsewhere: dict[Shard, list[str]] = defaultdict(list)
        for seed in seeds:
            fresh[seed.id] = seed
            for place in candidates(biz, seed.id)[1:]:
                elsewhere[place].append(seed.id)
        for place, ids in elsewhere.items():
            known |= self._stored(lane, biz, place, ids)
        documents: dict[Shard, list[Document]] = defaultdict(list)
        for seed_id, seed in fresh.items():
            if seed_id not in known:
                documents[candidates(biz, seed_id)[0]].append(_document(seed))
        for place, part in documents.items():
            with border():
                known |= _insert(self._sured(lane, biz, place), part)
        return {_key(seed_id) for seed_id in known}

    def known(self, lane: Lane, biz: Biz, segment: Segment, keys: Sequence[str]) -> set[str]:
        """See ports.SeedStore.known."""
        ids = [f"{segment.name}/{key}" for key in keys]
        found: set[str] = set()
        for place, part in _by_place(biz, ids):
            found |= self._stored(lane, biz, place, part)
        return {_key(seed_id) for seed_id in found}

    def ready(self, lane: Lane, biz: Biz, now: datetime, limit: int) -> int:
        """See ports.SeedStore.ready."""
        match = {"state": _READY, "due": {"$lte": now}}

        def count(place: Shard) -> int:
            with border():
                return _count(self._seeds(lane, biz, place), match, _BY_DUE, limit)

        return min(limit, sum(_each(homes(biz), count)))

    def hand_out(
        self, lane: Lane, biz: Biz, ids: Sequence[RequestId], now: datetime, until: datetime
    ) -> list[Seed]:
        """See ports.SeedStore.hand_out.

        Each seed is taken by an update of its own that demands that it is ready: where two hand out
        at once, the later one goes without. What a node has taken without its answer arriving is
        found by whoever looks after seeds.
        """
        if not ids:
            return []
        match = {"state": _READY, "due": {"$lte": now}}
        due = self._soonest(lane, biz, match, len(ids), ["due"])
        by_place: dict[Shard, dict[str, RequestId]] = defaultdict(dict)
        for (place, document), request_id in zip(due, ids, strict=False):
            by_place[place][document["_id"]] = request_id

        def take(place: Shard) -> list[Document]:
            wanted = by_place[place]
            updates = [
                UpdateOne(
                    {"_id": seed_id, **match},
                    {
                        "$set": {"state": _HANDED, "due": until, "req": request_id, "handed": now},
                        "$inc": {"tries": 1},
                    },
                    hint=_BY_ID,
                )
                for seed_id, request_id in wanted.items()
            ]
            with border():
                seeds = self._seeds(lane, biz, place)
                seeds.bulk_write(updates, ordered=False)
                taken = seeds.find({"_id": {"$in": list(wanted)}, "state": _HANDED}, hint=_BY_ID)
                return [each for each in taken if each["req"] == wanted[each["_id"]]]

        order = {document["_id"]: number for number, (_, document) in enumerate(due)}
        taken = [one for part in _each(list(by_place), take) for one in part]
        return [_seed(one) for one in sorted(taken, key=lambda one: order[one["_id"]])]

    def overdue(self, lane: Lane, biz: Biz, now: datetime, limit: int) -> list[Seed]:
        """See ports.SeedStore.overdue."""
        match = {"state": _HANDED, "due": {"$lt": now}}
        return [_seed(document) for _, document in self._soonest(lane, biz, match, limit)]

    def extend(self, lane: Lane, biz: Biz, seeds: Sequence[Seed], until: datetime) -> None:
        """See ports.SeedStore.extend."""
        requests = {seed.id: seed.request for seed in seeds}

        def change(seed_id: str) -> UpdateOne:
            match = {"_id": seed_id, "state": _HANDED, "req": requests[seed_id]}
            return UpdateOne(match, {"$set": {"due": until}}, hint=_BY_ID)

        self._change(lane, biz, list(requests), lambda ids: [change(one) for one in ids])

    def ended(
        self, lane: Lane, biz: Biz, ends: Mapping[str, tuple[RequestId, str]], now: datetime
    ) -> int:
        """See ports.SeedStore.ended."""
        archived_at = {"$cond": [{"$eq": ["$ends", None]}, "$$REMOVE", {"$max": ["$ends", now]}]}

        def change(seed_id: str) -> UpdateOne:
            request_id, why = ends[seed_id]
            state = SeedState.FAILED if why else SeedState.FINISHED
            changed = {
                "state": int(state),
                "due": now,
                "why": {"$literal": clean(why, _LONGEST_WHY)},
                "archived_at": archived_at,
            }
            match = {"_id": seed_id, "state": _HANDED, "req": request_id}
            return UpdateOne(match, [{"$set": changed}], hint=_BY_ID)

        return self._change(lane, biz, list(ends), lambda ids: [change(one) for one in ids])

    def release(self, lane: Lane, biz: Biz, seeds: Sequence[str], why: str, now: datetime) -> int:
        """See ports.SeedStore.release."""
        change = {
            "$set": {"state": _READY, "due": now, "why": clean(why, _LONGEST_WHY)},
            "$unset": {"req": "", "handed": "", "archived_at": ""},
        }
        return self._change(
            lane,
            biz,
            seeds,
            lambda ids: [UpdateMany({"_id": {"$in": ids}, "state": _ENDED}, change, hint=_BY_ID)],
        )

    def forget(self, lane: Lane, biz: Biz, seeds: Sequence[str]) -> int:
        """See ports.SeedStore.forget."""
        count = 0
        for place, ids in _by_place(biz, seeds):
            with border():
                match = {"_id": {"$in": ids}}
                deleted = self._seeds(lane, biz, place).delete_many(match, hint=_BY_ID)
                count += deleted.deleted_count
        return count

    def find(
        self,
        lane: Lane,
        biz: Biz,
        *,
        segment: str | None,
        state: int | None,
        after: str | None,
        limit: int,
    ) -> list[Seed]:
        """See ports.SeedStore.find."""
        bounds: dict[str, str] = {} if segment is None else _range(segment)
        if after is not None:
            bounds["$gt"] = after
        match: Document = {"_id": bounds} if bounds else {}
        if state is not None:
            match["state"] = state

        def look(place: Shard) -> list[Document]:
            with border():
                cursor = self._seeds(lane, biz, place).find(
                    match, hint=_BY_ID if state is None else _BY_STATE
                )
                return list(cursor.sort("_id", ASCENDING).limit(limit))

        parts = (look(place) for place in homes(biz))
        found = heapq.merge(*parts, key=lambda document: document["_id"])
        return [_seed(document) for document, _ in zip(found, range(limit), strict=False)]

    def totals(self, lane: Lane, biz: Biz, now: datetime) -> list[SeedTotals]:
        """See ports.SeedStore.totals: the newest segments; what is counted are keys of indexes."""
        counts: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        for place in homes(biz):
            with border():
                seeds = self._seeds(lane, biz, place)
                for segment in _segments(seeds):
                    of_segment = counts[segment]
                    for state in SeedState:
                        match = {"state": int(state), "_id": _range(segment)}
                        of_segment[state.label] += _count(seeds, match, _BY_STATE)
                for segment, waiting in _waiting(seeds, now):
                    counts[segment]["waiting"] += waiting
        newest = sorted(counts, reverse=True)[:MOST_SEGMENTS]
        return [
            SeedTotals(
                segment=segment,
                ready=counts[segment]["ready"] - counts[segment]["waiting"],
                waiting=counts[segment]["waiting"],
                handed=counts[segment]["handed"],
                finished=counts[segment]["finished"],
                failed=counts[segment]["failed"],
            )
            for segment in newest
        ]

    def _seeds(self, lane: Lane, biz: Biz, place: Shard) -> Collection[Document]:
        name = f"{lane.biz}.{biz.collection}_seeds"
        return self._nodes.collection(place.node, lane.tenant, place.database, name)

    def _sured(self, lane: Lane, biz: Biz, place: Shard) -> Collection[Document]:
        """The collection with its indexes, and with the life that ended seeds have now."""
        seeds = self._seeds(lane, biz, place)
        key = (place, lane.tenant, seeds.name)
        if self._sure.get(key) != biz.seeds.archive_days:
            _make_sure(seeds, biz.seeds.archive_days * _DAY_SECONDS)
            self._sure[key] = biz.seeds.archive_days
        return seeds

    def _stored(self, lane: Lane, biz: Biz, place: Shard, ids: list[str]) -> set[str]:
        with border():
            match = {"_id": {"$in": ids}}
            found = self._seeds(lane, biz, place).find(match, projection=["_id"], hint=_BY_ID)
            return {document["_id"] for document in found}

    def _soonest(
        self,
        lane: Lane,
        biz: Biz,
        match: Document,
        limit: int,
        fields: Sequence[str] | None = None,
    ) -> list[tuple[Shard, Document]]:
        """What is due first of all places that answer."""

        def look(place: Shard) -> list[tuple[Shard, Document]]:
            with border():
                found = self._seeds(lane, biz, place).find(match, projection=fields, hint=_BY_DUE)
                order = [("due", ASCENDING), ("_id", ASCENDING)]
                return [(place, document) for document in found.sort(order).limit(limit)]

        parts = _each(homes(biz), look)
        found = heapq.merge(*parts, key=lambda one: (one[1]["due"], one[1]["_id"]))
        return [one for one, _ in zip(found, range(limit), strict=False)]

    def _change(
        self,
        lane: Lane,
        biz: Biz,
        ids: Iterable[str],
        changes: Callable[[list[str]], Sequence[UpdateOne | UpdateMany]],
    ) -> int:
        """Write the changes of each place; returns how many seeds were changed."""
        count = 0
        for place, part in _by_place(biz, ids):
            with border():
                seeds = self._seeds(lane, biz, place)
                count += seeds.bulk_write(changes(part), ordered=False).modified_count
        return count


def _each(places: Sequence[Shard], work: Callable[[Shard], T]) -> list[T]:
    """What the places give that answer; an error only where none does."""
    given: list[T] = []
    failed: StoreError | None = None
    for place in places:
        try:
            given.append(work(place))
        except StoreError as error:
            failed = error
    if failed is not None and not given:
        raise failed
    return given


def _by_place(biz: Biz, ids: Iterable[str]) -> list[tuple[Shard, list[str]]]:
    """The seeds by each place that they may be at."""
    parts: dict[Shard, list[str]] = defaultdict(list)
    for seed_id in dict.fromkeys(ids):
        for place in candidates(biz, seed_id):
            parts[place].append(seed_id)
    return list(parts.items())


def _make_sure(seeds: Collection[Document], life_seconds: int) -> None:
    seeds.create_indexes(_INDEXES)
    ttl = IndexModel([("archived_at", ASCENDING)], name=_TTL, expireAfterSeconds=life_seconds)
    try:
        seeds.create_indexes([ttl])
    except OperationFailure as error:
        if error.code != _INDEX_OPTIONS_CONFLICT:
            raise
        index = {"name": _TTL, "expireAfterSeconds": life_seconds}
        seeds.database.command("collMod", seeds.name, index=index)


def _insert(seeds: Collection[Document], documents: Sequence[Document]) -> set[str]:
    """Insert; returns what was there already."""
    try:
        seeds.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        faults = error.details["writeErrors"]
        if error.details.get("writeConcernErrors") or any(
            fault["code"] != _DUPLICATE_KEY for fault in faults
        ):
            raise
        return {fault["op"]["_id"] for fault in faults}
    return set()


def _range(segment: str) -> dict[str, str]:
    """The ids of a segment: ``0`` is what follows the slash."""
    return {"$gte": f"{segment}/", "$lt": f"{segment}0"}


def _segments(seeds: Collection[Document]) -> Iterator[str]:
    """The newest segments there are, by one look at the index each."""
    match: Document = {}
    for _ in range(MOST_SEGMENTS):
        last = seeds.find_one(match, projection=["_id"], sort=[("_id", DESCENDING)], hint=_BY_ID)
        if last is None:
            return
        segment = last["_id"][: -2 * KEY_BYTES - 1]
        yield segment
        match = {"_id": {"$lt": f"{segment}/"}}


def _waiting(seeds: Collection[Document], now: datetime) -> Iterator[tuple[str, int]]:
    """How many ready seeds are due later, by segment; read from the index alone."""
    length = {"$subtract": [{"$strLenBytes": "$_id"}, 2 * KEY_BYTES + 1]}
    found = seeds.aggregate(
        [
            {"$match": {"state": _READY, "due": {"$gt": now}}},
            {"$group": {"_id": {"$substrBytes": ["$_id", 0, length]}, "count": {"$sum": 1}}},
        ],
        hint=_BY_DUE,
    )
    return ((each["_id"], each["count"]) for each in found)


def _count(
    seeds: Collection[Document], match: Mapping[str, Any], index: str, limit: int = 0
) -> int:
    """Count keys of an index, which the command does twice as fast as an aggregation."""
    command = {"count": seeds.name, "query": match, "hint": index, "limit": limit}
    return int(seeds.database.command(command)["n"])


def _key(seed_id: str) -> str:
    return seed_id.rpartition("/")[2]


def _document(seed: Seed) -> Document:
    return {
        "_id": seed.id,
        "state": int(seed.state),
        "due": seed.due_at,
        "offered": seed.offered_at,
        "ends": seed.ends_at,
        "data": _encoder.encode(seed.offer),
        "tries": seed.tries,
        "why": seed.why,
    }


def _seed(document: Document) -> Seed:
    segment, _, key = document["_id"].rpartition("/")
    try:
        offer = _decoder.decode(document["data"])
    except msgspec.DecodeError:
        # No biz has a rule of that name: whoever hands it out finds that it cannot be worked on.
        offer = Offer(url="", rule="")
    request_id = document.get("req")
    return Seed(
        key=key,
        segment=segment,
        offer=offer,
        state=SeedState(document["state"]),
        offered_at=document["offered"],
        due_at=document["due"],
        ends_at=document["ends"],
        request=None if request_id is None else read_id(request_id),
        handed_at=document.get("handed"),
        tries=document["tries"],
        why=document["why"],
    )
