"""Resolvers of seed keys that packages bring, for the rules and spiders that a biz names."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from tests.kit.config import Biz, Generation, Rule, SeedPolicy
from tests.kit.frontier import SeedKeys, seed_key
from tests.kit.kernel import InvalidRequestError

pytestmark = pytest.mark.measured


def by_last_part(url, rules=None, *, method="GET", body=None):
    return seed_key("https://one.example/" + url.rpartition("/")[2])


def faulty(url, rules=None, *, method="GET", body=None):
    raise ZeroDivisionError


def short(url, rules=None, *, method="GET", body=None):
    return b"short"


def biz(**resolvers):
    route = Generation(starts_at=datetime(2026, 1, 1, tzinfo=UTC), nodes=("a",), databases=("b",))
    return Biz(generations=(route,), rules={"shop": Rule()}, seeds=SeedPolicy(resolvers=resolvers))


class Points:
    """The entry points of a process, and the names of those that were loaded."""

    def __init__(self) -> None:
        self.loads = []

    def __call__(self, group):
        assert group == "crawlfleet.seed_keys"
        broken = ImportError("no such thing")
        given = [("last", by_last_part), ("faulty", faulty), ("short", short), ("broken", broken)]
        return [self._point(*each) for each in [*given, *[("twice", by_last_part)] * 2]]

    def _point(self, name, target):
        def load():
            self.loads.append(name)
            if isinstance(target, Exception):
                raise target
            return target

        return SimpleNamespace(name=name, value=f"package:{name}", load=load)


@pytest.fixture
def points():
    return Points()


@pytest.fixture
def keys(points):
    return SeedKeys(points)


def test_a_rule_of_which_nothing_is_said_has_the_default(keys, points):
    assert keys(biz(), "shop") is seed_key
    assert points.loads == []


def test_a_named_resolver_decides_and_is_loaded_once(keys, points):
    named = biz(shop="last")

    one = keys(named, "shop")("https://a.example/list/7")
    other = keys(named, "shop")("https://b.example/7")

    assert one == other != seed_key("https://a.example/list/7")
    assert points.loads == ["last"]
    assert keys(named, "page") is seed_key


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nobodys", "no package brings one called 'nobodys'"),
        ("twice", "2 packages bring one called 'twice'"),
        ("broken", "package:broken cannot be loaded: ImportError: no such thing"),
    ],
)
def test_one_that_cannot_be_had_is_named_with_its_field(keys, name, said):
    with pytest.raises(InvalidRequestError) as caught:
        keys(biz(shop=name), "shop")

    [problem] = caught.value.problems
    assert problem.field == "seeds.resolvers.shop"
    assert said in problem.message


@pytest.mark.parametrize(
    ("name", "said"),
    [("faulty", "has no key by faulty: ZeroDivisionError"), ("short", "has no key of 16 bytes")],
)
def test_one_that_fails_costs_the_url_that_it_fails_at(keys, name, said):
    resolve = keys(biz(shop=name), "shop")

    with pytest.raises(InvalidRequestError) as caught:
        resolve("https://a.example/")

    [problem] = caught.value.problems
    assert problem.field == "url"
    assert said in problem.message
