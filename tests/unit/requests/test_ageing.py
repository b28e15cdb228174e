"""Ageing: nothing starves, whatever comes; only heads are judged; odd clocks do no harm."""

from dataclasses import dataclass, field
from math import log2

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes.ageing import BASE, NONE, longest_wait, next_level, settle, ticks_to_pass, urgency
from tests.kit.kernel import LEVELS
from tests.kit.queue import kept

betas = st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9])
clamps = st.sampled_from([12.0, 16.0, 1024.0, 2.0**20])
levels = st.integers(0, LEVELS - 1)


@dataclass
class Task:
    level: int
    created: float
    oldest_age: float


@dataclass
class Queue:
    """Eleven lists and a note of ticks, as every queue of the product has them."""

    interval: float
    beta: float
    clamp: float
    now: float = 0.0
    lists: list[list[Task]] = field(default_factory=lambda: [[] for _ in range(LEVELS)])
    times: list[float] = field(default_factory=list)
    oldests: list[float] = field(default_factory=list)
    every: list[tuple[float, float]] = field(default_factory=list)

    def heads(self) -> list[float | None]:
        return [tasks[0].created if tasks else None for tasks in self.lists]

    def oldest(self) -> float:
        return min((task.created for task in self.tasks()), default=self.now)

    def tasks(self) -> list[Task]:
        return [task for tasks in self.lists for task in tasks]

    def come(self, level: int) -> None:
        self.lists[level].append(Task(level, self.now, self.now - self.oldest()))

    def pass_time(self, seconds: float) -> None:
        before, self.now = self.now, self.now + seconds
        number = before // self.interval + 1
        while self.tasks() and number * self.interval <= self.now:
            self.every.append((number * self.interval, self.oldest()))
            number += 1

    def urgency(self, task: Task) -> float:
        cap = log2(self.clamp)
        return urgency(task.level, task.created, self.times, self.oldests, self.beta, cap)

    def pop(self) -> Task | None:
        if not self.tasks():
            return None
        most = kept(self.beta, self.clamp)
        settle(self.times, self.oldests, self.now, self.oldest(), self.interval, most)
        cap = log2(self.clamp)
        level = next_level(self.heads(), self.times, self.oldests, self.beta, cap)
        return self.lists[level].pop(0)


#: So many come of a priority, then some time passes, then so many are served.
steps = st.lists(
    st.tuples(levels, st.integers(0, 3), st.integers(0, 12), st.integers(0, 3)), max_size=60
)
flood = [(0, 1, 1, 0), *[(10, 1, 1, 1)] * 59]


def run(queue: Queue, given_steps: list[tuple[int, int, int, int]]) -> list[Task]:
    served = []
    for level, come, seconds, pops in given_steps:
        for _ in range(come):
            queue.come(level)
        queue.pass_time(float(seconds))
        for _ in range(pops):
            task = queue.pop()
            if task is not None:
                served.append(task)
                check_served(queue, task)
    return served


def check_served(queue: Queue, task: Task) -> None:
    for other in queue.tasks():
        wait = longest_wait(queue.interval, queue.beta, other.oldest_age)
        assert task.created <= other.created + wait, "a newcomer was served first"
        assert queue.urgency(other) <= queue.urgency(task), "another one was more urgent"


@given(steps, betas, clamps)
@example(flood, 0.5, 1024.0)
@example(flood, 0.9, 12.0)
def test_whatever_comes_nothing_waits_for_newcomers_beyond_the_bound(given_steps, beta, clamp):
    run(Queue(5.0, beta, clamp), given_steps)


@given(steps, betas, clamps)
def test_of_one_priority_the_oldest_is_served_first(given_steps, beta, clamp):
    served = run(Queue(5.0, beta, clamp), given_steps)

    for level in range(LEVELS):
        created = [task.created for task in served if task.level == level]
        assert created == sorted(created)


@given(steps, betas)
def test_what_is_noted_of_ticks_weighs_as_a_sweep_over_all_tasks_at_each_tick_does(
    given_steps, beta
):
    queue = Queue(5.0, beta, 2.0**20)
    run(queue, given_steps)
    queue.pop()

    for task in queue.tasks():
        weight = float(task.level + 1)
        for time, oldest in queue.every:
            if task.created < time:
                alpha = (time - task.created) / (time - oldest)
                weight *= 2**alpha if alpha > beta else 1
        assert 2 ** queue.urgency(task) == pytest.approx(min(weight, 2.0**20), rel=1e-9)


def test_a_zero_stands_before_tens_after_four_ticks_as_the_oldest_and_is_served_under_a_flood():
    queue = Queue(5.0, 0.5, 1024.0)
    queue.come(0)
    served = []
    for _ in range(25):
        queue.come(10)
        queue.pass_time(1.0)
        served.append(queue.pop().level)

    assert served.index(0) == 19  # the fourth tick is at 20 s


def test_the_bound_of_ticks_is_reached_and_not_passed():
    beta = 0.5
    times, oldests = [float(n) for n in range(101, 108)], [0.0] * 7
    # Just over the threshold at every one of these ticks.
    assert urgency(0, 50.0, times[:6], oldests[:6], beta, 20.0) < BASE[10]
    assert urgency(0, 50.0, times, oldests, beta, 20.0) > BASE[10]
    assert ticks_to_pass(beta) == 7


def test_a_queue_of_one_task_and_one_of_nothing_but_new_ones_divide_by_nothing():
    times, oldests = [], []
    settle(times, oldests, 20.0, 20.0, 5.0, 20)
    assert (times, oldests) == ([], [])
    assert next_level([20.0, None, 20.0], times, oldests, 0.5, 10.0) == 2

    settle(times, oldests, 25.0, 20.0, 5.0, 20)
    assert urgency(0, 20.0, times, oldests, 0.5, 10.0) == 1.0
    assert urgency(0, 25.0, times, oldests, 0.5, 10.0) == 0.0


def test_a_clock_that_is_set_back_takes_back_the_ticks_that_never_were():
    times, oldests = [], []
    settle(times, oldests, 1_000.0, 900.0, 5.0, 10)
    assert len(times) == 10

    settle(times, oldests, 957.0, 900.0, 5.0, 10)

    assert times == [955.0]
    assert urgency(0, 960.0, times, oldests, 0.5, 10.0) == 0.0


def test_a_pause_of_years_costs_no_more_ticks_than_are_kept():
    times, oldests = [5.0], [0.0]
    settle(times, oldests, 1e12, 0.0, 5.0, 21)
    assert len(times) == 21
    assert urgency(0, 0.0, times, oldests, 0.5, 10.0) == 10.0


def test_another_interval_goes_on_from_the_last_tick_of_the_one_before():
    times, oldests = [], []
    settle(times, oldests, 14.0, 1.0, 5.0, 20)
    settle(times, oldests, 31.0, 2.0, 7.0, 20)
    assert times == [5.0, 10.0, 14.0, 21.0, 28.0]
    assert oldests == [1.0, 1.0, 2.0, 2.0, 2.0]


def test_what_comes_back_older_than_all_that_was_queued_gains_no_more_than_the_oldest():
    assert urgency(3, 10.0, [100.0], [90.0], 0.5, 10.0) == 3.0


def test_weights_that_are_equal_serve_the_older_task_and_then_the_higher_priority():
    times, oldests = [float(n) for n in range(100, 140)], [0.0] * 40
    heads: list[float | None] = [None] * LEVELS
    assert next_level(heads, times, oldests, 0.5, 10.0) == NONE

    heads[2], heads[7] = 1.0, 2.0  # both are at the clamp
    assert next_level(heads, times, oldests, 0.5, 10.0) == 2
    heads[7] = 1.0
    assert next_level(heads, times, oldests, 0.5, 10.0) == 7


@given(betas, clamps)
def test_the_ticks_that_are_kept_lift_whoever_is_over_the_threshold_to_the_clamp(beta, clamp):
    most = kept(beta, clamp)
    age = 1000.0 * beta * 1.001
    times = [1000.0 + n * 1e-6 for n in range(most)]
    assert urgency(0, 1000.0 - age, times, [0.0] * most, beta, log2(clamp)) == log2(clamp)
