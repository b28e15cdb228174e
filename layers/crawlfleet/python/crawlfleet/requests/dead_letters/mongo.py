"""Dead letters in MongoDB: find, make pending again, remove.

They are requests like any other, in the state DEAD. They are found by plain fields
(requests.mongo.documents); only the index by state and time leads to them, so a filtered search
reads a bounded number of its keys, and says how far it came.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from heapq import merge
from typing import Final, TypeAlias

from pymongo import UpdateMany, UpdateOne
from pymongo.client_session import ClientSession

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import RequestId, State
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.dead_letters.models import DeadLetterFilter, DeadLetterPage
from crawlfleet.requests.models import Entry, Tracked
from crawlfleet.requests.mongo import documents, ordering, sharding
from crawlfleet.requests.mongo.changes import in_transactions, likeliest_first
from crawlfleet.requests.mongo.documents import ENTRY_FIELDS, LEFT_BEHIND, Tally
from crawlfleet.requests.mongo.sharding import BY_ID
from crawlfleet.requests.routing import Shard, live_shards

Place: TypeAlias = tuple[int, str, int, str]

#: Keys of the index that one search reads, over all shards.
SCAN: Final = 10_000
#: And of each shard at least, however many there are.
LEAST_SCAN: Final = 100


class MongoDeadLetters:
    """Find, replay and purge dead letters; one search reads ``scan`` keys of the index at most."""

    def __init__(self, nodes: MongoNodes, scan: int = SCAN, least_scan: int = LEAST_SCAN) -> None:
        self._shards = sharding.Shards(nodes)
        self._scan, self._least_scan = scan, least_scan

    def find(
        self,
        queue_key: QueueKey,
        biz: Biz,
        dead_letters: DeadLetterFilter,
        *,
        after: tuple[int, str] | None,
        limit: int,
        now: datetime,
    ) -> DeadLetterPage:
        """List up to ``limit`` dead letters by time of queueing, oldest first.

        One search reads a bounded number of them. Where it ends before all were read, or there are
        more than asked for, the page says from where to go on.
        """
        shards = live_shards(biz, now)
        position = None if after is None else (after[0], ordering.typed(after[1]))
        ranges = _before(dead_letters.until, ordering.ranges_of("ts", dead_letters.since, position))
        filters = _filters(dead_letters)
        # One more than asked for tells whether there are more; without a filter that is enough.
        many = max(self._scan // len(shards), self._least_scan) if filters else limit + 1
        match = {**_dead(queue_key), **filters}
        dead: Document = {"flag": int(State.DEAD)}
        index = sharding.BY_STATE
        if dead_letters.job is not None:
            dead["job"], index = dead_letters.job, sharding.BY_JOB
        found: list[list[Tracked]] = []
        reached: list[Place] = []
        with border():
            for shard in shards:
                requests = self._shards.requests(queue_key, biz, shard)
                # The index alone answers this: a page of keys costs no documents.
                keys = list(ordering.ordered(requests, dead, ranges, "ts", index, many, ("ts",)))
                if not keys:
                    continue
                if len(keys) == many:
                    reached.append(ordering.order(to_ms(keys[-1]["ts"]), keys[-1]["_id"]))
                ids = [key["_id"] for key in keys]
                cursor = requests.find({"_id": {"$in": ids}, **match}, hint=BY_ID)
                cursor = cursor.sort(["ts", "_id"]).limit(limit + 1)
                found.append([documents.tracked_of(document) for document in cursor])
        return _page(found, min(reached, default=None), limit)

    def replay(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ids: Sequence[RequestId],
        rule_version: Mapping[str, str],
        by: str,
        now: datetime,
    ) -> list[Entry]:
        """Make dead letters pending, as if never tried; returns those that were dead.

        Two callers at once never both get one; in the ledger it is dead no more. ``rule_version``
        has, by rule's name, the version they are to be read with; a rule that is not in it keeps
        the version it had. One transaction a node, the ledger's counters included.
        """

        def revive(
            session: ClientSession, shard: Shard, part: Sequence[RequestId], tally: Tally
        ) -> list[Entry]:
            requests = self._shards.requests(queue_key, biz, shard)
            match = {"_id": {"$in": part}, **_dead(queue_key)}
            fields = [*ENTRY_FIELDS, "data", "job"]
            dead = list(requests.find(match, projection=fields, hint=BY_ID, session=session))
            if dead:
                changes = list(_revivals(dead, rule_version, by, now))
                requests.bulk_write(changes, ordered=False, session=session)
                tally.subtract(
                    documents.tally_of((document.get("job") for document in dead), "dead")
                )
            return [documents.entry_of(queue_key, document) for document in dead]

        entries: list[Entry] = []
        left = set(ids)
        for nodes in likeliest_first(biz, ids, left):
            entries += in_transactions(self._shards, queue_key, biz, nodes, now, revive)
            left.difference_update(entry.id for entry in entries)
        return entries

    def purge(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ids: Sequence[RequestId],
        by: str,  # noqa: ARG002
        now: datetime,
    ) -> int:
        """Remove dead letters; in the ledger they stay dead. Returns how many were removed."""

        def remove(
            session: ClientSession, shard: Shard, part: Sequence[RequestId], _: Tally
        ) -> list[RequestId]:
            requests = self._shards.requests(queue_key, biz, shard)
            match = {"_id": {"$in": part}, **_dead(queue_key)}
            dead = requests.find(match, projection=["_id"], hint=BY_ID, session=session)
            found = [document["_id"] for document in dead]
            if found:
                counts = self._shards.counts(queue_key, biz, shard)
                documents.count_submitted(requests, counts, found, now, session)
                requests.delete_many({"_id": {"$in": found}}, hint=BY_ID, session=session)
            return found

        left = set(ids)
        for nodes in likeliest_first(biz, ids, left):
            removed = in_transactions(self._shards, queue_key, biz, nodes, now, remove)
            left.difference_update(removed)
        return len(set(ids)) - len(left)


def _dead(queue_key: QueueKey) -> Document:
    return {"flag": int(State.DEAD), "tenant": queue_key.tenant, "biz": queue_key.biz}


def _filters(dead_letters: DeadLetterFilter) -> Document:
    """Build the match on plain fields; the job has an index of its own."""
    given = ((name, getattr(dead_letters, name)) for name in ("reason", "host", "rule"))
    wanted: Document = {name: value for name, value in given if value is not None}
    if dead_letters.status is not None:
        # 0 is no answer at all, or one that is no HTTP.
        wanted["answer.status"] = dead_letters.status or {"$in": [0, None]}
    if dead_letters.text is not None:
        # No regular expression: a text is what it is, and none takes long.
        wanted["$expr"] = {
            "$or": [
                {"$gte": [{"$indexOfBytes": [f"${field}", {"$literal": dead_letters.text}]}, 0]}
                for field in ("error", "url")
            ]
        }
    return wanted


def _before(until: datetime | None, ranges: list[Document]) -> list[Document]:
    """Cut the ranges of ``ts`` off at a time."""
    if until is None:
        return ranges
    found = []
    for one in ranges:
        bound = one.get("ts", {})
        if not isinstance(bound, datetime):
            found.append({**one, "ts": {**bound, "$lt": until}})
        elif bound < until:
            found.append(one)
    return found


def _page(found: list[list[Tracked]], reached: Place | None, limit: int) -> DeadLetterPage:
    """Merge what lies before the first shard's end of its scan."""
    merged = merge(*found, key=_place)
    dead_letters = [one for one in merged if reached is None or _place(one) <= reached]
    if len(dead_letters) > limit:
        dead_letters = dead_letters[:limit]
        reached = _place(dead_letters[-1])
    return DeadLetterPage(
        dead_letters=tuple(dead_letters),
        reached=None if reached is None else (reached[0], reached[3] or str(reached[2])),
    )


def _place(tracked: Tracked) -> Place:
    return ordering.order(to_ms(tracked.request.queued_at), tracked.request.id)


def _revivals(
    dead: Sequence[Document], rule_version: Mapping[str, str], by: str, now: datetime
) -> Iterator[UpdateMany | UpdateOne]:
    """Build updates that make these pending; ``data`` is written anew only where it changes."""
    alike: dict[str | None, list[RequestId]] = defaultdict(list)
    for document in dead:
        version, data = documents.reversioned(document["data"], rule_version)
        if data is None:
            alike[version].append(document["_id"])
        else:
            change = _revival(version, by, now)
            change["$set"]["data"] = data
            yield UpdateOne({"_id": document["_id"]}, change, hint=BY_ID)
    for version, ids in alike.items():
        yield UpdateMany({"_id": {"$in": ids}}, _revival(version, by, now), hint=BY_ID)


def _revival(version: str | None, by: str, now: datetime) -> Document:
    why = "replayed" if version is None else f"replayed with rule version {version}"
    return {
        "$set": {"flag": int(State.PENDING), "attempts": 0},
        "$unset": dict(LEFT_BEHIND),
        "$push": documents.pushed(documents.event(now, State.PENDING, by, why)),
    }
