"""RQ: jobs enqueued in bulk, 1,000 at once. One round for each line of input."""

import json
import os
import sys
import time
from pathlib import Path

import redis
from rq import Queue

BATCH = 1_000

urls: list[str] = json.loads(Path(os.environ["BENCH_URLS"]).read_text())
queue = Queue(connection=redis.Redis.from_url(os.environ["BENCH_REDIS"]))
for _ in sys.stdin:
    started = time.perf_counter()
    for at in range(0, len(urls), BATCH):
        queue.enqueue_many([Queue.prepare_data(print, (url,)) for url in urls[at : at + BATCH]])
    print(json.dumps({"seconds": time.perf_counter() - started, "jobs": queue.count}), flush=True)
    queue.empty()
