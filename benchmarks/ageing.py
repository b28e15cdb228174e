"""Who waits how long under which order of a queue (SPEC.md C4): a simulation of a million tasks.

One server at a steady rate, tasks of three priorities, and a long burst of urgent ones that is more
than the server can do. The order is the product's (policy.ageing), the sources' own (their formula
at every pop, as it is written: CLAIMS.md s2.4), plain first come first served, and strict priority.
The clock is simulated; decisions about what is served next are made by the product's own policy.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, inf, log2
from random import Random
from typing import Final, Protocol

from benchmarks.bench import Bench, BenchError, Found
from crawlfleet.model.priority import Ageing
from crawlfleet.policy.ageing import (
    LEVELS,
    kept,
    longest_wait,
    next_level,
    settle,
    urgency,
)

#: How long tasks come, in seconds of the simulation; of a million about 96 are served a second.
SECONDS: Final = 10_000.0
#: Arrivals over the rate: of each priority all the time, and of the urgent ones in the burst.
STEADY: Final = {0: 0.08, 5: 0.48, 10: 0.24}
BURST: Final = {10: 0.80}
#: Parts of the time at which the burst begins and ends.
BURST_FROM, BURST_TO = 0.15, 0.45
#: The sources' threshold is not given; above it a task's priority is raised.
BETA: Final = 0.5
#: The order is asked of the policy itself at every so many pops, beside what is remembered of it.
CHECKED: Final = 997
#: Above this a 64-bit number is no number any more.
_LARGEST: Final = 1024.0
#: Points of a curve that are kept.
POINTS: Final = 200


@dataclass(frozen=True, slots=True)
class Trace:
    """When tasks come, in order, and of which priority."""

    at: "array[float]"
    level: "array[int]"

    def __len__(self) -> int:
        return len(self.at)


class Order(Protocol):
    """An order of service."""

    def put(self, level: int, task: int) -> None:
        """A task has come."""
        ...

    def take(self, now: float) -> int:
        """The task that is served now; one is there."""
        ...


@dataclass(frozen=True, slots=True)
class Served:
    """When each task was served, and as the how-manieth."""

    at: "array[float]"
    place: "array[int]"


def run(bench: Bench) -> Found:
    """Simulate all four on one trace, and hold ours to its bound."""
    trace, rate = trace_of(bench.scale.ageing_tasks), rate_of(bench.scale.ageing_tasks)
    ageing = Ageing()
    orders: dict[str, Callable[[], Order]] = {
        "ageing": lambda: Ours(trace, ageing),
        "the sources'": lambda: Sources(trace),
        "the sources', 1 for 0": lambda: Sources(trace, lowest=1),
        "first come": FirstCome,
        "strict": Strict,
    }
    found: dict[str, Served] = {}
    endless: dict[str, float] = {}
    for name, make in orders.items():
        order = make()
        found[name] = serve(trace, order, rate)
        if isinstance(order, Sources):
            endless[name] = order.endless / len(trace)
        bench.tick(f"ageing, {name}")
    over = beyond_bound(trace, found["ageing"], ageing)
    waits = {name: waits_of(trace, served) for name, served in found.items()}
    worst = {name: max(each[0]) for name, each in waits.items()}
    urgent = {name: _quantile(each[10], 0.5) for name, each in waits.items()}
    return Found(
        figures={
            "ageing_tasks_beyond_bound": float(over),
            "ageing_worst_vs_strict": worst["strict"] / worst["ageing"],
            "ageing_worst_vs_sources": worst["the sources'"] / worst["ageing"],
            "ageing_urgent_vs_fifo": urgent["first come"] / max(urgent["ageing"], 1 / rate),
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
            "ageing, longest wait by time": {
                name: curve(trace, served) for name, served in found.items()
            },
        },
        notes=list(_told(trace, waits, endless, over, ageing)),
    )


def trace_of(tasks: int, seed: int = 6) -> Trace:
    """That many tasks: Poisson arrivals of each priority, with a burst of the urgent ones."""
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
    """How many are served in a second, so that about so many come in that time."""
    steady, more = sum(STEADY.values()), sum(BURST.values())
    return tasks / SECONDS / (steady + more * (BURST_TO - BURST_FROM))


def serve(trace: Trace, order: Order, rate: float) -> Served:
    """Serve all of it, one task after the other."""
    served = Served(array("d", bytes(8 * len(trace))), array("l", bytes(8 * len(trace))))
    now, arrived, count = 0.0, 0, len(trace)
    for place in range(count):
        if arrived == place:  # nobody waits
            now = max(now, trace.at[arrived])
        while arrived < count and trace.at[arrived] <= now:
            order.put(trace.level[arrived], arrived)
            arrived += 1
        task = order.take(now)
        served.at[task] = now
        served.place[task] = place
        now += 1 / rate
    return served


class _Lists:
    """A list for each priority, oldest first."""

    def __init__(self) -> None:
        self.tasks: list[list[int]] = [[] for _ in range(LEVELS)]
        self.first = [0] * LEVELS

    def put(self, level: int, task: int) -> None:
        self.tasks[level].append(task)

    def head(self, level: int) -> int | None:
        tasks, first = self.tasks[level], self.first[level]
        return tasks[first] if first < len(tasks) else None

    def pop(self, level: int) -> int:
        tasks, first = self.tasks[level], self.first[level]
        self.first[level] += 1
        return tasks[first]

    def heads(self) -> Iterator[tuple[int, int]]:
        """Priority and oldest task of each that has any, the highest first."""
        for level in range(LEVELS - 1, -1, -1):
            if (task := self.head(level)) is not None:
                yield level, task


class Ours:
    """The product's policy; what a head weighs is remembered until the next tick."""

    def __init__(self, trace: Trace, ageing: Ageing) -> None:
        self._at = trace.at
        self._ageing = ageing
        self._cap = log2(ageing.clamp)
        self._most = kept(ageing.beta, ageing.clamp)
        self._lists = _Lists()
        self._times: list[float] = []
        self._oldests: list[float] = []
        self._tick = -1
        self._weights: list[float | None] = [None] * LEVELS
        self._pops = 0

    def put(self, level: int, task: int) -> None:
        self._lists.put(level, task)

    def take(self, now: float) -> int:
        ageing, at, heads = self._ageing, self._at, list(self._lists.heads())
        tick = int(now // ageing.interval_seconds)
        if tick != self._tick:
            oldest = min(at[task] for _, task in heads)
            settle(self._times, self._oldests, now, oldest, ageing.interval_seconds, self._most)
            self._tick, self._weights = tick, [None] * LEVELS
        chosen, best, best_at = -1, -inf, inf
        for level, task in heads:
            weight = self._weights[level]
            if weight is None:
                weight = self._weights[level] = urgency(
                    level, at[task], self._times, self._oldests, ageing.beta, self._cap
                )
            if weight > best or (weight == best and at[task] < best_at):
                chosen, best, best_at = level, weight, at[task]
        self._pops += 1
        if self._pops % CHECKED == 0:
            self._check(chosen)
        self._weights[chosen] = None
        return self._lists.pop(chosen)

    def _check(self, chosen: int) -> None:
        heads = [
            None if (task := self._lists.head(n)) is None else self._at[task] for n in range(LEVELS)
        ]
        said = next_level(heads, self._times, self._oldests, self._ageing.beta, self._cap)
        if said != chosen:
            raise BenchError(f"the policy serves {said}, what is remembered of it {chosen}")


class Sources:
    """As the sources have it: at each pop, and without a bound; a priority of 0 is never raised.

    Of equal priorities, endless ones among them, the first that is found is served: of the highest
    original priority. One of 0 never rises, and as the oldest for ever it keeps the others' ages
    below the threshold: nothing rises. Without it all that waits rises beyond every number soon,
    and the order is strict again. ``endless`` counts tasks whose priority was no number any more;
    ``lowest`` takes the place of what is less.
    """

    def __init__(self, trace: Trace, lowest: int = 0) -> None:
        self._at = trace.at
        self._lowest = lowest
        self._lists = _Lists()
        self._pops: list[float] = []
        self._oldests: list[float] = []
        self.endless = 0

    def put(self, level: int, task: int) -> None:
        self._lists.put(level, task)

    def take(self, now: float) -> int:
        at = self._at
        heads = list(self._lists.heads())
        self._pops.append(now)
        self._oldests.append(min(at[task] for _, task in heads))
        chosen, best = -1, -inf
        for level, task in heads:
            priority = max(level, self._lowest)
            weight = -inf if priority == 0 else log2(priority) + self._raised(at[task])
            if chosen < 0 or weight > best:
                chosen, best = level, weight
        if best >= _LARGEST:
            self.endless += 1
        return self._lists.pop(chosen)

    def _raised(self, created: float) -> float:
        """The sum of all alphas so far; infinite where the number is.

        A task's alpha grows from pop to pop, since time goes on and the oldest is never older. So
        where it was above the threshold a while ago it has been ever since, and where it was not,
        it was not before either.
        """
        if self._alpha(len(self._pops) - ceil(_LARGEST / BETA), created) > BETA:
            return inf
        total = 0.0
        for place in range(len(self._pops) - 1, -1, -1):
            alpha = self._alpha(place, created)
            if alpha <= BETA:
                break
            total += alpha
            if total >= _LARGEST:
                return inf
        return total

    def _alpha(self, place: int, created: float) -> float:
        if place < 0:
            return 0.0
        now, oldest = self._pops[place], self._oldests[place]
        return (now - created) / (now - oldest) if now > oldest else 0.0


class FirstCome:
    """The oldest task."""

    def __init__(self) -> None:
        self._next = -1

    def put(self, level: int, task: int) -> None:
        """In the order in which they come."""

    def take(self, now: float) -> int:  # noqa: ARG002  the order does not depend on it
        self._next += 1
        return self._next


class Strict:
    """The highest priority, and of it the oldest."""

    def __init__(self) -> None:
        self._lists = _Lists()

    def put(self, level: int, task: int) -> None:
        self._lists.put(level, task)

    def take(self, now: float) -> int:  # noqa: ARG002  the order does not depend on it
        return self._lists.pop(next(level for level, _ in self._lists.heads()))


def beyond_bound(trace: Trace, served: Served, ageing: Ageing) -> int:
    """Tasks before which more were served than the proof allows.

    No more may be than were queued when the task came, and came until ``longest_wait`` of it.
    """
    by_service = sorted(range(len(trace)), key=served.place.__getitem__)
    over = 0
    # The oldest that waits at each moment: the first, by arrival, that is not served yet.
    oldest_waiting = list(accumulate((served.at[task] for task in range(len(trace))), max))
    begun = array("d", (served.at[task] for task in by_service))
    for task, came in enumerate(trace.at):
        # All that came before `first` had been served when this one came.
        first = min(bisect_right(oldest_waiting, came), task)
        allowed = longest_wait(ageing.interval_seconds, ageing.beta, came - trace.at[first])
        queued = task - bisect_right(begun, came)
        later = bisect_right(trace.at, came + allowed) - task - 1
        before = served.place[task] - (task - queued)
        over += before > queued + later
    return over


def waits_of(trace: Trace, served: Served) -> dict[int, list[float]]:
    """Seconds that tasks waited, sorted, by priority."""
    found: dict[int, list[float]] = {}
    for task, came in enumerate(trace.at):
        found.setdefault(trace.level[task], []).append(served.at[task] - came)
    return {level: sorted(each) for level, each in sorted(found.items())}


def curve(trace: Trace, served: Served) -> list[tuple[float, float]]:
    """At some moments, how long the lowest priority's task that was served last had waited."""
    lowest = sorted(
        (served.at[task], served.at[task] - came)
        for task, came in enumerate(trace.at)
        if trace.level[task] == 0
    )
    step = max(1, len(lowest) // POINTS)
    return [(round(at, 1), round(wait, 1)) for at, wait in lowest[::step]]


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _told(
    trace: Trace,
    waits: dict[str, dict[int, list[float]]],
    endless: Mapping[str, float],
    over: int,
    ageing: Ageing,
) -> Iterator[str]:
    for name, by_level in waits.items():
        each = "; ".join(
            f"priority {level}: median {_quantile(found, 0.5):,.1f}, longest {found[-1]:,.0f}"
            for level, found in by_level.items()
        )
        yield f"ageing, {len(trace):,} tasks, seconds of waiting, {name}: {each}"
    yield (
        f"ageing: {over} tasks waited longer than is proven (a tick every "
        f"{ageing.interval_seconds:g} s)"
    )
    for name, share in endless.items():
        yield (
            f"ageing, {name}: {share:.0%} of the tasks were served with a priority that is no "
            f"number any more"
        )
