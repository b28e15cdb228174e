"""A worker looks into the queues that are open, and not into those of all bizs (SPEC.md C8)."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.kit.kernel import StoreUnavailableError, to_ms
from tests.kit.queue import LINGER, Load
from tests.kit.worker import REST_MS, ReadyQueues, SteadyTime
from tests.kit.worlds.memory import make_biz, make_tree

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def tree(*names):
    return replace(make_tree(), bizs={"acme": {name: make_biz() for name in names}})


TREE = tree(*(f"b{n:03d}" for n in range(100)))
QUEUES = TREE.queues()
EMPTY, READY = Load(ready=0, leased=0), Load(ready=5, leased=0)


class Queue:
    """Loads by queue, the open ones, and what was asked for."""

    def __init__(self) -> None:
        self.open, self.steady = self, 0.0
        self.announced, self.looked, self.forgotten = {}, [], []
        self.of, self.listings, self.away = {}, 0, False

    def listed(self):
        self.listings += 1
        if self.away:
            raise StoreUnavailableError("redis", "away")
        return dict(self.announced)

    def forget(self, seen):
        self.forgotten += seen

    def loads(self, queues, _now):
        self.looked.append(list(queues))
        return [self.of.get(one, EMPTY) for one in queues]

    def put(self, number, load=READY, ago=timedelta()):
        self.announced[QUEUES[number]], self.of[QUEUES[number]] = to_ms(NOW - ago), load


@pytest.fixture
def queue():
    return Queue()


@pytest.fixture
def ready(queue):
    return ReadyQueues(
        queue,
        "main",
        lambda: NOW + timedelta(seconds=queue.steady),
        SteadyTime(now=lambda: queue.steady),
    )


def test_only_open_queues_are_looked_into_in_the_configurations_order(queue, ready):
    queue.put(70)
    queue.put(7)

    assert ready.ready(TREE) == [QUEUES[7], QUEUES[70]]
    assert queue.looked == [[QUEUES[7], QUEUES[70]]]


def test_a_queue_of_a_removed_biz_is_looked_into_by_nobody(queue, ready):
    queue.put(7)

    assert ready.ready(tree("other")) == []
    assert ready.ready(tree()) == []


def test_what_is_announced_is_found_at_once(queue, ready):
    assert ready.ready(TREE) == []
    queue.put(7)

    assert ready.ready(TREE) == [QUEUES[7]]


def test_many_open_queues_are_listed_now_and_then(queue, ready):
    for number in range(100):
        queue.put(number)
    for _ in range(5):
        ready.ready(TREE)
        queue.steady += 0.01
    assert queue.listings == 1

    queue.steady += 0.01
    ready.ready(TREE)
    assert queue.listings == 2


def test_an_empty_queue_is_forgotten_once_nothing_is_on_its_way(queue, ready):
    queue.put(7, EMPTY, ago=LINGER)
    queue.put(8, EMPTY, ago=LINGER + timedelta(seconds=1))
    queue.put(9, Load(ready=0, leased=1), ago=timedelta(days=1))
    queue.put(10, Load(ready=0, leased=0, next_ts=to_ms(NOW) + 9_000), ago=timedelta(days=1))
    queue.put(11, Load(ready=0, leased=0, away=True), ago=timedelta(days=1))

    assert ready.ready(TREE) == []
    assert queue.forgotten == [QUEUES[8]]


def test_a_queue_that_waits_for_its_time_is_looked_into_now_and_then(queue, ready):
    queue.put(7, Load(ready=0, leased=0, next_ts=to_ms(NOW) + 60_000))
    queue.put(8, Load(ready=0, leased=0, next_ts=to_ms(NOW) + 100))
    queue.put(9, Load(ready=0, leased=3))
    ready.ready(TREE)
    ready.ready(TREE)
    queue.steady += 0.11
    ready.ready(TREE)
    queue.steady += REST_MS / 1_000
    ready.ready(TREE)

    numbers = [[QUEUES.index(one) for one in part] for part in queue.looked]
    assert numbers == [[7, 8, 9], [9], [8, 9], [7, 8, 9]]


def test_a_queue_that_waits_is_looked_into_at_once_when_it_is_announced(queue, ready):
    queue.put(7, Load(ready=0, leased=0, next_ts=to_ms(NOW) + 60_000), ago=timedelta(minutes=5))
    ready.ready(TREE)
    queue.put(7)

    assert ready.ready(TREE) == [QUEUES[7]]


def test_all_are_looked_into_while_the_open_ones_cannot_be_listed(queue, ready):
    queue.away = True
    queue.of[QUEUES[50]] = READY

    assert ready.ready(TREE) == [QUEUES[50]]
    assert len(queue.looked[0]) == 100
    assert queue.forgotten == []
