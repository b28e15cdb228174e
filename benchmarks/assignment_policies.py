"""Policies beside bidding in benchmarks/assignment.py: they know nothing of jobs and links."""

import random
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from benchmarks.assignment_scene import Machine

#: Of those that have a slot free, in the order of their numbers, the one that gets the next job.
Choose: TypeAlias = Callable[[Sequence[Machine]], Machine]
OTHERS: Final = ("least-loaded", "round-robin", "random")


def chooser(policy: str, workers: int, rng: random.Random) -> Choose:
    """Make the function by which a policy chooses a worker, with a slot free or not."""
    if policy == "random":
        return rng.choice
    if policy == "round-robin":
        return RoundRobin(workers)
    return least_loaded


def least_loaded(free: Sequence[Machine]) -> Machine:
    """The one that has most of what it has least of."""
    return min(free, key=lambda one: (one.fullness(), one.name))


class RoundRobin:
    """Round robin: machines are chosen in turn."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._next = 0

    def __call__(self, free: Sequence[Machine]) -> Machine:
        self._next += 1
        numbers = [int(one.name[1:]) for one in free]
        turn = self._next % self._workers
        at = next((place for place, number in enumerate(numbers) if number >= turn), 0)
        self._next = numbers[at]
        return free[at]
