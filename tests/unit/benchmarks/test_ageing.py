"""The simulation of ageing: what checks the bound sees who passes it, and the others do pass it."""

from array import array

import pytest

from benchmarks.ageing import (
    BACK_MOST,
    Returns,
    Served,
    beyond_bound,
    rate_of,
    serve,
    trace_of,
    waits_of,
)
from benchmarks.ageing_orders import FirstCome, Ours, Sources, Strict, Trace
from tests.kit.kernel import Ageing

AGEING = Ageing()
#: A tick every ten seconds: without anything older a task is passed by nothing that comes 80 s
#: after it.
QUICK = Ageing(interval_seconds=10)
SMALL = 2_000
TRACE, RATE = trace_of(SMALL), rate_of(SMALL)


def trace(*at: float) -> Trace:
    return Trace(array("d", at), array("b", bytes(len(at))))


def served(*rows: tuple[int, float, float]) -> Served:
    found = Served()
    for row in rows:
        found.add(*row)
    return found


# ---- what checks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("comes", "over"), [(79.0, 0), (80.0, 0), (80.1, 1)])
def test_what_comes_just_after_the_bound_may_not_be_served_before(comes: float, over: int) -> None:
    order = served((1, comes, 90.0), (0, 0.0, 91.0))
    assert beyond_bound(trace(0.0, comes), order, QUICK) == over


def test_a_task_that_many_pass_counts_once_and_each_that_is_passed_counts() -> None:
    one = served((1, 85.0, 90.0), (2, 86.0, 91.0), (0, 0.0, 92.0))
    assert beyond_bound(trace(0.0, 85.0, 86.0), one, QUICK) == 1

    # The second one may be passed for as long again as the first was older.
    two = served((2, 85.5, 90.0), (0, 0.0, 91.0), (1, 0.5, 92.0))
    assert beyond_bound(trace(0.0, 0.5, 85.5), two, QUICK) == 2


@pytest.mark.parametrize(
    ("oldest_served", "comes", "over"),
    [(60.0, 180.0, 0), (60.0, 180.1, 1), (40.0, 130.0, 0), (40.0, 130.1, 1)],
)
def test_the_bound_is_by_the_oldest_that_was_not_done(
    oldest_served: float, comes: float, over: int
) -> None:
    """The task in question comes at 50, with one of 50 seconds before it or with none."""
    order = served((0, 0.0, oldest_served), (2, comes, 200.0), (1, 50.0, 201.0))
    assert beyond_bound(trace(0.0, 50.0, comes), order, QUICK) == over


@pytest.mark.parametrize(("comes", "over"), [(180.0, 0), (180.1, 1)])
def test_what_is_to_come_back_is_not_done(comes: float, over: int) -> None:
    back = (0, 210.0, 210.0)
    order = served((0, 0.0, 1.0), (2, comes, 200.0), (1, 50.0, 201.0), back)
    assert beyond_bound(trace(0.0, 50.0, comes), order, QUICK) == over


@pytest.mark.parametrize(("comes", "over"), [(280.0, 0), (280.1, 1)])
def test_what_comes_back_waits_from_then_on(comes: float, over: int) -> None:
    """The entry itself is the oldest, of 100 seconds: it is passed until 100 + 100 + 80."""
    order = served((0, 0.0, 1.0), (1, comes, 290.0), (0, 100.0, 291.0))
    assert beyond_bound(trace(0.0, comes), order, QUICK) == over


# ---- who passes it -------------------------------------------------------------------------------


def test_ours_keeps_nobody_waiting_beyond_what_is_proven() -> None:
    found = serve(TRACE, Ours(TRACE, AGEING), RATE)

    assert sorted(found.task) == list(range(len(TRACE)))
    assert beyond_bound(TRACE, found, AGEING) == 0


def test_it_holds_where_tasks_come_back_with_their_old_time() -> None:
    order = Ours(TRACE, AGEING)
    found = serve(TRACE, order, RATE, Returns(TRACE, order))

    times = [list(found.task).count(task) for task in range(len(TRACE))]
    assert (min(times), max(times)) == (1, 1 + BACK_MOST)
    assert sum(times) > 1.08 * len(TRACE)
    assert beyond_bound(TRACE, found, AGEING) == 0


@pytest.mark.parametrize("make", [Strict, lambda: Sources(TRACE)], ids=["strict", "sources"])
def test_strict_order_and_the_sources_keep_tasks_waiting_beyond_it(make) -> None:
    found = serve(TRACE, make(), RATE)

    assert sorted(found.task) == list(range(len(TRACE)))
    assert 0.01 * len(TRACE) < beyond_bound(TRACE, found, AGEING) < 0.1 * len(TRACE)


def test_first_come_first_served_lets_nothing_pass() -> None:
    assert beyond_bound(TRACE, serve(TRACE, FirstCome(), RATE), Ageing(interval_seconds=0.05)) == 0


def test_the_sources_starve_the_lowest_priority_as_strict_order_does() -> None:
    worst = {
        name: waits_of(TRACE, serve(TRACE, order, RATE))[0][-1]
        for name, order in (
            ("ours", Ours(TRACE, AGEING)),
            ("sources", Sources(TRACE)),
            ("strict", Strict()),
        )
    }
    assert worst["sources"] == worst["strict"] > 2 * worst["ours"]


# ---- who explodes --------------------------------------------------------------------------------


def test_the_sources_priorities_leave_every_number_behind_and_ours_stay_below_the_clamp() -> None:
    tasks = 20_000  # so that some wait for thousands of pops
    dense, rate = trace_of(tasks), rate_of(tasks)
    ours, as_written, one_for_zero = Ours(dense, AGEING), Sources(dense), Sources(dense, lowest=1)
    for order in (ours, as_written, one_for_zero):
        serve(dense, order, rate)

    assert (ours.endless, as_written.endless) == (0, 0)  # a 0 keeps all others from rising
    assert one_for_zero.endless > 0.1 * tasks


class Swept:
    """The sources' formula by hand: at each pop over all that waits, task by task."""

    def __init__(self, few: Trace) -> None:
        self.at = few.at
        self.order = Sources(few, lowest=1)
        self.priorities: dict[int, float] = {}

    def put(self, level: int, task: int) -> None:
        self.priorities[task] = float(max(level, 1))
        self.order.put(level, task)

    def take(self, now: float) -> int:
        oldest = min(self.at[task] for task in self.priorities)
        for task in self.priorities:
            alpha = (now - self.at[task]) / (now - oldest) if now > oldest else 0.0
            self.priorities[task] *= 2**alpha if alpha > 0.5 else 1.0
        chosen = self.order.take(now)
        most = max(self.priorities.values())
        assert self.priorities.pop(chosen) == pytest.approx(most, rel=1e-6)
        return chosen


def test_the_sources_order_is_that_of_their_formula_swept_over_all_that_waits() -> None:
    few = trace_of(150)
    assert len(serve(few, Swept(few), rate_of(150)).task) == len(few)
