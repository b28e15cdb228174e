"""A worker dispatches the seeds of queue keys that it has met, and the tick those of all."""

from collections import Counter
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import SeedPolicy, Tenant
from tests.kit.frontier import (
    ACTIVE_SECONDS,
    DISPATCHED_A_CALL,
    DISPATCHED_BESIDE,
    MARGIN_SECONDS,
    FrontierClient,
    SeedState,
    tend_seeds,
)
from tests.kit.kernel import QueueKey
from tests.kit.requests import (
    Done,
)
from tests.kit.worker import SteadyTime
from tests.kit.worlds import worker as worlds
from tests.kit.worlds.frontier import url
from tests.kit.worlds.memory import DOCS, OTHER, make_biz, make_tree
from tests.kit.worlds.worker import work
from tests.unit.crawling.frontier.found_links import a_claim, found, linking, seeds, spied, states


@pytest.fixture(autouse=True)
def _quick(world):
    world.pace(dispatch_seeds=0.01)


def submitted(world, *numbers, **facts):
    return worlds.submitted(world, *map(url, numbers), **facts)


def test_a_worker_with_seeds_left_does_not_leave(world):
    world.pace(dispatch_seeds=600.0)  # it dispatches only when about to leave
    world.tree = make_tree(make_biz(seeds=SeedPolicy(ahead=1)))
    submitted(world, 1)

    report = work(world, linking(p1=(2, 3, 4), p2=(), p3=(), p4=()))

    assert (report.done, report.stopped_because) == (4, "idle")


def test_a_queue_is_looked_after_while_something_is_met_there(world):
    now = [1_000.0]
    ports, spy = spied(world)
    frontier = FrontierClient(ports, world.clock, SteadyTime(lambda: now[0]))
    frontier.add_links(DOCS, world.biz, [(a_claim(1), found(2))])

    assert frontier.dispatch(world.tree) == 1  # which keeps it active
    now[0] += ACTIVE_SECONDS
    assert looks(frontier, world, spy) == 1
    ended = a_claim(2, seed=seeds(world)[url(2)].id)
    frontier.ended(DOCS, world.biz, [(ended, Done(()))], set())
    now[0] += ACTIVE_SECONDS
    assert looks(frontier, world, spy) == 1

    now[0] += 1.0
    assert looks(frontier, world, spy) == 0


def test_beside_others_with_work_a_few_of_a_tenants_seeds_are_dispatched_and_it_is_charged(world):
    """Making requests takes the time of the worker that reads the others' pages."""
    now = [1_000.0]
    bizs = dict.fromkeys(("docs", "more"), world.biz)
    world.tree = replace(world.tree, bizs={"default": bizs, "acme": {"docs": world.biz}})
    asked: list[tuple[QueueKey, int]] = []
    charged: Counter[str] = Counter()

    class Dispatcher:
        def dispatch(self, tree, queue_key, biz, at, most):
            asked.append((queue_key, most))
            now[0] += 0.25
            return min(most, 400)

    frontier = FrontierClient(Dispatcher(), world.clock, SteadyTime(lambda: now[0]))
    for biz in bizs:
        frontier._active[QueueKey("default", biz, "main")] = now[0]

    alone = frontier.dispatch(world.tree, ["default"])
    first, asked[:] = [most for _, most in asked], []
    beside = frontier.dispatch(
        world.tree, ["default", "acme"], lambda tenant, seconds: charged.update({tenant: seconds})
    )

    assert (alone, first) == (800, [DISPATCHED_A_CALL] * 2)
    assert beside == DISPATCHED_BESIDE
    assert [most for _, most in asked] == [DISPATCHED_BESIDE, DISPATCHED_BESIDE - 400]
    assert len({queue_key for queue_key, _ in asked}) == 2
    assert charged == {"default": 0.5}


def looks(frontier, world, spy):
    """Count the queue keys that are read, of which nothing is dispatched."""
    spy.calls.clear()
    assert frontier.dispatch(world.tree) == 0
    return len({queue_key for queue_key, *_ in spy.of("ready")})


def test_a_biz_that_is_gone_is_looked_after_no_more(world):
    ports, spy = spied(world)
    frontier = FrontierClient(ports, world.clock)
    frontier.add_links(DOCS, world.biz, [(a_claim(1), found(2))])
    world.tree.bizs["default"].clear()

    assert looks(frontier, world, spy) == 0


class OneQueue:
    """A seed store that fails for one tenant."""

    def __init__(self, world, tenant):
        self._world, self._tenant = world, tenant

    def __getattr__(self, name):
        method = getattr(self._world.seeds, name)

        def call(queue_key, *args):
            if queue_key.tenant == self._tenant and name in {"ready", "overdue"}:
                raise ValueError("odd")
            return method(queue_key, *args)

        return call


def faulty(world, tenant):
    ports = world.seeding()
    object.__setattr__(ports, "seeds", OneQueue(world, tenant))
    return ports


@pytest.mark.parametrize(("broken", "served"), [("default", OTHER), ("acme", DOCS)])
def test_a_queue_that_cannot_be_served_by_a_worker_stops_no_other(world, broken, served):
    frontier = FrontierClient(faulty(world, broken), world.clock)
    for queue_key in (DOCS, OTHER):
        frontier.add_links(queue_key, world.biz, [(a_claim(1, queue_key=queue_key), found(2))])

    assert frontier.dispatch(world.tree) == 1

    assert states(world, served)[2] == SeedState.HANDED
    assert len(world.warnings) == 1


# ---- by the tick ---------------------------------------------------------------------------------


def added(world):
    for queue_key in (DOCS, OTHER):
        FrontierClient(world.seeding(), world.clock).add_links(
            queue_key, world.biz, [(a_claim(1, queue_key=queue_key), found(2))]
        )


def handed(world):
    return {
        queue_key for queue_key in (DOCS, OTHER) if states(world, queue_key)[2] == SeedState.HANDED
    }


def test_the_tick_hands_out_what_is_due_in_every_queue(world):
    added(world)

    assert tend_seeds(world.seeding(), world.tree, world.now, lambda: 600.0) == 2
    assert handed(world) == {DOCS, OTHER}


@pytest.mark.parametrize(("broken", "served"), [("default", OTHER), ("acme", DOCS)])
def test_a_queue_that_cannot_be_served_by_the_tick_stops_no_other(world, broken, served):
    added(world)

    assert tend_seeds(faulty(world, broken), world.tree, world.now, lambda: 600.0) == 1

    assert handed(world) == {served}
    assert len(world.warnings) == 1


def test_without_time_left_the_tick_begins_no_queue(world):
    added(world)

    assert tend_seeds(world.seeding(), world.tree, world.now, lambda: MARGIN_SECONDS - 1) == 0
    assert handed(world) == set()


def test_ticks_that_get_no_further_than_one_queue_come_to_all_of_them(world):
    added(world)

    for _ in range(4):
        left = iter([600.0, 0.0])
        tend_seeds(world.seeding(), world.tree, world.now, lambda left=left: next(left))
        world.now += timedelta(minutes=1)

    assert handed(world) == {DOCS, OTHER}


def test_a_tick_that_gets_no_further_than_two_queues_comes_to_one_of_each_tenant(world):
    """However many bizs one of them has."""
    bizs = {f"biz{n}": world.biz for n in range(20)}
    world.tree = replace(world.tree, bizs={"acme": bizs, "default": {"docs": world.biz}})
    for _ in range(5):
        begun: list[str] = []
        ports = world.seeding()
        dispatch = ports.dispatch

        def noting(tree, queue_key, biz, now, dispatch=dispatch, begun=begun):
            begun.append(queue_key.tenant)
            return dispatch(tree, queue_key, biz, now)

        left = iter([600.0, 600.0, 0.0])
        seeds_of = Noted(ports, noting)
        tend_seeds(seeds_of, world.tree, world.now, lambda left=left: next(left))
        world.now += timedelta(minutes=1)
        assert sorted(begun) == ["acme", "default"]


@pytest.mark.parametrize("share", [1, 4])
def test_slow_seeds_of_one_tenant_leave_others_their_part_of_a_tick(world, share):
    """Each queue of one takes five seconds, each of the other half of one."""
    bizs = {f"biz{n}": world.biz for n in range(100)}
    tenants = {"acme": Tenant(), "default": Tenant(share=share)}
    world.tree = replace(world.tree, tenants=tenants, bizs={"acme": bizs, "default": bizs})
    passed, took, ports = [0.0], Counter(), world.seeding()

    def slow(tree, queue_key, biz, now):
        seconds = 5.0 if queue_key.tenant == "acme" else 0.5
        passed[0] += seconds
        took[queue_key.tenant] += seconds
        return 0

    steady = SteadyTime(lambda: passed[0])
    seeds_of = Noted(ports, slow)
    tend_seeds(seeds_of, world.tree, world.now, lambda: 110.0 - passed[0], steady)

    assert abs(took["default"] - share * took["acme"]) <= 5.0 * share


class Noted:
    """A dispatcher of seeds whose calls are noted."""

    def __init__(self, ports, dispatch):
        self._ports, self.dispatch = ports, dispatch

    def __getattr__(self, name):
        return getattr(self._ports, name)
