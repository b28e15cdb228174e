"""Reports and charts from the trace of a burst."""

import pytest

from benchmarks.charts import traces
from benchmarks.scaling import CEILING
from benchmarks.scaling_trace import Patience, Point, Trace


def point(at: float, done: int, workers: int, **more: int) -> Point:
    standing = {"needed": workers, "kept": workers, "limit": 5} | more
    return Point(at=at, submitted=100, done=done, workers=workers, rate=2.0, **standing)


GOOD = (
    point(0, 0, 0),
    point(10, 5, 1),
    point(20, 40, 3),
    point(50, 100, 3),
    point(51, 100, 1),
    point(53, 100, 0),
)


def trace(*points: Point, **more: str) -> Trace:
    return Trace(requests=100, plan=60.0, points=points, **more)


def test_a_burst_that_came_and_went_as_it_should_has_no_faults():
    found = trace(*GOOD)

    assert found.faults(CEILING) == []
    assert (found.seconds, found.peak) == (50, 3)
    assert found.home_seconds == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (GOOD[:3], "40 of 100 requests were done"),
        ((point(0, 0, 1), point(60, 100, 1), point(61, 100, 0)), "no second worker came"),
        (GOOD[:-1], "1 workers are still there"),
        ((*GOOD[:3], point(30, 60, CEILING + 1), *GOOD[3:]), "more workers than the stage may"),
    ],
    ids=["not all done", "nobody came", "somebody stayed", "too many came"],
)
def test_what_is_not_as_it_must_be_is_said(points, said):
    (fault,) = trace(*points).faults(CEILING)

    assert said in fault


def test_what_the_index_took_to_be_done_and_was_not_counts_from_when_it_was():
    found = trace(*GOOD[:3], point(30, 100, 1), point(31, 97, 0), *GOOD[3:])

    assert found.faults(CEILING) == []
    assert found.seconds == 50


def test_a_run_that_was_given_up_says_after_what_and_what_is_left():
    found = trace(*GOOD[:3], ended="given up after 20 s", left="in MongoDB: 40 done, 60 leased")

    assert ["40 of 100" in fault for fault in found.faults(CEILING)] == [True]
    first, *points, left = found.table().splitlines()
    assert first.startswith("seconds backlog")
    assert [line.split()[:2] for line in points] == [["0", "100"], ["10", "95"], ["20", "60"]]
    assert left == "in MongoDB: 40 done, 60 leased"


def test_a_run_of_which_nothing_was_to_be_seen_says_so():
    found = trace(ended="given up after 150 s", left="what is left is unknown")

    assert ["150 s" in fault for fault in found.faults(CEILING)] == [True]
    assert found.table().splitlines()[1:] == ["what is left is unknown"]


def patience() -> Patience:
    return Patience(requests=100, stuck_seconds=30, latest_seconds=1_000, home_seconds=20)


def test_whatever_gets_on_however_slowly_is_not_given_up():
    waits = patience()

    for done in range(30):
        waits.sees(point(25 * done, done, 1))
        assert not waits.is_out(25 * done + 25)


def test_what_neither_comes_nor_gets_done_is_given_up_though_workers_come_and_go():
    waits = patience()
    waits.sees(point(10, 40, 1))
    waits.sees(point(39, 40, 3))
    waits.sees(point(39.5, 38, 0))

    assert (waits.is_out(40), waits.is_out(41)) == (False, True)


def test_a_run_is_given_up_where_it_never_ends_or_nobody_goes_home():
    moves, stays = patience(), patience()
    moves.sees(point(999, 99, 1))
    stays.sees(point(50, 100, 1))
    stays.sees(point(60, 100, 1))

    assert (moves.is_out(1_000), moves.is_out(1_001)) == (False, True)
    assert (stays.is_out(70), stays.is_out(71)) == (False, True)


def test_it_is_drawn_as_what_is_left_who_is_there_and_how_fast_they_are():
    points = [
        {"at": 2.0 * n, "submitted": 100, "done": 4 * n, "workers": n % 3, "rate": n}
        for n in range(26)
    ]

    left, workers, rate = traces({"requests": 100, "plan": 60.0, "points": points})

    assert "60 s" in left
    assert 'x-axis "seconds" 0 --> 50' in left
    assert "line [100, " in left
    assert left.rstrip("`\n ").endswith("0]")
    assert 'y-axis "workers" 0 --> 2' in workers
    assert rate.count("line [") == 1
