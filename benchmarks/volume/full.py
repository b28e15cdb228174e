"""Ask a full backlog: look-ups, lists, totals, and the rounds that recover."""

import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.bench import BenchError
from benchmarks.figures import percentile
from benchmarks.house import BIZ, QUEUE_KEY
from benchmarks.lookup import look_up
from benchmarks.routing import Router, event
from crawlfleet.apps.context import now
from crawlfleet.apps.rounds import open_recovery
from crawlfleet.kernel.redis.server import fleet_keys

#: How long a consumer lets a round of recovery go on.
ROUND_SECONDS: Final = 875.0
_WARM_UP: Final = 20


def latencies(router: Router, sample: Sequence[str], count: int) -> dict[str, float]:
    """Milliseconds of a look-up through the router, ids in random order, from p50 to the worst."""
    choose = random.Random(1)
    for an_id in choose.choices(sample, k=_WARM_UP):
        look_up(router, an_id)
    return percentiles(
        [look_up(router, an_id) * 1_000 for an_id in choose.choices(sample, k=count)]
    )


def percentiles(times: Sequence[float]) -> dict[str, float]:
    """The middle, the tail and the worst of some times; nothing of none."""
    if not times:
        return {}
    return {f"p{percent}": percentile(times, percent) for percent in (50, 90, 99, 99.9, 100)}


def operations(router: Router, sample: Sequence[str]) -> dict[str, float]:
    """Milliseconds of what else people and the fleet ask of it, once each."""
    one = sample[len(sample) // 2]
    asked: dict[str, Callable[[], object]] = {
        name: lambda path=path: router.call(event("GET", f"/v1/{BIZ}/{path}"), 200)  # type: ignore[misc]  # mypy cannot infer a lambda's default
        for name, path in {
            "list of 100 requests": "requests",
            "list of records": "records",
            "totals and rates": "stats",
            "audit of the ledger": "ledger",
            "explanation of a request": f"requests/{one}/explain",
            "list of workers": "workers",
        }.items()
    }
    asked["depth of the queue"] = lambda: router.parts.queue.depth(QUEUE_KEY)
    asked["round of recovery"] = lambda: recover_once(router)
    for ask in asked.values():  # what it imports is not the backlog's
        ask()
    return {name: _milliseconds(ask) for name, ask in asked.items()}


def refill(router: Router, expected: int, progress: Callable[[int], None]) -> float:
    """Empty Redis and have recovery fill the queue again; the seconds that takes.

    Raises:
        BenchError: it does not come back whole.
    """
    router.parts.redis.client.flushall()
    started = time.perf_counter()
    while True:
        recover_once(router)
        queued = router.parts.queue.depth(QUEUE_KEY).queued
        progress(queued)
        if queued >= expected:
            break
        if time.perf_counter() - started > ROUND_SECONDS * 10:
            raise BenchError(f"{queued} of {expected} are queued again")
    if queued != expected:
        raise BenchError(f"{queued} were queued again, of {expected}")
    return time.perf_counter() - started


def recover_once(router: Router) -> int:
    """A round of recovery, as the scheduler does it; how many it has queued again.

    Raises:
        BenchError: another holder has the lock.
    """
    # The lock is due every 20 seconds; nobody else acquires it now.
    router.parts.redis.client.delete(fleet_keys("fleet").turns)
    started = time.monotonic()
    done = open_recovery(router.parts).recover(
        router.parts.config.current(),
        "volume",
        now(),
        lambda: ROUND_SECONDS - (time.monotonic() - started),
    )
    if not done.mine:
        raise BenchError("the round was another's")
    return done.requeued


def _milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1_000
