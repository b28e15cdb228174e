"""What Redis says of itself (SPEC.md A11): memory, clients, evictions, latency, its replicas."""

import time
from typing import Any, Final

from redis import Redis

from crawlfleet.kernel import metric_names as metrics
from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.monitoring.store_figures import Figures, number

#: Round trips that are measured, an odd number: one that waited does not move their median.
PINGS: Final = 5
#: Entries of the slow log that are looked at; it keeps 128 unless told otherwise.
SLOW_LOG: Final = 128
#: What is slow now, not what once was.
RECENT_SECONDS: Final = 60

#: Figures of one INFO, whole or missing together.
_REPORTED: Final = (
    metrics.MEMORY_BYTES,
    metrics.MEMORY_RATIO,
    metrics.CONNECTIONS,
    metrics.CONNECTIONS_RATIO,
    metrics.EVICTED_KEYS,
    metrics.OPERATIONS,
    metrics.REPLICAS,
    metrics.LINK_DOWN,
)


def look(redis: RedisConnection, client: Redis) -> Figures:
    """The figures of a server that answers; ``client`` is one of ``redis.nodes()``.

    Raises:
        StoreUnavailableError: it does not answer a PING.
    """
    figures = Figures()
    figures.put(metrics.LATENCY, _latency(redis, client))
    figures.ask(_REPORTED, lambda: read_info(figures, _info(redis, client)))
    figures.ask((metrics.SLOW_OPERATIONS,), lambda: _slow(figures, redis, client))
    return figures


def read_info(figures: Figures, info: dict[str, Any]) -> None:
    """Figures of an INFO. Without ``maxmemory`` the limit is the machine's memory."""
    used = number(info, "used_memory")
    figures.put(metrics.MEMORY_BYTES, used)
    limit = number(info, "maxmemory") or number(info, "total_system_memory")
    figures.share(metrics.MEMORY_RATIO, used, limit)
    clients = number(info, "connected_clients")
    figures.put(metrics.CONNECTIONS, clients)
    figures.share(metrics.CONNECTIONS_RATIO, clients, number(info, "maxclients"))
    figures.put(metrics.EVICTED_KEYS, number(info, "evicted_keys"))
    figures.put(metrics.OPERATIONS, number(info, "instantaneous_ops_per_sec"))
    figures.put(metrics.REPLICAS, number(info, "connected_slaves"))
    replica = number(info, "role") in {"slave", "replica"}
    down = replica and number(info, "master_link_status") != "up"
    figures.put(metrics.LINK_DOWN, int(down))


def _latency(redis: RedisConnection, client: Redis) -> float:
    """Seconds there and back; the first one may open a connection and does not count."""
    took = []
    with redis.translated():
        for _ in range(PINGS + 1):
            began = time.perf_counter()
            client.ping()
            took.append(time.perf_counter() - began)
    return sorted(took[1:])[PINGS // 2]


def _info(redis: RedisConnection, client: Redis) -> dict[str, Any]:
    with redis.translated():
        return dict(client.info())


def _slow(figures: Figures, redis: RedisConnection, client: Redis) -> None:
    """Commands that the slow log got within the last minute, by the server's clock."""
    with redis.translated():
        entries = client.slowlog_get(SLOW_LOG)
        now, _ = client.time()
    recent = [entry for entry in entries if now - entry["start_time"] <= RECENT_SECONDS]
    figures.put(metrics.SLOW_OPERATIONS, len(recent))
