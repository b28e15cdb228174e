"""What a worker shows of itself."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.fleet import Shown
from tests.kit.kernel import Lane
from tests.kit.politeness import Waiting
from tests.kit.requests import Dead, Done, Retry
from tests.kit.worker import LANES, Tempo
from tests.kit.worlds.memory import DOCS, OTHER, START


def at(shown: Shown | None) -> float | None:
    """The pace of a worker that was busy enough to have shown it."""
    assert shown is None or not shown.is_least
    return None if shown is None else shown.pace


def each(shown: dict[str, Shown]) -> dict[str, float | None]:
    return {lane: at(one) for lane, one in shown.items()}


class Steady:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def steady() -> Steady:
    return Steady()


def test_a_worker_that_is_half_busy_could_do_twice_as_much(steady):
    tempo = Tempo(4, steady)
    for _ in range(10):
        tempo.began(DOCS)
        tempo.began(DOCS)
        steady.now += 1.0
        tempo.ended(DOCS, is_final=True)
        tempo.ended(DOCS, is_final=True)

    assert at(tempo.pace()) == pytest.approx(4.0)


def test_one_that_is_full_does_what_it_can(steady):
    tempo = Tempo(1, steady)
    for _ in range(10):
        tempo.began(DOCS)
        steady.now += 0.5
        tempo.ended(DOCS, is_final=True)

    assert at(tempo.pace()) == pytest.approx(2.0)


def test_each_telling_is_of_what_came_since_the_last(steady):
    tempo = Tempo(1, steady)
    for seconds in (1.0, 0.1):
        for _ in range(50):
            tempo.began(DOCS)
            steady.now += seconds
            tempo.ended(DOCS, is_final=True)
        assert at(tempo.pace()) == pytest.approx(1 / seconds)


def test_little_is_kept_for_the_next_time(steady):
    tempo = Tempo(1, steady)
    tempo.began(DOCS)
    steady.now += 2.0
    tempo.ended(DOCS, is_final=True)

    assert tempo.pace() is None
    for _ in range(3):
        tempo.began(DOCS)
        steady.now += 2.0
        tempo.ended(DOCS, is_final=True)
    assert at(tempo.pace()) == pytest.approx(0.5)


def test_what_is_under_way_counts_for_as_long_as_it_has_run(steady):
    tempo = Tempo(2, steady)
    tempo.began(DOCS)
    for _ in range(10):
        tempo.began(DOCS)
        steady.now += 1.0
        tempo.ended(DOCS, is_final=True)

    assert at(tempo.pace()) == pytest.approx(1.0)


def test_who_is_nearly_idle_shows_only_that_it_can_do_what_it_did(steady):
    tempo = Tempo(64, steady)
    for _ in range(10):
        tempo.began(DOCS)
        steady.now += 0.5
        tempo.ended(DOCS, is_final=True)
        steady.now += 0.5

    assert tempo.pace() == Shown(pace=1.0, is_least=True)
    assert tempo.paces() == {DOCS.path: Shown(pace=1.0, is_least=True)}


def test_who_waits_shows_nothing(steady):
    tempo = Tempo(2, steady)
    steady.now += 100.0

    assert tempo.pace() is None


def ran(tempo: Tempo, steady: Steady, lane: Lane, seconds: float, count: int, *, final=True):
    for _ in range(count):
        tempo.began(lane)
        steady.now += seconds
        tempo.ended(lane, is_final=final)


def attempted(tempo: Tempo, lane: Lane, end: object) -> object:
    async def attempt() -> object:
        if isinstance(end, Exception):
            raise end
        return end

    return asyncio.run(tempo.timed(lane, attempt()))


def test_only_what_is_dealt_with_for_good_counts(steady):
    """A pool without proxies has hundreds put aside in a second: that is no page done."""
    tempo = Tempo(1, steady)
    unfinished = [Waiting("h", [], START, "proxies"), Retry(START, "slow")]
    for end in unfinished * 20:
        assert attempted(tempo, DOCS, end) is end
        steady.now += 0.25
    assert tempo.pace() is None

    for end in [Done(()), Dead("gone", "PageGone"), Done(())]:
        assert attempted(tempo, OTHER, end) is end
    with pytest.raises(ValueError, match="nobody foresaw"):
        attempted(tempo, OTHER, ValueError("nobody foresaw"))
    # Four in fifteen seconds of which it worked for one: nothing is counted as under way still.
    ran(tempo, steady, DOCS, 1.0, 1)
    steady.now += 4.0
    assert tempo.pace() == Shown(pace=pytest.approx(4 / 15), is_least=True)


def test_each_lane_shows_what_could_be_done_of_it_alone(steady):
    tempo = Tempo(2, steady)
    for _ in range(10):
        ran(tempo, steady, DOCS, 0.01, 30)
        ran(tempo, steady, OTHER, 1.0, 1)

    # One of two runners was at work, so that twice as much could be done.
    assert each(tempo.paces()) == pytest.approx({DOCS.path: 200.0, OTHER.path: 2.0})
    assert tempo.paces() == {}


def test_what_costs_time_and_comes_to_nothing_makes_its_own_lane_slow_and_no_other(steady):
    tempo = Tempo(1, steady)
    for _ in range(10):
        ran(tempo, steady, DOCS, 0.9, 1, final=False)
        ran(tempo, steady, DOCS, 0.1, 1)
        ran(tempo, steady, OTHER, 0.1, 10)

    assert each(tempo.paces()) == pytest.approx({DOCS.path: 1.0, OTHER.path: 10.0})


def test_what_a_lane_has_shown_too_little_of_is_forgotten_after_a_while(steady):
    tempo = Tempo(1, steady)
    ran(tempo, steady, DOCS, 0.1, 2)
    steady.now += 50
    assert tempo.paces() == {}
    steady.now += 50
    assert tempo.paces() == {}
    ran(tempo, steady, DOCS, 1.0, 10)

    assert each(tempo.paces()) == pytest.approx({DOCS.path: 1.0})


@given(st.lists(st.tuples(st.integers(0, 2 * LANES), st.booleans(), st.floats(0, 5)), max_size=400))
def test_account_is_kept_of_a_bounded_number_of_lanes_and_never_of_less_than_none(steps):
    steady = Steady()
    tempo, running = Tempo(4, steady), []
    for number, begins, seconds in steps:
        steady.now += seconds
        if begins:
            running.append(Lane("acme", f"b{number}", "main"))
            tempo.began(running[-1])
        elif running:
            tempo.ended(running.pop(number % len(running)), is_final=True)
        paces = tempo.paces()
        assert len(paces) <= LANES
        assert all(shown.pace > 0 for shown in paces.values())


def test_lanes_beyond_those_of_which_account_is_kept_are_told_of_when_there_is_room(steady):
    tempo = Tempo(1, steady)
    lanes = [Lane("acme", f"b{number}", "main") for number in range(LANES + 1)]
    for lane in lanes:
        tempo.began(lane)
    for _ in range(3):
        for lane in lanes:
            steady.now += 0.1
            tempo.ended(lane, is_final=True)
            tempo.began(lane)

    assert set(tempo.paces()) == {lane.path for lane in lanes[:LANES]}
