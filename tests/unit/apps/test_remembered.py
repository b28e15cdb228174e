import pytest

from tests.kit.api import Remembered
from tests.kit.kernel import StoreUnavailableError


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_it_is_found_once_in_so_many_seconds(clock):
    found = iter(range(10))
    remembered = Remembered(lambda: next(found), 5.0, clock)

    assert [remembered(), remembered()] == [0, 0]
    clock.now += 4.9
    assert remembered() == 0
    clock.now += 0.1
    assert remembered() == 1


def test_a_clock_that_is_set_back_keeps_nothing(clock):
    found = iter(range(10))
    remembered = Remembered(lambda: next(found), 5.0, clock)
    remembered()
    clock.now -= 3_600

    assert remembered() == 1


def test_what_fails_is_asked_for_again_and_nothing_old_is_reported(clock):
    answers = iter([1, StoreUnavailableError("redis", "no answer"), 2])

    def find() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    remembered = Remembered(find, 5.0, clock)
    assert remembered() == 1
    clock.now += 5

    with pytest.raises(StoreUnavailableError):
        remembered()
    assert remembered() == 2
