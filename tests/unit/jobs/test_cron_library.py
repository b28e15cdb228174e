"""Cron lines as another library reads them. Where the two differ, the difference has a name."""

import random
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from tests.kit.schedules import Schedule, fires_after, problems_with

FIRES = 20
#: Of minute, hour, day, month, weekday: the span, and how often a field is a star.
FIELDS = ((0, 59, 0.2), (0, 23, 0.3), (1, 31, 0.5), (1, 12, 0.6), (0, 7, 0.6))


def fires(cron: str, after: datetime, count: int = FIRES, zone: str = "UTC") -> list[datetime]:
    line = Schedule(tenant="t", biz="b", name="n", cron=cron, time_zone=zone)
    return list(islice(fires_after(line, after), count))


def other(cron: str, after: datetime, count: int = FIRES, zone: str = "UTC") -> list[datetime]:
    line = croniter(cron, after.astimezone(ZoneInfo(zone)))
    return [line.get_next(datetime).astimezone(UTC) for _ in range(count)]


def _field(dice: random.Random, first: int, last: int, star: float) -> str:
    chance = dice.random()
    if chance < star:
        return "*"
    if chance < star + 0.1:
        return f"*/{dice.randint(1, last)}"
    return ",".join(_item(dice, first, last) for _ in range(dice.choice([1, 1, 1, 2, 3])))


def _item(dice: random.Random, first: int, last: int) -> str:
    chance = dice.random()
    if chance < 0.45:
        return str(dice.randint(first, last))
    low, high = sorted(dice.sample(range(first, last + 1), 2))
    step = "" if chance < 0.75 else f"/{dice.randint(1, high - low)}"
    return f"{low}-{high}{step}"


def _ands(cron: str) -> bool:
    """Tell whether both kinds of day are restricted, one of them by ``*/n``."""
    day, weekday = cron.split()[2], cron.split()[4]
    return "*" not in (day, weekday) and (day.startswith("*") or weekday.startswith("*"))


def generated(count: int) -> list[tuple[str, datetime]]:
    """Lines, and a moment for each; lines of which one difference is known are none."""
    dice = random.Random(20261121)
    found: list[tuple[str, datetime]] = []
    while len(found) < count:
        cron = " ".join(_field(dice, *field) for field in FIELDS)
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=dice.randrange(2_000_000))
        # The 31st of months that have none is refused, or never comes.
        if not _ands(cron) and not problems_with(cron, "UTC", moment):
            found.append((cron, moment))
    return found


@pytest.mark.untraced
@pytest.mark.parametrize("count", [100, pytest.param(2_000, marks=pytest.mark.long)])
def test_lines_fire_when_another_library_says(count):
    lines = generated(count)
    assert len({cron for cron, _ in lines}) > 0.95 * count

    wrong = [cron for cron, moment in lines if fires(cron, moment) != other(cron, moment)]

    assert wrong == []


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/Phoenix", "Pacific/Marquesas"])
def test_so_they_do_in_zones_without_summer_time(zone):
    lines = generated(50)

    wrong = [
        cron
        for cron, moment in lines
        if fires(cron, moment, 10, zone) != other(cron, moment, 10, zone)
    ]

    assert wrong == []


# ---- differences ---------------------------------------------------------------------------------

SPRING = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_difference_a_day_by_steps_with_a_weekday_means_both_as_in_debians_cron():
    """``*/2`` begins with a star, so both have to match; the other library lets either do."""
    ours, theirs = fires("0 0 */2 * 1", SPRING, 2), other("0 0 */2 * 1", SPRING, 2)

    assert [fire.strftime("%a %d") for fire in ours] == ["Mon 09", "Mon 23"]
    assert [fire.strftime("%a %d") for fire in theirs] == ["Mon 02", "Tue 03"]


def test_no_difference_a_day_with_a_weekday_means_either_of_them():
    ours = fires("0 0 13 * 5", SPRING, 4)

    assert ours == other("0 0 13 * 5", SPRING, 4)
    assert [fire.day for fire in ours] == [6, 13, 20, 27]


def test_difference_a_range_of_one_is_that_one():
    """The other library reads ``5-5`` as every one there is."""
    assert [fire.month for fire in fires("0 0 1 5-5 *", SPRING, 2)] == [5, 5]
    assert [fire.month for fire in other("0 0 1 5-5 *", SPRING, 2)] == [4, 5]


def test_difference_a_time_that_comes_twice_fires_once():
    """Half past two in Berlin's autumn: the other library fires both times."""
    evening = datetime(2026, 10, 24, 20, tzinfo=UTC)
    ours = fires("30 2 * * *", evening, 2, "Europe/Berlin")
    theirs = other("30 2 * * *", evening, 2, "Europe/Berlin")

    assert [fire.strftime("%d %H:%M") for fire in ours] == ["25 00:30", "26 01:30"]
    assert [fire.strftime("%d %H:%M") for fire in theirs] == ["25 00:30", "25 01:30"]


def test_no_difference_a_time_that_is_not_there_comes_when_clocks_have_gone_on():
    evening = datetime(2026, 3, 28, 20, tzinfo=UTC)
    ours = fires("30 2 * * *", evening, 3, "Europe/Berlin")

    assert ours == other("30 2 * * *", evening, 3, "Europe/Berlin")
    assert ours[0] == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_difference_a_line_by_steps_goes_by_the_clock_on_the_wall():
    """Our steps (``*/n``) skip an hour that does not exist; the library makes up for it, once."""
    evening = datetime(2026, 3, 28, 20, tzinfo=UTC)
    ours = fires("*/30 2 * * *", evening, 2, "Europe/Berlin")
    theirs = other("*/30 2 * * *", evening, 2, "Europe/Berlin")

    assert [fire.strftime("%d %H:%M") for fire in ours] == ["30 00:00", "30 00:30"]
    assert [fire.strftime("%d %H:%M") for fire in theirs] == ["29 01:00", "30 00:00"]
