"""Requests changed by their ids, with the ledger's counters: one transaction a node."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from pymongo.client_session import ClientSession

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.mongo.connection import border
from crawlfleet.kernel.mongo.transactions import TRANSACTION_SECONDS, in_transaction
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.mongo.documents import Tally, book
from crawlfleet.requests.mongo.sharding import ByShard, Shards, all_of, on_nodes
from crawlfleet.requests.routing import Shard, candidates

R = TypeVar("R")


def in_transactions(
    shards: Shards,
    queue_key: QueueKey,
    biz: Biz,
    nodes: Mapping[str, ByShard[RequestId]],
    now: datetime,
    change: Callable[[ClientSession, Shard, Sequence[RequestId], Tally], list[R]],
) -> list[R]:
    """Change the requests of each shard and their counters, in one transaction a node.

    Raises:
        StoreUnavailableError: a node did not answer; what the others did stands.
    """

    def change_on(_: str, parts: ByShard[RequestId]) -> list[R]:
        def write(session: ClientSession) -> list[R]:
            done: list[R] = []
            tallies: dict[str, tuple[Shard, Tally]] = {}
            for shard, part in parts.items():
                _, tally = tallies.setdefault(shard.database, (shard, Counter()))
                done += change(session, shard, part, tally)
            for shard, tally in tallies.values():
                if tally:
                    book(shards.counts(queue_key, biz, shard), tally, now, session)
            return done

        with border(TRANSACTION_SECONDS):
            for shard in parts:
                shards.counts(queue_key, biz, shard, made_sure=True)
            return in_transaction(shards.client(next(iter(parts))), write)

    done = all_of(on_nodes(dict(nodes), change_on))
    return [one for part in done for one in part]


def likeliest_first(
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
