from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import RetryLimits
from tests.kit.kernel import (
    ConnectFailedError,
    ExtractError,
    FetchTimeoutError,
    PageGoneError,
    ThrottledError,
    UnknownRuleError,
)
from tests.kit.requests import (
    CUT_OFF,
    INTERNAL,
    LONGEST_RETRY_AFTER,
    REASONS,
    UNREADABLE,
    UNSTORABLE,
    Answer,
    Dead,
    Retry,
    after_failure,
    reason_of,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LIMITS = RetryLimits(max_attempts=4, base_seconds=5, max_seconds=60)


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 5), (2, 10), (3, 20)], ids=["first", "second", "third"]
)
def test_the_delay_doubles_with_each_attempt(attempt, seconds):
    decided = after_failure(ConnectFailedError("no"), attempt, LIMITS, NOW, 1.0)

    assert decided == Retry(NOW + timedelta(seconds=seconds), "ConnectFailed: no", "ConnectFailed")


def test_the_last_attempt_is_the_last():
    decided = after_failure(FetchTimeoutError("slow"), 4, LIMITS, NOW, 0.5)

    assert decided == Dead("FetchTimeout: slow", "FetchTimeout")


def test_what_cannot_pass_is_not_tried_again():
    assert after_failure(PageGoneError("gone", status=410), 1, LIMITS, NOW, 0.5) == Dead(
        "PageGone: gone", "PageGone"
    )
    assert isinstance(after_failure(ExtractError("a", "b"), 1, LIMITS, NOW, 0.5), Dead)


def test_a_dead_letter_keeps_the_answer_and_a_retry_its_facts():
    answer = Answer.of("http://a.example/", 503, {"server": "x"}, 0.5, b"<html>")
    error = ThrottledError("answered 503", status=503, answer=answer)

    retry = after_failure(error, 1, LIMITS, NOW, 0.5)
    dead = after_failure(error, LIMITS.max_attempts, LIMITS, NOW, 0.5)

    assert (retry.reason, dead.reason) == ("Throttled", "Throttled")
    assert dead.answer == answer
    assert retry.answer == Answer(url=answer.url, status=503, headers=answer.headers, seconds=0.5)


def test_what_is_no_error_of_ours_is_internal():
    assert reason_of(ZeroDivisionError()) == "Internal"


def test_the_reasons_there_are_come_from_the_tree_of_errors():
    fetching = (ThrottledError, PageGoneError, ConnectFailedError, FetchTimeoutError)
    failed = [*(kind("x") for kind in fetching), ExtractError("f", "x"), UnknownRuleError()]

    assert {reason_of(error) for error in failed} | {
        CUT_OFF,
        INTERNAL,
        UNSTORABLE,
        UNREADABLE,
    } <= set(REASONS)
    assert not {"Fetch", "Rejected", "LeaseLost"} & set(REASONS)


def test_a_sites_longer_retry_after_wins_and_a_shorter_one_does_not():
    patient = after_failure(ThrottledError("x", retry_after_seconds=90), 1, LIMITS, NOW, 1.0)
    hasty = after_failure(ThrottledError("x", retry_after_seconds=1), 1, LIMITS, NOW, 1.0)

    assert patient.due_at == NOW + timedelta(seconds=90)
    assert hasty.due_at == NOW + timedelta(seconds=5)


@given(
    attempt=st.integers(1, 10_000),
    jitter=st.floats(0, 1),
    retry_after=st.none() | st.floats(0, 1e12),
    base=st.floats(0.001, 1e6),
    longest=st.floats(0.001, 1e6),
)
def test_a_delay_is_never_before_now_nor_beyond_its_bounds(
    attempt, jitter, retry_after, base, longest
):
    limits = RetryLimits(max_attempts=20_000, base_seconds=base, max_seconds=longest)
    error = ThrottledError("x", retry_after_seconds=retry_after)

    decided = after_failure(error, attempt, limits, NOW, jitter)

    assert NOW <= decided.due_at <= NOW + max(timedelta(seconds=longest), LONGEST_RETRY_AFTER)
