"""Requests changed into a biz's own states and out of them, in MongoDB (SPEC.md A1).

A transition is conditional on the state that its caller expects, and one transaction with the
counters of the ledger. It meets who claims, settles or cancels the same request at the same moment:
one of the two is undone by the server, and done again on what it finds then.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from pymongo.client_session import ClientSession

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import RequestId, State, is_final
from crawlfleet.kernel.mongo.connection import Document
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Entry
from crawlfleet.requests.mongo import documents
from crawlfleet.requests.mongo.changes import in_transactions, likeliest_first
from crawlfleet.requests.mongo.records import delete_parts
from crawlfleet.requests.mongo.sharding import BY_ID, Shards
from crawlfleet.requests.routing import Shard

_FIELDS: Final = [*documents.ENTRY_FIELDS, "flag", "job", "pool", "parts"]


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for requests in the state ``before`` to become ``after``: who, and why."""

    before: int
    after: int
    by: str
    why: str


class Transited(msgspec.Struct, frozen=True, kw_only=True):
    """Tell in which state a transition found its request, and whether it changed it.

    ``late``: it was to be worked on again, and its time to live has passed.
    """

    entry: Entry
    state: int
    changed: bool
    pool: str | None = None
    late: bool = False


class MongoTransitions:
    """Change requests into states of their biz's own, and out of them."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def transition(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ids: Sequence[RequestId],
        asked: Transition,
        now: datetime,
    ) -> dict[RequestId, Transited]:
        """Change each of these that is in the state expected; return what was found, by id.

        Unknown ones are missing from the answer. One that becomes pending begins anew, unless its
        time to live has passed. One that ends keeps none of the records that were stored while its
        page was still being read; what a finished page has is kept.

        Raises:
            StoreUnavailableError: a node did not answer; what was changed on others stands.
        """
        oldest = now - timedelta(seconds=biz.ttl_seconds)

        def change(
            session: ClientSession, shard: Shard, part: Sequence[RequestId], tally: documents.Tally
        ) -> list[Transited]:
            requests = self._shards.requests(queue_key, biz, shard)
            match = {"_id": {"$in": part}, "tenant": queue_key.tenant, "biz": queue_key.biz}
            found = list(requests.find(match, projection=_FIELDS, hint=BY_ID, session=session))
            done = [_transited(queue_key, asked, one, oldest) for one in found]
            changed = [one for one, result in zip(found, done, strict=True) if result.changed]
            if changed:
                chosen = {"_id": {"$in": [one["_id"] for one in changed]}}
                requests.update_many(chosen, _change(asked, now), hint=BY_ID, session=session)
                if is_final(asked.after):
                    records = self._shards.records(queue_key, biz, shard)
                    delete_parts(records, changed, session)
                for flag, count in ((asked.before, -1), (asked.after, 1)):
                    if term := documents.term_of(flag):
                        for one in changed:
                            tally[one.get("job"), term] += count
            return done

        results: dict[RequestId, Transited] = {}
        left = set(ids)
        for nodes in likeliest_first(biz, ids, left):
            done = in_transactions(self._shards, queue_key, biz, nodes, now, change)
            results.update({one.entry.id: one for one in done})
            left.difference_update(results)
        return results


def _transited(
    queue_key: QueueKey, asked: Transition, found: Document, oldest: datetime
) -> Transited:
    late = asked.after == State.PENDING and found["ts"] <= oldest
    return Transited(
        entry=documents.entry_of(queue_key, found),
        state=int(found["flag"]),
        changed=found["flag"] == asked.before and not late,
        pool=found.get("pool"),
        late=late,
    )


def _change(asked: Transition, now: datetime) -> Document:
    change: Document = {
        "$set": {"flag": asked.after},
        "$push": documents.pushed(documents.event(now, asked.after, asked.by, asked.why)),
    }
    if asked.after == State.PENDING:
        change["$set"]["attempts"] = 0
        change["$unset"] = dict(documents.LEFT_BEHIND)
    elif not is_final(asked.before):
        parts = {"parts": ""} if is_final(asked.after) else {}
        change["$unset"] = {"due": "", "token": "", **parts}
    return change
