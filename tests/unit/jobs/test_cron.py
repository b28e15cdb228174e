from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.schedules import (
    QUEUED_FIRES,
    Missed,
    Overlap,
    Schedule,
    due_at,
    fires_due,
    next_fire,
    planned,
    problems_with,
)

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


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("61 * * * *", "minute: '61' is none of *, 0 to 59, A-B, */N, nor a list of them"),
        ("0 24 * * *", "hour: '24' is none of *, 0 to 23,"),
        ("0 0 32 * *", "day of the month: '32' is none of *, 1 to 31, L,"),
        ("0 0 31 2,4 *", "day of the month: no month of '2,4' has '31'"),
        ("0 0 * foo *", "month: 'foo' is none of *, 1 to 12, JAN to DEC,"),
        ("0 0 * * 8", "day of the week: '8' is none of *, 0 to 7, SUN to SAT,"),
        ("*/0 * * * *", "minute: '*/0' is none of"),
        ("0 0 */31 * 1#5", "it never fires"),
    ],
)
def test_an_error_names_the_field_its_value_and_what_it_takes(line, said):
    [problem] = problems_with(line, "UTC", NOW)

    assert said in problem.message


@pytest.mark.parametrize("line", ["", "* * * *", "0 0 3 * * *", "0 3 * * ? *", "@daily"])
def test_a_line_of_seconds_or_years_is_refused_with_the_five_fields_that_one_has(line):
    [problem] = problems_with(line, "UTC", NOW)

    assert "five fields" in problem.message


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "/etc/passwd", "Europe"])
def test_what_is_no_time_zone_is_named(zone):
    assert [p.field for p in problems_with("* * * * *", zone, NOW)] == ["time_zone"]


def test_both_errors_are_named_at_once():
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


HOUR = timedelta(hours=1)


def due(line: Schedule, now: datetime, limit: int = 9) -> list[datetime]:
    return fires_due(line, now, limit).fires


def test_nothing_is_due_before_its_time_or_without_one():
    assert due(hourly(), NOW - timedelta(seconds=1)) == []
    assert due(schedule("0 * * * *"), NOW) == []


def hourly(**changes: object) -> Schedule:
    return replace(planned(schedule("0 * * * *"), NOW), **changes)


def test_missed_fire_times_come_oldest_first_and_bounded():
    assert due(hourly(), NOW + 5 * HOUR, 3) == [NOW, NOW + HOUR, NOW + 2 * HOUR]
    assert due(hourly(), NOW + HOUR, 3) == [NOW, NOW + HOUR]


def test_only_the_latest_missed_fire_time_if_so_asked():
    line = hourly(missed=Missed.LATEST)

    assert due(line, NOW + 5 * HOUR + timedelta(minutes=1)) == [NOW + 5 * HOUR]
    assert due(line, NOW) == [NOW]
    assert due(line, NOW - HOUR) == []


@pytest.mark.parametrize("cron", ["* * * * *", "0 * * * *", "0 0 29 2 *", "0 0 1 * *"])
def test_the_latest_missed_is_found_at_once_however_long_ago_the_first_one_was(cron):
    now = datetime(2045, 7, 9, 13, 30, 30, tzinfo=UTC)
    line = planned(schedule(cron, missed=Missed.LATEST), next_fire(schedule(cron), NOW))

    found = fires_due(line, now, 60)

    [latest] = found.fires
    assert latest <= now < next_fire(line, latest)
    assert "passed over" in found.passed


def test_a_queue_has_the_latest_sixty():
    line = planned(schedule("* * * * *", overlap=Overlap.QUEUE), NOW)

    found = fires_due(line, NOW + timedelta(days=3), 60)

    assert len(found.fires) == 60
    assert found.fires[-1] == NOW + timedelta(days=3)
    assert due(line, NOW + timedelta(minutes=70), 5)[0] == NOW + timedelta(minutes=11)


def test_what_is_late_by_more_than_the_tolerance_is_passed_over():
    line = hourly(missed=Missed.SKIP, tolerance_seconds=60)
    minute = timedelta(minutes=1)

    assert due(line, NOW + minute) == [NOW]
    assert due(line, NOW + HOUR + minute) == [NOW + HOUR]
    late = fires_due(line, NOW + HOUR + 2 * minute, 9)
    assert (late.fires, late.resume_at) == ([], NOW + 2 * HOUR)
    assert "60 seconds" in late.passed


def test_a_line_that_ends_has_nothing_to_resume_at():
    line = replace(schedule("0 0 */31 * 1#5", missed=Missed.SKIP), fire_at=NOW, next_at=NOW)

    assert fires_due(line, NOW + HOUR, 9).resume_at is None
    assert planned(line, None).next_at is None
    assert due_at(replace(line, jitter_seconds=60), NOW) <= NOW + timedelta(minutes=1)


# ---- jitter --------------------------------------------------------------------------------------


@given(
    st.sampled_from(["* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "0 0 29 2 *"]),
    st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
    st.integers(0, 3_600),
    st.integers(0, 365 * 24 * 60),
    st.text("abc", min_size=1),
)
def test_jitter_is_stable_bounded_and_never_past_the_next_fire(cron, zone, jitter, minutes, name):
    line = schedule(cron, zone, jitter_seconds=jitter, name=name)
    fire = next_fire(line, NOW + timedelta(minutes=minutes))
    following = next_fire(line, fire)

    due = due_at(line, fire)

    assert due == due_at(replace(line, urls=(), version=9), fire)
    assert fire <= due <= fire + timedelta(seconds=jitter)
    assert due < following <= due_at(line, following)


def test_jitter_spreads_schedules_of_one_line():
    lines = [schedule("0 * * * *", jitter_seconds=3_599, name=f"s{n}") for n in range(500)]
    offsets = [(due_at(line, NOW) - NOW).total_seconds() for line in lines]

    assert 1_600 < sum(offsets) / 500 < 2_000
    assert (min(offsets) < 60, max(offsets) > 3_500) == (True, True)


def test_jitter_uses_all_of_the_time_before_the_next_fire_and_ends_before_it():
    lines = [schedule("* * * * *", jitter_seconds=3_600, name=f"s{n}") for n in range(1_000)]

    assert {(due_at(line, NOW) - NOW).seconds for line in lines} == set(range(60))


@given(
    st.sampled_from(["* * * * *", "*/5 * * * *", "0 * * * *", "30 2 * * *"]),
    st.sampled_from(["UTC", "Europe/Berlin"]),
    st.sampled_from([0, 1, 45, 600, 3_600]),
    st.integers(0, 3_000),
    st.integers(1, 70),
    st.sampled_from(list(Missed)),
    st.sampled_from(list(Overlap)),
)
def test_what_is_due_is_what_going_through_all_of_it_finds(
    cron, zone, jitter, minutes, limit, missed, overlap
):
    changes = {"jitter_seconds": jitter, "missed": missed, "overlap": overlap}
    line = schedule(cron, zone, **changes)
    line = planned(line, next_fire(line, NOW))
    now = NOW + timedelta(minutes=minutes)
    fires, fire = [], line.fire_at
    while fire is not None and due_at(line, fire) <= now:
        fires.append(fire)
        fire = next_fire(line, fire)
    if missed is Missed.LATEST:
        fires = fires[-1:]
    elif missed is Missed.SKIP:
        oldest = now - timedelta(seconds=line.tolerance_seconds)
        fires = [fire for fire in fires if due_at(line, fire) >= oldest]
    elif overlap is Overlap.QUEUE:
        fires = fires[-QUEUED_FIRES:]

    assert due(line, now, limit) == fires[:limit]
