from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import SETTLING, InvalidRequestError, encode, resume_from, to_ms
from tests.kit.kernel import decode_cursor as decode

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
times = st.integers(0, 10**13)
ids = st.integers(1, 2**63 - 1).map(str) | st.from_regex(
    r"[0-9a-f]{24}|[0-9a-f]{32}", fullmatch=True
)


@given(times, ids, st.integers(0, 99_999))
def test_a_cursor_is_read_as_it_was_written_by_its_own_list(ms, an_id, index):
    assert decode(encode((ms, an_id))) == (ms, an_id)
    assert decode(encode((ms, f"{an_id}-{index}")), records=True) == (ms, f"{an_id}-{index}")


@given(times, ids)
def test_a_cursor_of_requests_is_none_of_records_and_the_other_way_round(ms, an_id):
    with pytest.raises(InvalidRequestError):
        decode(encode((ms, an_id)), records=True)
    with pytest.raises(InvalidRequestError):
        decode(encode((ms, f"{an_id}-0")))


@given(st.text(max_size=60) | times.map(lambda ms: encode((ms, "9" * 19))))
def test_a_made_up_cursor_is_refused_by_its_name(text):
    with pytest.raises(InvalidRequestError, match="cursor"):
        decode(text)


@pytest.mark.parametrize("text", ["", "x", "AAAA", "é", encode((1, "zz")), "a" * 5000])
def test_what_is_no_cursor_is_named(text):
    with pytest.raises(InvalidRequestError):
        decode(text)


def test_a_reader_that_has_caught_up_is_sent_back_to_what_has_settled():
    last = (to_ms(NOW), "7")

    resumed = resume_from(last, None, NOW)

    assert resumed == (to_ms(NOW - SETTLING), "0")


def test_a_reader_is_never_sent_back_behind_where_it_started():
    before = (to_ms(NOW - timedelta(seconds=1)), "5")

    assert resume_from((to_ms(NOW), "7"), before, NOW) == before
    assert resume_from(None, before, NOW) == before
    assert resume_from(None, None, NOW) is None


def test_a_reader_of_old_entries_goes_on_behind_the_last():
    last = (to_ms(NOW - timedelta(hours=1)), "7")

    assert resume_from(last, None, NOW) == last


@pytest.mark.parametrize("key", ["0" * 40, "ab" * 20, "f" * 40])
def test_the_key_of_a_record_is_a_place_in_the_list_of_records_only(key):
    assert decode(encode((5, key)), records=True) == (5, key)
    for text, records in ((key, False), (f"{key}-1", True), (key[1:], True), (f"{key}0", True)):
        with pytest.raises(InvalidRequestError):
            decode(encode((5, text)), records=records)
