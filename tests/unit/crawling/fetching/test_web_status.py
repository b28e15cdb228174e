"""Errors and waits by HTTP status and Retry-After."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.fetching import MAX_RETRY_AFTER_SECONDS, error_for, retry_after_seconds
from tests.kit.kernel import FetchTimeoutError, PageGoneError, ServerFaultError, ThrottledError

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("status", [200, 201, 204, 206, 299])
def test_success_is_no_error(status):
    assert error_for(status, None, NOW) is None


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (101, ServerFaultError, True),
        (300, PageGoneError, False),
        (302, PageGoneError, False),
        (304, PageGoneError, False),
        (400, PageGoneError, False),
        (403, PageGoneError, False),
        (404, PageGoneError, False),
        (408, FetchTimeoutError, True),
        (410, PageGoneError, False),
        (425, ThrottledError, True),
        (429, ThrottledError, True),
        (451, PageGoneError, False),
        (500, ServerFaultError, True),
        (502, ServerFaultError, True),
        (503, ThrottledError, True),
        (599, ServerFaultError, True),
        (999, ServerFaultError, True),
    ],
)
def test_status_becomes_its_error(status, kind, retryable):
    error = error_for(status, None, NOW)

    assert type(error) is kind
    assert error.status == status
    assert error.retryable is retryable


def test_throttling_carries_the_wait():
    assert error_for(429, "7", NOW).retry_after_seconds == 7.0
    assert str(error_for(429, "7", NOW)) == "answered 429, Retry-After 7 s"
    assert error_for(503, None, NOW).retry_after_seconds is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        (" 120 ", 120.0),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thursday, 01-Jan-26 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 12:00:30 -0000", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER_SECONDS),
        ("999999999999999999", MAX_RETRY_AFTER_SECONDS),
        (None, None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
        ("9" * 400, None),
        ("Thu, 99 Foo 2026 12:00:00 GMT", None),
    ],
)
def test_wait_is_read_from_seconds_or_a_date(value, seconds):
    assert retry_after_seconds(value, NOW) == seconds


@given(st.text())
def test_wait_is_bounded_whatever_the_site_says(value):
    seconds = retry_after_seconds(value, NOW)

    assert seconds is None or 0 <= seconds <= MAX_RETRY_AFTER_SECONDS
