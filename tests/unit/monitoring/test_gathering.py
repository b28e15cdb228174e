from collections import Counter
from functools import partial
from threading import Event, Lock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import StoreUnavailableError
from tests.kit.monitoring import Sharing, gather, in_words
from tests.steady import SteadyClock


def refuse():
    raise StoreUnavailableError("redis", "no answer")


def test_answers_and_failures_come_by_name_in_the_order_of_asking():
    found = gather({"a": lambda: 1, "b": refuse, "c": lambda: 3}, threads=2, seconds=30)

    assert list(found.answers.items()) == [("a", 1), ("c", 3)]
    assert {key: in_words(why) for key, why in found.failures.items()} == {"b": "redis: no answer"}


def test_what_does_not_come_to_an_end_costs_its_own_answer_only():
    stuck = Event()
    try:
        calls = {"stuck": stuck.wait, "quick": lambda: 1}
        # It is looked at the clock at the start, before the first wait, and when that is over:
        # the quick one has half a minute, and what comes to no end is not waited for after it.
        clock = iter([0.0, 0.0, 31.0])
        found = gather(calls, threads=2, seconds=30, clock=clock.__next__)
    finally:
        stuck.set()

    assert found.answers == {"quick": 1}
    assert found.failures == {"stuck": "not answered within 30 s"}


def test_what_there_is_no_thread_for_is_given_up_and_never_begun():
    stuck, begun = Event(), []
    try:
        calls = {"stuck": stuck.wait, "next": lambda: begun.append(1)}
        found = gather(calls, threads=1, seconds=0.1)
    finally:
        stuck.set()

    assert set(found.failures) == {"stuck", "next"}
    assert begun == []


def test_many_calls_that_hang_on_one_part_leave_the_others_their_threads():
    stuck = Event()
    hanging = {f"stuck {number}": stuck.wait for number in range(12)}
    good = {number: partial(abs, number) for number in range(500)}
    sharing = Sharing({**dict.fromkeys(hanging, "slow"), **dict.fromkeys(good, "quick")}, 2)
    try:
        with SteadyClock() as clock:
            calls = {**hanging, **good}
            found = gather(calls, threads=12, seconds=1, sharing=sharing, clock=clock)
    finally:
        stuck.set()

    assert list(found.answers) == list(range(500))
    assert list(found.failures) == list(hanging)


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 4), st.integers(1, 3))
def test_no_more_than_so_many_of_the_same_are_at_once_and_each_is_made_once(parts, threads, most):
    lock, running, made, peaks = Lock(), Counter(), Counter(), Counter()

    def call(number: int, part: str) -> str:
        with lock:
            running[part] += 1
            made[number] += 1
            peaks[part] = max(peaks[part], running[part])
        with lock:
            running[part] -= 1
        return part

    calls = {number: partial(call, number, part) for number, part in enumerate(parts)}
    sharing = Sharing(dict(enumerate(parts)), most)
    found = gather(calls, threads=threads, seconds=30, sharing=sharing)

    assert found.answers == dict(enumerate(parts))
    assert set(made.values()) <= {1}
    assert max(peaks.values(), default=0) <= min(most, threads)


def test_those_that_share_take_turns_with_the_others():
    order = []
    calls = {name: partial(order.append, name) for name in ("a1", "a2", "a3", "b1", "b2", "c")}
    sharing = Sharing({name: name[0] for name in calls if name != "c"}, 2)

    gather(calls, threads=1, seconds=30, sharing=sharing)

    assert order == ["a1", "b1", "c", "a2", "b2", "a3"]


def test_no_calls_are_no_answers():
    assert gather({}, threads=4, seconds=1).answers == {}


def test_what_ends_the_process_is_no_failure_of_a_part():
    def leave():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gather({"a": leave}, threads=1, seconds=5)
