"""The status of a tick: faults are counted by part, published as metrics, and stored."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.fleet import MemoryTicks
from tests.kit.fleet import Faults, TickPart, TickReports
from tests.kit.kernel import (
    BacklogFullError,
    LimitRefusedError,
    StoreUnavailableError,
    metric_names,
    warn,
)
from tests.kit.warned import Warned

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NO_FAULTS = [BacklogFullError("full", retry_after_seconds=1.0), LimitRefusedError("no more")]


class Sink:
    """Takes metrics."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def put(self, metrics, dimensions, at) -> None:
        assert not dimensions
        assert at == START
        self.values |= {metric.name: metric.value for metric in metrics}


class Away:
    """ports.Ticks of a Redis that is away."""

    def note(self, *_):
        raise StoreUnavailableError("redis", "away")

    report_fault = note


@pytest.fixture
def said() -> Warned:
    return Warned()


@pytest.fixture
def faults() -> Faults:
    return Faults()


def test_a_part_that_fails_as_a_whole_is_warned_of_and_stops_no_other(faults, said):
    done = []
    for part in TickPart:
        with faults.within(part, f"no {part}"):
            if part is not TickPart.SEEDS:
                raise OverflowError("odd")
            done.append(part)

    assert done == [TickPart.SEEDS]
    assert faults.counts == {part: 1 for part in TickPart if part is not TickPart.SEEDS}
    assert said.texts == [f"no {part}: odd" for part in TickPart if part is not TickPart.SEEDS]


def test_what_a_part_warns_of_is_a_fault_of_it(faults, said):
    with faults.within(TickPart.SCHEDULES, ""):
        for name in ("a", "b"):
            warn(f"schedule {name} could not run", KeyError(name))
    with faults.within(TickPart.SCALING, ""):
        warn("nobody started", OSError("away"))

    assert faults.counts == {TickPart.SCHEDULES: 2, TickPart.SCALING: 1}
    assert len(said.texts) == 3


@pytest.mark.parametrize("error", NO_FAULTS, ids=lambda it: type(it).__name__)
def test_where_there_is_no_room_nothing_has_failed(faults, said, error):
    with faults.within(TickPart.SCHEDULES, ""):
        warn("it stays due", error)

    assert faults.counts == {}
    assert len(said.texts) == 1


def test_what_is_warned_of_between_parts_is_no_fault_of_any(faults):
    warn("an alarm's", OSError())
    with faults.within(TickPart.SEEDS, ""):
        pass
    warn("an alarm's", OSError())

    assert faults.counts == {}


def test_another_tick_begins_without_the_faults_of_the_one_before(faults):
    with faults.within(TickPart.SEEDS, ""):
        raise OSError
    faults.begin()

    assert faults.counts == {}


@given(st.lists(st.sampled_from(TickPart)))
def test_a_tick_is_reported_with_the_sum_of_its_faults_and_noted_with_each(failed):
    faults = Faults()
    for part in failed:
        with faults.within(part, ""):
            raise OSError
    sink, ticks = Sink(), MemoryTicks()

    TickReports(ticks=ticks, metrics=sink).report(faults.counts, 2.5, START)

    assert sink.values == {metric_names.TICKS: 1, metric_names.TICK_FAULTS: len(failed)}
    assert ticks.last().took_seconds == 2.5
    assert ticks.last().faults == {part.value: failed.count(part) for part in failed}


def test_a_tick_that_cannot_be_noted_is_a_metric_all_the_same(faults, said):
    sink = Sink()

    TickReports(ticks=Away(), metrics=sink).report({}, 1.0, START)

    assert sink.values[metric_names.TICKS] == 1
    assert len(said.texts) == 1


def test_what_fails_between_ticks_is_a_metric_and_noted_and_its_want_is_reported(said):
    sink, ticks = Sink(), MemoryTicks()
    ticks.note(1.0, {})
    for place in (ticks, Away()):
        ports = TickReports(ticks=place, metrics=sink)
        ports.report_fault(TickPart.STARTS, "an-event", START)

    assert sink.values == {metric_names.TICK_FAULTS: 1}
    assert ticks.last().faults == {"starts": 1}
    assert len(said.texts) == 1
