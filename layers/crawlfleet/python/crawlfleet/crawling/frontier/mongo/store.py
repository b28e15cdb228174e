"""Keep seeds on their biz's nodes, as ``{biz}.{collection}_seeds`` of each database (F1-F5)."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from pymongo import ASCENDING, UpdateMany, UpdateOne
from pymongo.collection import Collection

from crawlfleet.config.documents.biz import Biz
from crawlfleet.crawling.frontier.models import Seed, SeedState, SeedTotals, Segment
from crawlfleet.crawling.frontier.mongo.documents import (
    BY_DUE,
    BY_ID,
    BY_STATE,
    HANDED,
    MOST_LOOKED_THROUGH,
    MOST_SEGMENTS,
    MOST_TO_INDEX,
    READY,
    count_keys,
    document_of,
    find_open,
    ids_of,
    insert_new,
    key_of,
    make_sure,
    newest_segments,
    seed_of,
    waiting_by_segment,
)
from crawlfleet.crawling.frontier.segments import candidates, homes, newest_first
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Recent
from crawlfleet.requests.mongo.documents import clean
from crawlfleet.requests.routing import Shard

T = TypeVar("T")

_LONGEST_WHY: Final = 500
_DAY_SECONDS: Final = 86_400
_ENDED: Final = {"$in": [int(SeedState.FINISHED), int(SeedState.FAILED)]}


@dataclass(frozen=True, slots=True, eq=False)
class MongoSeeds:
    """The store that decides about seeds: one a key and segment, however often it is added.

    An index by job is built in passing where there are up to ``most_to_index`` seeds; where there
    is none, ``most_looked_through`` open ones are searched.
    """

    nodes: MongoNodes
    most_to_index: int = MOST_TO_INDEX
    most_looked_through: int = MOST_LOOKED_THROUGH
    #: Collections, each with the days for which ended seeds are kept as its index says.
    _sure: Recent = field(default_factory=Recent, init=False)

    def insert(self, queue_key: QueueKey, biz: Biz, seeds: Sequence[Seed]) -> set[str]:
        """Store seeds; return the keys that were there already, of which nothing is changed.

        A place costs one statement, and one query where a route has changed.
        """
        known: set[str] = set()
        fresh: dict[str, Seed] = {}
        elsewhere: dict[Shard, list[str]] = defaultdict(list)
        for seed in seeds:
            fresh[seed.id] = seed
            for place in candidates(biz, seed.id)[1:]:
                elsewhere[place].append(seed.id)
        for place, ids in elsewhere.items():
            known |= self._stored(queue_key, biz, place, ids)
        documents: dict[Shard, list[Document]] = defaultdict(list)
        for seed_id, seed in fresh.items():
            if seed_id not in known:
                documents[candidates(biz, seed_id)[0]].append(document_of(seed))
        for place, part in documents.items():
            with border():
                known |= insert_new(self._sured(queue_key, biz, place), part)
        return {key_of(seed_id) for seed_id in known}

    def known(
        self, queue_key: QueueKey, biz: Biz, segment: Segment, keys: Sequence[str]
    ) -> set[str]:
        """Return those of the keys that are stored."""
        ids = [f"{segment.name}/{key}" for key in keys]
        found: set[str] = set()
        for place, part in _by_place(biz, ids):
            found |= self._stored(queue_key, biz, place, part)
        return {key_of(seed_id) for seed_id in found}

    def ready(self, queue_key: QueueKey, biz: Biz, now: datetime, limit: int) -> int:
        """Count the ready seeds that are due, up to the limit."""
        return self._count(queue_key, biz, {"state": READY, "due": {"$lte": now}}, limit)

    def handed(self, queue_key: QueueKey, biz: Biz, limit: int) -> int:
        """Count the dispatched seeds that have not ended, up to the limit."""
        return self._count(queue_key, biz, {"state": HANDED}, limit)

    def dispatch(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ids: Sequence[RequestId],
        now: datetime,
        until: datetime,
    ) -> list[Seed]:
        """Mark the longest due ready seeds as dispatched until then, each as one of the requests.

        Written before any request is stored, so that whoever comes after a crash knows which
        request a seed became. Each seed is taken by an update of its own that demands that it is
        ready: of two at once, the later one goes without. What a node has taken without its answer
        arriving is found by a recheck.
        """
        if not ids:
            return []
        match = {"state": READY, "due": {"$lte": now}}
        due = self._soonest(queue_key, biz, match, len(ids), ["due"])
        by_place: dict[Shard, dict[str, RequestId]] = defaultdict(dict)
        for (place, document), request_id in zip(due, ids, strict=False):
            by_place[place][document["_id"]] = request_id

        def take(place: Shard) -> list[Document]:
            wanted = by_place[place]
            updates = [
                UpdateOne(
                    {"_id": seed_id, **match},
                    {
                        "$set": {"state": HANDED, "due": until, "req": request_id, "handed": now},
                        "$inc": {"tries": 1},
                    },
                    hint=BY_ID,
                )
                for seed_id, request_id in wanted.items()
            ]
            with border():
                seeds = self._seeds(queue_key, biz, place)
                seeds.bulk_write(updates, ordered=False)
                taken = seeds.find({"_id": {"$in": list(wanted)}, "state": HANDED}, hint=BY_ID)
                return [each for each in taken if each["req"] == wanted[each["_id"]]]

        order = {document["_id"]: number for number, (_, document) in enumerate(due)}
        taken = [one for part in _each(list(by_place), take) for one in part]
        return [seed_of(one) for one in sorted(taken, key=lambda one: order[one["_id"]])]

    def overdue(self, queue_key: QueueKey, biz: Biz, now: datetime, limit: int) -> list[Seed]:
        """Return seeds that were dispatched until before ``now`` and have not ended."""
        match = {"state": HANDED, "due": {"$lt": now}}
        return [seed_of(document) for _, document in self._soonest(queue_key, biz, match, limit)]

    def extend(self, queue_key: QueueKey, biz: Biz, seeds: Sequence[Seed], until: datetime) -> None:
        """Give dispatched seeds more time."""
        requests = {seed.id: seed.request for seed in seeds}

        def change(seed_id: str) -> UpdateOne:
            match = {"_id": seed_id, "state": HANDED, "req": requests[seed_id]}
            return UpdateOne(match, {"$set": {"due": until}}, hint=BY_ID)

        self._change(queue_key, biz, list(requests), lambda ids: [change(one) for one in ids])

    def ended(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ends: Mapping[str, tuple[RequestId, str]],
        now: datetime,
    ) -> int:
        """Archive the seeds ``segment/key`` that were dispatched as these requests; how many.

        The text is empty where it went well, and else says why the seed failed. They are kept for
        the policy's time from now on, or from when their segment ends: a key counts that long. One
        that failed ends well when its request, replayed, does. Those that ended alike share an
        update: a request is of one seed, so nothing says which of the requests is whose.
        """
        archived_at = {"$cond": [{"$eq": ["$ends", None]}, "$$REMOVE", {"$max": ["$ends", now]}]}

        def changes(ids: list[str]) -> list[UpdateMany]:
            alike: dict[str, list[str]] = defaultdict(list)
            for seed_id in ids:
                alike[clean(ends[seed_id][1], _LONGEST_WHY)].append(seed_id)
            return [change(why, part) for why, part in alike.items()]

        def change(why: str, ids: list[str]) -> UpdateMany:
            changed = {
                "state": int(SeedState.FAILED if why else SeedState.FINISHED),
                "due": now,
                "why": {"$literal": why},
                "archived_at": archived_at,
            }
            match = {
                "_id": {"$in": ids},
                "state": {"$in": [HANDED] if why else [HANDED, int(SeedState.FAILED)]},
                "req": {"$in": [ends[seed_id][0] for seed_id in ids]},
            }
            return UpdateMany(match, [{"$set": changed}], hint=BY_ID)

        return self._change(queue_key, biz, list(ends), changes)

    def requeue(
        self,
        queue_key: QueueKey,
        biz: Biz,
        expired: Mapping[str, tuple[RequestId, str]],
        now: datetime,
    ) -> int:
        """Make seeds ``segment/key`` ready again that are still dispatched as these requests.

        The text says why; how many were. The key counts as before, and the seed is no older.
        """

        def change(seed_id: str) -> UpdateOne:
            request, why = expired[seed_id]
            changed = {"state": READY, "due": now, "why": clean(why, _LONGEST_WHY)}
            return UpdateOne(
                {"_id": seed_id, "state": HANDED, "req": request},
                {"$set": changed, "$unset": {"req": "", "handed": ""}},
                hint=BY_ID,
            )

        return self._change(queue_key, biz, list(expired), lambda ids: [change(one) for one in ids])

    def release(
        self, queue_key: QueueKey, biz: Biz, seeds: Sequence[str], why: str, now: datetime
    ) -> int:
        """Make failed or finished seeds ``segment/key`` ready again; return how many."""
        change = {
            "$set": {"state": READY, "due": now, "why": clean(why, _LONGEST_WHY)},
            "$unset": {"req": "", "handed": "", "archived_at": ""},
        }
        return self._change(
            queue_key,
            biz,
            seeds,
            lambda ids: [UpdateMany({"_id": {"$in": ids}, "state": _ENDED}, change, hint=BY_ID)],
        )

    def forget(self, queue_key: QueueKey, biz: Biz, seeds: Sequence[str]) -> int:
        """Remove seeds, so that their URLs are accepted anew; return how many there were."""
        count = 0
        for place, ids in _by_place(biz, seeds):
            with border():
                match = {"_id": {"$in": ids}}
                deleted = self._seeds(queue_key, biz, place).delete_many(match, hint=BY_ID)
                count += deleted.deleted_count
        return count

    def find(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        segment: str | None,
        state: int | None,
        after: str | None,
        limit: int,
    ) -> list[Seed]:
        """Return seeds in the order of ``segment/key``, after that place."""
        bounds: dict[str, str] = {} if segment is None else ids_of(segment)
        if after is not None:
            bounds["$gt"] = after
        match: Document = {"_id": bounds} if bounds else {}
        if state is not None:
            match["state"] = state

        def read(place: Shard) -> list[Document]:
            with border():
                cursor = self._seeds(queue_key, biz, place).find(
                    match, hint=BY_ID if state is None else BY_STATE
                )
                return list(cursor.sort("_id", ASCENDING).limit(limit))

        parts = (read(place) for place in homes(biz))
        found = heapq.merge(*parts, key=lambda document: document["_id"])
        return [seed_of(document) for document, _ in zip(found, range(limit), strict=False)]

    def open_of_job(self, queue_key: QueueKey, biz: Biz, job: str, limit: int) -> list[Seed]:
        """Return seeds of a job that are ready, now or later, or dispatched; in no order.

        It reads no others, or, under a queue key that had many before there were jobs, some
        thousands of what is open; where there is more it gives up at once, with a StoreError.
        """
        found: list[Document] = []
        for place in homes(biz):
            with border(self.nodes.waits.glance):
                seeds = self._seeds(queue_key, biz, place)
                found += find_open(seeds, job, limit, self.most_looked_through)
        return [seed_of(document) for document in found[:limit]]

    def jobs_of(self, queue_key: QueueKey, biz: Biz, seeds: Sequence[str]) -> dict[str, str | None]:
        """Return the jobs of the seeds ``segment/key`` that are there; None of a seed of no job."""
        found: dict[str, str | None] = {}
        for place, ids in _by_place(biz, seeds):
            with border():
                match = {"_id": {"$in": ids}}
                each = self._seeds(queue_key, biz, place).find(match, {"job": 1}, hint=BY_ID)
                found |= {document["_id"]: document.get("job") for document in each}
        return found

    def of_keys(self, queue_key: QueueKey, biz: Biz, keys: Sequence[str]) -> list[Seed]:
        """Return the seeds of these keys in the newest segments there are, the newest first.

        They are looked up by ids, as segments are few and seeds are many.
        """
        segments: set[str] = set()
        for place in homes(biz):
            with border():
                segments.update(newest_segments(self._seeds(queue_key, biz, place)))
        newest = newest_first(segments)[:MOST_SEGMENTS]
        ids = [f"{segment}/{key}" for segment in newest for key in keys]
        found: dict[str, Document] = {}
        for place, part in _by_place(biz, ids):
            with border():
                match = {"_id": {"$in": part}}
                each = self._seeds(queue_key, biz, place).find(match, hint=BY_ID)
                found |= {document["_id"]: document for document in each}
        return [seed_of(found[one]) for one in dict.fromkeys(ids) if one in found]

    def totals(self, queue_key: QueueKey, biz: Biz, now: datetime) -> list[SeedTotals]:
        """Count the seeds in each state by segment, newest first, from keys of indexes alone."""
        counts: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        for place in homes(biz):
            with border():
                seeds = self._seeds(queue_key, biz, place)
                for segment in newest_segments(seeds):
                    of_segment = counts[segment]
                    for state in SeedState:
                        match = {"state": int(state), "_id": ids_of(segment)}
                        of_segment[state.label] += count_keys(seeds, match, BY_STATE)
                for segment, waiting in waiting_by_segment(seeds, now):
                    counts[segment]["waiting"] += waiting
                    counts[segment]["ready"] -= waiting
        newest = newest_first(counts)[:MOST_SEGMENTS]
        return [SeedTotals(segment=segment, **counts[segment]) for segment in newest]

    def _count(self, queue_key: QueueKey, biz: Biz, match: Document, limit: int) -> int:
        def count(place: Shard) -> int:
            with border():
                return count_keys(self._seeds(queue_key, biz, place), match, BY_DUE, limit)

        return min(limit, sum(_each(homes(biz), count)))

    def _seeds(self, queue_key: QueueKey, biz: Biz, place: Shard) -> Collection[Document]:
        name = f"{queue_key.biz}.{biz.collection}_seeds"
        return self.nodes.collection(place.node, queue_key.tenant, place.database, name)

    def _sured(self, queue_key: QueueKey, biz: Biz, place: Shard) -> Collection[Document]:
        """Return the collection with its indexes, and with the life that ended seeds have now."""
        seeds = self._seeds(queue_key, biz, place)
        key = (place, queue_key.tenant, seeds.name, biz.seeds.archive_days)
        if key not in self._sure:
            make_sure(seeds, biz.seeds.archive_days * _DAY_SECONDS, self.most_to_index)
            self._sure.add(key)
        return seeds

    def _stored(self, queue_key: QueueKey, biz: Biz, place: Shard, ids: list[str]) -> set[str]:
        with border():
            match = {"_id": {"$in": ids}}
            found = self._seeds(queue_key, biz, place).find(match, projection=["_id"], hint=BY_ID)
            return {document["_id"] for document in found}

    def _soonest(
        self,
        queue_key: QueueKey,
        biz: Biz,
        match: Document,
        limit: int,
        fields: Sequence[str] | None = None,
    ) -> list[tuple[Shard, Document]]:
        """Return what is due first of all places that answer."""

        def read(place: Shard) -> list[tuple[Shard, Document]]:
            with border():
                found = self._seeds(queue_key, biz, place).find(
                    match, projection=fields, hint=BY_DUE
                )
                order = [("due", ASCENDING), ("_id", ASCENDING)]
                return [(place, document) for document in found.sort(order).limit(limit)]

        parts = _each(homes(biz), read)
        found = heapq.merge(*parts, key=lambda one: (one[1]["due"], one[1]["_id"]))
        return [one for one, _ in zip(found, range(limit), strict=False)]

    def _change(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ids: Iterable[str],
        changes: Callable[[list[str]], Sequence[UpdateOne | UpdateMany]],
    ) -> int:
        """Write the changes of each place; return how many seeds were changed."""
        count = 0
        for place, part in _by_place(biz, ids):
            with border():
                seeds = self._seeds(queue_key, biz, place)
                count += seeds.bulk_write(changes(part), ordered=False).modified_count
        return count


def _each(places: Sequence[Shard], work: Callable[[Shard], T]) -> list[T]:
    """Collect what the places that answer give; fail only where none does."""
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
    """Sort the seeds by each place that they may be at."""
    parts: dict[Shard, list[str]] = defaultdict(list)
    for seed_id in dict.fromkeys(ids):
        for place in candidates(biz, seed_id):
            parts[place].append(seed_id)
    return list(parts.items())
