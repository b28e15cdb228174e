"""Shares are shown to those they concern: operators see every tenant, a tenant itself."""

import pytest
from msgspec.structs import replace

from tests.kit.ceilings import Ceilings, QueueBytes
from tests.kit.config import Tenant
from tests.kit.fleet import WorkerStatus
from tests.kit.monitoring import SharesView
from tests.kit.worlds.memory import World
from tests.kit.worlds.worker import submitted


@pytest.fixture
def world() -> World:
    made = World()
    tenants = {
        "default": Tenant(share=1, ceilings=Ceilings(in_flight=9, documents=5_000)),
        "acme": Tenant(share=3),
    }
    stage = replace(made.tree.stage, operators=("acme",))
    made.tree = replace(made.tree, tenants=tenants, stage=stage)
    return made


def view(world: World) -> SharesView:
    return SharesView(detector=world.detector, queue=world.queue, sizes=world.ceilings().sizes)


def listed(world: World, tenant: str):
    return {one.tenant: one for one in view(world).list(world.tree, tenant, world.now)}


def test_an_operator_sees_all_and_any_other_tenant_itself(world):
    assert set(listed(world, "acme")) == {"acme", "default"}
    assert set(listed(world, "default")) == {"default"}
    assert view(world).of(world.tree, "acme", world.now) == listed(world, "acme")["acme"]


def test_parts_are_of_those_that_have_work(world):
    assert {name: one.part for name, one in listed(world, "acme").items()} == {
        "acme": 1.0,
        "default": 1.0,
    }
    submitted(world, "https://a.example/")
    submitted(world, "https://a.example/", tenant="acme")

    found = listed(world, "acme")

    assert (found["acme"].part, found["default"].part) == (0.75, 0.25)
    assert (found["acme"].ready, found["default"].ready) == (1, 1)


def test_what_is_in_flight_is_what_live_workers_say(world):
    for worker, held in (("a", {"default/docs": 3, "acme/docs": 1}), ("b", {"default/docs": 4})):
        world.workers.beat(worker, world.now, WorkerStatus(started_ms=1, held=held))

    found = listed(world, "acme")

    assert (found["default"].in_flight, found["acme"].in_flight) == (7, 1)
    assert list(found) == ["default", "acme"]


def test_of_each_ceiling_is_told_how_much_there_is_of_how_much(world):
    submitted(world, "https://a.example/")
    world.workers.beat("a", world.now, WorkerStatus(started_ms=1, held={"default/docs": 9}))
    world.permits.queues = QueueBytes(1_000, 10**9)
    world.sizes.sizes = {"default": (77, 66)}

    own = listed(world, "default")["default"]

    assert {one.limit: (one.used, one.allowed) for one in own.ceilings} == {
        "ceilings.in_flight": (9, 9),
        "ceilings.leases_per_second": (None, None),
        "ceilings.submissions_per_second": (None, None),
        "tenant_redis_ratio": (1_000, 425_000_000),
        "ceilings.stored_bytes": (77, None),
        "ceilings.documents": (66, 5_000),
        "ceilings.trials": (None, 4),
        "ceilings.subscriptions": (None, 1_000),
    }
    assert [one.limit for one in own.ceilings if one.is_reached] == ["ceilings.in_flight"]
