from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.ids import MemoryWorkerNumbers
from tests.kit.ids import BLOCK_LIFE, TERM, Issuer
from tests.kit.kernel import (
    ClockSteppedBackError,
    IdsError,
    StoreUnavailableError,
    WorkerNumbersExhaustedError,
    issued_at,
)
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import START


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self):
        return self.now

    def go_on(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def ids_of(block):
    return [first + n for first, size in block.runs for n in range(size)]


def make(authorities, clock=None):
    clock = clock or Clock()
    return Issuer(authorities, "test", clock, clock.go_on), clock


def test_a_block_has_as_many_ids_as_were_asked_for_and_each_once():
    issuer, _ = make([MemoryWorkerNumbers()])

    ids = ids_of(issuer.issue(10_000))

    assert len(set(ids)) == 10_000


def test_ids_grow_and_carry_their_time():
    issuer, clock = make([MemoryWorkerNumbers()])

    first = ids_of(issuer.issue(3))
    clock.go_on(5)
    second = ids_of(issuer.issue(3))

    assert first + second == sorted(first + second)
    assert abs(issued_at(second[0]) - clock.now) <= timedelta(seconds=1)


def test_a_block_is_valid_for_less_long_than_the_lease():
    issuer, clock = make([MemoryWorkerNumbers()])

    block = issuer.issue(1)

    assert clock.now < block.expires_at <= clock.now + BLOCK_LIFE < clock.now + TERM


def test_a_thawed_environment_revalidates_before_it_issues():
    numbers = MemoryWorkerNumbers(numbers=range(1))
    frozen, clock = make([numbers])
    before = ids_of(frozen.issue(5))
    clock.go_on(TERM.total_seconds() + 1)
    other, _ = make([numbers], clock)
    meanwhile = ids_of(other.issue(5))

    with pytest.raises(WorkerNumbersExhaustedError):
        frozen.issue(5)

    clock.go_on(TERM.total_seconds() + 1)
    after = ids_of(frozen.issue(5))
    assert len({*before, *meanwhile, *after}) == 15


def test_a_small_step_back_of_the_clock_is_waited_for():
    issuer, clock = make([MemoryWorkerNumbers()])
    before = ids_of(issuer.issue(5))
    clock.now -= timedelta(milliseconds=900)
    stepped = clock.now

    after = ids_of(issuer.issue(5))

    assert clock.now > stepped
    assert not set(before) & set(after)


def test_a_large_step_back_of_the_clock_is_refused():
    issuer, clock = make([MemoryWorkerNumbers()])
    issuer.issue(5)
    clock.now -= timedelta(minutes=5)

    with pytest.raises(ClockSteppedBackError):
        issuer.issue(5)


def test_ids_go_on_from_the_second_authority_when_the_first_does_not_answer():
    issuer, _ = make([Broken(), MemoryWorkerNumbers(numbers=range(960, 1024))])

    [first, *_] = ids_of(issuer.issue(1))

    assert (first >> 12) & 1023 >= 960


def test_an_authority_lost_between_blocks_is_replaced():
    first = Failing(MemoryWorkerNumbers(numbers=range(960)), advance=1)
    issuer, _ = make([first, MemoryWorkerNumbers(numbers=range(960, 1024))])

    assert len(ids_of(issuer.issue(3))) == 3


def test_no_authority_at_all_is_an_orderly_error():
    with pytest.raises(StoreUnavailableError):
        make([Broken()])[0].issue(1)
    with pytest.raises(IdsError):
        make([])[0].issue(1)


def test_more_environments_than_numbers_is_an_orderly_refusal():
    numbers = MemoryWorkerNumbers()
    for _ in range(1024):
        make([numbers])[0].issue(1)

    with pytest.raises(WorkerNumbersExhaustedError):
        make([numbers])[0].issue(1)


def test_a_number_that_can_never_be_kept_is_given_up_on():
    class Fickle(MemoryWorkerNumbers):
        def advance(self, *args, **kwargs):
            return False

    with pytest.raises(IdsError, match="tries"):
        make([Fickle()])[0].issue(1)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 9_000), st.integers(-1500, 70_000)),
        max_size=30,
    )
)
def test_ids_never_repeat_whatever_the_clock_does(steps):
    numbers = MemoryWorkerNumbers(numbers=range(2))
    clock = Clock()
    issuers = [make([numbers], clock)[0] for _ in range(3)]
    seen: set[int] = set()
    for who, count, milliseconds in steps:
        clock.now += timedelta(milliseconds=milliseconds)
        try:
            ids = ids_of(issuers[who].issue(count))
        except IdsError:
            continue
        assert not seen.intersection(ids)
        seen.update(ids)
