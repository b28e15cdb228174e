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


@examples(1.5)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(1, 12),
    st.lists(st.integers(0, 11), max_size=4),
)
def test_all_bodies_end_in_bounded_room_whatever_their_sizes_and_whoever_is_cancelled(
    sizes, total, cancelled
):
    async def run():
        room = BodyRoom(total * STEP_BYTES)
        least = room.free

        async def body(size):
            nonlocal least
            with room.share() as share:
                for step in range(1, size + 1):
                    await share.grow(step * STEP_BYTES, NEVER)
                    least = min(least, room.free)
                    await asyncio.sleep(0)

        tasks = [asyncio.create_task(body(size)) for size in sizes]
        await let_others_run(3)
        for number in cancelled:
            tasks[number % len(tasks)].cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
        assert room.free == total * STEP_BYTES
        assert least >= -max(sizes) * STEP_BYTES, "beyond what there is goes one body"

    asyncio.run(run())
