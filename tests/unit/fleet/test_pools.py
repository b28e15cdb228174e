"""Pools: each is decided on, filled and left by itself; one pool's fault is not the others'."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.scaling import MemoryLimit
from tests.kit.config import Needs, PoolLimits, Tree
from tests.kit.fleet import (
    PoolScaling,
    ScaledPool,
    WorkerStatus,
    decided,
)
from tests.kit.kernel import MAIN_POOL, StoreUnavailableError, bound
from tests.kit.requests import Entry
from tests.kit.warned import named
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.memory import DOCS, START, World, make_tree
from tests.unit.worker.test_leaving import Hands


class Calls:
    """A waker that counts, and fails for as long as it is told to."""

    def __init__(self) -> None:
        self.woken: list[int] = []
        self.fault: Exception | None = None

    def wake(self, count: int) -> None:
        if self.fault is not None:
            raise self.fault
        self.woken.append(count)


def with_pools(tree: Tree, **pools: PoolLimits) -> Tree:
    return replace(tree, stage=replace(tree.stage, pools=pools))


def stating(tree: Tree, needs: Needs) -> Tree:
    docs = replace(tree.bizs["default"]["docs"], needs=needs)
    return replace(tree, bizs={**tree.bizs, "default": {**tree.bizs["default"], "docs": docs}})


class Pools:
    """A world with the pools ``far`` and ``large`` beside the usual workers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls = {"far": Calls(), "large": Calls()}
        self.limits = {"far": MemoryLimit(4), "large": MemoryLimit(4)}

    def ports(self, **changes):
        pools = {
            name: ScaledPool(
                workers=self.world.workers.pool(name), waker=calls, limit=self.limits[name]
            )
            for name, calls in self.calls.items()
        }
        return self.world.scaling(**{"pools": pools, **changes})

    def scaled(self, **changes):
        return self.ports(**changes).scale_all(self.world.tree, self.world.clock)


@pytest.fixture
def world() -> World:
    tree = make_tree(max_consumers=8, requests_per_consumer=10, quiet_seconds=100)
    return World(tree=with_pools(tree, far=PoolLimits(), large=PoolLimits(min_consumers=2)))


@pytest.fixture
def pools(world) -> Pools:
    return Pools(world)


def test_each_pool_has_as_many_as_the_stage_document_says(world, pools):
    found = pools.scaled()

    assert {name: one.started for name, one in found.items()} == {"main": 0, "far": 0, "large": 2}
    assert (world.woken, pools.calls["large"].woken, pools.calls["far"].woken) == ([], [2], [])
    assert pools.scaled()["large"].started == 0  # these are on their way
    assert pools.limits["large"].current() == 4


def test_the_usual_work_is_the_usual_workers(world, pools):
    world.queue.enqueue(DOCS, [Entry(n, "docs", n) for n in range(25)], START)

    found = pools.scaled()

    assert (found["main"].started, found["far"].started) == (3, 0)


def test_what_is_bound_for_a_pool_starts_its_workers_and_no_others(world, pools):
    world.queue.enqueue(bound(DOCS, "far"), [Entry(n, "docs", n) for n in range(15)], START)

    found = pools.scaled()

    assert (found["main"].started, found["far"].started) == (0, 2)


def test_a_pool_that_shares_the_work_is_started_for_it(world, pools):
    world.tree = with_pools(world.tree, far=PoolLimits(bound_only=False))
    world.queue.enqueue(DOCS, [Entry(n, "docs", n) for n in range(15)], START)

    assert pools.scaled()["far"].started == 2


@pytest.mark.parametrize("fault", [StoreUnavailableError("lambda", "away"), ValueError("a lie")])
def test_a_pool_that_cannot_be_started_does_not_keep_the_others(world, pools, fault):
    world.tree = with_pools(
        world.tree, far=PoolLimits(min_consumers=1), large=PoolLimits(min_consumers=1)
    )
    pools.calls["far"].fault = fault
    world.queue.enqueue(DOCS, [Entry(n, "docs", n) for n in range(5)], START)

    found = pools.scaled()

    assert (found["main"].started, found["large"].started) == (1, 1)
    assert world.warned.errors == [named(fault)]


def test_usual_workers_that_cannot_be_looked_at_do_not_keep_a_pool(world, pools):
    workers = Failing(world.workers, live=1)

    with pytest.raises(StoreUnavailableError):
        pools.scaled(workers=workers)

    assert pools.calls["large"].woken == [2]


# ---- stated capacity ----------------------------------------------------------------------------


def test_stated_capacity_is_kept_by_scaling_and_released_when_it_is_idle(world, pools):
    world.tree = stating(world.tree, Needs(workers=3, pool="far", idle_seconds=300))

    found = pools.scaled()["far"]
    assert (found.started, found.target.floor, found.target.stated) == (
        2,
        2,
        3,
    )  # max_consumers is 2
    far = world.workers.pool("far")
    for name in ("a", "b"):
        far.beat(name, world.now, WorkerStatus(pool="far"))
    world.now += timedelta(seconds=299)
    assert pools.scaled()["far"].target.floor == 2
    # Somebody works for it, whoever: then it begins anew.
    world.queue.enqueue(DOCS, [Entry(1, "docs", 1)], world.now)
    assert pools.scaled()["far"].target.floor == 2
    world.queue.flush()
    world.now += timedelta(seconds=250)
    assert pools.scaled()["far"].target.floor == 2
    world.now += timedelta(seconds=301)
    assert pools.scaled()["far"].target.floor == 0


def test_capacity_that_nobody_states_any_more_is_released(world, pools):
    world.tree = stating(world.tree, Needs(workers=2))
    assert pools.scaled()["main"].target.floor == 2

    world.tree = stating(world.tree, None)
    found = pools.scaled()["main"].target
    assert (found.floor, found.stated, found.needed) == (0, 0, 0)


def test_capacity_of_a_worker_that_died_is_filled_at_once(world, pools):
    world.tree = stating(world.tree, Needs(workers=2))
    pools.scaled()
    world.workers.beat("a", world.now)
    world.workers.beat("b", world.now)
    world.detector.reap("b")

    assert world.target().replace_dead({MAIN_POOL}, world.clock) == 1


def test_who_reaps_workers_of_another_pool_replaces_them_there(world, pools):
    pools.scaled()
    large = world.workers.pool("large")
    for name in ("a", "b"):
        large.beat(name, world.now, WorkerStatus(pool="large"))
    world.detector.reap("b", "large")
    other = PoolScaling(
        targets=world.targets,
        workers=large,
        waker=pools.calls["large"],
        pool="large",
    )

    assert world.target(elsewhere={"large": other}).replace_dead({"large"}, world.clock) == 1
    assert pools.calls["large"].woken == [2, 1]
    # Nobody knows how to start one of a pool that is not deployed any more.
    assert world.target().replace_dead({"gone"}, world.clock) == 0
    large.leave("a")
    pools.calls["large"].fault = ValueError("a lie")
    assert world.target(elsewhere={"large": other}).replace_dead({"large"}, world.clock) == 0
    assert "pool large" in world.warnings[-1]


# ---- a worker of a pool --------------------------------------------------------------------------


def test_a_worker_of_a_pool_leaves_the_usual_work_alone_and_stays_where_it_is_kept(world, pools):
    world.tree = with_pools(make_tree(idle_seconds=0.02), large=PoolLimits(min_consumers=1))
    pools.ports().scale(world.tree, world.clock, "large")
    world.queue.enqueue(DOCS, [Entry(n, "docs", n) for n in range(3)], START)
    large = world.workers.pool("large")
    hands, looks = Hands(world), []
    targets = PoolScaling(
        targets=world.targets,
        workers=large,
        waker=pools.calls["large"],
        pool="large",
    )

    def until() -> bool:
        looks.append(1)
        return len(looks) > 40

    hands.run(
        1,
        until,
        lambda: world.work({}, remaining=hands.left, workers=large, scaling=targets, pool="large"),
    )

    assert hands.ended == {"w0": "time"}
    assert world.queue.depth(DOCS).queued == 3
    assert pools.calls["large"].woken[-1:] == [1], "the next one has been called for"


def test_a_worker_that_is_kept_by_a_statement_alone_does_not_end_when_idle(world, pools):
    world.tree = stating(make_tree(idle_seconds=0.02), Needs(workers=1))
    world.scaling().scale(world.tree, world.clock)
    assert decided(world.targets).floor == 1
    hands, looks = Hands(world), []

    def until() -> bool:
        looks.append(1)
        return len(looks) > 40

    hands.run(1, until)

    assert hands.ended == {"w0": "time"}
