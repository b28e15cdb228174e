"""Sample what the servers hold and use while the run goes on."""

import os
import shutil
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import pymongo
import redis

from benchmarks.bench import BenchError
from benchmarks.house import BIZ, QUEUE_KEY, TENANT
from benchmarks.routing import Router
from benchmarks.volume.checks import collections
from benchmarks.volume.plan import Task
from benchmarks.workers import machine_cpu
from crawlfleet.apps.context import now

#: With less than this left on the disk the run ends: MongoDB would.
DISK_LEAST_BYTES: Final = 1_000_000_000
_SECTOR_BYTES: Final = 512


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """A sample of a run. ``left`` is how many requests MongoDB holds, whatever their state."""

    seconds: float
    phase: str
    submitted: int
    done: int
    left: int
    redis_bytes: int
    redis_rss_bytes: int
    mongo_rss_bytes: int
    mongo_cache_bytes: int
    disk_bytes: int


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """CPU seconds so far. ``machine`` is everything that runs on it."""

    at: float
    mongodb: float
    redis: float
    machine: float


class Meters:
    """Looks at the run's servers."""

    def __init__(self, task: Task, folder: Path, router: Router) -> None:
        self._folder = folder
        self._router = router
        self._redis = redis.Redis.from_url(task.redis)
        self._mongo = pymongo.MongoClient[dict[str, Any]](task.mongo)
        self._started = time.monotonic()
        self._biz = router.parts.config.current().bizs[TENANT][BIZ]
        self.looks: list[Look] = []

    @property
    def mongo(self) -> pymongo.MongoClient[dict[str, Any]]:
        """A client for whoever looks closer."""
        return self._mongo

    def close(self) -> None:
        """Close both."""
        self._redis.close()
        self._mongo.close()

    def look(self, phase: str) -> Look:
        """Look now, and remember it.

        Raises:
            BenchError: the disk is nearly full.
        """
        ledger = self._router.parts.ledgers.totals(QUEUE_KEY, self._biz, now())
        memory: dict[str, Any] = self._redis.info("memory")
        status = self._mongo.admin.command("serverStatus")
        found = Look(
            seconds=time.monotonic() - self._started,
            phase=phase,
            submitted=ledger.submitted,
            done=ledger.done,
            left=sum(c.estimated_document_count() for c in collections(self._mongo, "requests")),
            redis_bytes=int(memory["used_memory"]),
            redis_rss_bytes=int(memory["used_memory_rss"]),
            mongo_rss_bytes=int(status["mem"]["resident"]) * 1_048_576,
            mongo_cache_bytes=int(status["wiredTiger"]["cache"]["bytes currently in the cache"]),
            disk_bytes=disk_bytes(self._folder),
        )
        self.looks.append(found)
        free = shutil.disk_usage(self._folder).free
        if free < DISK_LEAST_BYTES:
            raise BenchError(f"{free / 1e9:.1f} GB are left on the disk: the run is given up")
        return found

    def used(self) -> Used:
        """The CPU seconds of each server."""
        cpu: dict[str, Any] = self._redis.info("cpu")
        extra = self._mongo.admin.command("serverStatus")["extra_info"]
        return Used(
            at=time.monotonic(),
            mongodb=(extra["user_time_us"] + extra["system_time_us"]) / 1e6,
            redis=float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"]),
            machine=machine_cpu(),
        )

    def sizes(self) -> dict[str, int]:
        """Get the size of each collection and of its indexes on disk, in bytes."""
        found: dict[str, int] = {}
        for part in ("requests", "records"):
            for collection in collections(self._mongo, part):
                stats = collection.database.command("collStats", collection.name)
                found[part] = found.get(part, 0) + int(stats["storageSize"])
                for name, size in stats["indexSizes"].items():
                    key = f"{part}, index {name}"
                    found[key] = found.get(key, 0) + int(size)
        return found


def disk_bytes(folder: Path) -> int:
    """Sum the files in a folder; those that go meanwhile count nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(Path(place, name)).st_blocks * _SECTOR_BYTES
            except FileNotFoundError:
                continue
    return total
