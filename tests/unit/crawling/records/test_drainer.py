"""A worker drains the data queues one by one, and no queue key's fault is another's."""

import pytest

from tests.kit.kernel import StoreUnavailableError
from tests.kit.records import BATCH, BATCHES, ITEM_LEASE, Drainer, wire_of
from tests.kit.requests import Item
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import DOCS, OTHER, World, make_tree
from tests.kit.worlds.worker import work


def put(world, queue_key, *titles):
    items = [
        Item(rule="page", url="https://example.org/a", fields={"title": title}) for title in titles
    ]
    world.data.put(queue_key, [wire_of(item) for item in items])


def titles(world, queue_key=DOCS):
    found = world.store.records(queue_key, world.biz, request_id=None, after=None, limit=9_999)
    return sorted(record.fields["title"] for record in found)


def drainer(world, batches=BATCHES, **changes):
    ports = world.draining()
    for name, part in changes.items():
        object.__setattr__(ports, name, part)
    return Drainer(ports, "w", world.clock, batches=batches)


def test_the_items_of_every_queue_are_stored(world):
    put(world, DOCS, "a", "b")
    put(world, OTHER, "c")

    assert drainer(world).drain(world.tree) == 3

    assert (titles(world), titles(world, OTHER)) == (["a", "b"], ["c"])
    assert world.data.waiting([DOCS, OTHER]) == [0, 0]


def test_a_stage_without_queues_asks_nobody():
    world = World()
    world.tree = type(world.tree)(revision="1", stage=world.tree.stage, tenants={}, bizs={})

    assert drainer(world, queue=Broken()).drain(world.tree) == 0


def test_a_queue_with_many_items_gets_so_many_batches_then_others_have_their_turn(world):
    put(world, DOCS, *(f"{number}" for number in range(2 * BATCH + 1)))
    put(world, OTHER, "other")
    one = drainer(world, 2)

    assert one.drain(world.tree) == 2 * BATCH + 1
    assert (titles(world, OTHER), len(titles(world))) == (["other"], 2 * BATCH)
    assert one.drain(world.tree) == 1
    assert BATCHES * BATCH >= 1_000


def test_what_is_no_item_counts_as_done_with(world):
    world.data.put(DOCS, [b"nonsense"])
    put(world, DOCS, "a")

    assert drainer(world).drain(world.tree) == 2
    assert titles(world) == ["a"]


class OneQueue:
    """A port that fails for one tenant in whatever way it is told."""

    def __init__(self, port, method, tenant, error):
        self._port, self._method, self._tenant, self._error = port, method, tenant, error
        self.calls = 0

    def __getattr__(self, name):
        method = getattr(self._port, name)
        if name != self._method:
            return method

        def call(queue_key, *args):
            if queue_key.tenant == self._tenant:
                self.calls += 1
                raise self._error
            return method(queue_key, *args)

        return call


@pytest.mark.parametrize(
    ("part", "method"), [("store", "store_keyed"), ("queue", "lease"), ("queue", "finish")]
)
@pytest.mark.parametrize("error", [ValueError("odd"), StoreUnavailableError("a part", "away")])
def test_a_queues_fault_stops_no_other_and_its_items_stay(world, part, method, error):
    put(world, OTHER, *(f"{number}" for number in range(3)))
    put(world, DOCS, "a")
    port = {"store": world.store, "queue": world.data}[part]
    faulty = OneQueue(port, method, "acme", error)

    assert drainer(world, **{part: faulty}).drain(world.tree) == 1

    assert titles(world) == ["a"]
    assert faulty.calls == 1, "it was asked again in the same round"
    assert len(world.warnings) == 1
    world.now += ITEM_LEASE
    drainer(world).drain(world.tree)
    assert titles(world, OTHER) == ["0", "1", "2"]


def test_each_lease_has_a_token_of_its_own(world):
    tokens = []

    class Noting:
        def __getattr__(self, name):
            return getattr(world.data, name)

        def lease(self, queue_key, token, *args):
            tokens.append(token)
            return world.data.lease(queue_key, token, *args)

    put(world, DOCS, "a")
    for _ in range(2):  # an invocation that is repeated has the same id
        drainer(world, queue=Noting()).drain(world.tree)
        put(world, DOCS, "b")

    assert len(set(tokens)) == len(tokens) >= 2
    assert all(token.startswith("w.") for token in tokens)


# ---- by a worker ---------------------------------------------------------------------------------


@pytest.fixture
def _quick(world):
    world.pace(drain=0.01)


@pytest.mark.usefixtures("_quick")
def test_a_worker_stores_what_waits_and_does_not_leave_before(world):
    put(world, DOCS, *(f"{number}" for number in range(BATCH)))
    put(world, OTHER, "x")

    report = work(world)

    assert (report.items, report.stopped_because) == (BATCH + 1, "idle")
    assert (len(titles(world)), titles(world, OTHER)) == (BATCH, ["x"])


@pytest.mark.usefixtures("_quick")
def test_a_data_queue_that_is_away_for_a_while_stops_no_worker(world):
    put(world, DOCS, "a")
    ports = world.draining()
    object.__setattr__(ports, "queue", Failing(world.data, waiting=1, lease=2))
    world.tree = make_tree(world.biz, idle_seconds=0.2)

    report = work(world, draining=ports)

    assert (report.items, titles(world)) == (1, ["a"])


def test_one_searches_all_data_queues_and_all_drain_what_it_found(world):
    put(world, DOCS, "a")
    asked = []
    waiting = world.data.waiting
    world.data.waiting = lambda queues: asked.append(len(queues)) or waiting(queues)
    idle = Drainer(world.draining(), "idle", world.clock, lambda: False)
    searching = Drainer(world.draining(), "searching", world.clock, lambda: True)

    assert idle.drain(world.tree) == 0, "nobody has searched yet"
    world.data.open.announce([DOCS])
    assert idle.drain(world.tree) == 1
    put(world, OTHER, "b")
    assert idle.drain(world.tree) == 0
    assert searching.drain(world.tree) == 1

    assert asked == [0, 1, 1, 2, 1]


def test_data_queues_that_are_empty_or_of_removed_bizs_are_forgotten(world):
    gone = type(DOCS)("default", "gone", "main")
    world.data.open.announce([DOCS, gone])

    drainer(world).drain(world.tree)

    assert world.data.open.listed() == {}
