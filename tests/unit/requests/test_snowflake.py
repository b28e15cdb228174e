"""requests.ids.issuer: positions are spent once, waits are honest, a wrong clock is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.ids import (
    LONGEST_WAIT_MS,
    PER_MILLISECOND,
    UNMARKED_GUARD_MS,
    WINDOW_MS,
    WORKER_NUMBERS,
    Allot,
    SteppedBack,
    Wait,
    allot,
    first_mark,
    position,
    runs,
)
from tests.kit.kernel import (
    COUNTER_LIMIT,
    SEQUENCE_BITS,
    SNOWFLAKE_EPOCH_MS,
    TIME_SHIFT,
    issued_at,
    to_ms,
)

NOW_MS = SNOWFLAKE_EPOCH_MS + 40_000_000_000

clocks = st.integers(SNOWFLAKE_EPOCH_MS + 10**9, SNOWFLAKE_EPOCH_MS + 2**41 - 10**6)
workers = st.integers(0, WORKER_NUMBERS - 1)
#: What the window holds, less than which nobody ever waits for on an idle worker.
counts = st.integers(1, WINDOW_MS * PER_MILLISECOND)


def expand(worker: int, allotted: Allot) -> list[int]:
    return [first + offset for first, size in runs(worker, allotted) for offset in range(size)]


@given(clocks, st.integers(-(10**7), 10**7), counts)
def test_nothing_below_the_mark_is_allotted_again(now_ms: int, ahead: int, count: int) -> None:
    mark = position(now_ms) + ahead

    found = allot(mark, now_ms, count)

    if isinstance(found, Allot):
        assert found.start >= mark
        assert found.end - found.start == count
        assert found.end <= position(now_ms + 1)
    else:
        assert mark + count > position(now_ms + 1)


@given(clocks, st.integers(0, 10**8), counts)
def test_a_wait_is_just_long_enough(now_ms: int, ahead: int, count: int) -> None:
    mark = position(now_ms) + ahead

    found = allot(mark, now_ms, count)

    if isinstance(found, Wait):
        assert 0 < found.milliseconds <= LONGEST_WAIT_MS
        assert isinstance(allot(mark, now_ms + found.milliseconds, count), Allot)
        assert not isinstance(allot(mark, now_ms + found.milliseconds - 1, count), Allot)
    elif isinstance(found, SteppedBack):
        assert found.milliseconds > LONGEST_WAIT_MS


@given(
    st.lists(st.tuples(st.integers(-300, 300), st.integers(1, 9_000)), min_size=1, max_size=30),
    workers,
)
def test_ids_of_a_worker_never_repeat_whatever_its_clock_does(
    steps: list[tuple[int, int]], worker: int
) -> None:
    mark, now_ms = first_mark(NOW_MS), NOW_MS + UNMARKED_GUARD_MS
    seen = 0
    for step, count in steps:
        now_ms += step
        found = allot(mark, now_ms, count)
        if isinstance(found, Allot):
            ids = expand(worker, found)
            assert ids[0] > seen
            assert ids == sorted(set(ids))
            assert len(ids) == count
            seen, mark = ids[-1], found.end


@given(clocks, workers, workers, counts.filter(lambda count: count <= 3_000))
def test_two_workers_never_share_an_id(now_ms: int, one: int, other: int, count: int) -> None:
    found = allot(0, now_ms, count)

    first, second = (set(expand(worker, found)) for worker in (one, other))

    assert (first == second) if one == other else not (first & second)


@given(clocks, workers, counts.filter(lambda count: count <= 20_000))
def test_an_id_carries_its_time_its_worker_and_its_sequence(
    now_ms: int, worker: int, count: int
) -> None:
    allotted = allot(0, now_ms, count)

    ids = expand(worker, allotted)

    for at, request_id in zip(range(allotted.start, allotted.end), ids, strict=True):
        assert (request_id >> TIME_SHIFT, request_id & (PER_MILLISECOND - 1)) == divmod(
            at, PER_MILLISECOND
        )
        assert (request_id >> SEQUENCE_BITS) & (WORKER_NUMBERS - 1) == worker
    assert now_ms - WINDOW_MS <= to_ms(issued_at(ids[0])) <= to_ms(issued_at(ids[-1])) <= now_ms
    assert COUNTER_LIMIT < ids[0] <= ids[-1] < 2**63


def test_a_large_block_never_waits_on_an_idle_worker() -> None:
    assert isinstance(allot(0, NOW_MS, WINDOW_MS * PER_MILLISECOND), Allot)


@pytest.mark.parametrize("ahead_ms", [LONGEST_WAIT_MS + 2, 10**6, 10**12])
def test_a_clock_far_behind_the_ids_issued_is_refused(ahead_ms: int) -> None:
    found = allot(position(NOW_MS + ahead_ms), NOW_MS, 1)

    assert isinstance(found, SteppedBack)
    assert found.milliseconds == ahead_ms


def test_an_unmarked_number_keeps_clear_of_a_lost_mark() -> None:
    assert first_mark(NOW_MS) == position(NOW_MS + UNMARKED_GUARD_MS)
    assert isinstance(allot(first_mark(NOW_MS), NOW_MS, 1), Wait)


def test_an_empty_allotment_has_no_runs() -> None:
    assert runs(3, Allot(5, 5)) == []
