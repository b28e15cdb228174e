"""The contract of WorkerNumbers, and what stands on it: no id is ever issued twice (SPEC.md A2)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.kit.examples import examples
from tests.kit.fleet import LeasedNumber
from tests.kit.ids import WORKER_NUMBERS, Allot, WorkerNumbers, allot, first_mark, position, runs
from tests.kit.kernel import WorkerNumbersExhaustedError

NOW_MS = 1_772_366_400_000
TERM_MS = 10_000


def advanced(held: LeasedNumber, mark: int) -> LeasedNumber:
    return msgspec.structs.replace(held, mark=mark)


def test_every_number_is_leased_once_then_refused_in_order(numbers_of):
    numbers = numbers_of(range(WORKER_NUMBERS))

    leased = [numbers.lease(f"h{n}", NOW_MS, TERM_MS) for n in range(WORKER_NUMBERS)]

    assert sorted(held.number for held in leased) == list(range(WORKER_NUMBERS))
    assert len({held.fence for held in leased}) == WORKER_NUMBERS
    with pytest.raises(WorkerNumbersExhaustedError) as refusal:
        numbers.lease("late", NOW_MS + TERM_MS - 1, TERM_MS)
    assert refusal.value.retryable
    assert numbers.lease("late", NOW_MS + TERM_MS, TERM_MS).number in range(WORKER_NUMBERS)


def test_only_numbers_of_the_range_are_given(numbers_of):
    numbers = numbers_of(range(7, 9))

    assert {numbers.lease("h", NOW_MS, TERM_MS).number for _ in range(2)} == {7, 8}
    with pytest.raises(WorkerNumbersExhaustedError):
        numbers.lease("h", NOW_MS, TERM_MS)


def test_the_number_free_for_longest_is_given_next(numbers_of):
    numbers = numbers_of(range(3))
    ends = {numbers.lease("h", NOW_MS, term).number: term for term in (300, 100, 200)}

    again = [numbers.lease("h", NOW_MS + 1000, TERM_MS).number for _ in range(3)]

    assert [ends[number] for number in again] == [100, 200, 300]


def test_a_number_without_a_mark_starts_beyond_any_lost_one(numbers_of):
    held = numbers_of(range(1)).lease("h", NOW_MS, TERM_MS)

    assert held.mark == first_mark(NOW_MS)


def test_a_mark_past_2_to_the_53_is_kept_exactly(numbers_of):
    numbers = numbers_of(range(1))
    held = numbers.lease("h", NOW_MS, TERM_MS)
    mark = 2**62 + 1

    assert numbers.advance(held, mark, NOW_MS, TERM_MS)
    assert not numbers.advance(advanced(held, mark - 1), mark + 1, NOW_MS, TERM_MS)
    assert numbers.lease("next", NOW_MS + TERM_MS, TERM_MS).mark == mark


def test_advancing_renews_the_lease(numbers_of):
    numbers = numbers_of(range(1))
    held = numbers.lease("h", NOW_MS, TERM_MS)

    assert numbers.advance(held, held.mark + 1, NOW_MS + TERM_MS - 1, TERM_MS)
    with pytest.raises(WorkerNumbersExhaustedError):
        numbers.lease("next", NOW_MS + TERM_MS, TERM_MS)
    assert numbers.advance(
        advanced(held, held.mark + 1), held.mark + 2, NOW_MS + TERM_MS + 1, TERM_MS
    )


def test_the_fence_of_an_ended_lease_is_refused(numbers_of):
    numbers = numbers_of(range(1))
    held = numbers.lease("h", NOW_MS, TERM_MS)

    assert not numbers.advance(held, held.mark + 1, NOW_MS + TERM_MS, TERM_MS)
    assert numbers.lease("next", NOW_MS + TERM_MS, TERM_MS).mark == held.mark


def test_the_fence_of_an_earlier_holder_is_refused(numbers_of):
    numbers = numbers_of(range(1))
    frozen = numbers.lease("frozen", NOW_MS, TERM_MS)
    holder = numbers.lease("holder", NOW_MS + TERM_MS, TERM_MS)

    assert not numbers.advance(frozen, frozen.mark + 1, NOW_MS + TERM_MS, TERM_MS)
    assert not numbers.advance(frozen, frozen.mark + 1, NOW_MS, TERM_MS)
    assert numbers.advance(holder, holder.mark + 1, NOW_MS + TERM_MS, TERM_MS)


def test_a_mark_that_is_not_the_last_one_is_refused(numbers_of):
    numbers = numbers_of(range(1))
    held = numbers.lease("h", NOW_MS, TERM_MS)
    numbers.advance(held, held.mark + 10, NOW_MS, TERM_MS)

    assert not numbers.advance(held, held.mark + 20, NOW_MS, TERM_MS)
    assert not numbers.advance(advanced(held, held.mark + 10), held.mark, NOW_MS, TERM_MS)
    assert numbers.advance(advanced(held, held.mark + 10), held.mark + 20, NOW_MS, TERM_MS)


def test_a_number_nobody_leased_cannot_be_advanced(numbers_of):
    made_up = LeasedNumber(number=0, fence="1:0:me", mark=position(NOW_MS))

    assert not numbers_of(range(1)).advance(made_up, made_up.mark + 1, NOW_MS, TERM_MS)


def test_two_holders_never_share_a_number(numbers_of):
    numbers = numbers_of(range(200))

    with ThreadPoolExecutor(20) as pool:
        leased = list(pool.map(lambda n: numbers.lease(f"h{n}", NOW_MS, TERM_MS), range(200)))

    assert len({held.number for held in leased}) == 200


def test_of_equal_advances_from_many_threads_one_succeeds(numbers_of):
    numbers = numbers_of(range(1))
    held = numbers.lease("h", NOW_MS, TERM_MS)

    def advance(_: int) -> bool:
        return numbers.advance(held, held.mark + 100, NOW_MS, TERM_MS)

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(advance, range(60))) == 1


HOLDERS = st.integers(0, 3)


class Issuers(RuleBasedStateMachine):
    """Four environments on three numbers, each with a clock of its own that steps as it likes."""

    def __init__(self, numbers: WorkerNumbers) -> None:
        super().__init__()
        self.numbers = numbers
        self.true_ms = NOW_MS
        self.ahead_ms = dict.fromkeys(range(4), 0)
        self.held: dict[int, LeasedNumber] = {}
        self.frozen: list[LeasedNumber] = []
        self.issued: set[int] = set()

    def now_ms(self, holder: int) -> int:
        return self.true_ms + self.ahead_ms[holder]

    @rule(ms=st.integers(0, 4000))
    def time_passes(self, ms: int) -> None:
        self.true_ms += ms

    @rule(holder=HOLDERS, ms=st.integers(-4000, 4000))
    def clock_steps(self, holder: int, ms: int) -> None:
        self.ahead_ms[holder] += ms

    @rule(holder=HOLDERS, term_ms=st.integers(1, 3000))
    def lease(self, holder: int, term_ms: int) -> None:
        if holder in self.held:
            self.frozen.append(self.held.pop(holder))
        try:
            self.held[holder] = self.numbers.lease(str(holder), self.now_ms(holder), term_ms)
        except WorkerNumbersExhaustedError:
            assert len(self.held) + len(self.frozen) > 0

    @rule(holder=HOLDERS, how_many=st.integers(1, 9000), term_ms=st.integers(1, 3000))
    def issue(self, holder: int, how_many: int, term_ms: int) -> None:
        held = self.held.get(holder)
        if held is not None:
            self.frozen.append(held)
            after = self._issue(held, holder, how_many, term_ms)
            if after is None:
                del self.held[holder]
            else:
                self.held[holder] = after

    @rule(holder=HOLDERS, which=st.integers(0, 20), how_many=st.integers(1, 9000))
    def thaw_and_issue(self, holder: int, which: int, how_many: int) -> None:
        """An environment acts on what it knew when it was frozen."""
        if self.frozen:
            self._issue(self.frozen[which % len(self.frozen)], holder, how_many, 1000)

    def _issue(
        self, held: LeasedNumber, holder: int, how_many: int, term_ms: int
    ) -> LeasedNumber | None:
        now_ms = self.now_ms(holder)
        allotted = allot(held.mark, now_ms, how_many)
        if not isinstance(allotted, Allot):
            return held
        if not self.numbers.advance(held, allotted.end, now_ms, term_ms):
            return None
        fresh = {first + n for first, size in runs(held.number, allotted) for n in range(size)}
        assert len(fresh) == how_many
        assert not fresh & self.issued
        self.issued |= fresh
        return advanced(held, allotted.end)


@pytest.mark.hypothesis
def test_no_id_is_issued_twice_whatever_clocks_and_leases_do(
    numbers_of: Callable[[range, str], WorkerNumbers],
) -> None:
    fleets = count()

    run_state_machine_as_test(
        lambda: Issuers(numbers_of(range(3), f"-{next(fleets)}")),
        settings=examples(0.6, steps=40),
    )
