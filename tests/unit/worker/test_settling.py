"""Outcomes that a store does not take now: what is kept of them, and what is done meanwhile."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.kit.requests import Done, State
from tests.kit.worker import DEFERRED_BATCHES, DEFERRED_BYTES, PAUSES, Settler
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.memory import DOCS, OTHER, make_tree
from tests.kit.worlds.worker import Parts, states, submitted, until

URLS = [f"https://example.org/{n}" for n in range(12)]


class Stand:
    """A worker that has read twelve pages, and whose store is away once."""

    def __init__(self, world, weight=0):
        self.world = world
        world.tree = make_tree(world.biz, batch=len(URLS))
        self.ids = submitted(world, *URLS)
        store = Failing(world.store, settle=1)
        self.parts = Parts(world, store=store, pauses=PAUSES)
        self.in_flight = self.parts.session.in_flight
        for leased in self.parts.leases.take().leased:
            leased.weight = weight
            self.in_flight.add(leased)
            self.in_flight.end(leased, Done(()))

    def settle(self, batch):
        session = self.parts.session
        stage = self.world.tree.stage
        fleet = replace(stage.fleet, batch=batch)
        self.world.tree = replace(self.world.tree, stage=replace(stage, fleet=fleet))
        settler = Settler(session, self.parts.leases, self.parts.telemetry)
        return asyncio.run(settler.settle(self.in_flight.outcomes()))


def test_what_could_not_be_stored_is_stored_the_next_time(world):
    stand = Stand(world)

    assert not stand.settle(len(URLS))
    assert stand.settle(len(URLS))

    assert states(world, stand.ids) == [State.DONE] * len(URLS)
    assert (stand.parts.report.done, stand.parts.report.left) == (len(URLS), 0)


def test_a_queue_whose_outcomes_could_not_be_stored_is_left_alone_for_a_while(world):
    stand = Stand(world)
    assert not stand.parts.leases.is_backing_off(DOCS)

    stand.settle(len(URLS))

    assert stand.parts.leases.is_backing_off(DOCS)


@pytest.mark.parametrize(
    ("weight", "batch", "kept"),
    [(0, 1, DEFERRED_BATCHES), (DEFERRED_BYTES // 2, 12, 2), (DEFERRED_BYTES + 1, 12, 0)],
    ids=["batches", "bytes", "a large one"],
)
def test_what_there_is_no_room_to_keep_is_left_to_its_lease(world, weight, batch, kept):
    stand = Stand(world, weight)

    stand.settle(batch)

    assert len(stand.in_flight) == kept
    assert stand.parts.report.left == len(URLS) - kept
    assert states(world, stand.ids) == [State.LEASED] * len(URLS)


def test_an_outcome_of_another_queue_is_stored_though_one_is_away(world):
    stand = Stand(world)
    theirs = submitted(world, *URLS[:2], tenant="acme")
    for leased in stand.parts.leases.take().leased:
        stand.in_flight.add(leased)
        stand.in_flight.end(leased, Done(()))

    assert not stand.settle(len(URLS))

    assert states(world, stand.ids) == [State.LEASED] * len(URLS)
    assert states(world, theirs, OTHER) == [State.DONE] * len(theirs)


def test_what_one_tenant_stores_for_long_keeps_no_other_waiting(world):
    """What others have ended meanwhile is stored beside it."""
    world.tree = make_tree(world.biz, batch=len(URLS))
    slow = submitted(world, *URLS)
    parts = Parts(world, pauses=PAUSES)
    session, in_flight, threaded = parts.session, parts.session.in_flight, parts.session.threaded
    began, go = asyncio.Event(), asyncio.Event()

    async def held(function, *args, **kwargs):
        """Keep what is stored of the usual tenant waiting."""
        if args and args[0] == DOCS:
            began.set()
            await go.wait()
        return await threaded(function, *args, **kwargs)

    def end_all() -> None:
        for leased in parts.leases.take().leased:
            in_flight.add(leased)
            in_flight.end(leased, Done(()))

    async def run():
        session.threaded = held
        settler = Settler(session, parts.leases, parts.telemetry)
        settling = asyncio.create_task(settler.run())
        end_all()
        settler.wake()
        await until(began.is_set)
        theirs = submitted(world, *URLS[:2], tenant="acme")
        end_all()
        settler.wake()
        await until(lambda: states(world, theirs, OTHER) == [State.DONE] * len(theirs))
        before = states(world, slow)
        go.set()
        await until(lambda: not in_flight.ended)
        settling.cancel()
        await asyncio.gather(settling, return_exceptions=True)
        return before

    assert asyncio.run(run()) == [State.LEASED] * len(URLS)
    assert states(world, slow) == [State.DONE] * len(URLS)
