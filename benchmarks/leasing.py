"""Measure leasing from a queue with priorities, beside the script that knew none.

The queue is kept at its length: what is leased is replaced, which is not timed.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha1
from importlib.resources import files
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.bench import Bench, BenchError, Found
from benchmarks.house import BIZ, QUEUE_KEY
from benchmarks.scale import Scale
from crawlfleet.apps.context import now
from crawlfleet.kernel.queue_key import LEVELS, Ageing
from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.models import Entry
from crawlfleet.requests.queue.redis.keys import redis_keys
from crawlfleet.requests.queue.redis.queue import RedisQueue, read_canonical
from crawlfleet.requests.queue.redis.recovery import RedisQueueRebuild

BATCH: Final = 100
ROUNDS: Final = 300
_TERM: Final = timedelta(hours=1)
_FIRST_ID: Final = 2**62
_BEFORE: Final = Path(__file__).with_name("lease_before.lua")

#: What is queued: of which priorities, and how far apart they were submitted.
KINDS: Final[dict[str, tuple[int, timedelta]]] = {
    "as before": (1, timedelta()),
    "one priority": (1, timedelta()),
    "eleven priorities, new": (LEVELS, timedelta()),
    "eleven priorities, aged": (LEVELS, timedelta(hours=8)),
}


def lengths(scale: Scale) -> tuple[int, ...]:
    """Get the lengths of the queues."""
    return tuple(sorted({1_000, scale.queue_entries, scale.stored_requests}))


def run(bench: Bench) -> Found:
    """Lease from queues of each kind and length."""
    table: dict[str, dict[str, float]] = {}
    for kind, (levels, spread) in KINDS.items():
        row = table[kind] = {}
        for length in lengths(bench.scale):
            bench.addresses.clear()
            with RedisConnection(bench.addresses.redis) as connection:
                queue = _Queue(connection, levels, spread)
                lease = queue.lease_before if kind == "as before" else queue.lease
                row[f"{length:,} entries, ms"] = queue.measure(length, lease) * 1e3
            bench.tick(kind)
    bench.addresses.clear()
    plain, mixed = (list(table[name].values()) for name in ("as before", "eleven priorities, aged"))
    return Found(
        figures={"lease_vs_fifo": mixed[-1] / plain[-1], "lease_growth": mixed[-1] / mixed[0]},
        details={"leasing": {"entries a lease": BATCH, "leases": ROUNDS, **table}},
    )


class _Queue:
    """A queue that is kept at its length."""

    def __init__(self, connection: RedisConnection, levels: int, spread: timedelta) -> None:
        self._connection = connection
        self._queue = RedisQueue(connection)
        self._numbers = count()
        self._levels = levels
        self._spread = spread
        self._before = _before()

    def measure(self, length: int, lease: Callable[[str, datetime], list[Entry] | int]) -> float:
        """Seconds that leasing a batch takes, in the middle."""
        rebuild = RedisQueueRebuild(self._connection)
        rebuild.clear(QUEUE_KEY, "n")
        for done in range(0, length, 1_000):
            ages = self._spread * (1 - done / length)
            rebuild.fill(QUEUE_KEY, "n", self._entries(1_000, now() - ages), done)
        took = []
        for number in range(ROUNDS):
            at = now()
            started = time.perf_counter()
            found = lease(f"w.n.{number}", at)
            took.append(time.perf_counter() - started)
            many = found if isinstance(found, int) else len(found)
            if many != BATCH:
                raise BenchError(f"{many} entries were leased")
            self._connection.client.delete(redis_keys(QUEUE_KEY).leases)
            self._queue.enqueue(QUEUE_KEY, self._entries(BATCH, at), at)
        return median(took)

    def lease(self, token: str, at: datetime) -> list[Entry]:
        """Lease a batch as the product does."""
        return self._queue.lease(QUEUE_KEY, token, BATCH, at, at + _TERM, Ageing())

    def lease_before(self, token: str, at: datetime) -> int:
        """Lease a batch as before there were priorities; the answer is read alike."""
        keys = redis_keys(QUEUE_KEY)
        found = self._connection.once(
            self._before,
            (keys.queue, keys.delayed, keys.leases),
            *(token, BATCH, to_ms(at), to_ms(at + _TERM)),
        )
        return len(self._read(found))

    @staticmethod
    def _read(found: object) -> list[Entry]:
        return read_canonical(found if isinstance(found, bytes) else b"") or []

    def _entries(self, many: int, at: datetime) -> list[Entry]:
        numbers = (next(self._numbers) for _ in range(many))
        return [
            Entry(_FIRST_ID + n, BIZ, to_ms(at), 5 if self._levels == 1 else n % self._levels)
            for n in numbers
        ]


def _before() -> Script:
    """Load that script, with the prelude of its time."""
    script = Script("requests/queue/redis/lease")
    prelude = files("crawlfleet").joinpath("kernel", "redis", "lua", "prelude.lua")
    script.source = prelude.read_bytes() + _BEFORE.read_bytes()
    script.digest = sha1(script.source, usedforsecurity=False).hexdigest()
    return script
