"""Room for bodies: bounded together, fair, and somebody can always go on."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.fetching import STEP_BYTES, BodyRoom

NEVER = float("inf")


async def let_others_run(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


def test_who_finds_no_room_waits_and_the_first_to_wait_is_the_first_served():
    async def run():
        room, order = BodyRoom(4 * STEP_BYTES), []

        async def body(name, steps, go):
            with room.share() as share:
                await share.grow(steps * STEP_BYTES, NEVER)
                order.append(name)
                await go.wait()

        gates = [asyncio.Event() for _ in range(5)]
        sizes = [3, 3, 1, 1, 1]
        tasks = [
            asyncio.create_task(body(n, s, g))
            for n, (s, g) in enumerate(zip(sizes, gates, strict=True))
        ]
        await let_others_run()
        assert order == [0], "the small ones do not pass the one that has waited longer"
        gates[0].set()
        await let_others_run()
        assert order == [0, 1, 2]
        for gate in gates:
            gate.set()
        await asyncio.gather(*tasks)
        return order, room.free

    assert asyncio.run(run()) == ([0, 1, 2, 3, 4], 4 * STEP_BYTES)


def test_the_oldest_body_goes_beyond_what_there_is_so_that_somebody_ends():
    async def run():
        room = BodyRoom(2 * STEP_BYTES)
        with room.share() as oldest, room.share() as other:
            await oldest.grow(STEP_BYTES, NEVER)
            await other.grow(STEP_BYTES, NEVER)
            waiting = asyncio.create_task(other.grow(2 * STEP_BYTES, NEVER))
            await oldest.grow(10 * STEP_BYTES, NEVER)
            await let_others_run()
            assert (waiting.done(), room.free) == (False, -9 * STEP_BYTES)
            room.leave(oldest)
            await waiting
            return other.held, room.free

    assert asyncio.run(run()) == (2 * STEP_BYTES, 0)


def test_who_waits_for_too_long_gives_up_and_lets_the_next_one_pass():
    async def run():
        room = BodyRoom(3 * STEP_BYTES)
        with room.share() as first, room.share() as large, room.share() as small:
            await first.grow(2 * STEP_BYTES, NEVER)
            soon = asyncio.get_running_loop().time() + 0.05
            giving_up = asyncio.create_task(large.grow(3 * STEP_BYTES, soon))
            await let_others_run()
            passing = asyncio.create_task(small.grow(STEP_BYTES, NEVER))
            await let_others_run()
            assert not passing.done()
            with pytest.raises(TimeoutError):
                await giving_up
            await passing
        return room.free

    assert asyncio.run(run()) == 3 * STEP_BYTES


def test_the_bodies_of_one_tenant_leave_room_for_those_of_whoever_comes():
    async def run():
        room = BodyRoom(8 * STEP_BYTES)
        theirs = [room.share("them") for _ in range(12)]
        filling = [asyncio.create_task(one.grow(STEP_BYTES, NEVER)) for one in theirs]
        await let_others_run()
        assert (room.free, sum(one.done() for one in filling)) == (2 * STEP_BYTES, 6)
        ours = room.share("us")
        await asyncio.wait_for(ours.grow(2 * STEP_BYTES, NEVER), 60)
        more = asyncio.create_task(ours.grow(4 * STEP_BYTES, NEVER))
        await let_others_run()
        assert not more.done(), "what they had before is theirs until they leave it"
        for one in [one for one in theirs if one.held][1:3]:
            room.leave(one)
        await let_others_run()
        assert more.done(), "ours has its part before theirs have more"
        for task in filling:
            task.cancel()
        await asyncio.gather(*filling, return_exceptions=True)
        return ours.held

    assert asyncio.run(run()) == 4 * STEP_BYTES


def test_one_tenant_has_no_more_than_its_part_and_what_nobody_is_kept():
    async def run():
        room = BodyRoom(8 * STEP_BYTES)
        ours = room.share("us")
        await ours.grow(STEP_BYTES, NEVER)
        theirs = [room.share("them") for _ in range(12)]
        filling = [asyncio.create_task(one.grow(STEP_BYTES, NEVER)) for one in theirs]
        await let_others_run()
        assert sum(one.held for one in theirs) == 5 * STEP_BYTES
        room.leave(ours)
        await let_others_run()
        held = sum(one.held for one in theirs)
        for task in filling:
            task.cancel()
        await asyncio.gather(*filling, return_exceptions=True)
        return held

    assert asyncio.run(run()) == 6 * STEP_BYTES


@examples(1.5)
@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.sampled_from([None, "a", "b", "c"])),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 12),
    st.lists(st.integers(0, 11), max_size=4),
)
def test_all_bodies_end_in_bounded_room_whatever_their_sizes_and_whoever_is_cancelled(
    bodies, total, cancelled
):
    async def run():
        room = BodyRoom(total * STEP_BYTES)
        least = room.free

        async def body(size, tenant):
            nonlocal least
            with room.share(tenant) as share:
                for step in range(1, size + 1):
                    await share.grow(step * STEP_BYTES, NEVER)
                    least = min(least, room.free)
                    await asyncio.sleep(0)

        tasks = [asyncio.create_task(body(*one)) for one in bodies]
        await let_others_run(3)
        for number in cancelled:
            tasks[number % len(tasks)].cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
        assert room.free == total * STEP_BYTES
        largest = max(size for size, _ in bodies)
        assert least >= -largest * STEP_BYTES, "beyond what there is goes one body"

    asyncio.run(run())
