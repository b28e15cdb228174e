from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import Biz, Generation
from tests.kit.frontier import candidates, homes
from tests.kit.requests import Shard

FIRST = Generation(
    starts_at=datetime(2026, 1, 1, tzinfo=UTC),
    nodes=("east", "west"),
    databases=("one", "two"),
    shards=3,
)
SECOND = msgspec.structs.replace(
    FIRST, starts_at=datetime(2026, 6, 1, tzinfo=UTC), nodes=("east", "west", "north")
)
BIZ = Biz(generations=(FIRST, SECOND))
KEYS = st.binary(min_size=16, max_size=16).map(bytes.hex)
DAYS = st.dates(datetime(2025, 1, 1).date(), datetime(2027, 1, 1).date())  # noqa: DTZ001


@given(key=KEYS, day=DAYS)
def test_a_seed_is_stored_by_the_generation_of_its_segment(key, day):
    first = candidates(BIZ, f"{day}/{key}")[0]
    expected = FIRST if day < SECOND.starts_at.date() else SECOND

    assert first == candidates(Biz(generations=(expected,)), f"{day}/{key}")[0]
    assert set(candidates(BIZ, f"{day}/{key}")) <= set(homes(BIZ))


@given(key=KEYS, day=DAYS)
def test_wherever_a_generation_to_come_would_have_it_it_is_looked_for(key, day):
    before = Biz(generations=(FIRST,))

    assert candidates(before, f"{day}/{key}")[0] in candidates(BIZ, f"{day}/{key}")


@given(key=KEYS, days=st.integers(1, 100))
def test_where_a_seed_of_a_segment_that_has_begun_is_stored_does_not_change(key, days):
    began = SECOND.starts_at - timedelta(days=days)
    before = Biz(generations=(FIRST,))

    assert (
        candidates(before, f"{began:%Y-%m-%d}/{key}")[0]
        == candidates(BIZ, f"{began:%Y-%m-%d}/{key}")[0]
    )


def test_homes_are_each_database_of_each_node_once():
    assert sorted(homes(BIZ)) == [
        Shard(node, database, 0)
        for node in ("east", "north", "west")
        for database in ("one", "two")
    ]


@pytest.mark.parametrize("segment", ["forever", "a-name-of-its-own"])
def test_segments_without_a_time_are_kept_where_the_first_generation_has_them(segment):
    key = "0123456789abcdef" * 2

    assert candidates(BIZ, f"{segment}/{key}")[0] in homes(Biz(generations=(FIRST,)))
