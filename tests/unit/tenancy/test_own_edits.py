"""What a tenant may change of its own bizs (SPEC.md A3, C7): nothing that costs others."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import Biz, Politeness, Robots
from tests.kit.tenancy import FIELDS, May, refusals

PATH = "bizs/acme/shop"
#: A value of each field that is not its default.
OTHERS = {
    "description": "Other.",
    "queue": "other",
    "collection": "other",
    "ttl_seconds": 90,
    "expiry_grace_seconds": 9,
    "records_ttl_seconds": 90,
    "id_kind": "objectid",
    "planned_seconds": 9.0,
    "thresholds": {"backlog": 9},
    "generations": [{"starts_at": "2026-01-01T00:00:00Z"}],
    "rules": {"page": {"fields": {"a": {"css": "p"}}}},
    "spiders": {"mine": {"executor": "own"}},
    "fetch": {"cookies": True},
    "seeds": {"ahead": 9},
    "recrawl": {"schedule": True},
    "retry": {"max_attempts": 9},
    "intake": {"burst": 9},
    "ageing": {"beta": 0.9},
    "weight": 9,
    "states": {"seen": 100},
    "transitions": {"done": ["seen"]},
    "open_jobs": 9,
    "needs": {"workers": 1},
    "quotas": [{"unit": "requests", "most": 9, "per": "day"}],
    "trace_share": 0.5,
}
politeness = st.builds(
    Politeness,
    robots=st.sampled_from(Robots),
    product=st.none() | st.just("Bot"),
    per_second=st.none() | st.sampled_from([0.5, 1.0, 2.0]),
    concurrency=st.none() | st.sampled_from([1, 2, 4]),
)
settings = st.sets(st.sampled_from(sorted(OTHERS)))


def written(fields, polite: Politeness) -> str:
    text = msgspec.json.encode({name: OTHERS[name] for name in fields} | {"politeness": polite})
    msgspec.json.decode(text, type=Biz)
    return text.decode()


def test_every_field_of_a_biz_is_in_the_table_and_has_another_value_here():
    assert set(FIELDS) == set(Biz.__struct_fields__)
    assert {*OTHERS, "politeness"} == set(FIELDS)


def most(value: float | None) -> float:
    return float("inf") if value is None else value


@given(settings, politeness, settings, politeness)
def test_whatever_is_let_through_costs_nobody_else_more(old, old_polite, new, new_polite):
    before, after = written(old, old_polite), written(new, new_polite)

    refused = {one.field for one in refusals("acme", {PATH: before}, {PATH: after})}

    changed = old ^ new
    assert {f"{PATH}: {name}" for name in changed if FIELDS[name] is May.OPERATOR} <= refused
    assert not {f"{PATH}: {name}" for name in changed if FIELDS[name] is May.TENANT} & refused
    if not refused:
        assert most(new_polite.per_second) <= most(old_polite.per_second)
        assert most(new_polite.concurrency) <= most(old_polite.concurrency)
        assert new_polite.product == old_polite.product
        assert (old_polite.robots, new_polite.robots) != (Robots.OBEY, Robots.IGNORE)


@pytest.mark.parametrize("path", ["stage", "tenants/acme", "bizs/rival/shop"])
def test_documents_that_are_none_of_its_bizs_are_operators(path):
    [refused] = refusals("acme", {path: "{}"}, {path: '{"description": "Mine."}'})

    assert refused.field == path


@pytest.mark.parametrize(("before", "after"), [({}, {PATH: "{}"}), ({PATH: "{}"}, {})])
def test_bizs_are_added_and_removed_by_operators(before, after):
    [refused] = refusals("acme", before, after)

    assert refused.field == PATH
