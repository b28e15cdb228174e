"""ports.RuleStore over memory and a real MongoDB."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.kit.config import Cast, Field, Rule, Selector, Spider
from tests.kit.implementations import Backend, backend_over
from tests.kit.kernel import QueueKey
from tests.kit.mongo import MongoRules
from tests.kit.mongo_nodes import nodes_at

RULE = Rule(
    description="a shop's page",
    items=Selector(css="li"),
    fields={
        "title": Field(css="h1", required=True),
        "price": Field(xpath="//b", regex="[0-9]+", type=Cast.NUMBER, default=0.5),
        "seller": Field(css=".s", fields={"name": Field(css="a")}),
    },
)


backend = backend_over(MongoRules)


@pytest.fixture
def another_process(backend: Backend) -> Callable[[], MongoRules]:
    """Opens the store as one more process would."""
    return lambda: backend.another(MongoRules)


@pytest.fixture
def queue_key(tenant: str) -> QueueKey:
    return QueueKey(tenant, "shop", "main")


def test_a_rule_version_is_read_back_unchanged(
    another_process: Callable[[], MongoRules], queue_key: QueueKey
) -> None:
    another_process().keep_version(queue_key, "detail", RULE)

    assert another_process().get_version(queue_key, "detail", RULE.version) == RULE


def test_the_fields_of_a_rule_stay_in_their_order_as_records_have_them_in_it(
    another_process: Callable[[], MongoRules], queue_key: QueueKey
) -> None:
    another_process().keep_version(queue_key, "detail", RULE)

    kept = another_process().get_version(queue_key, "detail", RULE.version)

    assert isinstance(kept, Rule)
    assert list(kept.fields) == ["title", "price", "seller"]


def test_freezing_again_keeps_the_first(
    another_process: Callable[[], MongoRules], queue_key: QueueKey
) -> None:
    reworded = Rule(description="other words", items=RULE.items, fields=RULE.fields)
    store = another_process()
    store.keep_version(queue_key, "detail", RULE)
    store.keep_version(queue_key, "detail", RULE)

    another_process().keep_version(queue_key, "detail", reworded)

    assert reworded.version == RULE.version
    assert another_process().get_version(queue_key, "detail", RULE.version) == RULE


def test_many_may_store_one_rule_version_at_once(
    another_process: Callable[[], MongoRules], queue_key: QueueKey
) -> None:
    stores = [another_process() for _ in range(8)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda store: store.keep_version(queue_key, "detail", RULE), stores))

    assert another_process().get_version(queue_key, "detail", RULE.version) == RULE


def test_versions_names_bizs_and_tenants_are_kept_apart(
    another_process: Callable[[], MongoRules], queue_key: QueueKey
) -> None:
    edited = Rule(fields={"title": Field(css="h2")})
    store = another_process()
    store.keep_version(queue_key, "detail", RULE)
    store.keep_version(queue_key, "detail", edited)

    assert store.get_version(queue_key, "detail", edited.version) == edited
    assert store.get_version(queue_key, "detail", RULE.version) == RULE
    assert store.get_version(queue_key, "list", RULE.version) is None
    assert store.get_version(queue_key, "detail", "000000000000") is None
    assert (
        store.get_version(QueueKey(queue_key.tenant, "news", "main"), "detail", RULE.version)
        is None
    )
    assert (
        store.get_version(QueueKey(queue_key.tenant + "b", "shop", "main"), "detail", RULE.version)
        is None
    )


SPIDER = Spider(
    executor="paginated_list",
    parameters={"next": "a.next", "fields": {"title": "h1"}, "pages": 5},
    key=("sku",),
    schema={"required": ["sku"], "properties": {"a.b": {"$ref": "#/$defs/x"}}, "$defs": {"x": {}}},
    description="a shop",
)


def test_a_spiders_version_is_read_back_as_a_spider(
    another_process: Callable[[], MongoRules], queue_key: QueueKey
) -> None:
    another_process().keep_version(queue_key, "list", SPIDER)
    another_process().keep_version(queue_key, "detail", RULE)

    assert another_process().get_version(queue_key, "list", SPIDER.version) == SPIDER
    assert another_process().get_version(queue_key, "detail", RULE.version) == RULE


def test_a_rule_with_a_key_and_a_schema_is_read_back_as_it_was(
    another_process: Callable[[], MongoRules], queue_key: QueueKey
) -> None:
    rule = Rule(key=("title",), schema=SPIDER.schema, fields=RULE.fields)

    another_process().keep_version(queue_key, "detail", rule)

    assert another_process().get_version(queue_key, "detail", rule.version) == rule
    assert rule.version not in {RULE.version, SPIDER.version}


def test_a_name_that_was_a_rule_may_become_a_spider(
    another_process: Callable[[], MongoRules], queue_key: QueueKey
) -> None:
    store = another_process()
    store.keep_version(queue_key, "list", RULE)
    store.keep_version(queue_key, "list", SPIDER)

    assert store.get_version(queue_key, "list", RULE.version) == RULE
    assert store.get_version(queue_key, "list", SPIDER.version) == SPIDER


def test_a_rule_version_from_before_spiders_is_read(mongo_uri: str, queue_key: QueueKey) -> None:
    stored = b'{"fields":{"title":{"css":"h1","required":true}},"items":{"css":"li"}}'
    name = f"{queue_key.tenant}/{queue_key.biz}/detail/0123456789ab"
    with nodes_at(mongo_uri) as nodes:
        nodes.control("rules").insert_one(
            {"_id": name, "tenant": queue_key.tenant, "biz": queue_key.biz, "rule": stored}
        )

        found = MongoRules(nodes).get_version(queue_key, "detail", "0123456789ab")

    assert found == Rule(items=Selector(css="li"), fields={"title": Field(css="h1", required=True)})
