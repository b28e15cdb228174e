"""Subscriptions as values: their revisions and channels, and the hours at which they are active."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.kit.subscriptions import (
    Active,
    Content,
    Day,
    Hours,
    StreamKind,
    is_active,
    is_zone,
    subscription_id,
)

FEED = "https://a.example/feed"
CONTENT = Content(kind=StreamKind.RSS, filter="climate", feeds=(FEED,))
#: A Monday in winter, when Berlin is an hour ahead.
MONDAY = datetime(2026, 11, 23, tzinfo=UTC)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return MONDAY.replace(day=22 + day, hour=hour, minute=minute)


def test_another_content_has_another_revision() -> None:
    assert CONTENT.revision == replace(CONTENT).revision
    assert CONTENT.revision != replace(CONTENT, filter="energy").revision


def test_what_is_read_for_a_subscription_is_its_feeds_or_its_channel() -> None:
    wire = Content(kind=StreamKind.NDJSON_STREAM, filter="climate", channel="wire")

    assert CONTENT.channels == (FEED,)
    assert wire.channels == ("wire",)
    assert replace(wire, channel=None).channels == ()


def test_ids_are_of_tenant_biz_and_name() -> None:
    assert subscription_id("a", "b", "c") == "a/b/c"


def test_without_hours_a_subscription_is_always_active() -> None:
    assert is_active(None, MONDAY)


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [
        pytest.param(
            Hours(begins="08:30", ends="17:00"),
            [at(1, 7, 30), at(7, 15, 59)],
            [at(1, 7, 29), at(7, 16, 0)],
            id="of-every-day",
        ),
        pytest.param(
            Hours(days=(Day.MON,), begins="22:00", ends="06:00"),
            [at(1, 21), at(2, 4, 59)],
            [at(1, 20, 59), at(2, 5), at(2, 21), at(1, 4)],
            id="past-midnight",
        ),
        pytest.param(
            Hours(days=(Day.MON, Day.SUN)),
            [at(1, 0), at(1, 22, 59), at(6, 23)],
            [at(1, 23), at(6, 22, 59)],
            id="whole-days",
        ),
        pytest.param(
            Hours(days=(Day.TUE,), begins="09:00", ends="09:00"),
            [at(2, 8), at(3, 7, 59)],
            [at(2, 7, 59), at(3, 8)],
            id="a-day-from-nine-to-nine",
        ),
    ],
)
def test_items_are_taken_in_the_hours_of_the_zone(
    hours: Hours, inside: list[datetime], outside: list[datetime]
) -> None:
    active = Active(hours=(hours,), time_zone="Europe/Berlin")

    assert all(is_active(active, moment) for moment in inside)
    assert not any(is_active(active, moment) for moment in outside)


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"])
def test_a_zone_of_the_database_is_one(name: str) -> None:
    assert is_zone(name)


@pytest.mark.parametrize("name", ["", "Berlin", "../UTC", "/etc/passwd", "Europe/", "Eu\0rope"])
def test_what_is_no_zone_is_none(name: str) -> None:
    assert not is_zone(name)
