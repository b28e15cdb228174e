from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import TICK, QueueKey, rotated

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  hypothesis wants its bounds naive


def queues(count):
    return [QueueKey("t", f"b{number}", "main") for number in range(count)]


@given(st.integers(0, 300), MOMENTS)
def test_a_round_has_every_queue_once_and_in_their_circle(count, now):
    found = rotated(queues(count), now)

    assert sorted(found) == sorted(queues(count))
    place = queues(count).index(found[0]) if count else 0
    assert list(found) == queues(count)[place:] + queues(count)[:place]


@given(st.integers(1, 60), MOMENTS)
def test_rounds_that_get_no_further_than_one_queue_soon_come_to_all(count, now):
    every = queues(count)

    begun = {rotated(every, now + n * TICK)[0] for n in range(3 * count + 3)}

    assert len(begun) == count


def test_within_one_round_the_place_stays():
    moments = [NOW + timedelta(seconds=second) for second in range(60)]

    assert len({rotated(queues(10), now)[0] for now in moments}) == 1
