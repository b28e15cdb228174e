"""Looking at Redis and the MongoDB nodes (SPEC.md A11): figures, and whether they answer at all."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from crawlfleet.adapters.mongo.connection import MongoNodes, border
from crawlfleet.adapters.redis_queue.connection import RedisConnection
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.totals import NodeHealth

log = logging.getLogger(__name__)

#: How long a node may take for a ping, and for its figures: the others are waiting too.
PING_SECONDS: Final = 2.0
FIGURES_SECONDS: Final = 5.0
#: An operation that runs for longer than this is slow.
SLOW_SECONDS: Final = 1
#: Replica set members' states that are as they should be: primary, secondary, arbiter.
_WELL: Final = frozenset({1, 2, 7})


class PartHealth:
    """ports.Health over one Redis and the stage's nodes."""

    def __init__(
        self, redis: RedisConnection, nodes: MongoNodes, names: Callable[[], tuple[str, ...]]
    ) -> None:
        self._redis = redis
        self._nodes = nodes
        self._names = names

    def look(self) -> Iterator[NodeHealth]:
        """See ports.Health.look."""
        yield self._look("redis", "redis", self._redis_figures)
        for node in self._names():
            yield self._look("mongodb", node, partial(self._node_figures, node))

    def answers(self) -> dict[str, str]:
        """``ok`` or not, by part; quick enough for a health check.

        Anybody may ask that, so the reason, which names addresses, goes to the log.
        """
        found = {"redis": _state("redis", lambda: self._redis.together(("PING",)))}
        for node in self._names():
            found[f"mongodb:{node}"] = _state(f"mongodb:{node}", partial(self._ping, node))
        return found

    @staticmethod
    def _look(part: str, name: str, figures: Callable[[], dict[str, float]]) -> NodeHealth:
        try:
            return NodeHealth(part=part, name=name, up=True, figures=figures())
        except CrawlfleetError as error:
            return NodeHealth(part=part, name=name, up=False, error=str(error))

    def _redis_figures(self) -> dict[str, float]:
        with self._redis.translated():
            info: dict[str, Any] = dict(self._redis.client.info())
        limit = float(info.get("maxmemory") or info.get("total_system_memory") or 0)
        used = float(info["used_memory"])
        return {
            "MemoryBytes": used,
            "MemoryRatio": used / limit if limit else 0.0,
            "Connections": float(info.get("connected_clients", 0)),
            "OperationsPerSecond": float(info.get("instantaneous_ops_per_sec", 0)),
            "EvictedKeys": float(info.get("evicted_keys", 0)),
            "Replicas": float(info.get("connected_slaves", 0)),
        }

    def _ping(self, node: str) -> None:
        with border(PING_SECONDS):
            self._nodes.client(node).admin.command("ping")

    def _node_figures(self, node: str) -> dict[str, float]:
        with border(FIGURES_SECONDS):
            admin = self._nodes.client(node).admin
            server = admin.command("serverStatus")
            databases = admin.command("listDatabases", nameOnly=False)
            members = admin.command("replSetGetStatus")["members"]
            slow = list(
                admin.aggregate(
                    [
                        {"$currentOp": {"allUsers": True, "idleConnections": False}},
                        {"$match": {"secs_running": {"$gte": SLOW_SECONDS}, "ns": {"$ne": ""}}},
                        {
                            "$match": {
                                "op": {"$in": ["query", "insert", "update", "remove", "command"]}
                            }
                        },
                        {"$match": {"ns": {"$regex": "^cf_"}}},
                        {"$count": "n"},
                    ]
                )
            )
        cache = server.get("wiredTiger", {}).get("cache", {})
        limit = float(cache.get("maximum bytes configured", 0))
        used = float(cache.get("bytes currently in the cache", 0))
        return {
            "StorageBytes": float(databases["totalSize"]),
            "MemoryBytes": float(server["mem"]["resident"]) * 1024 * 1024,
            "CacheRatio": used / limit if limit else 0.0,
            "Connections": float(server["connections"]["current"]),
            "SlowOperations": float(slow[0]["n"]) if slow else 0.0,
            "Members": float(len(members)),
            "MembersUnwell": float(sum(member["state"] not in _WELL for member in members)),
        }


def _state(part: str, look: Callable[[], object]) -> str:
    try:
        look()
    except CrawlfleetError as error:
        log.warning("a part is not well", extra={"part": part, "reason": str(error)})
        return "does not answer" if error.retryable else "is not set up"
    return "ok"
