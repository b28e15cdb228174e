"""The proofs run whole, in any order of turns, and say what failed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proofs import PARTS, Part, check, hands, in_turn, run
from tests.turns import ENV, taken, turn


def parts_of(*lengths: float) -> list[Part]:
    return [Part(name=f"p{n}", minutes=each, about="") for n, each in enumerate(lengths)]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def started(parts, clock: Clock, *, failing=(), slowness=1.0, seconds=None):
    """Run these parts; return those begun, what is said, and the exit code."""
    begun, said = [], []

    def start(part: Part, seed: int) -> int:
        assert seed == 7
        begun.append(part.name)
        clock.now += part.minutes * 60 * slowness
        return int(part.name in failing)

    code = run(parts, seed=7, seconds=seconds, start=start, clock=clock, say=said.append)
    return begun, "\n".join(said), code


#: Not as it is written where it marks a test: this file is none of the proofs'.
LONG = getattr(pytest.mark, "-long"[1:])
HYPOTHESIS = getattr(pytest.mark, "-hypothesis"[1:])

lengths = st.lists(st.integers(1, 12), min_size=1, max_size=12)


@given(lengths, st.integers(60, 1_800), st.integers(0, 10**6))
def test_runs_one_after_another_have_all_parts(each, seconds, turn):
    parts = parts_of(*each)
    rounds = len(hands(parts, seconds))

    begun = set()
    for n in range(turn, turn + rounds):
        begun |= set(started(in_turn(parts, seconds, n), Clock(), seconds=seconds)[0])

    assert begun == {part.name for part in parts}


@given(lengths, st.integers(60, 1_800), st.integers(0, 10**6))
def test_a_machine_that_is_three_times_as_slow_has_all_parts_in_more_runs(each, seconds, turn):
    parts = parts_of(*each)
    dealt = hands(parts, seconds)
    rounds = len(dealt) * (max(map(len, dealt)) + 1)

    begun = set()
    for n in range(turn, turn + rounds):
        order = in_turn(parts, seconds, n)
        begun |= set(started(order, Clock(), seconds=seconds, slowness=3.0)[0])

    assert begun == {part.name for part in parts}


@given(lengths, st.integers(60, 1_800), st.integers(0, 10**6))
def test_a_turn_changes_the_order_alone(each, seconds, turn):
    parts = parts_of(*each)

    assert sorted(in_turn(parts, seconds, turn), key=parts.index) == parts


def test_no_part_is_begun_when_the_time_is_up(clock):
    begun, said, code = started(parts_of(2, 2, 2, 2), clock, seconds=200)

    assert begun == ["p0", "p1"]
    assert "not begun: p2 p3" in said
    assert code == 0


def test_without_a_bound_all_parts_are_run(clock):
    begun, said, _ = started(parts_of(60, 60), clock)

    assert begun == ["p0", "p1"]
    assert "not begun" not in said


def test_a_part_that_fails_fails_the_whole_and_keeps_no_other_from_its_turn(clock):
    begun, said, code = started(parts_of(1, 1, 1), clock, failing={"p1"})

    assert begun == ["p0", "p1", "p2"]
    assert code == 1
    assert 'PARTS="p1" SEED=7' in said.splitlines()[-1]
    assert "[2 of 3] p1: FAILED after 1:00" in said


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_part_has_tests(part):
    assert part.files() != []


def test_the_hands_of_a_landing_are_a_prime_number():
    """The turn is the number of commits: two at once would have half of four hands for ever."""
    run = Path(__file__).parents[2] / ".ci/run"
    seconds = re.search(r"make proofs SECONDS=(\d+)", run.read_text())

    count = len(hands(PARTS, float(seconds[1])))

    assert count > 2
    assert all(count % divisor for divisor in range(2, count))


def test_the_shares_are_all_properties_once():
    found = [name for part in PARTS if part.share is not None for name in part.files()]

    assert __file__ in found
    assert len(found) == len(set(found))


class Item:
    """A test with marks, as pytest has it."""

    nodeid = "test_it"

    def __init__(self, path, *marks, obj=None):
        self.path, self.obj = path, obj
        self._marks = [one.mark for one in marks]

    def iter_markers(self, name):
        return (mark for mark in self._marks if mark.name == name)

    def get_closest_marker(self, name):
        return next(self.iter_markers(name), None)


def test_a_mark_for_a_part_that_there_is_not_is_refused():
    with pytest.raises(pytest.UsageError, match="no part 'nothing'"):
        check(Item(__file__, LONG(part="nothing")))


def test_a_mark_that_is_not_written_in_the_file_is_refused(tmp_path):
    empty = tmp_path / "test_it.py"
    empty.touch()

    with pytest.raises(pytest.UsageError, match="not in its own file"):
        check(Item(empty, LONG(part="chaos")))


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_property_that_no_share_would_find_is_refused(tmp_path, is_marked):
    machine = tmp_path / "test_machine.py"
    machine.write_text("TestIt = Machine.TestCase")
    item = (
        Item(machine, HYPOTHESIS)
        if is_marked
        else Item(machine, obj=test_a_turn_changes_the_order_alone)
    )

    with pytest.raises(pytest.UsageError, match=r"mark\.hypothesis"):
        check(item)

    check(Item(machine))
    check(Item(Path(__file__), HYPOTHESIS))


def test_a_part_that_there_is_not_is_refused_on_the_command_line():
    done = subprocess.run(
        [sys.executable, "-m", "tests.proofs", "--parts", "nothing"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "nothing" in done.stderr


def test_the_turn_is_the_one_that_is_named(monkeypatch):
    monkeypatch.setenv(ENV, "12")

    assert turn() == 12


def test_the_turn_is_reported_to_other_processes(monkeypatch):
    monkeypatch.setenv(ENV, "")

    found = turn()

    assert found > 0
    assert turn() == found == int(os.environ[ENV])


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 10**6))
def test_turns_one_after_another_take_everything(number, count, first):
    things = range(number)

    found = {one for n in range(-(-number // count)) for one in taken(things, count, first + n)}

    assert found == set(things)
