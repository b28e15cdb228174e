"""The interval of a feed: by its items, what it asks for, failures and pushes."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.feeds import (
    WEEK_SECONDS,
    Bounds,
    Wishes,
    first_rate,
    interval,
    kept_seconds,
    learnt_rate,
    next_at,
)

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
BOUNDS = Bounds()
of = interval.interval

seconds = st.floats(0, 1e10, allow_nan=False)
rates = st.floats(0, 100, allow_nan=False)
wishes = st.builds(Wishes, kept=seconds, retry_after=seconds)
others = st.fixed_dictionaries(
    {"conditional": st.booleans(), "failures": st.integers(0, 10**6), "pushed": st.booleans()}
)


@given(rates, wishes, others)
def test_an_interval_is_never_out_of_its_bounds(rate, asked, more):
    found = of(rate, asked, BOUNDS, **more)

    assert found >= (BOUNDS.least if more["conditional"] else BOUNDS.least_in_full)
    assert found <= max(BOUNDS.most, min(asked.retry_after, WEEK_SECONDS))


@given(rates, rates, wishes, others)
def test_a_feed_with_more_items_is_never_asked_more_rarely(one, other, asked, more):
    fewer, many = sorted((one, other))

    assert of(many, asked, BOUNDS, **more) <= of(fewer, asked, BOUNDS, **more)


@given(rates, wishes, others)
def test_what_a_feed_asks_for_only_makes_the_interval_longer(rate, asked, more):
    assert of(rate, asked, BOUNDS, **more) >= of(rate, Wishes(), BOUNDS, **more)
    assert of(rate, asked, BOUNDS, **more) >= min(asked.retry_after, WEEK_SECONDS)


@given(rates, wishes, st.integers(0, 100), st.booleans())
def test_each_failure_more_never_makes_it_shorter(rate, asked, failures, conditional):
    before, after = (
        of(rate, asked, BOUNDS, conditional=conditional, failures=count)
        for count in (failures, failures + 1)
    )

    assert after >= before


@given(rates, st.booleans())
def test_a_push_makes_polling_rarer_and_never_ends_it(rate, conditional):
    alone = of(rate, conditional=conditional)
    pushed = of(rate, conditional=conditional, pushed=True)

    assert alone <= pushed <= BOUNDS.most


@given(rates, st.integers(0, 1_000), st.floats(0, 1e8))
def test_a_rate_stays_one(rate, items, passed):
    found = learnt_rate(rate, items, passed)

    assert 0 <= found <= max(rate, items / max(1.0, passed)) * (1 + 1e-9)


def test_a_feed_of_an_item_a_day_is_learnt_within_weeks():
    rate = 0.0
    for _ in range(21):
        rate = learnt_rate(rate, 1, 86_400)

    assert rate == pytest.approx(1 / 86_400, rel=0.1)


def test_the_first_rate_is_that_of_the_dates_of_a_week():
    dates = [NOW - timedelta(days=n) for n in range(10)]

    found = first_rate([*dates, None, NOW + timedelta(days=1)], NOW)

    assert found * WEEK_SECONDS == 7


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 0),
        ({"cache-control": "max-age=600"}, 600),
        ({"cache-control": 'private, MAX-AGE = "600"', "age": "100"}, 500),
        ({"cache-control": "s-maxage=600, no-cache"}, 0),
        ({"cache-control": "max-age=60", "age": "100"}, 0),
        ({"cache-control": "max-age=-1"}, 0),
        ({"cache-control": "max-age=60", "age": "old"}, 60),
        # The server's clock is an hour late, and it means ten minutes.
        (
            {
                "date": "Tue, 24 Nov 2026 11:00:00 GMT",
                "expires": "Tue, 24 Nov 2026 11:10:00 GMT",
            },
            600,
        ),
        ({"expires": "Tue, 24 Nov 2026 12:10:00 GMT"}, 600),
        ({"expires": "0"}, 0),
        ({"expires": "Tue, 99 Nov 2026 12:10:00"}, 0),
        ({"expires": "Tue, 24 Nov 2026 12:10:00 -0000"}, 600),
        ({"expires": "Mon, 23 Nov 2026 12:10:00 GMT"}, 0),
    ],
)
def test_a_server_says_for_how_long_its_answer_is_fresh(headers, expected):
    assert kept_seconds(headers, NOW) == expected


def test_feeds_of_one_interval_are_due_apart():
    due = {next_at(f"https://example.org/{n}", NOW, 1_000.0) for n in range(50)}

    assert len(due) == 50
    assert min(due) >= NOW + timedelta(seconds=1_000)
    assert max(due) <= NOW + timedelta(seconds=1_100)
