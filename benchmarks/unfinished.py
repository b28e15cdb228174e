"""Find the requests that a run has left unfinished, and where each of them is.

Read beside the product, as whoever wants to know what it has lost cannot ask it. MongoDB says
what is open; Redis is seen in one moment. What is open in the one and nowhere in the other nobody
will do before recovery finds it, so it is looked at twice.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pymongo
import redis

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import FINAL_STATES, RequestId, State
from crawlfleet.kernel.mongo.connection import database_name
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.redis.connection import text
from crawlfleet.kernel.redis.server import fleet_keys
from crawlfleet.requests.queue.redis.keys import host_list, level_keys, redis_keys
from crawlfleet.requests.queue.redis.queue import read
from crawlfleet.requests.routing import all_shards
from crawlfleet.requests.tokens import worker_of

#: Requests of each state and place that are listed with all that happened to them.
LIVES: Final = 3
#: Requests that are not final are looked at up to this number.
MOST: Final = 100_000
#: A server that does not answer by then has nothing to say.
_PATIENCE_SECONDS: Final = 10.0


class Lease(NamedTuple):
    """A lease's worker and its seconds to go; below 0 it has ended."""

    worker: str
    seconds: float


class Index(NamedTuple):
    """A queue's entries in Redis, by the id of the request, and who has beaten how long ago."""

    queued: Counter[RequestId]
    deferred: Counter[RequestId]
    delayed: dict[RequestId, float]
    leases: dict[RequestId, list[Lease]]
    beats: dict[str, float]

    def place_of(self, an_id: RequestId) -> str:
        """Describe where a request is."""
        places = [
            *(["queued"] if self.queued[an_id] else []),
            *(["waits for its host"] if self.deferred[an_id] else []),
            *(["delayed"] if an_id in self.delayed else []),
            *(self._reported(lease) for lease in self.leases.get(an_id, ())),
        ]
        return " and ".join(places) or "NOWHERE in Redis"

    def _reported(self, lease: Lease) -> str:
        state = "ended" if lease.seconds < 0 else "held"
        known = "beats" if lease.worker in self.beats else "unknown"
        return f"leased to {lease.worker} ({known}), {state}"


def unfinished(mongo_uri: str, redis_url: str, queue_key: QueueKey, biz: Biz) -> str:
    """States by number, what is open by state and place, some lives, leases by owner, who beats.

    A server that does not answer is listed as that.
    """
    try:
        return _reported(mongo_uri, redis_url, queue_key, biz)
    except (pymongo.errors.PyMongoError, redis.RedisError) as error:
        return f"what is left is unknown: {type(error).__name__}: {error}"


def _reported(mongo_uri: str, redis_url: str, queue_key: QueueKey, biz: Biz) -> str:
    milliseconds = int(_PATIENCE_SECONDS * 1_000)
    with (
        pymongo.MongoClient[dict[str, Any]](
            mongo_uri,
            serverSelectionTimeoutMS=milliseconds,
            socketTimeoutMS=milliseconds,
            tz_aware=True,
        ) as mongo,
        redis.Redis.from_url(redis_url, socket_timeout=_PATIENCE_SECONDS) as client,
    ):
        states = states_of(mongo, queue_key, biz)
        before = {found["_id"]: found for found in _open(mongo, queue_key, biz)}
        index = index_of(client, queue_key)
        # What was on its way between the two looks is somewhere else by now.
        missing = [an_id for an_id in before if index.place_of(an_id).startswith("NOWHERE")]
        after = {found["_id"]: found for found in _open(mongo, queue_key, biz, missing)}
        still = [
            found
            for an_id, found in before.items()
            if an_id not in missing or after.get(an_id, {}).get("flag") == found["flag"]
        ]
    return "\n".join(lines_of(states, still, index, datetime.now(UTC)))


def states_of(
    mongo: "pymongo.MongoClient[dict[str, Any]]", queue_key: QueueKey, biz: Biz
) -> Counter[int]:
    """Count the requests in MongoDB by state."""
    states: Counter[int] = Counter()
    for collection in _collections(mongo, queue_key, biz):
        for found in collection.aggregate([{"$group": {"_id": "$flag", "n": {"$sum": 1}}}]):
            states[found["_id"]] += found["n"]
    return states


def index_of(client: redis.Redis, queue_key: QueueKey) -> Index:
    """Read the queue's entries, all in one moment."""
    keys, fleet = redis_keys(queue_key), fleet_keys()
    places = [text(name).decode() for name in client.hkeys(keys.parked) if name != b"*"]
    with client.pipeline(transaction=True) as pipe:
        pipe.time()
        pipe.zrange(keys.leases, 0, -1, withscores=True)
        pipe.zrange(keys.delayed, 0, -1, withscores=True)
        pipe.zrange(fleet.pulses, 0, -1, withscores=True)
        for key in (*level_keys(queue_key), *(host_list(queue_key, place) for place in places)):
            pipe.lrange(key, 0, -1)
        (seconds, micros), leases, delayed, heartbeats, *lists = pipe.execute()
    now = seconds + micros / 1e6
    levels = len(level_keys(queue_key))
    held: dict[RequestId, list[Lease]] = defaultdict(list)
    for member, ends in leases:
        token, _, rest = member.partition(b":{")
        held[_id_of(b"{" + rest)].append(Lease(worker_of(token.decode()), ends / 1e3 - now))
    return Index(
        queued=Counter(_id_of(entry) for found in lists[:levels] for entry in found),
        deferred=Counter(_id_of(entry) for found in lists[levels:] for entry in found),
        delayed={_id_of(entry): due / 1e3 - now for entry, due in delayed},
        leases=dict(held),
        beats={name.decode(): now - at / 1e3 for name, at in heartbeats},
    )


def lines_of(
    states: Mapping[int, int],
    still: Sequence[Mapping[str, Any]],
    index: Index,
    now: datetime,
) -> Iterator[str]:
    """Format the findings, a line each; ``still`` are the open requests as MongoDB has them."""
    reported = ", ".join(f"{count} {State(flag).label}" for flag, count in sorted(states.items()))
    yield f"in MongoDB: {reported or 'nothing'}"
    leases = [lease for held in index.leases.values() for lease in held]
    yield (
        f"in Redis: {index.queued.total()} queued, {index.deferred.total()} that wait for hosts, "
        f"{len(leases)} leased, of which {sum(one.seconds < 0 for one in leases)} have ended, "
        f"{len(index.delayed)} delayed"
    )
    for worker in sorted({lease.worker for lease in leases} | index.beats.keys()):
        ends = [lease.seconds for lease in leases if lease.worker == worker]
        beat = index.beats.get(worker)
        silent = "has left" if beat is None else f"beat {beat:.1f} s ago"
        span = f", for {min(ends):.1f} to {max(ends):.1f} s more" if ends else ""
        yield f"worker {worker}, which {silent}, holds {len(ends)}{span}"
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for found in still:
        groups[State(found["flag"]).label, index.place_of(found["_id"])].append(found)
    for (state, place), members in sorted(groups.items()):
        yield f"{len(members)} {state}, {place}; of these:"
        for found in members[:LIVES]:
            yield f"  {found['_id']}: {_life(found, now)}"


def _life(found: Mapping[str, Any], now: datetime) -> str:
    due = found.get("due")
    left = "" if due is None else f"due in {(due - now).total_seconds():.1f} s; "
    return left + "; ".join(
        f"{(now - line['at']).total_seconds():.1f} s ago {State(line['flag']).label} by "
        f"{line['by']}: {line['why']}"
        for line in found.get("log", ())
    )


def _collections(
    mongo: "pymongo.MongoClient[dict[str, Any]]", queue_key: QueueKey, biz: Biz
) -> Iterator[pymongo.collection.Collection[dict[str, Any]]]:
    for shard in all_shards(biz):
        database = mongo[database_name(queue_key.tenant, shard.database)]
        yield database[f"{queue_key.biz}.{biz.collection}_{shard.number:03d}"]


def _open(
    mongo: "pymongo.MongoClient[dict[str, Any]]",
    queue_key: QueueKey,
    biz: Biz,
    ids: Sequence[RequestId] | None = None,
) -> Iterator[dict[str, Any]]:
    query: dict[str, Any] = {"flag": {"$nin": [int(state) for state in FINAL_STATES]}}
    if ids is not None:
        query["_id"] = {"$in": list(ids)}
    for collection in _collections(mongo, queue_key, biz):
        yield from collection.find(query, ["flag", "due", "log"], limit=MOST)


def _id_of(entry: bytes) -> RequestId:
    return read(entry).id
