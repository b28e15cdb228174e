"""The consumer in a process of its own: it works until idle, then prints what that took.

``python -m benchmarks.worker [NAME]``, with the tree in ``BENCH_TREE`` and the servers in
``BENCH_REDIS`` and ``BENCH_MONGO``. One that has a name says that it is ready, and begins when it
gets a line: so several begin at once.
"""

import os
import sys
import time
from typing import Final

import msgspec

from benchmarks.bench import Addresses
from benchmarks.house import BenchParts
from benchmarks.usage import report
from crawlfleet.apps.consumer import Consumer
from crawlfleet.apps.process import keep_memory
from crawlfleet.config.documents.biz import Tree
from crawlfleet.worker import affinity

#: What Lambda would say of the time left: never too little here.
REMAINING_SECONDS: Final = 900.0
#: What a worker with a name says before it begins.
READY: Final = "ready"
#: Set, every host is anybody's, as if it were late.
ENV_UNPLACED: Final = "BENCH_UNPLACED"


def main() -> None:
    tree = msgspec.json.decode(os.environ["BENCH_TREE"], type=Tree)
    addresses = Addresses(redis=os.environ["BENCH_REDIS"], mongo=os.environ["BENCH_MONGO"])
    parts = BenchParts(addresses, tree, "consumer")
    consumer = Consumer(parts)
    keep_memory()
    if os.environ.get(ENV_UNPLACED):
        affinity.PATIENCE_MS = -(10**12)  # type: ignore[misc]  # what is measured without
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name:
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        sys.stdin.readline()
    started = time.process_time()
    done = consumer.work(name or "bench", lambda: REMAINING_SECONDS)
    seconds = float(str(done["seconds"])) - tree.stage.fleet.idle_seconds
    pages = int(str(done["done"]))
    working = time.process_time() - started
    sys.stdout.write(report(pages=pages, seconds=seconds, working_cpu=working, more=done) + "\n")


if __name__ == "__main__":
    main()
