"""Resolvers of seed keys that packages bring, for the rules and spiders that a biz names."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from tests.kit.config import Biz, Generation, Rule, SeedPolicy
from tests.kit.frontier import SeedKeys, seed_key, seed_keys
from tests.kit.kernel import InvalidRequestError


def by_last_part(url, rules=None, *, method="GET", body=None):
    return seed_key("https://one.example/" + url.rpartition("/")[2])


def faulty(url, rules=None, *, method="GET", body=None):
    raise ZeroDivisionError


def short(url, rules=None, *, method="GET", body=None):
    return b"short"


def biz(**resolvers):
    route = Generation(starts_at=datetime(2026, 1, 1, tzinfo=UTC), nodes=("a",), databases=("b",))
    return Biz(generations=(route,), rules={"shop": Rule()}, seeds=SeedPolicy(resolvers=resolvers))


@pytest.fixture
def installed(monkeypatch):
    loads = []

    def point(name, target):
        def load():
            loads.append(name)
            if isinstance(target, Exception):
                raise target
            return target

        return SimpleNamespace(name=name, value=f"package:{name}", load=load)

    points = [
        point("last", by_last_part),
        point("faulty", faulty),
        point("short", short),
        point("broken", ImportError("no such thing")),
        point("twice", by_last_part),
        point("twice", by_last_part),
    ]
    monkeypatch.setattr(seed_keys, "entry_points", lambda group: points)
    return loads


def test_a_rule_of_which_nothing_is_said_has_the_default(installed):
    assert SeedKeys()(biz(), "shop") is seed_key
    assert installed == []


def test_a_named_resolver_decides_and_is_loaded_once(installed):
    keys, named = SeedKeys(), biz(shop="last")

    one = keys(named, "shop")("https://a.example/list/7")
    other = keys(named, "shop")("https://b.example/7")

    assert one == other != seed_key("https://a.example/list/7")
    assert installed == ["last"]
    assert keys(named, "page") is seed_key


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nobodys", "no package brings one called 'nobodys'"),
        ("twice", "2 packages bring one called 'twice'"),
        ("broken", "package:broken cannot be loaded: ImportError: no such thing"),
    ],
)
def test_one_that_cannot_be_had_is_named_with_its_field(installed, name, said):
    with pytest.raises(InvalidRequestError) as caught:
        SeedKeys()(biz(shop=name), "shop")

    [problem] = caught.value.problems
    assert problem.field == "seeds.resolvers.shop"
    assert said in problem.message


@pytest.mark.parametrize(
    ("name", "said"),
    [("faulty", "has no key by faulty: ZeroDivisionError"), ("short", "has no key of 16 bytes")],
)
def test_one_that_fails_costs_the_url_that_it_fails_at(installed, name, said):
    resolve = SeedKeys()(biz(shop=name), "shop")

    with pytest.raises(InvalidRequestError) as caught:
        resolve("https://a.example/")

    [problem] = caught.value.problems
    assert problem.field == "url"
    assert said in problem.message
