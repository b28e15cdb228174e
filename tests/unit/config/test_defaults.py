"""Settings with one sensible value need not be written: the smallest biz is a name and a rule."""

import json
from datetime import UTC, datetime

import pytest

from tests.kit.config import adopt, push_problems, unchecked

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SMALLEST = '{"rules": {"page": {"fields": {"title": {"css": "title"}}}}}'


def judged(stage="{}", **bizs):
    documents = {"stage": stage, **{f"bizs/default/{name}": text for name, text in bizs.items()}}
    return adopt("1", documents, None, {}, unchecked), documents


def route_of(verdict, name):
    [one] = verdict.tree.bizs["default"][name].generations
    return one.nodes, one.databases, one.shards


def test_a_biz_of_a_rule_alone_has_a_database_of_its_name_on_the_home_node():
    stage = '{"nodes": ["b", "a"], "home_node": "a"}'

    verdict, _ = judged(stage, shop=SMALLEST, news=SMALLEST)

    assert verdict.problems == ()
    assert route_of(verdict, "shop") == (("a",), ("shop",), 1)
    assert route_of(verdict, "news") == (("a",), ("news",), 1)


def test_names_too_long_for_a_database_are_cut_and_stay_apart():
    long, other = "a-name-as-long-as-names-may-be-x", "a-name-as-long-as-names-may-be-y"

    verdict, _ = judged(**{long: SMALLEST, other: SMALLEST})

    databases = {route_of(verdict, name)[1][0] for name in (long, other)}
    assert verdict.problems == ()
    assert len(databases) == 2
    assert max(map(len, databases)) <= 24


def test_a_generation_fills_in_nodes_and_databases_too():
    written = {**json.loads(SMALLEST), "generations": [{"starts_at": "2026-01-01T00:00:00Z"}]}

    verdict, _ = judged(shop=json.dumps(written))

    assert route_of(verdict, "shop") == (("main",), ("shop",), 1)


def test_what_two_bizs_store_stays_apart_where_one_names_the_other_s_database():
    route = [{"starts_at": "2026-01-01T00:00:00Z", "nodes": ["main"], "databases": ["shop"]}]
    written = json.dumps({**json.loads(SMALLEST), "generations": route})

    verdict, _ = judged(shop=SMALLEST, other=written)

    assert any("is claimed by" in problem.message for problem in verdict.problems)


def test_an_unwritten_route_may_be_written_as_it_was_and_goes_on_from_there():
    _, standing = judged(shop=SMALLEST)
    route = {"starts_at": "1970-01-01T00:00:00Z", "nodes": ["main"], "databases": ["shop"]}
    later = {"starts_at": "2026-06-02T00:00:00Z", "nodes": ["main"], "shards": 4}
    written = json.dumps({**json.loads(SMALLEST), "generations": [route, later]})

    verdict, _ = judged(shop=written)

    assert push_problems(standing, verdict.tree, NOW) == []


@pytest.mark.parametrize("stage", ["{}", '{"nodes": ["main", "b"], "home_node": "b"}'])
def test_an_unwritten_route_is_not_lost_by_an_edit_elsewhere(stage):
    _, standing = judged(shop=SMALLEST)
    later = [{"starts_at": "2026-06-02T00:00:00Z"}]
    moved = SMALLEST if stage != "{}" else json.dumps(json.loads(SMALLEST) | {"generations": later})

    verdict, _ = judged(stage, shop=moved)

    [problem] = push_problems(standing, verdict.tree, NOW)
    assert problem.field.startswith("bizs/default/shop: generations")
    said = problem.message.partition("what stood there unwritten is ")[2]
    assert json.loads(said)[0] == {
        "starts_at": "1970-01-01T00:00:00Z",
        "nodes": ["main"],
        "databases": ["shop"],
    }
