"""kernel.time: epoch milliseconds and aware datetimes."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import from_ms, to_ms

zones = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
moments = st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001  the zone comes from the strategy
    max_value=datetime(9998, 12, 31),  # noqa: DTZ001
    timezones=zones,
)


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_milliseconds_come_back_exactly(ms: int) -> None:
    assert to_ms(from_ms(ms)) == ms
    assert from_ms(ms).tzinfo is UTC


@given(moments)
def test_a_moment_is_rounded_down_to_its_millisecond(moment: datetime) -> None:
    back = from_ms(to_ms(moment))

    assert timedelta() <= moment - back < timedelta(milliseconds=1)


@given(moments, zones)
def test_the_zone_does_not_matter(moment: datetime, zone: timezone) -> None:
    assert to_ms(moment.astimezone(zone)) == to_ms(moment)


@given(moments, moments)
def test_order_is_kept(one: datetime, other: datetime) -> None:
    first, second = sorted((one, other))
    assert to_ms(first) <= to_ms(second)


def test_a_naive_moment_is_refused() -> None:
    with pytest.raises(TypeError):
        to_ms(datetime(2026, 1, 1))  # noqa: DTZ001  that is the subject
