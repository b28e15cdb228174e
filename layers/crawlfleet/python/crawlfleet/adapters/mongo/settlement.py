"""Outcomes in MongoDB: what became of claimed requests, and their records (SPEC.md A7).

Outcomes, the records that come with them and what the ledger counts of them are one transaction of
the node's replica set, so a worker whose lease has ended writes nothing, and one that dies half-way
has written nothing.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from pymongo import DeleteMany, MongoClient, UpdateMany
from pymongo.client_session import ClientSession
from pymongo.errors import BulkWriteError

from crawlfleet.adapters.mongo.claims import claim_key, missing, owned
from crawlfleet.adapters.mongo.connection import (
    Document,
    MongoNodes,
    UnstorableError,
    border,
)
from crawlfleet.adapters.mongo.counting import Tally, book
from crawlfleet.adapters.mongo.documents import (
    event,
    failure,
    found_by,
    no_failure,
    pushed,
    record_document,
)
from crawlfleet.adapters.mongo.parts import ByShard, by_node, on_nodes
from crawlfleet.adapters.mongo.shards import BY_ID, Shards
from crawlfleet.adapters.mongo.transactions import TRANSACTION_SECONDS, in_transaction
from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.outcome import Dead, Done, Outcome
from crawlfleet.model.request import Claim, State
from crawlfleet.policy.retry import UNSTORABLE
from crawlfleet.policy.routing import Shard

Pair: TypeAlias = tuple[Claim, Outcome]

_DUPLICATE_KEY: Final = 11000


class _SomeLostError(Exception):
    """Fewer requests were owned than outcomes came in: undo, and look which."""


class _RecordsExistError(Exception):
    """Records stand under these keys: an earlier life of the request left them, and was expired."""


class MongoSettlement:
    """The settling part of ports.RequestStore."""

    def __init__(self, nodes: MongoNodes, shards: Shards) -> None:
        self._nodes = nodes
        self._shards = shards

    def settle(
        self,
        lane: Lane,
        biz: Biz,
        outcomes: Sequence[Pair],
        worker: str,
        now: datetime,
    ) -> set[RequestId]:
        """See ports.RequestStore.settle."""

        def settle_on(node: str, parts: ByShard[Pair]) -> set[RequestId]:
            settling = _Settling(self._nodes.client(node), self._shards, lane, biz, worker, now)
            return settling.settle(parts)

        once = {(claim.request.id, claim.token): (claim, end) for claim, end in outcomes}.values()
        done, failed = on_nodes(by_node(biz, once, lambda pair: claim_key(pair[0])), settle_on)
        if failed:
            raise failed[0][1]
        return set().union(*done)


class _Settling:
    """One settlement on one node."""

    def __init__(
        self,
        client: MongoClient[Document],
        shards: Shards,
        lane: Lane,
        biz: Biz,
        worker: str,
        now: datetime,
    ) -> None:
        self._client = client
        self._shards = shards
        self._lane = lane
        self._biz = biz
        self._worker = worker
        self._now = now

    def settle(self, parts: ByShard[Pair]) -> set[RequestId]:
        """Settle: straight on first, with care where that turns out to be needed."""
        look_first = replace = False
        while True:
            try:
                return self._write(parts, look_first=look_first, replace=replace)
            except _SomeLostError:
                look_first = True
            except _RecordsExistError:
                replace = True
            except UnstorableError as error:
                unstorable = error
                break
        return self._settle_apart(parts, unstorable)

    def _settle_apart(self, parts: ByShard[Pair], error: UnstorableError) -> set[RequestId]:
        """Halve until the request whose records cannot be stored is alone, and bury it."""
        pairs = [(shard, pair) for shard, part in parts.items() for pair in part]
        if len(pairs) == 1:
            shard, (claim, _) = pairs[0]
            return self.settle({shard: [(claim, Dead(f"no records stored: {error}", UNSTORABLE))]})
        middle = len(pairs) // 2
        lost: set[RequestId] = set()
        for half in (pairs[:middle], pairs[middle:]):
            again: ByShard[Pair] = defaultdict(list)
            for shard, pair in half:
                again[shard].append(pair)
            lost |= self.settle(again)
        return lost

    def _write(self, parts: ByShard[Pair], *, look_first: bool, replace: bool) -> set[RequestId]:
        with border(TRANSACTION_SECONDS):
            for shard, part in parts.items():
                if _kept(part):
                    self._shards.records(self._lane, self._biz, shard, made_sure=True)

            def write(session: ClientSession) -> set[RequestId]:
                lost: set[RequestId] = set()
                ended: dict[str, tuple[Shard, Tally]] = {}
                for shard, part in parts.items():
                    lost |= self._write_shard(session, shard, part, look_first=look_first)
                    self._write_records(session, shard, part, lost, replace=replace)
                    _, tally = ended.setdefault(shard.database, (shard, Tally()))
                    tally.update(_ends(part, lost))
                for shard, tally in ended.values():
                    counts = self._shards.counts(self._lane, self._biz, shard)
                    book(counts, tally, self._now, session)
                return lost

            return in_transaction(self._client, write)

    def _write_shard(
        self, session: ClientSession, shard: Shard, part: Sequence[Pair], *, look_first: bool
    ) -> set[RequestId]:
        requests = self._shards.requests(self._lane, self._biz, shard)
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

    def _write_records(
        self,
        session: ClientSession,
        shard: Shard,
        part: Sequence[Pair],
        lost: set[RequestId],
        *,
        replace: bool,
    ) -> None:
        kept = [pair for pair in _kept(part) if pair[0].request.id not in lost]
        if not kept:
            return
        records = self._shards.records(self._lane, self._biz, shard)
        documents = [
            record_document(self._lane.tenant, record)
            for _, outcome in kept
            for record in outcome.records
        ]
        try:
            if replace:
                records.bulk_write(
                    [
                        DeleteMany({"_id": keys_of(claim.request.id)}, hint=BY_ID)
                        for claim, _ in kept
                    ],
                    session=session,
                )
            records.insert_many(documents, session=session)
        except BulkWriteError as error:
            codes = {fault["code"] for fault in error.details["writeErrors"]}
            if codes == {_DUPLICATE_KEY} and not replace:
                raise _RecordsExistError from error
            raise


def keys_of(request_id: RequestId) -> Document:
    """The range of the keys of a request's records."""
    return {"$gte": {"r": request_id, "i": 0}, "$lte": {"r": request_id, "i": 2**31 - 1}}


def _kept(part: Sequence[Pair]) -> list[tuple[Claim, Done]]:
    return [(c, outcome) for c, outcome in part if isinstance(outcome, Done) and outcome.records]


def _ends(part: Sequence[Pair], lost: set[RequestId]) -> Iterator[tuple[str | None, str]]:
    """What the ledger counts of these: job and term of each that has ended."""
    for claim, outcome in part:
        if claim.request.id not in lost and isinstance(outcome, Done | Dead):
            yield claim.request.job, "done" if isinstance(outcome, Done) else "dead"


def _changes(
    outcomes: Sequence[Pair], worker: str, now: datetime
) -> Iterator[tuple[Document, list[Claim]]]:
    """Updates and whom they concern.

    Claims that are done alike, under one token, share an update. Failures are never alike: each has
    its own URL, answer or time to come back.
    """
    done: dict[tuple[object, ...], tuple[Pair, list[Claim]]] = {}
    for claim, outcome in outcomes:
        if isinstance(outcome, Done):
            key = claim.token, len(outcome.records), outcome.status
            done.setdefault(key, ((claim, outcome), []))[1].append(claim)
        else:
            yield _change(claim, outcome, worker, now), [claim]
    for pair, claims in done.values():
        yield _change(*pair, worker, now), claims


def _change(claim: Claim, outcome: Outcome, worker: str, now: datetime) -> Document:
    if isinstance(outcome, Done):
        count = len(outcome.records)
        line = event(now, State.DONE, worker, f"HTTP {outcome.status}, records: {count}")
        return {
            "$set": {"flag": int(State.DONE), "records": count},
            "$unset": {"due": "", "error": "", "reason": "", "answer": "", "token": ""},
            "$push": pushed(line),
        }
    why, gone = failure(outcome), no_failure(outcome)
    if isinstance(outcome, Dead):
        return {
            "$set": {"flag": int(State.DEAD), **why, **found_by(claim.request.body)},
            "$unset": {"due": "", "token": "", **gone},
            "$push": pushed(event(now, State.DEAD, worker, outcome.error)),
        }
    return {
        "$set": {"flag": int(State.WAITING), "due": outcome.due_at, **why},
        "$unset": {"token": "", **gone},
        "$push": pushed(event(now, State.WAITING, worker, outcome.error)),
    }
