"""Figures of the deferred requests of a host."""

from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.ageing import joined, served
from tests.kit.queue import LOOKED_AT, READY_EACH, ready_count

STEPS = st.lists(
    st.lists(st.integers(0, 50), min_size=1, max_size=6) | st.integers(1, 5), max_size=60
)


@given(STEPS)
def test_no_entry_is_ever_older_than_what_is_said(steps):
    waits: list[int] = []
    waiting = None
    for step in steps:
        if isinstance(step, list):
            waits += step
            waiting = joined(waiting, len(step), min(step))
        elif waiting is not None:
            many = min(step, len(waits))
            waits = waits[many:]
            waiting = served(waiting, many)
        if waits:
            assert waiting.count == len(waits)
            assert waiting.low <= min(waits)
        else:
            assert waiting is None


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30))
def test_what_is_said_follows_a_list_that_is_served_and_joined_in_the_order_of_age(batches):
    waits, waiting, ts = [], None, 0
    for many in batches:
        new = [ts + n for n in range(many)]
        ts += many
        waits += new
        waiting = joined(waiting, many, new[0])
    length = len(waits)
    for _ in range(2 * length):
        waits = [*waits[1:], ts]
        waiting = joined(waiting, 1, ts)
        waiting = served(waiting, 1)
        ts += 1

    assert waiting.low >= min(waits) - length


@given(st.lists(st.integers(1, 1_000), max_size=LOOKED_AT), st.integers(0, 10_000))
def test_work_is_reported_where_there_is_any(counts, more):
    due = len(counts) + (more if len(counts) == LOOKED_AT else 0)

    found = ready_count(counts, due)

    assert (found > 0) == (due > 0)
    assert found <= READY_EACH * due
