"""ports.RuleStore over memory and a real MongoDB."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from crawlfleet.adapters.memory.rules import MemoryRules
from crawlfleet.adapters.mongo.rules import MongoRules
from crawlfleet.model.lane import Lane
from crawlfleet.model.rule import Cast, Field, Rule, Selector
from crawlfleet.ports import RuleStore
from tests.contract.store_cases import nodes_at

RULE = Rule(
    description="a shop's page",
    items=Selector(css="li"),
    fields={
        "title": Field(css="h1", required=True),
        "price": Field(xpath="//b", regex="[0-9]+", type=Cast.NUMBER, default=0.5),
        "seller": Field(css=".s", fields={"name": Field(css="a")}),
    },
)


@pytest.fixture(params=["memory", "mongo"])
def another_process(request: pytest.FixtureRequest) -> Iterator[Callable[[], RuleStore]]:
    """Opens the store as one more process would."""
    if request.param == "memory":
        one = MemoryRules()
        yield lambda: one
        return
    with nodes_at(request.getfixturevalue("mongo_uri")) as nodes:
        yield lambda: MongoRules(nodes)


@pytest.fixture
def lane(tenant: str) -> Lane:
    return Lane(tenant, "shop", "main")


def test_a_frozen_rule_is_read_back_as_it_was(
    another_process: Callable[[], RuleStore], lane: Lane
) -> None:
    another_process().freeze(lane, "detail", RULE)

    assert another_process().frozen(lane, "detail", RULE.version) == RULE


def test_freezing_again_keeps_the_first(
    another_process: Callable[[], RuleStore], lane: Lane
) -> None:
    reworded = Rule(description="other words", items=RULE.items, fields=RULE.fields)
    store = another_process()
    store.freeze(lane, "detail", RULE)
    store.freeze(lane, "detail", RULE)

    another_process().freeze(lane, "detail", reworded)

    assert reworded.version == RULE.version
    assert another_process().frozen(lane, "detail", RULE.version) == RULE


def test_many_may_freeze_one_version_at_once(
    another_process: Callable[[], RuleStore], lane: Lane
) -> None:
    stores = [another_process() for _ in range(8)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda store: store.freeze(lane, "detail", RULE), stores))

    assert another_process().frozen(lane, "detail", RULE.version) == RULE


def test_versions_names_bizs_and_tenants_are_kept_apart(
    another_process: Callable[[], RuleStore], lane: Lane
) -> None:
    edited = Rule(fields={"title": Field(css="h2")})
    store = another_process()
    store.freeze(lane, "detail", RULE)
    store.freeze(lane, "detail", edited)

    assert store.frozen(lane, "detail", edited.version) == edited
    assert store.frozen(lane, "detail", RULE.version) == RULE
    assert store.frozen(lane, "list", RULE.version) is None
    assert store.frozen(lane, "detail", "000000000000") is None
    assert store.frozen(Lane(lane.tenant, "news", "main"), "detail", RULE.version) is None
    assert store.frozen(Lane(lane.tenant + "b", "shop", "main"), "detail", RULE.version) is None
