"""Ownership of requests in MongoDB: claim, renew, release (SPEC.md A7).

One document is changed by one atomic update whose filter names what must hold: id, tenant, biz, ts
and state for the claim, the token for everything after it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from pymongo import UpdateMany
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import RequestId, State
from crawlfleet.kernel.mongo.connection import Document, border
from crawlfleet.kernel.mongo.transactions import in_transaction
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import Claim, Entry
from crawlfleet.requests.mongo.documents import book, event, pushed, request_of, tally_of
from crawlfleet.requests.mongo.sharding import BY_ID, Shards, all_of, by_shard, on_shards
from crawlfleet.requests.outcomes import UNREADABLE
from crawlfleet.requests.routing import Shard

#: What a claim does not need to know of a request.
_UNREAD: Final = dict.fromkeys(("log", "call", "error", "reason", "answer", "due"), 0)
_UNREADABLE: Final = "the stored body cannot be read"
_CLAIMABLE_WHEN_DUE: Final = {"$in": [int(State.WAITING), int(State.LEASED)]}
#: As if it had not been claimed.
_RELEASED: Final[Document] = {
    "$set": {"flag": int(State.PENDING)},
    "$inc": {"attempts": -1},
    "$unset": {"token": "", "due": ""},
}


class MongoClaims:
    """Claim, renew and release requests."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def claim(
        self,
        queue_key: QueueKey,
        biz: Biz,
        entries: Sequence[Entry],
        worker: str,
        now: datetime,
        until: datetime,
        token: str,
    ) -> list[Claim]:
        """Own each request that matches id, biz, ts and a claimable state, atomically.

        Claimable: pending, waiting until ``now`` at most, or leased with a lease that has ended.
        Entries that are gone, final, not due or owned by another are missing from the answer.

        One update claims a shard's whole batch: each document is taken atomically, on id, tenant,
        biz, ts and state, under the token; the token then tells which were won. The same token may
        ask again, after a time-out, and learns what it had won.

        A node that does not answer leaves its own entries out: recovery finds them again. It is an
        error only where nothing was won.
        """
        oldest = to_ms(now - timedelta(seconds=biz.ttl_seconds))
        alive = {(e.id, e.ts): e for e in entries if e.ts > oldest and e.biz == queue_key.biz}
        change: Document = {
            "$set": {"flag": int(State.LEASED), "worker": worker, "token": token, "due": until},
            "$inc": {"attempts": 1},
            "$push": pushed(event(now, State.LEASED, worker, "claimed")),
        }

        def claim_in(shard: Shard, part: list[Entry]) -> list[Claim]:
            with border():
                collection = self._shards.requests(queue_key, biz, shard)
                match = _matching(queue_key, part)
                free = {**match, "flag": int(State.PENDING)}
                taken = collection.update_many(free, change, hint=BY_ID).modified_count
                if taken < len(part):
                    ended = {**match, "flag": _CLAIMABLE_WHEN_DUE, "due": {"$lte": now}}
                    collection.update_many(ended, change, hint=BY_ID)
                mine = {"_id": match["_id"], "token": token}
                owned = collection.find(mine, projection=_UNREAD, hint=BY_ID)
                confirmed, unreadable = _confirmed(collection, owned, alive, token)
                for document in unreadable:
                    self._give_up(queue_key, biz, shard, document, token, now)
                return confirmed

        done, failed = on_shards(by_shard(biz, alive.values(), _entry_key), claim_in)
        won = [claim for claims in done for claim in claims]
        if failed and not won:
            raise failed[0][1]
        return won

    def _give_up(
        self,
        queue_key: QueueKey,
        biz: Biz,
        shard: Shard,
        document: Document,
        token: str,
        now: datetime,
    ) -> None:
        """Give up on a request that no worker can read, or it comes back to one after the other."""
        requests = self._shards.requests(queue_key, biz, shard)
        counts = self._shards.counts(queue_key, biz, shard)

        def write(session: ClientSession) -> None:
            change = {
                "$set": {"flag": int(State.DEAD), "error": _UNREADABLE, "reason": UNREADABLE},
                "$unset": {"token": "", "due": ""},
                "$push": pushed(event(now, State.DEAD, document["worker"], _UNREADABLE)),
            }
            match = {"_id": document["_id"], "token": token, "flag": int(State.LEASED)}
            if requests.update_one(match, change, session=session).modified_count:
                book(counts, tally_of([document.get("job")], "dead"), now, session)

        in_transaction(self._shards.client(shard), write)

    def due(
        self, queue_key: QueueKey, biz: Biz, entries: Sequence[Entry]
    ) -> list[tuple[Entry, datetime]]:
        """List entries that are leased or wait, with when they may be claimed again.

        One look-up by primary keys a shard.
        """

        def look(shard: Shard, part: list[Entry]) -> list[tuple[Entry, datetime]]:
            with border():
                match = {**_matching(queue_key, part), "flag": _CLAIMABLE_WHEN_DUE}
                requests = self._shards.requests(queue_key, biz, shard)
                found = requests.find(match, projection=["ts", "due"], hint=BY_ID)
                dues = {(one["_id"], to_ms(one["ts"])): one["due"] for one in found}
            places = [(entry, dues.get((entry.id, entry.ts))) for entry in part]
            return [(entry, due_at) for entry, due_at in places if due_at is not None]

        done = all_of(on_shards(by_shard(biz, entries, _entry_key), look))
        return [one for part in done for one in part]

    def renew(
        self, queue_key: QueueKey, biz: Biz, claims: Sequence[Claim], until: datetime
    ) -> set[RequestId]:
        """Extend the leases; returns the ids that the token no longer owns."""

        def renew_in(shard: Shard, part: list[Claim]) -> set[RequestId]:
            with border():
                collection = self._shards.requests(queue_key, biz, shard)
                change = {"$set": {"due": until}}
                updates = [UpdateMany(owned(g), change, hint=BY_ID) for g in by_token(part)]
                if collection.bulk_write(updates, ordered=False).matched_count < len(part):
                    return missing(collection, part)
            return set()

        done = all_of(on_shards(by_shard(biz, claims, claim_key), renew_in))
        return set().union(*done)

    def release(
        self,
        queue_key: QueueKey,
        biz: Biz,
        claims: Sequence[Claim],
        worker: str,
        why: str,
        now: datetime,
    ) -> None:
        """Make claimed requests pending again, without an attempt counted."""
        change = {**_RELEASED, "$push": pushed(event(now, State.PENDING, worker, why))}

        def release_in(shard: Shard, part: list[Claim]) -> None:
            with border():
                updates = [UpdateMany(owned(g), change, hint=BY_ID) for g in by_token(part)]
                self._shards.requests(queue_key, biz, shard).bulk_write(updates, ordered=False)

        all_of(on_shards(by_shard(biz, claims, claim_key), release_in))


def claim_key(claim: Claim) -> tuple[RequestId, datetime]:
    """Return what routes a claim."""
    return claim.request.id, claim.request.queued_at


def by_token(claims: Iterable[Claim]) -> list[list[Claim]]:
    """Group the claims by their lease."""
    groups: dict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        groups[claim.token].append(claim)
    return list(groups.values())


def owned(claims: Sequence[Claim]) -> Document:
    """Match requests that the token of these claims, the same for all, still owns."""
    return {
        "_id": {"$in": [claim.request.id for claim in claims]},
        "token": claims[0].token,
        "flag": int(State.LEASED),
    }


def missing(
    collection: Collection[Document], claims: Sequence[Claim], session: ClientSession | None = None
) -> set[RequestId]:
    """Return the ids that their tokens no longer own."""
    match = {"_id": {"$in": [claim.request.id for claim in claims]}, "flag": int(State.LEASED)}
    found = collection.find(match, projection=["token"], session=session, hint=BY_ID)
    tokens = {document["_id"]: document["token"] for document in found}
    return {c.request.id for c in claims if tokens.get(c.request.id) != c.token}


def _entry_key(entry: Entry) -> tuple[RequestId, datetime]:
    return entry.id, from_ms(entry.ts)


def _matching(queue_key: QueueKey, entries: Sequence[Entry]) -> Document:
    return {
        "_id": {"$in": [entry.id for entry in entries]},
        "tenant": queue_key.tenant,
        "biz": queue_key.biz,
        "ts": {"$in": [from_ms(ts) for ts in {entry.ts for entry in entries}]},
    }


def _confirmed(
    collection: Collection[Document],
    documents: Iterable[Document],
    entries: dict[tuple[RequestId, int], Entry],
    token: str,
) -> tuple[list[Claim], list[Document]]:
    """Return the claims that were won, and the documents whose body cannot be read."""
    won: list[Claim] = []
    unreadable: list[Document] = []
    for document in documents:
        entry = entries.get((document["_id"], to_ms(document["ts"])))
        if entry is not None:
            try:
                request = request_of(document)
            except (msgspec.DecodeError, UnicodeDecodeError):
                unreadable.append(document)
            else:
                attempt = document["attempts"]
                won.append(Claim(request=request, entry=entry, token=token, attempt=attempt))
            continue
        # Its ts was another entry's of the same batch: no entry is of this request.
        change = {**_RELEASED, "$pop": {"log": 1}}
        collection.update_one({"_id": document["_id"], "token": token}, change)
    return won, unreadable
