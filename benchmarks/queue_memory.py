"""Measure the memory of a queued request in Redis."""

from typing import Final

import redis

from benchmarks.bench import Bench, BenchError, Found
from benchmarks.house import BIZ, QUEUE_KEY, BenchParts, tree_of
from crawlfleet.apps.context import now
from crawlfleet.kernel.ids import IdKind
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.models import Entry

BATCH: Final = 1_000


def run(bench: Bench) -> Found:
    """Queue many requests, by their true ids, and measure how much Redis grows."""
    bench.addresses.clear()
    parts = BenchParts(bench.addresses, tree_of(), "router")
    with redis.Redis.from_url(bench.addresses.redis) as client:
        parts.queue.enqueue(QUEUE_KEY, _entries(parts, 1), now())
        before = int(client.info("memory")["used_memory"])
        for _ in range(0, bench.scale.queue_entries, BATCH):
            parts.queue.enqueue(QUEUE_KEY, _entries(parts, BATCH), now())
        grown = int(client.info("memory")["used_memory"]) - before
    queued = parts.queue.depth(QUEUE_KEY).queued - 1
    parts.nodes.close()
    parts.redis.close()
    if queued != bench.scale.queue_entries:
        raise BenchError(f"{queued} entries are queued")
    bench.tick("queue memory")
    return Found(
        figures={"redis_bytes_per_request": grown / queued},
        details={"queue": {"entries": queued, "bytes": grown}},
    )


def _entries(parts: BenchParts, count: int) -> list[Entry]:
    at = to_ms(now())
    return [Entry(an_id, BIZ, at) for an_id in parts.ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, count)]
