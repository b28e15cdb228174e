"""Fields of busy rules that have a value less often than they had (SPEC.md H8)."""

from datetime import timedelta

import pytest

from tests.kit.records import falls, is_busy
from tests.kit.requests import Coverage, HourCoverage
from tests.kit.worlds.memory import START

HOUR = timedelta(hours=1)


def hour(number: int, records: int = 400, rule: str = "page", version: str = "v1", **fields: int):
    counted = Coverage(pages=records, records=records, fields=fields)
    return HourCoverage(
        started_at=START + number * HOUR, rule=rule, version=version, coverage=counted
    )


def found(hours, fields=("title", "price"), share=0.5, records=200):
    return falls(hours, {"page": fields}, share, records)


STEADY = [hour(number, title=400, price=360) for number in range(3)]


def test_a_field_that_falls_by_more_than_the_share_is_found_with_both_shares():
    [fall] = found([*STEADY, hour(3, title=400, price=40)])

    assert (fall.rule, fall.field, fall.records) == ("page", "price", 400)
    assert (fall.before, fall.now) == (0.9, 0.1)
    assert fall.share == pytest.approx(8 / 9)


def test_what_falls_by_less_or_rises_is_well():
    assert found([*STEADY, hour(3, title=400, price=200)]) == []
    assert found([hour(0, title=40), hour(1, title=400)]) == []


def test_a_field_that_is_gone_altogether_is_the_worst():
    falling = found([*STEADY, hour(3, title=100)])

    assert [(one.field, one.share) for one in falling] == [("price", 1.0), ("title", 0.75)]


def test_an_edit_that_breaks_a_field_shows_as_a_change_of_the_site_does():
    [fall] = found([*STEADY, hour(3, version="v2", title=400)])

    assert fall.field == "price"


def test_a_field_that_the_rule_does_not_have_any_more_is_not_missed():
    assert found([*STEADY, hour(3, version="v2", title=400)], fields=("title",)) == []
    # Of an executor nobody knows what it would give.
    assert [one.field for one in found([*STEADY, hour(3, title=400)], fields=None)] == ["price"]


def test_hours_of_few_records_are_taken_together_until_they_can_tell():
    few = [hour(3 + number, records=60, title=60) for number in range(4)]

    [fall] = found([*STEADY, *few])

    assert (fall.field, fall.records) == ("price", 240)


@pytest.mark.parametrize(
    "hours",
    [
        [],
        [hour(0, title=400, price=400)],
        [hour(0, records=100, title=100), hour(1, title=0)],
        [hour(0, title=400), hour(1, records=100)],
    ],
    ids=["nothing", "one hour", "few before", "few now, and then none before"],
)
def test_a_rule_that_is_not_busy_is_not_judged(hours):
    assert found(hours) == []
    assert not is_busy(hours, "page", 200)


def test_a_field_that_few_records_ever_had_says_nothing():
    assert found([hour(0, price=10), hour(1, title=400)]) == []


def test_rules_are_judged_apart():
    other = [hour(number, rule="list", title=400) for number in range(4)]

    assert [one.rule for one in found([*STEADY, *other, hour(3, title=400)])] == ["page"]
