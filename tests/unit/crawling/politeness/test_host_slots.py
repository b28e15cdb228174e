"""Held requests begin when their turn has come and a permit is free, and not before."""

import asyncio
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.politeness import Turns
from tests.kit.worker import STEADY, SteadyTime


class Request(SimpleNamespace):
    __hash__ = object.__hash__


def request(
    host: str, slot_at: float | None = 0.0, permits: int = 1, name: object = None, interval=0.0
):
    return Request(
        host=(host, "acme"),
        slot_at=slot_at,
        permits=permits,
        interval_seconds=interval,
        name=name,
    )


def begun(turns: Turns) -> list[object]:
    found = []
    while not turns.ready.empty():
        found.append(turns.ready.get_nowait())
    return found


def test_as_many_begin_at_a_host_as_it_has_permits():
    async def check():
        turns = Turns()
        held = [request("a", permits=2, name=n) for n in range(5)]
        for one in held:
            turns.add(one)

        assert begun(turns) == held[:2]
        assert turns.running(("a", "acme")) == 5

        turns.end(held[0])
        assert begun(turns) == [held[2]]

    asyncio.run(check())


def test_hosts_do_not_wait_for_one_another():
    async def check():
        turns = Turns()
        blocked = [request("slow", name=n) for n in range(3)]
        for one in (*blocked, other := request("quick")):
            turns.add(one)

        assert begun(turns) == [blocked[0], other]

    asyncio.run(check())


def test_no_request_begins_before_its_slot():
    async def check():
        turns = Turns()
        started = STEADY.now()
        late = request("a", slot_at=started + 0.1)
        soon = request("b", slot_at=started + 0.05)
        turns.add(late)
        turns.add(soon)
        assert begun(turns) == []

        assert await asyncio.wait_for(turns.ready.get(), 60) is soon
        assert STEADY.now() - started >= 0.045
        assert await asyncio.wait_for(turns.ready.get(), 60) is late
        assert STEADY.now() - started >= 0.095

    asyncio.run(check())


def test_slots_that_come_late_keep_their_distance():
    """A permit was missing, or the event loop was held: they do not all begin at once then."""

    async def check():
        now = [100.0]
        turns = Turns(SteadyTime(lambda: now[0]))
        held = [request("a", slot_at=n * 0.01, interval=0.02) for n in range(3)]
        for one in held:
            turns.add(one)
        for one in held:
            assert await asyncio.wait_for(turns.ready.get(), 60) is one
            turns.end(one)
            now[0] += 0.015
            await asyncio.sleep(0.025)  # so long its timer was set for
            assert begun(turns) == []
            now[0] += 0.006

    asyncio.run(check())


def test_a_request_that_needs_no_slot_begins_at_once():
    async def check():
        turns = Turns()
        turns.add(one := request("a", slot_at=None))
        assert begun(turns) == [one]

    asyncio.run(check())


def test_a_host_is_forgotten_when_nothing_of_it_is_left():
    async def check():
        turns = Turns()
        turns.add(one := request("a"))
        begun(turns)
        assert turns.busy() == {("a", "acme"): 1}

        turns.end(one)

        assert turns.busy() == {}
        assert turns.running(("a", "acme")) == 0

    asyncio.run(check())


def test_runners_take_what_is_ready_before_they_learn_of_the_end():
    async def check():
        turns = Turns()
        turns.add(one := request("a"))
        turns.add(request("b", slot_at=STEADY.now() + 60))
        turns.close(2)

        assert begun(turns) == [one, None, None]

    asyncio.run(check())


@examples(0.5)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3)), max_size=40),
    st.randoms(use_true_random=False),
)
def test_no_host_ever_has_more_under_way_than_its_latest_permits(requests, dice):
    async def check():
        turns, under_way, done = Turns(), [], 0
        permits: dict[str, int] = {}
        for host, allowed in requests:
            before = {key: sum(one.host[0] == key for one in under_way) for key in "abc"}
            turns.add(request(host, permits=allowed))
            permits[host] = allowed
            under_way += begun(turns)
            for key in "abc":
                now = sum(one.host[0] == key for one in under_way)
                assert now <= max(before[key], permits.get(key, 0))
            if under_way and dice.random() < 0.5:
                turns.end(under_way.pop(dice.randrange(len(under_way))))
                under_way += begun(turns)
                done += 1
        while under_way or not turns.ready.empty():
            under_way += begun(turns)
            turns.end(under_way.pop())
            done += 1
        assert done == len(requests)
        assert turns.busy() == {}

    asyncio.run(check())


def test_later_requests_do_not_delay_earlier_slots():
    """The timer is set once, for the first of those that wait."""

    async def check():
        turns, started = Turns(), STEADY.now()
        turns.add(soon := request("a", slot_at=started + 0.05))
        turns.add(request("b", slot_at=started + 60))

        assert await asyncio.wait_for(turns.ready.get(), 60) is soon
        assert turns.running(("b", "acme")) == 1
        turns.close(0)

    asyncio.run(check())


def test_who_goes_on_at_another_host_leaves_the_first_and_is_counted_there():
    async def check():
        turns = Turns()
        turns.add(led := request("a"))
        turns.add(behind := request("a"))
        assert begun(turns) == [led]
        assert turns.running(("a", "acme"), but=led) == 1

        turns.go_on(led, ("a", "acme"))
        assert begun(turns) == []

        turns.go_on(led, ("b", "acme"))
        assert begun(turns) == [behind]
        assert turns.busy() == {("a", "acme"): 1, ("b", "acme"): 1}
        assert turns.running(("b", "acme"), but=led) == 0
        assert turns.running(("b", "acme"), but=behind) == 1

        turns.end(led)
        turns.end(behind)
        assert turns.busy() == {}

    asyncio.run(check())
