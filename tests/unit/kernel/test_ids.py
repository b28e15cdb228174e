"""kernel.ids: how ids are written and what time they carry."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import (
    COUNTER_LIMIT,
    SNOWFLAKE_EPOCH_MS,
    TIME_SHIFT,
    InvalidRequestError,
    issued_at,
    parse_id,
    to_ms,
)

hexes = st.text("0123456789abcdef", min_size=32, max_size=32)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.integers(0, 2**63 - 1))
def test_an_integer_is_read_as_it_was_written(number: int) -> None:
    assert parse_id(str(number)) == number


@given(st.uuids())
def test_a_uuid_is_read_in_all_its_spellings(uuid: UUID) -> None:
    assert parse_id(uuid.hex) == uuid.hex
    assert parse_id(str(uuid)) == uuid.hex
    assert parse_id(str(uuid).upper()) == uuid.hex


@given(hexes)
def test_an_object_id_is_read_in_either_case(text: str) -> None:
    assert parse_id(text[:24]) == parse_id(text[:24].upper()) == text[:24]


@pytest.mark.parametrize(
    "text",
    [
        *["", "-1", "+1", "1.0", "1e3", " 1", "1\n", "1_0", "٣", "abc", "id", "0x10", "1" * 100],
        *[
            str(2**63),
            "9" * 20,
            "g" * 24,
            "a" * 23,
            "a" * 33,
            "a" * 24 + "\n",
            "{" + "a" * 32 + "}",
        ],
    ],
)
def test_what_is_no_id_is_refused_with_the_name_of_its_field(text: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_id(text, "ids[3]")

    assert [problem.field for problem in caught.value.problems] == ["ids[3]"]


@given(st.text())
def test_any_text_is_an_id_or_refused(text: str) -> None:
    try:
        found = parse_id(text)
    except InvalidRequestError:
        return
    assert parse_id(str(found)) == found
    assert found == int(text) if isinstance(found, int) else len(found) in (24, 32)


@given(st.integers(0, COUNTER_LIMIT - 1))
def test_a_counter_carries_no_time(number: int) -> None:
    assert issued_at(number) is None


@given(st.integers(COUNTER_LIMIT >> TIME_SHIFT, 2**41 - 1), st.integers(0, 2**TIME_SHIFT - 1))
def test_a_snowflake_id_carries_its_millisecond(milliseconds: int, rest: int) -> None:
    found = issued_at((milliseconds << TIME_SHIFT) | rest)

    assert to_ms(found) == milliseconds + SNOWFLAKE_EPOCH_MS


def test_snowflake_ids_passed_the_counters_three_days_after_their_epoch() -> None:
    first = issued_at(COUNTER_LIMIT)

    assert first - EPOCH - timedelta(milliseconds=SNOWFLAKE_EPOCH_MS) < timedelta(days=4)


@given(st.integers(0, 2**32 - 1), hexes)
def test_an_object_id_carries_its_second(seconds: int, rest: str) -> None:
    assert issued_at(f"{seconds:08x}{rest[:16]}") == EPOCH + timedelta(seconds=seconds)


@given(st.integers(0, 253_402_300_799_000), hexes)
def test_a_uuid_of_version_seven_carries_its_millisecond(milliseconds: int, rest: str) -> None:
    assert to_ms(issued_at(f"{milliseconds:012x}{rest[:20]}")) == milliseconds


@given(hexes)
def test_any_made_up_hex_id_has_a_time_that_can_be_held(text: str) -> None:
    assert issued_at(text).year <= 9999
    assert issued_at(text[:24]).year <= 2106
