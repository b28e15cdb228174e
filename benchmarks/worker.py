"""The consumer in a process of its own: it works until idle, then prints what that took.

``python -m benchmarks.worker [NAME]``, with the tree in ``BENCH_TREE``, or in the file that
``BENCH_TREE_FILE`` names, and the servers in ``BENCH_REDIS`` and ``BENCH_MONGO``. One that has a
name says that it is ready, and begins when it gets a line: so several begin at once.
"""

import os
import sys
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.bench import Addresses
from benchmarks.house import BenchParts
from benchmarks.usage import Started, cpu_seconds, peak_kb, report
from crawlfleet.apps.consumer import Consumer
from crawlfleet.apps.process import keep_memory
from crawlfleet.config.documents.biz import Tree
from crawlfleet.worker import affinity

#: A tree of many bizs is longer than a variable may be.
ENV_TREE_FILE: Final = "BENCH_TREE_FILE"
#: What Lambda would say of the time left: never too little here.
REMAINING_SECONDS: Final = 900.0
#: What a worker with a name says before it begins.
READY: Final = "ready"
#: Set, every host is anybody's, as among too many workers to share them out.
ENV_UNPLACED: Final = "BENCH_UNPLACED"


def main() -> None:
    file = os.environ.get(ENV_TREE_FILE)
    tree = msgspec.json.decode(
        os.environ["BENCH_TREE"] if file is None else Path(file).read_bytes(), type=Tree
    )
    addresses = Addresses(redis=os.environ["BENCH_REDIS"], mongo=os.environ["BENCH_MONGO"])
    parts = BenchParts(addresses, tree, "consumer")
    consumer = Consumer(parts)
    keep_memory()
    if os.environ.get(ENV_UNPLACED):
        affinity.MOST_WORKERS = 0  # type: ignore[misc]  # what is measured without
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name:
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        sys.stdin.readline()
    started = cpu_seconds()
    with Started() as others:
        done = consumer.work(name or "bench", lambda: REMAINING_SECONDS)
    seconds = float(str(done["seconds"])) - tree.stage.fleet.idle_seconds
    pages = int(str(done["done"]))
    # Of processes only those count that have ended: the spawner takes its readers' with it.
    consumer.close()
    working = cpu_seconds() - started
    facts = {"working_cpu": working, "peak_mb": (peak_kb() + others.peak_kb) // 1024}
    sys.stdout.write(report(pages=pages, seconds=seconds, more=done, **facts) + "\n")


if __name__ == "__main__":
    main()
