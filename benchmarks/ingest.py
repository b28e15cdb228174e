"""Submitting: through the router, beside the floor (MongoDB and Redis bare) and RQ (Redis only)."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import pymongo
import redis

from benchmarks.bench import Bench, BenchError, Found, peer
from benchmarks.figures import ratio, ratios, rotated
from benchmarks.house import QUEUE_KEY, tree_of
from benchmarks.routing import Router, batch, single
from benchmarks.site import distinct

BATCH: Final = 1_000
#: Single submissions take turns with the floor's in runs of this many.
_RUN: Final = 50
_NAMES: Final = tuple(f"library/page{number}.html" for number in range(500))


class Floor:
    """The least that any design with a durable copy has to do: insert, then LPUSH."""

    def __init__(self, bench: Bench) -> None:
        self._mongo = pymongo.MongoClient[dict[str, Any]](bench.addresses.mongo)
        self._redis = redis.Redis.from_url(bench.addresses.redis)
        self._requests = self._mongo.bench_floor.requests
        self._requests.create_index("ts", expireAfterSeconds=86_400)
        self._next = 0

    def batches(self, urls: list[str]) -> None:
        """Submit in batches of 1,000."""
        for at in range(0, len(urls), BATCH):
            now = datetime.now(UTC)
            documents = [self._document(url, now) for url in urls[at : at + BATCH]]
            self._requests.insert_many(documents, ordered=False)
            self._redis.lpush("floor", *[_entry(document) for document in documents])

    def singles(self, urls: list[str]) -> None:
        """Submit one by one."""
        for url in urls:
            document = self._document(url, datetime.now(UTC))
            self._requests.insert_one(document)
            self._redis.lpush("floor", _entry(document))

    def close(self) -> None:
        """Close both."""
        self._mongo.close()
        self._redis.close()

    def _document(self, url: str, now: datetime) -> dict[str, Any]:
        self._next += 1
        data = json.dumps({"url": url, "rule": "page"}).encode()
        return {"_id": self._next, "biz": "docs", "ts": now, "data": data, "flag": 0}


def _entry(document: dict[str, Any]) -> str:
    ts = document["ts"].timestamp()
    return json.dumps({"id": document["_id"], "biz": document["biz"], "ts": ts})


def run(bench: Bench) -> Found:
    """Measure both ways of submitting."""
    bench.addresses.clear()
    router, floor = Router(bench.addresses, tree_of()), Floor(bench)
    try:
        found = _batches(bench, router, floor)
        singles = _singles(bench, router, floor)
    finally:
        router.close()
        floor.close()
    return Found(
        figures=found.figures | singles.figures,
        rounds=found.rounds | singles.rounds,
        details=found.details | singles.details,
    )


def _batches(bench: Bench, router: Router, floor: Floor) -> Found:
    urls = distinct("http://127.0.0.1:8000/", _NAMES, bench.scale.ingest_requests)
    events = [batch(urls[at : at + BATCH]) for at in range(0, len(urls), BATCH)]

    def ours() -> None:
        for one in events:
            router.call(one, 202)

    sides = {"ours": ours, "floor": lambda: floor.batches(urls)}
    speeds: dict[str, list[float]] = {name: [] for name in (*sides, "rq")}
    with _rq(bench, urls) as rq:
        router.call(events[0], 202)  # the first call makes indexes and freezes the rule
        before = router.parts.queue.depth(QUEUE_KEY).queued
        for number in range(bench.scale.rounds):
            for side in rotated([*sides, *(["rq"] if rq else [])], number):
                seconds = rq() if side == "rq" and rq else _timed(sides[side])
                speeds[side].append(len(urls) / seconds)
                bench.tick(f"batches, {side}")
    queued = router.parts.queue.depth(QUEUE_KEY).queued - before
    if queued != len(urls) * bench.scale.rounds:
        raise BenchError(f"the router queued {queued} requests")
    figures = {"ingest_vs_floor": ratio(speeds["ours"], speeds["floor"])}
    if speeds["rq"]:
        figures["ingest_vs_rq"] = ratio(speeds["ours"], speeds["rq"])
    return Found(
        figures=figures,
        rounds={"ingest_vs_floor": ratios(speeds["ours"], speeds["floor"])},
        details={"batched submissions per second": speeds},
    )


def _singles(bench: Bench, router: Router, floor: Floor) -> Found:
    urls = distinct("http://127.0.0.1:8000/single/", _NAMES, bench.scale.single_requests)
    events = [single(url) for url in urls]
    speeds: dict[str, list[float]] = {"ours": [], "floor": []}
    for number in range(bench.scale.rounds):
        seconds = dict.fromkeys(speeds, 0.0)
        for turn, at in enumerate(range(0, len(urls), _RUN)):
            for side in rotated(list(speeds), number + turn):
                started = time.perf_counter()
                if side == "floor":
                    floor.singles(urls[at : at + _RUN])
                else:
                    for one in events[at : at + _RUN]:
                        router.call(one, 202)
                seconds[side] += time.perf_counter() - started
        for side, spent in seconds.items():
            speeds[side].append(len(urls) / spent)
        bench.tick("single submissions")
    return Found(
        figures={"single_submit_vs_floor": ratio(speeds["ours"], speeds["floor"])},
        rounds={"single_submit_vs_floor": ratios(speeds["ours"], speeds["floor"])},
        details={"single submissions per second": speeds},
    )


def _timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@contextmanager
def _rq(bench: Bench, urls: list[str]) -> Iterator[Callable[[], float] | None]:
    """RQ in its own environment, ready to enqueue the same number of jobs when it is called."""
    if bench.peers is None:
        yield None
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as given:
        json.dump(urls, given)
        given.flush()
        with subprocess.Popen(
            peer(bench.peers, "rq_enqueue.py"),
            env={**os.environ, **bench.variables(BENCH_URLS=given.name)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:

            def round_of_rq() -> float:
                if child.stdin is None or child.stdout is None:
                    raise BenchError("RQ has no pipes")
                child.stdin.write("\n")
                child.stdin.flush()
                try:
                    answer = json.loads(child.stdout.readline())
                except json.JSONDecodeError as error:
                    raise BenchError("RQ's side ended; see above") from error
                if answer["jobs"] != len(urls):
                    raise BenchError(f"RQ enqueued {answer['jobs']} jobs")
                return float(answer["seconds"])

            yield round_of_rq
            if child.stdin is not None:
                child.stdin.close()
