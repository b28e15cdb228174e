"""The consumer in a process of its own: it works until idle, then tells what that took.

``python -m benchmarks.worker``, with the tree in ``BENCH_TREE`` and the servers in ``BENCH_REDIS``
and ``BENCH_MONGO``.
"""

import os
import sys
from typing import Final

import msgspec

from benchmarks.bench import Addresses
from benchmarks.house import BenchParts
from benchmarks.usage import report
from crawlfleet.model.biz import Tree
from crawlfleet.wiring.consumer import Consumer

#: What Lambda would say of the time left: never too little here.
REMAINING_SECONDS: Final = 900.0


def main() -> None:
    tree = msgspec.json.decode(os.environ["BENCH_TREE"], type=Tree)
    addresses = Addresses(redis=os.environ["BENCH_REDIS"], mongo=os.environ["BENCH_MONGO"])
    parts = BenchParts(addresses, tree, "consumer")
    done = Consumer(parts).work("bench", lambda: REMAINING_SECONDS)
    seconds = float(str(done["seconds"])) - tree.stage.fleet.idle_seconds
    sys.stdout.write(report(pages=int(str(done["done"])), seconds=seconds, more=done) + "\n")


if __name__ == "__main__":
    main()
