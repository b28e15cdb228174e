from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import Cast
from tests.kit.extract import UnreadableError, cast

INT64 = st.integers(-(2**63), 2**63 - 1)
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | INT64
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda below: (
        st.lists(below)
        | st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="\0")), below)
    ),
    max_leaves=10,
)


@given(INT64)
def test_integers_come_back_with_and_without_separators(number):
    assert cast(Cast.INTEGER, str(number)) == number
    assert cast(Cast.INTEGER, f"{number:,}") == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_come_back(number):
    assert cast(Cast.NUMBER, repr(number)) == number


@given(
    st.datetimes(min_value=datetime(1900, 1, 1), timezones=ZONES)  # noqa: DTZ001  hypothesis adds zones
)
def test_dates_come_back_from_iso_8601_and_rfc_2822(at):
    assert cast(Cast.DATE, at.isoformat()) == at.isoformat()
    whole = at.replace(microsecond=0)
    assert datetime.fromisoformat(cast(Cast.DATE, format_datetime(whole))) == whole


@given(JSON)
def test_json_comes_back(value):
    assert cast(Cast.JSON, msgspec.json.encode(value).decode()) == value


@given(st.sampled_from(Cast), JSON | st.text())
def test_a_cast_gives_a_value_or_says_why_not(kind, value):
    try:
        cast(kind, value)
    except UnreadableError as error:
        assert error.message  # noqa: PT017  a value is a fine answer too


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Cast.INTEGER, "1.234"),
        (Cast.INTEGER, "12,34"),
        (Cast.INTEGER, "١٢"),
        (Cast.INTEGER, ""),
        (Cast.INTEGER, str(2**63)),
        (Cast.INTEGER, True),
        (Cast.INTEGER, 1.5),
        (Cast.INTEGER, "1" * 65),
        (Cast.NUMBER, "1.234,50"),
        (Cast.NUMBER, "12,50"),
        (Cast.NUMBER, "nan"),
        (Cast.NUMBER, "1e999"),
        (Cast.NUMBER, "1_0"),
        (Cast.NUMBER, 10**400),
        (Cast.BOOLEAN, "maybe"),
        (Cast.BOOLEAN, 2),
        (Cast.DATE, "yesterday"),
        (Cast.DATE, "05/03/2024"),
        (Cast.DATE, 1700000000),
        (Cast.DATE, "2024-02-30"),
        (Cast.JSON, "{"),
        (Cast.JSON, '{"a\\u0000": 1}'),
        (Cast.JSON, str(2**63)),
    ],
)
def test_what_is_not_plainly_of_the_type_is_refused(kind, text):
    with pytest.raises(UnreadableError):
        cast(kind, text)


@pytest.mark.parametrize("yes", ["true", "Yes", " ON ", "1", 1, True], ids=repr)
def test_booleans_are_read(yes):
    assert cast(Cast.BOOLEAN, yes) is True


def test_a_date_without_a_zone_is_utc():
    assert cast(Cast.DATE, "2024-03-05 10:00") == datetime(2024, 3, 5, 10, tzinfo=UTC).isoformat()
