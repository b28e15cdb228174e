"""Ageing: nothing starves where tasks come back with their old time (retries, ended leases).

Beside tests/unit/requests/test_ageing.py, where nothing comes back.
"""

from collections import deque
from dataclasses import dataclass, field
from math import log2

from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes.ageing import longest_wait, next_level, settle
from tests.kit.kernel import LEVELS
from tests.kit.queue import kept

INTERVAL = 5.0
betas = st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9])
clamps = st.sampled_from([12.0, 1024.0, 2.0**20])


@dataclass(eq=False)
class Task:
    """``queued`` is when it was put into the queue, for the first time or again."""

    level: int
    created: float
    queued: float = 0.0
    oldest_age: float = 0.0
    oldest_queued_age: float = 0.0


@dataclass
class Queue:
    """Eleven lists as the product's; what comes back is served next of its priority."""

    beta: float
    clamp: float
    now: float = 0.0
    lists: list[deque[Task]] = field(default_factory=lambda: [deque() for _ in range(LEVELS)])
    hands: list[Task] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    oldests: list[float] = field(default_factory=list)

    def queued(self) -> list[Task]:
        return [task for tasks in self.lists for task in tasks]

    def come(self, level: int) -> Task:
        return self._put(Task(level, self.now))

    def come_back(self, task: Task) -> None:
        self.hands.remove(task)
        self._put(task, back=True)

    def _put(self, task: Task, *, back: bool = False) -> Task:
        task.queued = self.now
        queued = [one.created for one in (task, *self.queued())]
        task.oldest_queued_age = self.now - min(queued)
        task.oldest_age = self.now - min([*queued, *(one.created for one in self.hands)])
        tasks = self.lists[task.level]
        (tasks.appendleft if back else tasks.append)(task)
        return task

    def pop(self) -> Task | None:
        heads = [tasks[0].created if tasks else None for tasks in self.lists]
        known = [created for created in heads if created is not None]
        if not known:
            return None
        most = kept(self.beta, self.clamp)
        settle(self.times, self.oldests, self.now, min(known), INTERVAL, most)
        level = next_level(heads, self.times, self.oldests, self.beta, log2(self.clamp))
        task = self.lists[level].popleft()
        self.hands.append(task)
        return task

    def passed(self, task: Task) -> list[Task]:
        """Return the tasks that this one was served before, though it came too late for that."""
        return [
            other
            for other in self.queued()
            if task.created > other.queued + longest_wait(INTERVAL, self.beta, other.oldest_age)
        ]


#: What happens: so many come of a priority, time passes, so many are served; then one in somebody's
#: hands comes back, or is done, or nothing.
steps = st.lists(
    st.tuples(
        st.integers(0, LEVELS - 1),
        st.integers(0, 3),
        st.integers(0, 12),
        st.integers(0, 3),
        st.sampled_from(["back", "done", "none"]),
        st.integers(0, 100),
    ),
    max_size=80,
)
#: A flood of tens, of which each comes back once, and a single 0.
flood = [(0, 1, 1, 0, "none", 0), *[(10, 1, 1, 1, "back", n) for n in range(79)]]
#: Old ones in many hands come back one by one, each just when there is a tick.
trickle = [
    (10, 3, 12, 3, "none", 0),
    *[(10, 3, 12, 3, "none", 0)] * 12,
    (0, 1, 0, 0, "none", 0),
    *[(10, 1, 5, 2, "back", 0)] * 60,
]


@given(steps, betas, clamps)
@example(flood, 0.5, 1024.0)
@example(trickle, 0.5, 1024.0)
@example(trickle, 0.9, 2.0**20)
def test_whatever_comes_back_nothing_waits_for_newcomers_beyond_the_bound(given_steps, beta, clamp):
    queue = Queue(beta, clamp)
    for level, come, seconds, pops, then, which in given_steps:
        for _ in range(come):
            queue.come(level)
        queue.now += seconds
        for _ in range(pops):
            task = queue.pop()
            if task is not None:
                assert queue.passed(task) == [], "a newcomer was served first"
        if queue.hands and then != "none":
            task = queue.hands[which % len(queue.hands)]
            if then == "back":
                queue.come_back(task)
            else:
                queue.hands.remove(task)


def test_the_oldest_in_the_queue_alone_would_make_the_bound_too_small():
    """The oldest leased task counts as well: at each tick another leased task comes back."""
    queue = Queue(0.5, 1024.0)
    for _ in range(60):
        queue.come(10)
    while queue.pop() is not None:
        pass
    old = list(queue.hands)
    queue.now = 1_000.0
    zero = queue.come(0)
    assert (zero.oldest_queued_age, zero.oldest_age) == (0.0, 1_000.0)
    alone = zero.queued + longest_wait(INTERVAL, 0.5, zero.oldest_queued_age)

    last_newcomer = 0.0
    while True:
        queue.come(10)
        queue.now += 1.0
        if queue.now % INTERVAL == 0 and old:
            queue.come_back(old.pop())
        task = queue.pop()
        if task is zero:
            break
        last_newcomer = max(last_newcomer, task.created)

    assert last_newcomer > alone + 100
    assert last_newcomer <= zero.queued + longest_wait(INTERVAL, 0.5, zero.oldest_age)
