"""Leased requests begin when their slot has come and a permit is free, and not before."""

import asyncio
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.politeness import LocalScheduler
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


def begun(scheduler: LocalScheduler) -> list[object]:
    found = []
    while not scheduler.ready.empty():
        found.append(scheduler.ready.get_nowait())
    return found


def test_as_many_begin_at_a_host_as_it_has_permits():
    async def check():
        scheduler = LocalScheduler()
        leased = [request("a", permits=2, name=n) for n in range(5)]
        for one in leased:
            scheduler.add(one)

        assert begun(scheduler) == leased[:2]
        assert scheduler.running(("a", "acme")) == 5

        scheduler.end(leased[0])
        assert begun(scheduler) == [leased[2]]

    asyncio.run(check())


def test_hosts_do_not_wait_for_one_another():
    async def check():
        scheduler = LocalScheduler()
        blocked = [request("slow", name=n) for n in range(3)]
        for one in (*blocked, other := request("quick")):
            scheduler.add(one)

        assert begun(scheduler) == [blocked[0], other]

    asyncio.run(check())


def test_no_request_begins_before_its_slot():
    async def check():
        scheduler = LocalScheduler()
        started = STEADY.now()
        late = request("a", slot_at=started + 0.1)
        soon = request("b", slot_at=started + 0.05)
        scheduler.add(late)
        scheduler.add(soon)
        assert begun(scheduler) == []

        assert await asyncio.wait_for(scheduler.ready.get(), 60) is soon
        assert STEADY.now() - started >= 0.045
        assert await asyncio.wait_for(scheduler.ready.get(), 60) is late
        assert STEADY.now() - started >= 0.095

    asyncio.run(check())


def test_slots_that_come_late_keep_their_distance():
    """A permit was missing, or the event loop was held: they do not all begin at once then."""

    async def check():
        now = [100.0]
        scheduler = LocalScheduler(SteadyTime(lambda: now[0]))
        leased = [request("a", slot_at=n * 0.01, interval=0.02) for n in range(3)]
        for one in leased:
            scheduler.add(one)
        for one in leased:
            assert await asyncio.wait_for(scheduler.ready.get(), 60) is one
            scheduler.end(one)
            now[0] += 0.015
            await asyncio.sleep(0.025)  # so long its timer was set for
            assert begun(scheduler) == []
            now[0] += 0.006

    asyncio.run(check())


def test_a_request_that_needs_no_slot_begins_at_once():
    async def check():
        scheduler = LocalScheduler()
        scheduler.add(one := request("a", slot_at=None))
        assert begun(scheduler) == [one]

    asyncio.run(check())


def test_a_host_is_forgotten_when_nothing_of_it_is_left():
    async def check():
        scheduler = LocalScheduler()
        scheduler.add(one := request("a"))
        begun(scheduler)
        assert scheduler.busy() == {("a", "acme"): 1}

        scheduler.end(one)

        assert scheduler.busy() == {}
        assert scheduler.running(("a", "acme")) == 0

    asyncio.run(check())


def test_runners_take_what_is_ready_before_they_learn_of_the_end():
    async def check():
        scheduler = LocalScheduler()
        scheduler.add(one := request("a"))
        scheduler.add(request("b", slot_at=STEADY.now() + 60))
        scheduler.close(2)

        assert begun(scheduler) == [one, None, None]

    asyncio.run(check())


@examples(0.5)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3)), max_size=40),
    st.randoms(use_true_random=False),
)
def test_no_host_ever_has_more_under_way_than_its_latest_permits(requests, dice):
    async def check():
        scheduler, under_way, done = LocalScheduler(), [], 0
        permits: dict[str, int] = {}
        for host, allowed in requests:
            before = {key: sum(one.host[0] == key for one in under_way) for key in "abc"}
            scheduler.add(request(host, permits=allowed))
            permits[host] = allowed
            under_way += begun(scheduler)
            for key in "abc":
                now = sum(one.host[0] == key for one in under_way)
                assert now <= max(before[key], permits.get(key, 0))
            if under_way and dice.random() < 0.5:
                scheduler.end(under_way.pop(dice.randrange(len(under_way))))
                under_way += begun(scheduler)
                done += 1
        while under_way or not scheduler.ready.empty():
            under_way += begun(scheduler)
            scheduler.end(under_way.pop())
            done += 1
        assert done == len(requests)
        assert scheduler.busy() == {}

    asyncio.run(check())


def test_later_requests_do_not_delay_earlier_slots():
    """The timer is set once, for the first of those that wait."""

    async def check():
        scheduler, started = LocalScheduler(), STEADY.now()
        scheduler.add(soon := request("a", slot_at=started + 0.05))
        scheduler.add(request("b", slot_at=started + 60))

        assert await asyncio.wait_for(scheduler.ready.get(), 60) is soon
        assert scheduler.running(("b", "acme")) == 1
        scheduler.close(0)

    asyncio.run(check())


def test_who_goes_on_at_another_host_leaves_the_first_and_is_counted_there():
    async def check():
        scheduler = LocalScheduler()
        scheduler.add(led := request("a"))
        scheduler.add(behind := request("a"))
        assert begun(scheduler) == [led]
        assert scheduler.running(("a", "acme"), but=led) == 1

        scheduler.go_on(led, ("a", "acme"))
        assert begun(scheduler) == []

        scheduler.go_on(led, ("b", "acme"))
        assert begun(scheduler) == [behind]
        assert scheduler.busy() == {("a", "acme"): 1, ("b", "acme"): 1}
        assert scheduler.running(("b", "acme"), but=led) == 0
        assert scheduler.running(("b", "acme"), but=behind) == 1

        scheduler.end(led)
        scheduler.end(behind)
        assert scheduler.busy() == {}

    asyncio.run(check())
