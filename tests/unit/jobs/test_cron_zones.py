"""Fire times on the days on which clocks are shifted, against every minute of them looked at."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit.schedules import Schedule, fires_after, next_fire, preview, problems_with

MINUTE = timedelta(minutes=1)
#: Days around which clocks are shifted: by an hour, by an hour, by half of one.
SHIFTS = {
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Australia/Lord_Howe": ("2026-04-05", "2026-10-04"),
}
MINUTES = ("*", "*/30", "*/20", "0", "30", "15", "45", "0,30", "10-50/20")
HOURS = ("*", "*/2", "1", "2", "3", "1,2", "2,3", "0-4/2")


def schedule(cron: str, zone: str = "UTC") -> Schedule:
    return Schedule(tenant="t", biz="b", name="n", cron=cron, time_zone=zone, rule="r")


def of_field(field: str, count: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = ("0", "", str(count - 1)) if span == "*" else span.partition("-")
        found.update(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def every_minute(cron: str, zone: str, after: datetime, until: datetime) -> list[datetime]:
    """Return the fires of Debian's cron for a line of minutes and hours only, minute by minute.

    A line whose minute or hour begins with a star goes by the clock on the wall, whatever it shows.
    Any other line has each of its times once a day: the first one where there are two, and where
    there is none the moment at which clocks go on.
    """
    minute, hour = cron.split()[:2]
    minutes, hours = of_field(minute, 60), of_field(hour, 24)
    there = ZoneInfo(zone)
    found: set[datetime] = set()
    if minute.startswith("*") or hour.startswith("*"):
        moment = after.replace(second=0, microsecond=0)
        while (moment := moment + MINUTE) <= until:
            local = moment.astimezone(there)
            if local.minute in minutes and local.hour in hours:
                found.add(moment)
        return sorted(found)
    day = after.astimezone(there).replace(hour=0, minute=0, tzinfo=None) - timedelta(days=1)
    while day.replace(tzinfo=there).astimezone(UTC) <= until:
        for at in (day + timedelta(hours=h, minutes=m) for h in hours for m in minutes):
            wanted = at
            while not _exists(wanted, there):
                wanted += MINUTE
            found.add(wanted.replace(tzinfo=there, fold=0).astimezone(UTC))
        day += timedelta(days=1)
    return sorted(moment for moment in found if after < moment <= until)


def _exists(naive: datetime, zone: ZoneInfo) -> bool:
    back = naive.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)
    return back.replace(tzinfo=None) == naive


def fires(cron: str, zone: str, after: datetime, until: datetime) -> list[datetime]:
    found = []
    for fire in fires_after(schedule(cron, zone), after):
        if fire > until:
            break
        found.append(fire)
    return found


@given(
    st.sampled_from([(zone, day) for zone, days in SHIFTS.items() for day in days]),
    st.sampled_from(MINUTES),
    st.sampled_from(HOURS),
    st.integers(0, 24 * 60),
)
@example(("Europe/Berlin", "2026-10-25"), "30", "2", 25 * 60 + 10)  # within the hour come twice
@example(("Australia/Lord_Howe", "2026-04-05"), "*/30", "2", 12 * 60)
@example(("Australia/Lord_Howe", "2026-04-05"), "10-50/20", "*/2", 12 * 60)
def test_fires_around_a_shift_are_those_of_every_minute(shift, minute, hour, start):
    zone, day = shift
    cron = f"{minute} {hour} * * *"
    after = datetime.fromisoformat(f"{day}T00:00+00:00") - timedelta(days=1) + start * MINUTE
    until = after + timedelta(hours=30)

    assert fires(cron, zone, after, until) == every_minute(cron, zone, after, until)


@given(
    st.sampled_from([(zone, day) for zone, days in SHIFTS.items() for day in days]),
    st.sampled_from(MINUTES),
    st.sampled_from(HOURS),
    st.integers(-6 * 60, 24 * 60),
    st.integers(0, 8 * 60),
)
@example(("Australia/Lord_Howe", "2026-04-05"), "*", "*/2", 60, 480)  # begins with the shift
def test_fires_are_the_same_wherever_one_begins(shift, minute, hour, start, later):
    zone, day = shift
    line = schedule(f"{minute} {hour} * * *", zone)
    after = datetime.fromisoformat(f"{day}T00:00+00:00") - timedelta(hours=18) + start * MINUTE
    begin = after + later * MINUTE

    from_after = list(islice((fire for fire in fires_after(line, after) if fire > begin), 3))

    assert from_after == list(islice(fires_after(line, begin), 3))
    assert from_after == sorted(set(from_after))


@pytest.mark.parametrize(
    ("zone", "after", "first", "second"),
    [
        # Half past two is not there: it comes when clocks have gone on to three.
        ("Europe/Berlin", "2026-03-28T12:00", "2026-03-29T01:00", "2026-03-30T00:30"),
        ("America/New_York", "2026-03-07T12:00", "2026-03-08T07:00", "2026-03-09T06:30"),
        # It is there twice: the first one counts.
        ("Europe/Berlin", "2026-10-24T12:00", "2026-10-25T00:30", "2026-10-26T01:30"),
        # Clocks go on from two to half past: it is there once on both days.
        ("Australia/Lord_Howe", "2026-04-04T12:00", "2026-04-04T16:00", "2026-04-05T16:00"),
        ("Australia/Lord_Howe", "2026-10-03T12:00", "2026-10-03T15:30", "2026-10-04T15:30"),
    ],
)
def test_half_past_two_comes_once_a_day(zone, after, first, second):
    line = schedule("30 2 * * *", zone)
    begin = datetime.fromisoformat(after + "+00:00")

    found = [each.strftime("%Y-%m-%dT%H:%M") for each in islice(fires_after(line, begin), 2)]

    assert found == [first, second]


def test_a_line_put_within_the_hour_that_comes_twice_has_its_next_fire_later_not_earlier():
    again = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)  # ten past two for the second time

    assert next_fire(schedule("30 2 * * *", "Europe/Berlin"), again) == datetime(
        2026, 10, 26, 1, 30, tzinfo=UTC
    )


# ---- the calendar --------------------------------------------------------------------------------


def days(cron: str, begin: str, count: int, zone: str = "UTC") -> list[str]:
    after = datetime.fromisoformat(begin).replace(tzinfo=UTC)
    found = islice(fires_after(schedule(cron, zone), after), count)
    return [fire.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d") for fire in found]


def test_the_leap_day_comes_every_four_years_and_not_in_2100():
    assert days("0 0 29 2 *", "2026-01-01", 2) == ["2028-02-29", "2032-02-29"]
    assert days("0 0 29 2 *", "2096-01-01", 2) == ["2096-02-29", "2104-02-29"]


def test_a_month_without_a_thirty_first_is_passed_over():
    expected = ["2026-01-31", "2026-03-31", "2026-05-31"]
    assert days("0 0 31 * *", "2026-01-01", 3) == expected


def test_the_last_day_of_a_month_is_its_own():
    expected = ["2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"]
    assert days("0 12 L * *", "2028-01-01", 4, "Asia/Tokyo") == expected


def test_a_year_ends_where_the_zone_says():
    assert days("0 0 1 1 *", "2026-06-01", 1, "Pacific/Kiritimati") == ["2027-01-01"]
    [fire] = islice(fires_after(schedule("0 0 1 1 *", "Pacific/Kiritimati"), _at("2026-06-01")), 1)
    assert fire == datetime(2026, 12, 31, 10, tzinfo=UTC)


def _at(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


# ---- zones that a law has changed ----------------------------------------------------------------


def test_a_day_that_a_law_has_struck_out_has_no_fire_of_its_own():
    """Samoa went over the date line: its 30th of December 2011 was none."""
    found = days("0 * * * *", "2011-12-30T08:00", 3, "Pacific/Apia")

    assert found == ["2011-12-29", "2011-12-31", "2011-12-31"]


def test_a_zone_that_gave_up_summer_time_stays_at_one_offset():
    """Brazil has had none since 2019."""
    line = schedule("0 6 * * *", "America/Sao_Paulo")
    before = list(islice(fires_after(line, _at("2018-11-02")), 5))
    after = list(islice(fires_after(line, _at("2019-11-01")), 5))

    assert {fire.hour for fire in before} == {8, 9}
    assert {fire.hour for fire in after} == {9}


def test_clocks_that_a_law_puts_forward_by_half_an_hour_are_followed():
    """Venezuela, on 1 May 2016 at half past two."""
    line = schedule("*/15 2,3 * * *", "America/Caracas")
    found = [fire.strftime("%H:%M") for fire in islice(fires_after(line, _at("2016-05-01")), 6)]

    assert found == ["06:30", "06:45", "07:00", "07:15", "07:30", "07:45"]


# ---- previews ------------------------------------------------------------------------------------


def test_a_preview_marks_where_clocks_are_shifted():
    berlin = schedule("30 2 * * *", "Europe/Berlin")
    runs = preview(berlin, datetime(2026, 3, 27, 12, tzinfo=UTC), 4)

    assert [run.local_at.isoformat() for run in runs] == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
        "2026-03-31T02:30:00+02:00",
    ]
    assert [run.shift_seconds for run in runs] == [0, 3_600, 0, 0]
    [back, *_] = preview(berlin, datetime(2026, 10, 25, 0, 45, tzinfo=UTC), 1)
    assert back.shift_seconds == -3_600


def test_a_preview_of_a_line_that_ends_is_as_long_as_there_are_runs():
    assert preview(schedule("0 0 */31 * 1#5"), datetime(2026, 1, 1, tzinfo=UTC), 5) == []


@pytest.mark.parametrize("zone", ["localtime", "Factory", "posix/UTC", "../UTC", ""])
def test_what_a_machine_alone_calls_a_zone_is_none(zone):
    assert [
        one.field for one in problems_with("0 3 * * *", zone, datetime(2026, 3, 1, tzinfo=UTC))
    ] == ["time_zone"]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia", "Etc/GMT+5"])
def test_zones_of_the_database_are_zones(zone):
    assert problems_with("0 3 * * *", zone, datetime(2026, 3, 1, tzinfo=UTC)) == []
