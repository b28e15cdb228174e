"""Dead letters in MongoDB: find, make pending again, remove.

They are requests like any other, in the state DEAD. They are found by plain fields
(requests.mongo.documents); only the index by state and time leads to them, so a filtered search
reads a bounded number of its keys, and says how far it came.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import merge
from typing import Final, TypeAlias, TypeVar

from pymongo import UpdateMany, UpdateOne
from pymongo.client_session import ClientSession

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import RequestId, State
from crawlfleet.kernel.mongo.connection import (
    TRANSACTION_SECONDS,
    Document,
    MongoNodes,
    border,
    in_transaction,
)
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.dead_letters.models import DeadLetterFilter, DeadLetterPage
from crawlfleet.requests.models import Entry, Tracked
from crawlfleet.requests.mongo.documents import (
    ENTRY_FIELDS,
    Tally,
    book,
    count_submitted,
    entry_of,
    event,
    pushed,
    reversioned,
    tally_of,
    tracked_of,
)
from crawlfleet.requests.mongo.sharding import (
    BY_ID,
    BY_JOB,
    BY_STATE,
    ByShard,
    Shards,
    all_of,
    on_nodes,
    order,
    ordered,
    ranges_of,
    typed,
)
from crawlfleet.requests.routing import Shard, candidates, live_shards

R = TypeVar("R")
Place: TypeAlias = tuple[int, str, int, str]

#: Keys of the index that one search reads, over all shards.
SCAN: Final = 10_000
#: And of each shard at least, however many there are.
LEAST_SCAN: Final = 100
#: What a request has of its death, and of those who worked on it.
_LEFT_BEHIND: Final = ("error", "reason", "answer", "host", "url", "rule", "token", "due", "worker")


class MongoDeadLetters:
    """Find, replay and purge dead letters; one search reads ``scan`` keys of the index at most."""

    def __init__(self, nodes: MongoNodes, scan: int = SCAN, least_scan: int = LEAST_SCAN) -> None:
        self._nodes = nodes
        self._shards = Shards(nodes)
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
        position = None if after is None else (after[0], typed(after[1]))
        ranges = _before(dead_letters.until, ranges_of("ts", dead_letters.since, position))
        filters = _filters(dead_letters)
        # One more than asked for tells whether there are more; without a filter that is enough.
        many = max(self._scan // len(shards), self._least_scan) if filters else limit + 1
        match = {**_dead(queue_key), **filters}
        dead: Document = {"flag": int(State.DEAD)}
        index = BY_STATE
        if dead_letters.job is not None:
            dead["job"], index = dead_letters.job, BY_JOB
        found: list[list[Tracked]] = []
        reached: list[Place] = []
        with border():
            for shard in shards:
                requests = self._shards.requests(queue_key, biz, shard)
                # The index alone answers this: a page of keys costs no documents.
                keys = list(ordered(requests, dead, ranges, "ts", index, many, ("ts",)))
                if not keys:
                    continue
                if len(keys) == many:
                    reached.append(order(to_ms(keys[-1]["ts"]), keys[-1]["_id"]))
                ids = [key["_id"] for key in keys]
                documents = (
                    requests.find({"_id": {"$in": ids}, **match}, hint=BY_ID)
                    .sort(["ts", "_id"])
                    .limit(limit + 1)
                )
                found.append([tracked_of(document) for document in documents])
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
            found = requests.find(
                match, projection=[*ENTRY_FIELDS, "data", "job"], hint=BY_ID, session=session
            )
            dead = list(found)
            if dead:
                changes = list(_revivals(dead, rule_version, by, now))
                requests.bulk_write(changes, ordered=False, session=session)
                tally.subtract(tally_of((document.get("job") for document in dead), "dead"))
            return [entry_of(queue_key, document) for document in dead]

        entries: list[Entry] = []
        left = set(ids)
        for nodes in _likeliest_first(biz, ids, left):
            for entry in self._in_transactions(queue_key, biz, nodes, now, revive):
                entries.append(entry)
                left.discard(entry.id)
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
            found = [
                document["_id"]
                for document in requests.find(
                    match, projection=["_id"], hint=BY_ID, session=session
                )
            ]
            if found:
                counts = self._shards.counts(queue_key, biz, shard)
                count_submitted(requests, counts, found, now, session)
                requests.delete_many({"_id": {"$in": found}}, hint=BY_ID, session=session)
            return found

        left = set(ids)
        for nodes in _likeliest_first(biz, ids, left):
            removed: list[RequestId] = self._in_transactions(queue_key, biz, nodes, now, remove)
            left.difference_update(removed)
        return len(set(ids)) - len(left)

    def _in_transactions(
        self,
        queue_key: QueueKey,
        biz: Biz,
        nodes: Mapping[str, ByShard[RequestId]],
        now: datetime,
        change: Callable[[ClientSession, Shard, Sequence[RequestId], Tally], list[R]],
    ) -> list[R]:
        """Change the dead letters of each shard and their counters, in one transaction a node.

        Raises:
            StoreUnavailableError: a node did not answer; what the others did stands.
        """

        def change_on(node: str, parts: ByShard[RequestId]) -> list[R]:
            def write(session: ClientSession) -> list[R]:
                done: list[R] = []
                tallies: dict[str, tuple[Shard, Tally]] = {}
                for shard, part in parts.items():
                    _, tally = tallies.setdefault(shard.database, (shard, Counter()))
                    done += change(session, shard, part, tally)
                for shard, tally in tallies.values():
                    if tally:
                        book(self._shards.counts(queue_key, biz, shard), tally, now, session)
                return done

            with border(TRANSACTION_SECONDS):
                for shard in parts:
                    self._shards.counts(queue_key, biz, shard, made_sure=True)
                return in_transaction(self._nodes.client(node), write)

        done = all_of(on_nodes(dict(nodes), change_on))
        return [one for part in done for one in part]


def _likeliest_first(
    biz: Biz, ids: Sequence[RequestId], left: set[RequestId]
) -> Iterator[dict[str, ByShard[RequestId]]]:
    """Yield ids by the shard they are likeliest in; then those ``left`` by the next one."""
    places = {request_id: candidates(biz, request_id) for request_id in ids}
    for rank in range(max(map(len, places.values()), default=0)):
        nodes: dict[str, ByShard[RequestId]] = defaultdict(lambda: defaultdict(list))
        for request_id, shards in places.items():
            if request_id in left and rank < len(shards):
                nodes[shards[rank].node][shards[rank]].append(request_id)
        if nodes:
            yield nodes


def _dead(queue_key: QueueKey) -> Document:
    return {"flag": int(State.DEAD), "tenant": queue_key.tenant, "biz": queue_key.biz}


def _filters(dead_letters: DeadLetterFilter) -> Document:
    """Build the match on plain fields; the job has an index of its own."""
    wanted: Document = {
        name: value
        for name, value in (
            ("reason", dead_letters.reason),
            ("host", dead_letters.host),
            ("rule", dead_letters.rule),
        )
        if value is not None
    }
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
    return order(to_ms(tracked.request.queued_at), tracked.request.id)


def _revivals(
    dead: Sequence[Document], rule_version: Mapping[str, str], by: str, now: datetime
) -> Iterator[UpdateMany | UpdateOne]:
    """Build updates that make these pending; ``data`` is written anew only where it changes."""
    alike: dict[str | None, list[RequestId]] = defaultdict(list)
    for document in dead:
        version, data = reversioned(document["data"], rule_version)
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
        "$unset": dict.fromkeys(_LEFT_BEHIND, ""),
        "$push": pushed(event(now, State.PENDING, by, why)),
    }
