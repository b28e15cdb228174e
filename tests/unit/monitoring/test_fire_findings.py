"""Fires of schedules that have failed, as findings: one a biz, which says which and why."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.kit.incidents import MOST_FIRES, Kind, evaluate
from tests.kit.monitoring import FailedFire
from tests.kit.worlds.memory import World
from tests.kit.worlds.monitoring import sample
from tests.kit.worlds.samples import a_sample, a_tree, kinds, the


def a_fire(schedule="nightly", **changes):
    facts = {
        "tenant": "acme",
        "biz": "docs",
        "schedule": schedule,
        "fire_at": datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
        "why": "this biz has no rule 'article'",
    }
    return FailedFire(**{**facts, **changes})


def test_a_biz_has_one_finding_that_names_some_of_its_schedules_and_why_each_failed():
    fires = tuple(a_fire(f"s{n}") for n in reversed(range(5)))

    finding = the(evaluate(a_sample(failed_fires=fires), None, a_tree()), Kind.SCHEDULE_FAILED)

    assert (str(finding.place), finding.value) == ("biz acme/docs", 5)
    first = "s0, the fire of 2026-03-01 12:30 UTC: this biz has no rule 'article'; s1, "
    assert finding.said.startswith(first)
    assert finding.said.endswith("; and 2 more")


def test_what_others_have_written_is_one_line_of_bounded_length():
    fires = (a_fire(why="a\nb" + "c" * 2_000),)

    finding = the(evaluate(a_sample(failed_fires=fires), None, a_tree()), Kind.SCHEDULE_FAILED)

    assert "\n" not in finding.said
    assert len(finding.said) < 600


def test_bizs_that_were_removed_or_refused_are_named_as_their_schedules_are_still_there():
    fires = (a_fire(biz="gone"), a_fire(biz="broken"))
    tree = replace(a_tree(), refused=frozenset({("acme", "broken")}))

    found = evaluate(a_sample(failed_fires=fires), None, tree).findings

    places = [str(one.place) for one in found if one.kind is Kind.SCHEDULE_FAILED]
    assert places == ["biz acme/broken", "biz acme/gone"]


@pytest.mark.parametrize(("fires", "is_known"), [(0, True), (None, False), (MOST_FIRES, False)])
def test_where_not_all_could_be_read_nothing_is_known_of_the_others(fires, is_known):
    failed = None if fires is None else tuple(a_fire(f"s{n}") for n in range(fires))

    found = evaluate(a_sample(failed_fires=failed), None, a_tree())

    assert (Kind.SCHEDULE_FAILED in kinds(found)) is bool(fires)
    assert (Kind.SCHEDULE_FAILED in found.unseen) is not is_known


def test_a_sample_has_the_fires_that_failed_or_says_that_they_could_not_be_read():
    def fail():
        raise TimeoutError

    world = World()

    assert sample(world, fires=lambda: (a_fire(),)).failed_fires == (a_fire(),)
    unread = sample(world, fires=fail)
    assert unread.failed_fires is None
    assert "fires of schedules" in {one.what for one in unread.unread}
