"""The health of Redis and the MongoDB nodes (SPEC.md A11): whether they answer, and figures."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from crawlfleet.kernel import metric_names
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.mongo.connection import MongoNodes, border
from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.kernel.time import round_trip
from crawlfleet.monitoring.models import Figures, number
from crawlfleet.requests.queue.stats import NodeHealth

if TYPE_CHECKING:
    from redis import Redis


log = logging.getLogger(__name__)

#: How long a node may take for a ping: the others are waiting too.
PING_SECONDS: Final = 2.0
#: Entries of the slow log that are read; it keeps 128 by default.
SLOW_LOG: Final = 128
#: Age in seconds up to which a slow command counts.
RECENT_SECONDS: Final = 60
#: Figures of one INFO, whole or missing together.
_OF_INFO: Final = (
    metric_names.MEMORY_BYTES,
    metric_names.MEMORY_RATIO,
    metric_names.CONNECTIONS,
    metric_names.CONNECTIONS_RATIO,
    metric_names.EVICTED_KEYS,
    metric_names.OPERATIONS,
    metric_names.REPLICAS,
    metric_names.LINK_DOWN,
)


@dataclass(frozen=True, slots=True)
class PartHealth:
    """The health of the stage's Redis and its MongoDB nodes.

    The router only asks whether they answer: what reads MongoDB's figures is imported where used.
    """

    redis: RedisConnection
    nodes: MongoNodes
    names: Callable[[], tuple[str, ...]]

    def read(self) -> Iterator[NodeHealth]:
        """Check each part, one after the other."""
        for check in self.checks().values():
            yield check()

    def checks(self) -> dict[tuple[str, str], Callable[[], NodeHealth]]:
        """Return one check by part and node; they may run at the same time.

        None raises: a part that is down has an entry that says so. Each ends within ten seconds.
        """
        found = {
            ("redis", name): partial(_check, "redis", name, figures)
            for name, figures in self._redis_checks().items()
        }
        for node in self._nodes_known():
            figures = partial(self._node_figures, node)
            found["mongodb", node] = partial(_check, "mongodb", node, figures)
        return dict(found)

    def answers(self) -> dict[str, str]:
        """Return ``ok`` or not, by part; quick enough for a health check.

        Anybody may ask that, so the reason, which names addresses, goes to the log.
        """
        found = {"redis": _state("redis", self.redis.ping)}
        for node in self.names():
            found[f"mongodb:{node}"] = _state(f"mongodb:{node}", partial(self._ping, node))
        return found

    def _nodes_known(self) -> tuple[str, ...]:
        try:
            return self.names()
        except CrawlfleetError:  # no configuration yet: nobody knows of nodes, Redis there may be
            return ()

    def _redis_checks(self) -> dict[str, Callable[[], Figures]]:
        """Return a check of each server that has keys; a single one is called ``redis``."""
        try:
            nodes = self.redis.nodes()
        except CrawlfleetError as error:
            return {"redis": partial(_raise, error)}
        if len(nodes) == 1:
            return {"redis": partial(redis_figures, self.redis, nodes[0][1])}
        return {name: partial(redis_figures, self.redis, client) for name, client in nodes}

    def _ping(self, node: str) -> None:
        with border(PING_SECONDS):
            self.nodes.client(node).admin.command("ping")

    def _node_figures(self, node: str) -> Figures:
        from crawlfleet.monitoring import mongo as mongo_figures

        return mongo_figures.mongo_figures(self.nodes.client(node))


def _check(part: str, name: str, ask: Callable[[], Figures]) -> NodeHealth:
    try:
        figures = ask()
    except CrawlfleetError as error:
        return NodeHealth(part=part, name=name, up=False, error=str(error))
    known, unread = figures.found, tuple(sorted(figures.unread))
    missing = figures.missing
    return NodeHealth(part=part, name=name, up=True, figures=known, missing=missing, unread=unread)


def _raise(error: CrawlfleetError) -> Figures:
    raise error


def _state(part: str, ask: Callable[[], object]) -> str:
    try:
        ask()
    except CrawlfleetError as error:
        log.warning("a part is not well", extra={"part": part, "reason": str(error)})
        return "does not answer" if error.retryable else "is not set up"
    return "ok"


def redis_figures(redis: RedisConnection, client: "Redis") -> Figures:
    """Read the figures of a server that answers; ``client`` is one of ``redis.nodes()``.

    Raises:
        StoreUnavailableError: it does not answer a PING.
    """
    figures = Figures()
    with redis.translated():
        figures.put(metric_names.LATENCY, round_trip(client.ping))
    figures.ask(_OF_INFO, lambda: read_info(figures, _info(redis, client)))
    figures.ask((metric_names.SLOW_OPERATIONS,), lambda: _slow(figures, redis, client))
    return figures


def read_info(figures: Figures, info: dict[str, Any]) -> None:
    """Read the figures of an INFO. Without ``maxmemory`` the limit is the machine's memory."""
    used = number(info, "used_memory")
    figures.put(metric_names.MEMORY_BYTES, used)
    limit = number(info, "maxmemory") or number(info, "total_system_memory")
    figures.share(metric_names.MEMORY_RATIO, used, limit)
    clients = number(info, "connected_clients")
    figures.put(metric_names.CONNECTIONS, clients)
    figures.share(metric_names.CONNECTIONS_RATIO, clients, number(info, "maxclients"))
    figures.put(metric_names.EVICTED_KEYS, number(info, "evicted_keys"))
    figures.put(metric_names.OPERATIONS, number(info, "instantaneous_ops_per_sec"))
    figures.put(metric_names.REPLICAS, number(info, "connected_slaves"))
    replica = number(info, "role") in {"slave", "replica"}
    down = replica and number(info, "master_link_status") != "up"
    figures.put(metric_names.LINK_DOWN, int(down))


def _info(redis: RedisConnection, client: "Redis") -> dict[str, Any]:
    with redis.translated():
        return dict(client.info())


def _slow(figures: Figures, redis: RedisConnection, client: "Redis") -> None:
    """Count commands that the slow log got within the last minute, by the server's clock."""
    with redis.translated():
        entries = client.slowlog_get(SLOW_LOG)
        now, _ = client.time()
    recent = [entry for entry in entries if now - entry["start_time"] <= RECENT_SECONDS]
    figures.put(metric_names.SLOW_OPERATIONS, len(recent))
