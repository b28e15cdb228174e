"""The work of every crawling side: addresses of pages in, items in batches of 100 out."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pymongo

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.usage import report

REDIS = os.environ["BENCH_REDIS"]
BATCH = 100


def urls() -> list[str]:
    found: list[str] = json.loads(Path(os.environ["BENCH_URLS"]).read_text())
    return found


class Items:
    """Items on their way to MongoDB."""

    def __init__(self) -> None:
        client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(os.environ["BENCH_MONGO"])
        self._stored = client.bench_items.items
        self._waiting: list[dict[str, Any]] = []
        self._started = time.perf_counter()
        self._pages = 0
        self._last = self._started

    def put(self, item: dict[str, Any]) -> None:
        self._waiting.append(item)
        self._pages += 1
        self._last = time.perf_counter()
        if len(self._waiting) >= BATCH:
            self._flush()

    def end(self) -> None:
        """Store the rest and say what this process took."""
        self._flush()
        print(report(pages=self._pages, seconds=self._last - self._started), flush=True)

    def _flush(self) -> None:
        if self._waiting:
            self._stored.insert_many(self._waiting)
            self._waiting = []
