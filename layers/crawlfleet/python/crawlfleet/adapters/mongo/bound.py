"""Requests of a shard that are bound for a pool, told from those that are not (SPEC.md B12).

Only the former have ``pool``, and the index of pools has those and nothing else. Where it is not
there nothing is bound for any, as far as can be told quickly: the first such request has it built.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pymongo import ASCENDING
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from crawlfleet.adapters.mongo.connection import Document
from crawlfleet.adapters.mongo.shards import BY_POOL, BY_STATE
from crawlfleet.model.request import State

#: Pools of a shard that are told apart: there never are as many at once.
_MOST: Final = 64
_BAD_VALUE: Final = 2


def pools_in(requests: Collection[Document]) -> list[str] | None:
    """The pools that something of the shard is bound for, in order; None without the index.

    One step over the index for each of them, however many are bound for it.
    """
    found: list[str] = []
    try:
        while len(found) < _MOST:
            after = found[-1] if found else ""
            cursor = requests.find({"pool": {"$gt": after}}, projection=("pool",), hint=BY_POOL)
            one = next(iter(cursor.sort("pool", ASCENDING).limit(1)), None)
            if one is None:
                break
            found.append(one["pool"])
    except OperationFailure as error:
        if error.code != _BAD_VALUE:
            raise
        return None
    return found


def unbound(
    requests: Collection[Document], pools: Sequence[str] | None, found: list[Document]
) -> list[Document]:
    """Those of these pending documents, sorted by ``ts``, that any usual worker may have.

    They have been read from the index of states, which does not tell; no document is read here.
    """
    if not pools or not found:
        return found
    match = {
        "pool": {"$in": list(pools)},
        "flag": int(State.PENDING),
        "ts": {"$gte": found[0]["ts"], "$lte": found[-1]["ts"]},
    }
    bound = {one["_id"] for one in requests.find(match, projection=("_id",), hint=BY_POOL)}
    return [one for one in found if one["_id"] not in bound]


def nothing_unbound(
    requests: Collection[Document], pools: Sequence[str] | None, after: datetime, before: datetime
) -> bool:
    """Whether all that is pending between two moments is bound for some pool, as keys tell.

    What waits for a pool may be a million, and none of it is missing from the usual queue: to go
    through the keys is a fraction of the cost of reading it.
    """
    if not pools:
        return False
    span = {"flag": int(State.PENDING), "ts": {"$gt": after, "$lt": before}}
    bound = _count(requests, {"pool": {"$in": list(pools)}, **span}, BY_POOL)
    return bound > 0 and bound >= _count(requests, span, BY_STATE)


def _count(requests: Collection[Document], match: Document, hint: str) -> int:
    answer = requests.database.command("count", requests.name, query=match, hint=hint)
    return int(answer["n"])
