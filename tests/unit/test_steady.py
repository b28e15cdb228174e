"""The clocks of tests: what is waited counts, what the machine takes does not."""

import asyncio
import threading
import time

import pytest

from tests.steady import MOST_SECONDS, SteadyClock, SteadyLoop
from tests.waiting import eventually


def test_an_event_loop_of_a_test_is_a_steady_one():
    async def run():
        return type(asyncio.get_running_loop())

    assert asyncio.run(run()) is SteadyLoop


def test_a_loop_that_stood_still_has_its_time_left():
    async def run():
        loop = asyncio.get_running_loop()
        began, really = loop.time(), time.monotonic()
        async with asyncio.timeout(0.3):
            time.sleep(0.5)  # noqa: ASYNC251  the loop is to stand still
            await asyncio.sleep(0.1)
        return loop.time() - began, time.monotonic() - really

    counted, took = asyncio.run(run())

    assert counted < 0.3
    assert took >= 0.6


def test_what_never_comes_is_waited_for_in_full_and_not_longer():
    async def run():
        loop = asyncio.get_running_loop()
        began, really = loop.time(), time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await asyncio.Event().wait()
        return loop.time() - began, time.monotonic() - really

    counted, took = asyncio.run(run())

    assert took >= counted >= 0.2


def test_the_clock_goes_as_fast_as_time_and_no_faster():
    with SteadyClock() as clock:
        began, really = clock(), time.monotonic()
        eventually(lambda: clock() >= began + 0.1)

        assert time.monotonic() - really >= 0.1


def test_the_clock_hardly_moves_while_nobody_can_run():
    now: list[float] = [100.0]
    ticks: list[float] = []
    main = threading.current_thread()

    def monotonic() -> float:
        if threading.current_thread() is not main:
            ticks.append(now[0])
        return now[0]

    clock = SteadyClock(monotonic)
    began = clock()

    now[0] += 0.02
    assert clock() - began == pytest.approx(0.02)
    now[0] += 5.0
    assert clock() - began == pytest.approx(MOST_SECONDS)
    with clock:
        eventually(lambda: len(ticks) > 1, what="it ticks again, having counted the first")
        assert clock() - began == pytest.approx(MOST_SECONDS)
        now[0] += 0.03
        assert clock() - began == pytest.approx(MOST_SECONDS + 0.03)
