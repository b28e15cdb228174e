"""The orders of service that benchmarks/ageing.py sets beside one another.

The product's (requests.queue.ageing), the sources' own as it is written (CLAIMS.md s2.4), plain
first come first served, and strict priority. Tasks are numbered in the order in which they came.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, log2
from typing import Final, Protocol

from benchmarks.bench import BenchError
from crawlfleet.kernel.queue_key import LEVELS, Ageing
from crawlfleet.requests.queue.ageing import kept
from tests.fakes.ageing import next_level, settle, urgency

#: The sources' threshold is not given; above it a task's priority is raised.
BETA: Final = 0.5
#: The order is asked of the policy itself at every so many pops, beside what is remembered of it.
CHECKED: Final = 997
#: A priority whose logarithm to base 2 is this is beyond every number of 64 bits.
LARGEST: Final = 1024.0


@dataclass(frozen=True, slots=True)
class Trace:
    """The arrivals of tasks, in order, with their priorities."""

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


class _Lists:
    """A list for each priority, first to be served first."""

    def __init__(self) -> None:
        self.tasks: list[deque[int]] = [deque() for _ in range(LEVELS)]

    def put(self, level: int, task: int) -> None:
        self.tasks[level].append(task)

    def put_back(self, level: int, task: int) -> None:
        self.tasks[level].appendleft(task)

    def head(self, level: int) -> int | None:
        tasks = self.tasks[level]
        return tasks[0] if tasks else None

    def pop(self, level: int) -> int:
        return self.tasks[level].popleft()

    def heads(self) -> Iterator[tuple[int, int]]:
        """Priority and first task of each that has any, the highest first."""
        for level in range(LEVELS - 1, -1, -1):
            if self.tasks[level]:
                yield level, self.tasks[level][0]


class Ours:
    """The product's policy; what a head weighs is remembered until the next tick.

    ``endless`` counts tasks that were served with a weight beyond every number of 64 bits.
    """

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
        self.endless = 0

    def put(self, level: int, task: int) -> None:
        self._lists.put(level, task)

    def put_back(self, level: int, task: int) -> None:
        """A retry that is due, or a lease that has ended: it is served next of its priority."""
        self._lists.put_back(level, task)
        self._weights[level] = None

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
        self.endless += best >= LARGEST
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
    """Ageing as the sources have it: at each pop, without a bound; priority 0 is never raised.

    Of equal priorities, endless ones among them, the first that is found is served: of the highest
    original priority. One of 0 never rises, and as the oldest for ever it keeps the others' ages
    below the threshold: nothing rises. Without it all that waits rises beyond every number soon,
    and the order is strict again. ``endless`` counts tasks whose priority was no number any more;
    ``lowest`` takes the place of what is less.

    A task's alpha grows from pop to pop, since time goes on and the oldest is never older: once it
    is above the threshold it stays there. It gets there no sooner than what is older. So of each
    list the first pop that raised its head is known, and sums over all pops make up the rest.
    """

    def __init__(self, trace: Trace, lowest: int = 0) -> None:
        self._at = trace.at
        self._lowest = lowest
        self._lists = _Lists()
        self._pops: list[float] = []
        self._oldests: list[float] = []
        # Up to each pop the sums of now / (now - oldest), and of 1 / (now - oldest).
        self._sums, self._parts = [0.0], [0.0]
        self._raised_from = [0] * LEVELS
        self.endless = 0

    def put(self, level: int, task: int) -> None:
        self._lists.put(level, task)

    def take(self, now: float) -> int:
        at = self._at
        heads = list(self._lists.heads())
        oldest = min(at[task] for _, task in heads)
        part = 1 / (now - oldest) if now > oldest else 0.0
        self._pops.append(now)
        self._oldests.append(oldest)
        self._sums.append(self._sums[-1] + now * part)
        self._parts.append(self._parts[-1] + part)
        chosen, best = -1, -inf
        for level, task in heads:
            priority = max(level, self._lowest)
            weight = -inf if priority == 0 else log2(priority) + self._raised(level, at[task])
            if chosen < 0 or weight > best:
                chosen, best = level, weight
        self.endless += best >= LARGEST
        return self._lists.pop(chosen)

    def _raised(self, level: int, created: float) -> float:
        """The sum of all alphas of a list's head so far; infinite where the number is."""
        first, last = self._raised_from[level], len(self._pops)
        while first < last and self._alpha(first, created) <= BETA:
            first += 1
        self._raised_from[level] = first
        parts = self._parts[last] - self._parts[first]
        total = self._sums[last] - self._sums[first] - created * parts
        return inf if total >= LARGEST else total

    def _alpha(self, place: int, created: float) -> float:
        now, oldest = self._pops[place], self._oldests[place]
        return (now - created) / (now - oldest) if now > oldest else 0.0


class FirstCome:
    """The oldest task."""

    def __init__(self) -> None:
        self._next = -1

    def put(self, level: int, task: int) -> None:
        """Do nothing: tasks are taken in the order in which they come."""

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
