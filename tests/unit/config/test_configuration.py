import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config_documents import STAGE, biz, generation, texts
from tests.kit.config import Tenant, adopt, push_problems, shape_of, unchecked
from tests.kit.kernel import Problem

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SHOP = "bizs/default/shop: "


def judge(documents, in_force=None, known=None, check_reader=unchecked):
    return adopt("r1", documents, in_force, known or {}, check_reader)


def said(verdict):
    return [str(problem) for problem in verdict.problems]


def places(verdict):
    """The documents and fields of its problems."""
    return [problem.field for problem in verdict.problems]


def test_a_valid_tree_is_in_force_whole():
    verdict = judge(
        texts(
            tenants__acme={"api_keys": ["k1"]},
            bizs__acme__shop=biz(queue="fast"),
            bizs__default__docs=biz(),
        )
    )

    assert verdict.problems == ()
    assert verdict.tree.revision == "r1"
    assert verdict.tree.tenants == {"default": Tenant(), "acme": Tenant(api_keys=("k1",))}
    assert [
        (queue_key.tenant, queue_key.biz, queue_key.queue) for queue_key in verdict.tree.queues()
    ] == [
        ("acme", "shop", "fast"),
        ("default", "docs", "main"),
    ]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            biz(generations=[generation(nodes=["main", "west"])]),
            SHOP + "generations[0].nodes[1]: 'west' is no node of the stage; it has east, main",
        ),
        (
            biz(generations=[generation("2026-01-01T00:00:00")]),
            SHOP + "generations[0].starts_at: has no time zone: end it with Z or an offset",
        ),
        (
            biz(generations=[generation(), generation()]),
            SHOP + "generations[1].starts_at: is not later than the generation before it",
        ),
        (
            biz(generations=[generation(nodes=["main", "main"])]),
            "bizs/default/shop: generations[0].nodes[1]: names main a second time",
        ),
        (
            biz(generations=[generation(databases=["a", "a"])]),
            "bizs/default/shop: generations[0].databases[1]: names a a second time",
        ),
        (
            biz(generations=[generation(databases=[f"d{n}" for n in range(20)], shards=256)]),
            "bizs/default/shop: generations[0]: makes 5120 collections; the most is 4096",
        ),
        (
            biz(states={"done": 100}),
            "bizs/default/shop: states.done: is a state that every biz has already",
        ),
        (
            biz(states={"seen": 100, "checked": 100}),
            "bizs/default/shop: states.checked: has the number of seen (100)",
        ),
        (
            biz(transitions={"leased": ["held"]}, states={"held": 100}),
            (
                "bizs/default/shop: transitions.leased: may not be left by a call; dead, "
                "cancelled, done, held, pending, waiting may"
            ),
        ),
        (
            biz(transitions={"pending": ["helt"]}, states={"held": 100}),
            (
                "bizs/default/shop: transitions.pending[0]: may not become helt by a call; held, "
                "cancelled, dead, done, pending may be"
            ),
        ),
        (
            biz(transitions={"pending": ["held", "held"]}, states={"held": 100}),
            "bizs/default/shop: transitions.pending[1]: names held a second time",
        ),
        (
            biz(transitions={"pending": ["done"]}),
            (
                "bizs/default/shop: transitions.pending[0]: neither pending nor done is a state of "
                "the biz's own"
            ),
        ),
        (
            biz(transitions={"held": ["held"]}, states={"held": 100}),
            "bizs/default/shop: transitions.held[0]: is the state itself",
        ),
        (
            biz(transitions={"done": ["reviewed"]}, states={"reviewed": 999}),
            (
                "bizs/default/shop: transitions.done[0]: done has ended and reviewed is open: "
                "numbers of final states are 1,000 and more"
            ),
        ),
        (
            biz(transitions={"reviewed": ["pending"]}, states={"reviewed": 1_000}),
            (
                "bizs/default/shop: transitions.reviewed[0]: reviewed has ended and pending is "
                "open: numbers of final states are 1,000 and more"
            ),
        ),
        (
            biz(
                transitions={"dead": ["off"], "done": ["off"], "off": ["dead"]},
                states={"off": 1_000},
            ),
            (
                "bizs/default/shop: transitions.off[0]: only what was dead may become it again: "
                "off may have been done"
            ),
        ),
        (
            biz(retry={"base_seconds": 10, "max_seconds": 5}),
            "bizs/default/shop: retry.max_seconds: is less than base_seconds",
        ),
        (
            biz(rules={"page": {"fields": {"x": {}}}}),
            (
                "bizs/default/shop: rules.page.fields.x: needs exactly one of css, xpath, json,"
                " regex, fact, main_text, or fields"
            ),
        ),
    ],
)
def test_a_biz_that_contradicts_itself_or_the_stage_is_named(document, problem):
    verdict = judge(texts(bizs__default__shop=document))

    assert said(verdict) == [problem]
    assert verdict.tree.bizs == {}


def test_a_stage_that_contradicts_itself_is_refused_with_every_error():
    stage = {
        "home_node": "west",
        "nodes": ["main", "main"],
        "fleet": {"min_consumers": 9, "max_consumers": 2},
    }

    verdict = judge(texts(stage=stage, bizs__default__shop=biz(ttl_seconds=1)))

    assert verdict.tree is None
    assert places(verdict) == [
        "bizs/default/shop: ttl_seconds",
        "stage: nodes[1]",
        "stage: home_node",
        "stage: fleet.min_consumers",
    ]


def test_what_a_stage_says_of_pools_hosts_proxies_and_bidding_is_held_together():
    weights = ("memory", "cpu", "bandwidth")
    stage = STAGE | {
        "pools": {"far": {"min_consumers": 9, "max_consumers": 2, "proxies": "nowhere"}},
        "hosts": {"backoff_seconds": 9, "max_backoff_seconds": 1},
        "default_proxies": "none",
        "bidding": {"weights": dict.fromkeys(weights, 0)},
    }

    verdict = judge(texts(stage=stage, tenants__acme={"needs": {}}))

    assert places(verdict) == [
        "stage: pools.far.min_consumers",
        "stage: pools.far.proxies",
        "stage: hosts.max_backoff_seconds",
        "stage: default_proxies",
        "stage: bidding.weights",
        "tenants/acme: needs",
    ]


def test_a_tree_without_a_stage_is_none():
    verdict = judge({"bizs/default/shop": json.dumps(biz())})

    assert verdict.tree is None
    assert said(verdict) == ["stage: is missing"]


def test_one_bad_document_leaves_its_last_good_version_and_all_others():
    first = judge(
        texts(bizs__default__shop=biz(queue="old"), bizs__default__docs=biz(collection="d"))
    )

    second = judge(
        texts(
            bizs__default__shop=biz(queue="NEW"),
            bizs__default__docs=biz(collection="d", queue="new"),
        ),
        first.tree,
        first.readings,
    )

    assert second.tree.bizs["default"]["shop"].queue == "old"
    assert second.tree.bizs["default"]["docs"].queue == "new"
    assert [problem.field for problem in second.problems] == ["bizs/default/shop: queue"]


def test_a_bad_stage_leaves_the_last_good_one():
    first = judge(texts())

    second = judge(texts(stage={"nodes": []}, bizs__default__shop=biz()), first.tree)

    assert second.tree.stage == first.tree.stage
    assert "shop" in second.tree.bizs["default"]
    assert [problem.field for problem in second.problems] == ["stage: nodes"]


def test_a_bad_biz_is_unavailable_alone_when_it_was_never_good():
    verdict = judge(texts(bizs__default__shop=biz(queue=""), bizs__default__docs=biz()))

    assert list(verdict.tree.bizs["default"]) == ["docs"]
    assert verdict.tree.refused == {("default", "shop")}


def test_a_removed_document_is_no_longer_in_force():
    first = judge(texts(bizs__default__shop=biz(), tenants__acme={}))

    second = judge(texts(), first.tree)

    assert second.tree.bizs == {}
    assert list(second.tree.tenants) == ["default"]
    assert second.problems == ()


def test_a_biz_of_a_tenant_without_document_is_refused():
    verdict = judge(texts(bizs__acme__shop=biz()))

    [problem] = said(verdict)
    assert problem.startswith("bizs/acme/shop: ")
    assert "tenants/acme" in problem
    assert verdict.tree.bizs == {}


def test_a_bad_tenant_document_does_not_count_as_missing():
    first = judge(texts(tenants__acme={"api_keys": ["k"]}, bizs__acme__shop=biz()))

    second = judge(texts(tenants__acme={"keys": []}, bizs__acme__shop=biz()), first.tree)

    assert second.tree.tenants["acme"].api_keys == ("k",)
    assert [problem.field for problem in second.problems] == ["tenants/acme: keys"]


def test_an_api_key_of_two_tenants_is_nobodys_at_a_cold_start():
    verdict = judge(texts(tenants__a={"api_keys": ["k"]}, tenants__b={"api_keys": ["k"]}))

    assert places(verdict) == ["tenants/a: api_keys", "tenants/b: api_keys"]
    for problem, other in zip(said(verdict), ("tenants/b", "tenants/a"), strict=True):
        assert other in problem
    assert list(verdict.tree.tenants) == ["default"]


def test_a_retiring_key_is_no_other_tenants_has_a_time_zone_and_does_not_stay_as_well():
    until = "2030-01-01T00:00:00Z"
    retiring = {"api_keys": ["l"], "retiring_keys": {"k": until}}

    both = judge(texts(tenants__a=retiring, tenants__b={"api_keys": ["k"]}))
    naive = judge(texts(tenants__a={"retiring_keys": {"k": "2030-01-01T00:00:00"}}))
    stays = judge(texts(tenants__a={"api_keys": ["k"], "retiring_keys": {"k": until}}))

    assert places(both) == ["tenants/a: api_keys", "tenants/b: api_keys"]
    assert places(naive) == ["tenants/a: retiring_keys.k"]
    assert places(stays) == ["tenants/a: retiring_keys.k"]


def test_an_api_key_stays_with_the_tenant_that_has_it():
    first = judge(texts(tenants__a={"api_keys": ["k"]}, tenants__b={"api_keys": ["l"]}))

    second = judge(
        texts(tenants__a={"api_keys": ["k"]}, tenants__b={"api_keys": ["l", "k"]}), first.tree
    )

    assert second.tree.tenants["b"].api_keys == ("l",)
    assert second.tree.tenants["a"].api_keys == ("k",)
    assert [problem.field for problem in second.problems] == ["tenants/b: api_keys"]


def test_an_api_key_may_move_from_one_tenant_to_another():
    first = judge(texts(tenants__a={"api_keys": ["k"]}, tenants__b={}))

    second = judge(texts(tenants__a={}, tenants__b={"api_keys": ["k"]}), first.tree)

    assert second.problems == ()
    assert second.tree.tenants["b"].api_keys == ("k",)


def test_a_claim_yields_to_a_last_good_version_that_stays():
    first = judge(texts(tenants__a={"api_keys": ["k"]}, tenants__b={}))

    second = judge(texts(tenants__a={"wrong": 1}, tenants__b={"api_keys": ["k"]}), first.tree)

    assert second.tree.tenants["a"].api_keys == ("k",)
    assert second.tree.tenants["b"].api_keys == ()


def test_an_api_key_stands_once_in_its_tenant():
    verdict = judge(texts(tenants__a={"api_keys": ["k", "k"]}))

    assert places(verdict) == ["tenants/a: api_keys[1]"]


def test_two_bizs_of_a_tenant_never_share_a_collection():
    other = biz(generations=[generation(databases=["x", "shop"], nodes=["east"])])
    first = judge(texts(bizs__default__shop=biz(queue="main")))

    second = judge(texts(bizs__default__shop=biz(), bizs__default__docs=other), first.tree)

    assert list(second.tree.bizs["default"]) == ["shop"]
    assert places(second) == ["bizs/default/docs: collection"]
    assert "bizs/default/shop" in said(second)[0]


def test_bizs_may_share_a_queue_and_those_of_two_tenants_a_collection():
    verdict = judge(
        texts(
            tenants__a={},
            bizs__a__shop=biz(),
            bizs__default__shop=biz(),
            bizs__default__docs=biz(collection="docs"),
        )
    )

    assert verdict.problems == ()


@pytest.mark.parametrize("path", ["biz/default/shop", "bizs/default", "stage/x", "bizs/A/b", "x"])
def test_a_document_in_no_place_is_a_problem(path):
    verdict = judge(texts() | {path: "{}"})

    assert [problem.field for problem in verdict.problems] == [path]
    assert shape_of(path) is None
    assert verdict.tree is not None


def test_the_extractors_word_is_placed_at_the_rule_and_said_once():
    def check(rule):
        return [Problem("fields.title.css", "is no selector"), Problem("", "is odd")] * 2

    verdict = judge(texts(bizs__default__shop=biz()), check_reader=check)

    assert places(verdict) == [
        "bizs/default/shop: rules.page.fields.title.css",
        "bizs/default/shop: rules.page",
    ]


def test_a_check_that_fails_is_a_problem_of_that_rule_alone():
    def check(rule):
        raise RuntimeError("boom")

    verdict = judge(texts(bizs__default__shop=biz()), check_reader=check)

    assert places(verdict) == ["bizs/default/shop: rules.page"]
    assert "RuntimeError: boom" in said(verdict)[0]


def test_a_rule_nested_too_deeply_is_not_given_to_the_extractor():
    field = {"css": "b"}
    for _ in range(7):
        field = {"fields": {"y": field}}
    asked = []

    judge(
        texts(bizs__default__shop=biz(rules={"page": {"fields": {"x": field}}})),
        check_reader=lambda rule: asked.append(rule) or [],
    )

    assert asked == []


def test_unchanged_documents_are_not_read_again():
    asked = []

    def check(rule):
        asked.append(rule)
        return []

    documents = texts(bizs__default__shop=biz(), bizs__default__docs=biz(collection="docs"))
    first = judge(documents, check_reader=check)
    changed = documents | texts(bizs__default__docs=biz(collection="docs", queue="q"))
    judge(changed, first.tree, first.readings, check)

    assert len(asked) == 3


def test_a_push_is_refused_for_what_it_does_to_history():
    standing = texts(bizs__default__shop=biz(), bizs__default__bad={}, bizs__default__gone=biz())
    wanted = judge(texts(bizs__default__shop=biz(generations=[generation(shards=2)]))).tree

    assert [problem.field for problem in push_problems(standing, wanted, NOW)] == [
        "bizs/default/shop: generations[0]"
    ]
    assert push_problems({}, wanted, NOW) == []


documents = st.fixed_dictionaries(
    {
        "stage": st.sampled_from([STAGE, {"home_node": "main", "nodes": ["main"]}, {"nodes": 5}]),
        "tenants/a": st.sampled_from([{"api_keys": ["k"]}, {"api_keys": ["l"]}, {"x": 1}]),
        "tenants/b": st.sampled_from([{"api_keys": ["k"]}, {"api_keys": ["m", "l"]}]),
        "bizs/a/one": st.sampled_from([biz(), biz(queue="q"), {}, biz(collection="c")]),
        "bizs/a/two": st.sampled_from(
            [biz(), biz(collection="c"), biz(generations=[generation(nodes=["east"])])]
        ),
    }
)


@given(steps=st.lists(documents, min_size=1, max_size=5))
def test_no_sequence_of_trees_ever_puts_a_contradiction_in_force(steps):
    tree, known = None, {}
    for step in steps:
        given_texts = {path: json.dumps(document) for path, document in step.items()}
        before, verdict = tree, adopt("r", given_texts, tree, known, unchecked)
        tree, known = verdict.tree, verdict.readings

        assert (tree is None) == (before is None and step["stage"] == {"nodes": 5})
        if tree is None:
            continue
        keys = [key for tenant in tree.tenants.values() for key in tenant.api_keys]
        places = [each.collection for each in tree.bizs.get("a", {}).values()]
        assert len(keys) == len(set(keys))
        assert len(places) == len(set(places))
        # What was in force stays, in the old version or in a new one.
        assert before is None or set(before.bizs.get("a", {})) <= set(tree.bizs.get("a", {}))


@pytest.mark.parametrize("depth", [50, 150, 300, 450])
def test_a_rule_of_any_depth_is_that_bizs_problem_alone(depth):
    text = json.dumps(biz()).replace('{"css": "title"}', "X")
    inner = '{"css":"a"}'
    deep = text.replace("X", '{"fields":{"x":' * depth + inner + "}}" * depth)

    verdict = judge(texts(bizs__default__docs=biz()) | {"bizs/default/shop": deep})

    assert len(verdict.problems) == 1
    assert verdict.problems[0].field.startswith("bizs/default/shop")
    assert list(verdict.tree.bizs["default"]) == ["docs"]


def test_errors_of_every_kind_in_one_document_are_named_at_once():
    document = {
        "ttl_seconds": "a day",
        "retries": 3,
        "generations": [
            {"starts_at": "2026-02-01T00:00:00Z", "nodes": ["mars"], "databases": ["d", "d"]},
            {"starts_at": "2026-01-01T00:00:00Z", "nodes": ["main"], "databases": ["d"]},
        ],
        "states": {"done": 100, "x": 5},
        "rules": {
            "one": {"fields": {"a": {"css": "a", "xpath": "//a"}}},
            "two": {"fields": {"a": {"css": 7}}},
        },
    }
    documents = {"stage": "{}", "bizs/default/shop": json.dumps(document)}

    verdict = adopt("1", documents, None, {}, lambda _: [Problem("fields.a.css", "is no CSS")])

    prefix = "bizs/default/shop: "
    assert {problem.field.removeprefix(prefix) for problem in verdict.problems} == {
        "ttl_seconds",
        "retries",
        "states.x",
        "rules.two.fields.a.css",
        "generations[0].databases[1]",
        "generations[0].nodes[0]",
        "generations[1].starts_at",
        "states.done",
        "rules.one.fields.a",
        "rules.one.fields.a.css",
    }
    assert "shop" not in verdict.tree.bizs.get("default", {})


@pytest.mark.parametrize(
    "text", ["", "[]", "5", "{", '{"generations": 5}', '{"rules": []}', "null"]
)
def test_what_is_hardly_a_document_is_refused_without_an_accident(text):
    verdict = adopt("1", {"stage": "{}", "bizs/default/shop": text}, None, {}, unchecked)

    assert verdict.problems
    assert verdict.tree.bizs == {}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"share": 0}, "share"),
        ({"share": 101}, "share"),
        ({"ceilings": {"in_flight": 0}}, "ceilings.in_flight"),
        ({"ceilings": {"leases_per_second": 0}}, "ceilings.leases_per_second"),
        ({"ceilings": {"redis_bytes": 5}}, "ceilings.redis_bytes"),
        ({"ceilings": {"trials": 0}}, "ceilings.trials"),
        ({"ceilings": {"requests": 5}}, "ceilings.requests"),
    ],
)
def test_a_share_or_ceiling_out_of_bounds_is_refused_by_its_name(given, field):
    verdict = judge(texts(tenants__acme={"api_keys": ["k"], **given}))

    assert places(verdict) == [f"tenants/acme: {field}"]
