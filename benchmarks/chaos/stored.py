"""Read a run's requests from MongoDB, beside the product: none of its code judges itself."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Any, Final, Self

import msgspec
import pymongo
from pymongo import ReadPreference
from pymongo.collection import Collection
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from benchmarks.chaos.house import BIZ, World
from crawlfleet.kernel.ids import State
from crawlfleet.kernel.mongo.connection import database_name
from crawlfleet.requests.routing import all_shards

#: An election is over by then.
_PATIENCE_MS: Final = 30_000
_LOOK_SECONDS: Final = 0.2


def page_of(document: dict[str, Any]) -> int:
    """The number of the page that a stored request asks for."""
    body: dict[str, Any] = msgspec.msgpack.decode(document["data"])
    return int(body["url"].rpartition("/")[2])


def ends_with(log: Sequence[Mapping[str, Any]], workers: AbstractSet[str]) -> int:
    """Count, in a timeline, how often one of these workers lost the request to others.

    >>> lived = [(State.LEASED, "w1"), (State.PENDING, "w2"), (State.LEASED, "w2")]
    >>> log = [{"flag": flag, "by": by} for flag, by in [*lived, (State.DONE, "w2")]]
    >>> ends_with(log, {"w1", "w2"}), ends_with(log, {"w2"})
    (1, 0)
    """
    pairs = pairwise([*log, {"by": None}])
    return sum(
        line["flag"] == State.LEASED and line["by"] in workers and after["by"] != line["by"]
        for line, after in pairs
    )


class StoredRequests:
    """A run's requests and records. Reads go on while there is no primary.

    Attributes:
        shards: The collections of each shard: that of requests, and that of their records.
    """

    def __init__(self, world: World) -> None:
        self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
            world.mongo, serverSelectionTimeoutMS=_PATIENCE_MS, appname="chaos"
        )
        self.shards: list[tuple[Collection[dict[str, Any]], Collection[dict[str, Any]]]] = []
        for shard in all_shards(world.biz):
            database = self._client.get_database(
                database_name(world.tenant, shard.database),
                read_preference=ReadPreference.PRIMARY_PREFERRED,
                read_concern=ReadConcern("majority"),
            )
            name = f"{BIZ}.{world.biz.collection}_{shard.number:03d}"
            self.shards.append((database[name], database[f"{name}_records"]))
        node = self.shards[0][0].database
        self._items = node[f"{BIZ}.{world.biz.collection}_keyed"]

    def done(self) -> int:
        """Count the requests that are done."""
        return sum(
            collection.count_documents({"flag": int(State.DONE)}) for collection, _ in self.shards
        )

    def leased(self) -> dict[str, int]:
        """Count the requests that each worker owns."""
        held: dict[str, int] = {}
        for found in self._find({"flag": int(State.LEASED)}, ["worker"]):
            held[found["worker"]] = held.get(found["worker"], 0) + 1
        return held

    def owned_by(self, worker: str) -> list[int]:
        """The pages that a worker owns the requests of."""
        query = {"flag": int(State.LEASED), "worker": worker}
        return [page_of(found) for found in self._find(query, ["data"])]

    def undone(self, pages: AbstractSet[int]) -> int:
        """Count these pages' requests that are not done."""
        open_ones = {"flag": {"$ne": int(State.DONE)}}
        return sum(page_of(found) in pages for found in self._find(open_ones, ["data"]))

    def requests(self) -> Iterator[dict[str, Any]]:
        """Every request: its id, state, body and timeline."""
        return self._find({}, ["flag", "log", "data"])

    def records(self) -> Iterator[dict[str, Any]]:
        """Every record."""
        for _, collection in self.shards:
            yield from collection.find({}, ["_id", "url", "fields"])

    def items(self) -> Iterator[str]:
        """The names of all items of the data queue that are stored."""
        for record in self._items.find({}, ["fields"]):
            yield str(record["fields"].get("name"))

    def life_of(self, page: int) -> str:
        """The timeline of a page's request, for whoever looks for the reason of something."""
        for found in self.requests():
            if page_of(found) == page:
                lines = found.get("log", ())
                return "; ".join(
                    f"{line['at']:%H:%M:%S.%f} {State(line['flag']).label} by {line['by']}: "
                    f"{line['why']}"
                    for line in lines
                )
        return "unknown"

    def ended_in(self, workers: AbstractSet[str], pages: AbstractSet[int]) -> Counter[int]:
        """Count how often requests of these pages were owned by one of these and not finished."""
        return Counter(
            {
                page: ends_with(found.get("log", ()), workers)
                for found in self.requests()
                if (page := page_of(found)) in pages
            }
        )

    def drop(self) -> None:
        """Remove the run's databases, after an election if one is going on.

        The driver repeats no command that drops; dropping once more does no harm.
        """
        end = time.monotonic() + _PATIENCE_MS / 1000
        for name in {collection.database.name for collection, _ in self.shards}:
            while True:
                try:
                    self._client.drop_database(name)
                    break
                except PyMongoError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(_LOOK_SECONDS)

    def _find(self, query: dict[str, Any], fields: list[str]) -> Iterator[dict[str, Any]]:
        for collection, _ in self.shards:
            yield from collection.find(query, fields)

    def __enter__(self) -> Self:
        """Nothing is opened before the first look."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._client.close()
