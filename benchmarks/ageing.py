"""Simulate how long a million tasks wait under each order of a queue (SPEC.md C4).

One server at a steady rate, tasks of three priorities, and a long burst of urgent ones that is more
than the server can do. The order is the product's (requests.queue.ageing), the sources' own (their
formula at every pop, as it is written: CLAIMS.md s2.4), plain first come first served, and strict
priority. The clock is simulated; decisions about what is served next are made by the product's own
policy.

Every order is held to the bound that requests.queue.ageing proves of the product's: by strict
priority and by the sources' formula tasks wait beyond it, which also shows that what checks it sees
something. The product's order is played once more with one task in ten coming back later with its
old time, as retries and ended leases do.
"""

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from random import Random
from typing import Final

from benchmarks.ageing_orders import FirstCome, Order, Ours, Sources, Strict, Trace
from benchmarks.bench import Bench, Found
from crawlfleet.kernel.queue_key import Ageing
from tests.fakes.ageing import longest_wait

#: How long tasks come, in seconds of the simulation; of a million about 96 are served a second.
SECONDS: Final = 10_000.0
#: Arrivals over the rate: of each priority all the time, and of the urgent ones in the burst.
STEADY: Final = {0: 0.08, 5: 0.48, 10: 0.24}
BURST: Final = {10: 0.80}
#: Parts of the time at which the burst begins and ends.
BURST_FROM, BURST_TO = 0.15, 0.45
#: Of those served so many come back, so often at most, after so many seconds.
BACK_PART: Final = 0.1
BACK_MOST: Final = 3
BACK_AFTER: Final = (5.0, 900.0)
#: Points of a curve that are kept.
POINTS: Final = 200
OURS: Final = "ageing"
RETURNS: Final = "ageing, one in ten comes back"
AS_WRITTEN: Final = "the sources'"
ONE_FOR_ZERO: Final = "the sources', 1 for 0"
STRICT: Final = "strict"
FIRST_COME: Final = "first come"
#: Seconds between two lines of progress.
STEPS: Final = 6


@dataclass(frozen=True, slots=True)
class Served:
    """The tasks in the order in which they were served, with when each was queued and served."""

    task: "array[int]" = field(default_factory=lambda: array("l"))
    queued: "array[float]" = field(default_factory=lambda: array("d"))
    at: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, task: int, queued: float, at: float) -> None:
        self.task.append(task)
        self.queued.append(queued)
        self.at.append(at)


class Returns:
    """Tasks that are queued again with their old time: a retry is due, or a lease has ended.

    Where it comes back it is served next of its priority, as the product's queue has it.
    """

    def __init__(self, trace: Trace, order: Ours, seed: int = 6) -> None:
        self._trace = trace
        self._order = order
        self._random = Random(seed)
        self._times = array("b", bytes(len(trace)))
        self._due: list[tuple[float, int]] = []

    @property
    def due(self) -> float:
        """Get when the next task comes back."""
        return self._due[0][0] if self._due else inf

    def come(self) -> tuple[float, int]:
        """The next one is queued again."""
        due, task = heapq.heappop(self._due)
        self._order.put_back(self._trace.level[task], task)
        return due, task

    def has(self, task: int, now: float) -> bool:
        """Check whether a task that is served now comes back."""
        if self._times[task] >= BACK_MOST or self._random.random() >= BACK_PART:
            return False
        self._times[task] += 1
        heapq.heappush(self._due, (now + self._random.uniform(*BACK_AFTER), task))
        return True


def run(bench: Bench) -> Found:
    """Simulate all of them on one trace, and hold each to the bound of ours."""
    trace, rate = trace_of(bench.scale.ageing_tasks), rate_of(bench.scale.ageing_tasks)
    ageing = Ageing()
    found: dict[str, Served] = {}
    endless: dict[str, int] = {}
    orders: dict[str, Callable[[], Order]] = {
        OURS: lambda: Ours(trace, ageing),
        RETURNS: lambda: Ours(trace, ageing),
        AS_WRITTEN: lambda: Sources(trace),
        ONE_FOR_ZERO: lambda: Sources(trace, lowest=1),
        FIRST_COME: FirstCome,
        STRICT: Strict,
    }
    for name, make in orders.items():
        order = make()
        returns = None
        if name == RETURNS and isinstance(order, Ours):
            returns = Returns(trace, order)
        found[name] = serve(trace, order, rate, returns)
        if isinstance(order, Ours | Sources):
            endless[name] = order.endless
        bench.tick(name if name.startswith(OURS) else f"ageing, {name}")
    over = {name: beyond_bound(trace, served, ageing) for name, served in found.items()}
    waits = {name: waits_of(trace, served) for name, served in found.items()}
    worst = {name: max(each[0]) for name, each in waits.items()}
    urgent = {name: _quantile(each[10], 0.5) for name, each in waits.items()}
    return Found(
        figures={
            "ageing_tasks_beyond_bound": float(over[OURS]),
            "ageing_returns_beyond_bound": float(over[RETURNS]),
            "ageing_strict_beyond_bound": over[STRICT] / len(trace),
            "ageing_sources_beyond_bound": over[AS_WRITTEN] / len(trace),
            "ageing_endless": float(endless[OURS] + endless[RETURNS]),
            "ageing_sources_endless": endless[ONE_FOR_ZERO] / len(trace),
            "ageing_worst_vs_strict": worst[STRICT] / worst[OURS],
            "ageing_worst_vs_sources": worst[AS_WRITTEN] / worst[OURS],
            "ageing_urgent_vs_fifo": urgent[FIRST_COME] / max(urgent[OURS], 1 / rate),
        },
        details={
            "ageing, waits in seconds": {
                name: {
                    str(level): {
                        "median": _quantile(each, 0.5),
                        "p99": _quantile(each, 0.99),
                        "longest": max(each),
                    }
                    for level, each in by_level.items()
                }
                for name, by_level in waits.items()
            },
            "ageing, tasks beyond the bound": dict(over),
            "ageing, tasks served with an endless priority": dict(endless),
            "ageing, longest wait by time": {
                name: curve(trace, served) for name, served in found.items() if name != RETURNS
            },
        },
        notes=list(_reported(trace, waits, endless, over, ageing)),
    )


def trace_of(tasks: int, seed: int = 6) -> Trace:
    """Make so many tasks: Poisson arrivals of each priority, with a burst of the urgent ones."""
    random = Random(seed)
    rate = rate_of(tasks)
    streams = [(level, share, 0.0, SECONDS) for level, share in STEADY.items()]
    streams += [
        (level, share, BURST_FROM * SECONDS, BURST_TO * SECONDS) for level, share in BURST.items()
    ]
    found: list[tuple[float, int]] = []
    for level, share, begins, ends in streams:
        at = begins
        while (at := at + random.expovariate(share * rate)) < ends:
            found.append((at, level))
    found.sort()
    return Trace(array("d", (at for at, _ in found)), array("b", (level for _, level in found)))


def rate_of(tasks: int) -> float:
    """Get the tasks served in a second, at which about as many come in that time."""
    steady, more = sum(STEADY.values()), sum(BURST.values())
    return tasks / SECONDS / (steady + more * (BURST_TO - BURST_FROM))


def serve(trace: Trace, order: Order, rate: float, returns: Returns | None = None) -> Served:
    """Serve all of it, one task after the other, until nothing comes back."""
    served, queued = Served(), array("d", trace.at)
    now, arrived, waiting, left, count = 0.0, 0, 0, len(trace), len(trace)
    while left:
        if not waiting:
            comes = trace.at[arrived] if arrived < count else inf
            now = max(now, comes if returns is None else min(comes, returns.due))
        while arrived < count and trace.at[arrived] <= now:
            order.put(trace.level[arrived], arrived)
            arrived, waiting = arrived + 1, waiting + 1
        while returns is not None and returns.due <= now:
            due, task = returns.come()
            queued[task], waiting = due, waiting + 1
        task = order.take(now)
        served.add(task, queued[task], now)
        waiting, left = waiting - 1, left - 1
        if returns is not None and returns.has(task, now):
            left += 1
        now += 1 / rate
    return served


def beyond_bound(trace: Trace, served: Served, ageing: Ageing) -> int:
    """Count what was served before a task that came too late for that (requests.queue.ageing).

    That is what came later than ``longest_wait`` after the task was queued, or queued again; each
    waiting of a task counts once. A task is done when it was served for the last time.
    """
    done = array("d", bytes(8 * len(trace)))
    for task, at in zip(served.task, served.at, strict=True):
        done[task] = at
    # All that came before the first of these that is later than a moment is done at that moment.
    all_done = list(accumulate(done, max))
    by_queueing = sorted(range(len(served.task)), key=served.queued.__getitem__)
    # Until when what comes may be served before a waiting of a task, and the place of its end.
    waiting: list[tuple[float, int]] = []
    over, begun = 0, 0
    for place, (task, at) in enumerate(zip(served.task, served.at, strict=True)):
        while begun < len(by_queueing) and served.queued[by_queueing[begun]] <= at:
            end = by_queueing[begun]
            since = served.queued[end]
            oldest = trace.at[min(bisect_right(all_done, since), served.task[end])]
            allowed = longest_wait(ageing.interval_seconds, ageing.beta, since - oldest)
            heapq.heappush(waiting, (since + allowed, end))
            begun += 1
        while waiting and waiting[0][0] < trace.at[task]:
            over += heapq.heappop(waiting)[1] > place
    return over


def waits_of(trace: Trace, served: Served) -> dict[int, list[float]]:
    """Seconds from being queued to being served, sorted, by priority."""
    found: dict[int, list[float]] = {}
    for task, queued, at in zip(served.task, served.queued, served.at, strict=True):
        found.setdefault(trace.level[task], []).append(at - queued)
    return {level: sorted(each) for level, each in sorted(found.items())}


def curve(trace: Trace, served: Served) -> list[tuple[float, float]]:
    """Return the waits of the lowest priority's tasks at some moments, by when they were served."""
    lowest = [
        (at, at - queued)
        for task, queued, at in zip(served.task, served.queued, served.at, strict=True)
        if trace.level[task] == 0
    ]
    step = max(1, len(lowest) // POINTS)
    return [(round(at, 1), round(wait, 1)) for at, wait in lowest[::step]]


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _reported(
    trace: Trace,
    waits: dict[str, dict[int, list[float]]],
    endless: Mapping[str, int],
    over: Mapping[str, int],
    ageing: Ageing,
) -> Iterator[str]:
    for name, by_level in waits.items():
        each = "; ".join(
            f"priority {level}: median {_quantile(found, 0.5):,.1f}, longest {found[-1]:,.0f}"
            for level, found in by_level.items()
        )
        yield f"ageing, {len(trace):,} tasks, seconds of waiting, {name}: {each}"
    each = "; ".join(f"{name}: {count:,}" for name, count in over.items())
    yield (
        f"ageing: waits beyond what is proven of ours (a tick every "
        f"{ageing.interval_seconds:g} s): {each}"
    )
    each = "; ".join(f"{name}: {count / len(trace):.0%}" for name, count in endless.items())
    yield f"ageing: served with a priority beyond every number of 64 bits: {each}"
