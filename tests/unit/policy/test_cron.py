from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from crawlfleet.model.schedule import Missed, Schedule
from crawlfleet.policy.cron import fires_due, next_fire, problems_with

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def schedule(cron: str, zone: str = "UTC", **changes: object) -> Schedule:
    made = Schedule(tenant="t", biz="b", name="n", cron=cron, time_zone=zone, rule="r", urls=("u",))
    return replace(made, **changes)


@pytest.mark.parametrize("line", ["*/5 * * * *", "0 3 * * mon-fri", "0 0 L * *", "0 9 * * 1#1"])
def test_a_cron_line_of_the_usual_kinds_is_accepted(line):
    assert problems_with(line, "Europe/Berlin", NOW) == []


@pytest.mark.parametrize(
    "line", ["", "* * * *", "61 * * * *", "0 0 31 2 *", "0 0 */31 * 1#5", "é * * * *"]
)
def test_what_is_no_cron_line_or_never_fires_is_named(line):
    assert [p.field for p in problems_with(line, "UTC", NOW)] == ["cron"]


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "/etc/passwd", "Europe"])
def test_what_is_no_time_zone_is_named(zone):
    assert [p.field for p in problems_with("* * * * *", zone, NOW)] == ["time_zone"]


def test_both_mistakes_are_named_at_once():
    assert [p.field for p in problems_with("x", "y", NOW)] == ["time_zone", "cron"]


def test_a_fire_time_is_in_the_schedules_own_zone():
    assert next_fire(schedule("30 6 * * *", "Asia/Kolkata"), NOW) == datetime(
        2026, 3, 2, 1, tzinfo=UTC
    )


def test_a_line_that_never_fires_has_no_next_fire_time():
    # The fifth Monday of a month is never its first day.
    assert next_fire(schedule("0 0 */31 * 1#5"), NOW) is None


def test_an_hour_that_daylight_saving_skips_still_fires_once():
    spring = datetime(2026, 3, 28, 12, tzinfo=UTC)
    line = schedule("30 2 * * *", "Europe/Berlin")

    first = next_fire(line, spring)
    second = next_fire(line, first)

    assert first == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert second == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


def test_an_hour_that_daylight_saving_repeats_fires_once():
    autumn = datetime(2026, 10, 24, 12, tzinfo=UTC)
    line = schedule("30 2 * * *", "Europe/Berlin")

    first = next_fire(line, autumn)
    second = next_fire(line, first)

    assert (second - first) >= timedelta(hours=24)


def test_nothing_is_due_before_its_time_or_without_one():
    assert fires_due(schedule("0 * * * *", next_at=NOW), NOW - timedelta(seconds=1), 9) == []
    assert fires_due(schedule("0 * * * *"), NOW, 9) == []


def test_missed_fire_times_come_oldest_first_and_bounded():
    line = schedule("0 * * * *", next_at=NOW)

    assert fires_due(line, NOW + timedelta(hours=5), 3) == [
        NOW,
        NOW + timedelta(hours=1),
        NOW + timedelta(hours=2),
    ]


def test_only_the_latest_missed_fire_time_if_so_asked():
    line = schedule("0 * * * *", next_at=NOW, missed=Missed.LATEST)

    assert fires_due(line, NOW + timedelta(hours=5, minutes=1), 3) == [NOW + timedelta(hours=5)]
    assert fires_due(line, NOW - timedelta(hours=1), 3) == []
