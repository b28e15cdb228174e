"""Resolvers of segments that packages bring, for the bizs that name one."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tests.kit.config import SeedPolicy
from tests.kit.frontier import Segment, Segments, segment_of
from tests.kit.kernel import InvalidRequestError
from tests.kit.worlds.frontier import SeedWorld, a_spec
from tests.kit.worlds.memory import START

QUARTER = timedelta(days=90)


def by_quarter(policy, at):
    first = at.replace(month=(at.month - 1) // 3 * 3 + 1, day=1, hour=0, minute=0, second=0)
    first = first.replace(microsecond=0)
    after = (first + timedelta(days=100)).replace(day=1)
    return Segment(f"{first.year}-Q{first.month // 3 + 1}", first, after)


def points(resolver):
    """The entry points of a process in which one package brings one resolver, and no other."""
    given = SimpleNamespace(name="mine", value="shop:mine", load=lambda: resolver)
    return lambda group: [given] if group == "crawlfleet.segments" else []


def test_a_policy_that_names_none_has_its_span():
    at = datetime(2026, 5, 3, tzinfo=UTC)

    assert Segments(points(by_quarter))(SeedPolicy(), at) == segment_of(SeedPolicy(), at)


def test_a_named_resolver_decides_when_a_url_is_accepted_again():
    world = SeedWorld(segment_resolver="mine")
    segments = Segments(points(by_quarter))
    first = world.add(1, segments=segments)
    world.now += timedelta(days=5)
    same_quarter = world.add(1, segments=segments)
    world.now += QUARTER

    [answer] = world.add(1, segments=segments)

    assert [one.segment for one in (*first, answer)] == ["2026-Q1", "2026-Q2"]
    assert [one.accepted for one in (*first, *same_quarter, answer)] == [True, False, True]
    assert {seed.ends_at for seed in world.kept() if seed.segment == "2026-Q1"} == {
        datetime(2026, 4, 1, tzinfo=UTC)
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda policy, at: None, "mine gives NoneType, which is no Segment"),
        (lambda policy, at: Segment("a/b", at, None), "mine gives the name 'a/b'"),
        (lambda policy, at: Segment("later", at + QUARTER, None), "mine gives later, from"),
        (lambda policy, at: Segment("over", at - QUARTER, at), "mine gives over, from"),
        (lambda policy, at: Segment("bare", at.replace(tzinfo=None), None), "mine fails: TypeErr"),
        (lambda policy, at: 1 / 0, "mine fails: ZeroDivisionError"),
    ],
)
def test_a_resolver_that_gives_no_segment_of_the_moment_costs_the_seed_and_says_why(given, said):
    world = SeedWorld(segment_resolver="mine")

    [answer] = world.add(a_spec(1), segments=Segments(points(given)))

    assert not answer.accepted
    assert answer.why.startswith(f"seeds.segment_resolver: {said}")
    assert world.kept() == []


def test_a_resolver_that_no_package_brings_is_named_with_its_field():
    policy = SeedPolicy(segment_resolver="nobodys")

    with pytest.raises(InvalidRequestError) as refused:
        Segments(points(by_quarter))(policy, START)

    [problem] = refused.value.problems
    assert problem.field == "seeds.segment_resolver"
    assert problem.message == "no package brings one called 'nobodys' (crawlfleet.segments)"
