from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.adapters.memory.numbers import MemoryWorkerNumbers
from crawlfleet.errors import (
    ClockSteppedBackError,
    IdsError,
    StoreUnavailableError,
    WorkerNumbersExhaustedError,
)
from crawlfleet.flows.issuing import BLOCK_LIFE, TERM, Issuer
from crawlfleet.model.ids import issued_at
from tests.unit.flows.world import START, Broken, Failing


class Time:
    def __init__(self) -> None:
        self.now = START

    def __call__(self):
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def ids_of(block):
    return [first + n for first, size in block.runs for n in range(size)]


def make(authorities, time=None):
    time = time or Time()
    return Issuer(authorities, "test", time, time.sleep), time


def test_a_block_has_as_many_ids_as_were_asked_for_and_each_once():
    issuer, _ = make([MemoryWorkerNumbers()])

    ids = ids_of(issuer.issue(10_000))

    assert len(set(ids)) == 10_000


def test_ids_grow_and_carry_their_time():
    issuer, time = make([MemoryWorkerNumbers()])

    first = ids_of(issuer.issue(3))
    time.sleep(5)
    second = ids_of(issuer.issue(3))

    assert first + second == sorted(first + second)
    assert abs(issued_at(second[0]) - time.now) <= timedelta(seconds=1)


def test_a_block_is_valid_for_less_long_than_the_lease():
    issuer, time = make([MemoryWorkerNumbers()])

    block = issuer.issue(1)

    assert time.now < block.expires_at <= time.now + BLOCK_LIFE < time.now + TERM


def test_a_thawed_environment_revalidates_before_it_issues():
    numbers = MemoryWorkerNumbers(numbers=range(1))
    frozen, time = make([numbers])
    before = ids_of(frozen.issue(5))
    time.sleep(TERM.total_seconds() + 1)
    other, _ = make([numbers], time)
    meanwhile = ids_of(other.issue(5))

    with pytest.raises(WorkerNumbersExhaustedError):
        frozen.issue(5)

    time.sleep(TERM.total_seconds() + 1)
    after = ids_of(frozen.issue(5))
    assert len({*before, *meanwhile, *after}) == 15


def test_a_small_step_back_of_the_clock_is_waited_for():
    issuer, time = make([MemoryWorkerNumbers()])
    before = ids_of(issuer.issue(5))
    time.now -= timedelta(milliseconds=900)
    stepped = time.now

    after = ids_of(issuer.issue(5))

    assert time.now > stepped
    assert not set(before) & set(after)


def test_a_large_step_back_of_the_clock_is_refused():
    issuer, time = make([MemoryWorkerNumbers()])
    issuer.issue(5)
    time.now -= timedelta(minutes=5)

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
    time = Time()
    issuers = [make([numbers], time)[0] for _ in range(3)]
    seen: set[int] = set()
    for who, count, milliseconds in steps:
        time.now += timedelta(milliseconds=milliseconds)
        try:
            ids = ids_of(issuers[who].issue(count))
        except IdsError:
            continue
        assert not seen.intersection(ids)
        seen.update(ids)
