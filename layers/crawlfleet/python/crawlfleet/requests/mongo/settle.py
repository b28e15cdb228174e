"""Outcomes of claimed requests and their records, written to MongoDB (SPEC.md A7, B9).

Outcomes, the records that come with them and their counts are one transaction of the node's replica
set, so a worker whose lease has ended writes nothing, and one that dies half-way has written
nothing.

Records with keys of their own are a part of it where their home is on the same node. Where it is on
another one they are written first, and only of requests that their tokens own at that moment: they
replace each other, so writing them again does no harm.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from pymongo import DeleteMany, MongoClient, UpdateMany
from pymongo.client_session import ClientSession
from pymongo.errors import BulkWriteError

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import RequestId, State
from crawlfleet.kernel.mongo import connection
from crawlfleet.kernel.mongo.transactions import TRANSACTION_SECONDS, in_transaction
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Claim, Coverage, Record
from crawlfleet.requests.mongo import documents
from crawlfleet.requests.mongo.claim import claim_key, missing, owned
from crawlfleet.requests.mongo.records import KeyedRecords, keys_of, record_document
from crawlfleet.requests.mongo.sharding import BY_ID, ByShard, Shards, all_of, by_node, on_nodes
from crawlfleet.requests.outcomes import UNSTORABLE, Dead, Done, Outcome, Retry, Settled, done_with
from crawlfleet.requests.routing import Shard, route

Pair: TypeAlias = tuple[Claim, Outcome]

_DUPLICATE_KEY: Final = 11000
_NOT_MODIFIED: Final = 304
#: What a request has while it is worked on.
_ENDED: Final = {"due": "", "token": "", "parts": ""}


class _SomeLostError(Exception):
    """Fewer requests were owned than outcomes came in: undo, and find out which."""


class _RecordsExistError(Exception):
    """Records of an earlier, expired life of the request stand under these keys."""


class MongoSettlement:
    """Write outcomes with their records."""

    def __init__(self, nodes: connection.MongoNodes, shards: Shards) -> None:
        self._nodes, self._shards = nodes, shards

    def settle(
        self, queue_key: QueueKey, biz: Biz, outcomes: Sequence[Pair], worker: str, now: datetime
    ) -> Settled:
        """Store records and write each outcome, on the condition that the token still owns it.

        Of those whose lease was lost nothing is written. One whose records cannot be stored is
        dead, and the others are written all the same.

        Raises:
            StoreUnavailableError: a node does not answer; another's outcomes may be written.
            StoreError: not even that one is dead can be written.
        """

        def settle_on(node: str, parts: ByShard[Pair]) -> Settled:
            client, keyed = self._nodes.client(node), KeyedRecords(self._shards, queue_key, biz)
            settling = _Settling(client, self._shards, queue_key, biz, worker, now, keyed)
            return settling.settle(parts)

        once = {(claim.request.id, claim.token): (claim, end) for claim, end in outcomes}.values()
        done = all_of(on_nodes(by_node(biz, once, lambda pair: claim_key(pair[0])), settle_on))
        return _together(done)


@dataclass(frozen=True, slots=True)
class _Settling:
    """Settle outcomes on one node."""

    _client: MongoClient[connection.Document]
    _shards: Shards
    _queue_key: QueueKey
    _biz: Biz
    _worker: str
    _now: datetime
    _keyed: KeyedRecords

    def settle(self, parts: ByShard[Pair]) -> Settled:
        """Settle straight on first, with care where that turns out to be needed."""
        look_first = replace = False
        while True:
            try:
                return Settled(self._write(parts, look_first=look_first, replace=replace))
            except _SomeLostError:
                look_first = True
            except _RecordsExistError:
                replace = True
            except connection.UnstorableError as error:
                unstorable = error
                break
        return self._settle_apart(parts, unstorable)

    def _settle_apart(self, parts: ByShard[Pair], error: connection.UnstorableError) -> Settled:
        """Halve until the request whose records cannot be stored is alone, and end it as dead."""
        pairs = [(shard, pair) for shard, part in parts.items() for pair in part]
        if len(pairs) == 1:
            shard, (claim, outcome) = pairs[0]
            if not isinstance(outcome, Done):
                raise error
            dead = Dead(f"no records stored: {error}", UNSTORABLE)
            lost = self.settle({shard: [(claim, dead)]}).lost
            return Settled(lost, {} if lost else {claim.request.id: dead})
        middle = len(pairs) // 2
        settled: list[Settled] = []
        for half in (pairs[:middle], pairs[middle:]):
            again: ByShard[Pair] = defaultdict(list)
            for shard, pair in half:
                again[shard].append(pair)
            settled.append(self.settle(again))
        return _together(settled)

    def _write(self, parts: ByShard[Pair], *, look_first: bool, replace: bool) -> set[RequestId]:
        with connection.border(TRANSACTION_SECONDS):
            for shard, part in parts.items():
                if any(_unkeyed(outcome) for _, outcome in part):
                    self._shards.records(self._queue_key, self._biz, shard, made_sure=True)
            home = self._write_ahead(parts)

            def write(session: ClientSession) -> set[RequestId]:
                lost: set[RequestId] = set()
                ended: dict[str, tuple[Shard, documents.Tally]] = {}
                for shard, part in parts.items():
                    partial = self._with_parts(session, shard, part)
                    lost |= self._write_shard(session, shard, part, look_first=look_first)
                    kept = [pair for pair in part if pair[0].request.id not in lost]
                    self._write_records(session, shard, kept, partial, replace=replace)
                    if home is not None:
                        self._keyed.write(home, _keyed(kept), session)
                    _, tally = ended.setdefault(shard.database, (shard, documents.Tally()))
                    _count_ends(tally, part, lost)
                for shard, tally in ended.values():
                    counts = self._shards.counts(self._queue_key, self._biz, shard)
                    documents.book(counts, tally, self._now, session)
                return lost

            return in_transaction(self._client, write)

    def _write_shard(
        self, session: ClientSession, shard: Shard, part: Sequence[Pair], *, look_first: bool
    ) -> set[RequestId]:
        requests = self._shards.requests(self._queue_key, self._biz, shard)
        lost: set[RequestId] = set()
        if look_first:
            lost = missing(requests, [claim for claim, _ in part], session)
            part = [pair for pair in part if pair[0].request.id not in lost]
        updates = [
            UpdateMany(owned(claims), change, hint=BY_ID)
            for change, claims in _changes(part, self._worker, self._now)
        ]
        if updates:
            changed = requests.bulk_write(updates, ordered=False, session=session).matched_count
            if changed < len(part) and not look_first:
                raise _SomeLostError
        return lost

    def _write_ahead(self, parts: ByShard[Pair]) -> Shard | None:
        """Write keyed records whose home is on another node; return the home if it is on this one.

        None, too, where there are no such records.
        """
        if not any(_keyed(part) for part in parts.values()):
            return None
        home = self._keyed.home(self._now)
        if home.node in {shard.node for shard in parts}:
            return home
        for shard, part in parts.items():
            requests = self._shards.requests(self._queue_key, self._biz, shard)
            mine = [pair for pair in part if _keyed([pair])]
            lost = missing(requests, [claim for claim, _ in mine]) if mine else set()
            self._keyed.write(home, _keyed(p for p in mine if p[0].request.id not in lost))
        return None

    def _with_parts(
        self, session: ClientSession, shard: Shard, part: Sequence[Pair]
    ) -> set[RequestId]:
        """Return requests of which some records were stored while their page was being read."""
        requests = self._shards.requests(self._queue_key, self._biz, shard)
        ids = [claim.request.id for claim, end in part if not isinstance(end, Retry)]
        match = {"_id": {"$in": ids}, "parts": {"$exists": True}}
        found = requests.find(match, projection=["_id"], hint=BY_ID, session=session)
        return {documents.read_id(document["_id"]) for document in found}

    def _write_records(
        self,
        session: ClientSession,
        shard: Shard,
        part: Sequence[Pair],
        partial: set[RequestId],
        *,
        replace: bool,
    ) -> None:
        """Insert records; remove what an earlier attempt has left beyond the last one's."""
        records = self._shards.records(self._queue_key, self._biz, shard)
        unkeyed = [record for _, outcome in part for record in _unkeyed(outcome)]
        remains = [
            DeleteMany({"_id": keys_of(claim.request.id, _first(outcome))}, hint=BY_ID)
            for claim, outcome in part
            if (claim.request.id in partial and _ends_parts(outcome))
            or (replace and _unkeyed(outcome))
        ]
        try:
            if remains:
                records.bulk_write(remains, session=session)
            if unkeyed:
                written = [record_document(self._queue_key.tenant, record) for record in unkeyed]
                records.insert_many(written, session=session)
        except BulkWriteError as error:
            codes = {fault["code"] for fault in error.details["writeErrors"]}
            if codes == {_DUPLICATE_KEY} and not replace:
                raise _RecordsExistError from error
            raise


def _together(parts: Iterable[Settled]) -> Settled:
    lost: set[RequestId] = set()
    unstorable: dict[RequestId, Dead] = {}
    for part in parts:
        lost |= part.lost
        unstorable |= part.unstorable
    return Settled(lost, unstorable)


def _keyed(part: Iterable[Pair]) -> list[Record]:
    return [
        record
        for _, outcome in part
        if isinstance(outcome, Done)
        for record in outcome.records
        if record.key is not None
    ]


def _unkeyed(outcome: Outcome) -> list[Record]:
    """Return the records whose key is their request and place."""
    if not isinstance(outcome, Done):
        return []
    return [record for record in outcome.records if record.key is None]


def _first(outcome: Outcome) -> int:
    """Return the first index that is no part's of this attempt; a dead request keeps none."""
    return outcome.stored if isinstance(outcome, Done) else 0


def _ends_parts(outcome: Outcome) -> bool:
    """Tell whether parts beyond this attempt's are to go; not for an unchanged page."""
    if isinstance(outcome, Done):
        return outcome.status != _NOT_MODIFIED
    return isinstance(outcome, Dead)


def _count_ends(tally: documents.Tally, part: Sequence[Pair], lost: set[RequestId]) -> None:
    """Add what the ledger counts of these: each that has ended, and what jobs have read."""
    read: dict[tuple[str, str], list[Coverage]] = defaultdict(list)
    for claim, outcome in part:
        if claim.request.id in lost or not isinstance(outcome, Done | Dead):
            continue
        job = claim.request.job
        tally[job, "done" if isinstance(outcome, Done) else "dead"] += 1
        if job is not None and isinstance(outcome, Done) and outcome.coverage is not None:
            read[job, claim.request.body.rule].append(outcome.coverage)
    for (job, rule), coverages in read.items():
        for term, count in documents.read_terms(rule, coverages):
            tally[job, term] += count


def _changes(
    outcomes: Sequence[Pair], worker: str, now: datetime
) -> Iterator[tuple[connection.Document, list[Claim]]]:
    """Yield updates and the claims they concern.

    Claims that are done alike, under one token, share an update. Failures are never alike: each has
    its own URL, answer or time to come back.
    """
    done: dict[tuple[object, ...], tuple[Pair, list[Claim]]] = {}
    for claim, outcome in outcomes:
        if isinstance(outcome, Done):
            key = claim.token, done_with(outcome), outcome.status, outcome.peers
            done.setdefault(key, ((claim, outcome), []))[1].append(claim)
        else:
            yield _change(claim, outcome, worker, now), [claim]
    for pair, claims in done.values():
        yield _change(*pair, worker, now), claims


def _change(claim: Claim, outcome: Outcome, worker: str, now: datetime) -> connection.Document:
    def line(state: State, why: str) -> connection.Document:
        return documents.pushed(documents.event(now, state, worker, why, outcome.peers))

    if isinstance(outcome, Done):
        return {
            "$set": {"flag": int(State.DONE), "records": outcome.stored + len(outcome.records)},
            "$unset": {**_ENDED, "error": "", "reason": "", "answer": ""},
            "$push": line(State.DONE, done_with(outcome)),
        }
    why, gone = documents.failure(outcome), documents.no_failure(outcome)
    if isinstance(outcome, Dead):
        return {
            "$set": {"flag": int(State.DEAD), **why, **documents.found_by(claim.request.body)},
            "$unset": {**_ENDED, **gone},
            "$push": line(State.DEAD, outcome.error),
        }
    return {
        "$set": {"flag": int(State.WAITING), "due": outcome.due_at, **why},
        "$unset": {"token": "", **gone},
        "$push": line(State.WAITING, outcome.error),
    }


class MongoStreaming:
    """Store records before their request is settled, or without one."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def store_part(
        self, queue_key: QueueKey, biz: Biz, claim: Claim, records: Sequence[Record], now: datetime
    ) -> bool:
        """Store records of a page that is still being read; those under the same keys are replaced.

        False, and nothing is written, when the token no longer owns the request. When it is done,
        what an earlier attempt has stored and the last one has not is removed; a request that ends
        in any other way leaves none of these. Records with keys of their own stay whatever becomes
        of it.

        One transaction that counts the part in the request, so that it meets who takes the
        request away at the same moment. Keyed records are a part of it where they live on the same
        node, and are written before it where not.

        Raises:
            StoreError: the store cannot hold one of them; none of these is stored.
        """
        shard = route(biz, *claim_key(claim))
        unkeyed = [record for record in records if record.key is None]
        keyed = [record for record in records if record.key is not None]
        keeping = KeyedRecords(self._shards, queue_key, biz)
        with connection.border(TRANSACTION_SECONDS):
            requests = self._shards.requests(queue_key, biz, shard)
            mine = owned([claim])
            stored = self._shards.records(queue_key, biz, shard, made_sure=bool(unkeyed))
            home = keeping.home(now) if keyed else None
            if home is not None and home.node != shard.node:
                if requests.find_one(mine, projection=["_id"], hint=BY_ID) is None:
                    return False
                keeping.write(home, keyed)
                home = None

            def write(session: ClientSession) -> bool:
                change = {"$inc": {"parts": 1}}
                counted = requests.update_one(mine, change, hint=BY_ID, session=session)
                if not counted.matched_count:
                    return False
                if unkeyed:
                    written = [record_document(queue_key.tenant, record) for record in unkeyed]
                    ids = [document["_id"] for document in written]
                    stored.delete_many({"_id": {"$in": ids}}, hint=BY_ID, session=session)
                    stored.insert_many(written, session=session)
                if home is not None:
                    keeping.write(home, keyed, session)
                return True

            return in_transaction(self._shards.client(shard), write)

    def store_keyed(
        self, queue_key: QueueKey, biz: Biz, records: Sequence[Record], now: datetime
    ) -> None:
        """Store records with keys of their own that no claim stands for.

        One replaces what is stored under its key, unless that is newer (requests.models). One
        upsert a record, in one statement.

        Raises:
            StoreError: the store cannot hold one of them; others may be stored.
        """
        keeping = KeyedRecords(self._shards, queue_key, biz)
        with connection.border():
            keeping.write(keeping.home(now), records)
