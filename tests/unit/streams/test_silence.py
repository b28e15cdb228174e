"""A source is silent by the gaps that it usually has itself."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.streams import ENOUGH, LEAST, Gaps, after_items, silent_at

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def after(*gaps):
    found, now = after_items(Gaps(), NOON), NOON
    for gap in gaps:
        now += gap
        found = after_items(found, now)
    return found


def test_a_source_that_has_hardly_brought_anything_is_never_silent():
    assert silent_at(after(*[HOUR] * (ENOUGH - 2))) is None
    assert silent_at(Gaps()) is None


def test_a_source_is_silent_after_three_times_its_longest_gap():
    busy = after(*[timedelta(seconds=1)] * ENOUGH)
    nightly = after(*[timedelta(seconds=1)] * ENOUGH, 8 * HOUR, timedelta(seconds=1))

    assert silent_at(busy) - busy.item_at == LEAST
    assert 23 * HOUR < silent_at(nightly) - nightly.item_at <= 24 * HOUR


def test_a_long_gap_is_forgotten_by_and_by():
    once = after(*[HOUR] * ENOUGH, 8 * HOUR)
    later = after(*[HOUR] * ENOUGH, 8 * HOUR, *[HOUR] * 24 * 14)

    assert (once.longest, later.longest) == (8 * 3_600, 3_600)


@given(st.lists(st.integers(-60, 10**6), min_size=ENOUGH, max_size=3 * ENOUGH))
def test_a_source_is_never_silent_within_its_last_gap(seconds):
    found = after(*(timedelta(seconds=one) for one in seconds))

    assert silent_at(found) >= found.item_at + max(LEAST, timedelta(seconds=seconds[-1]))
