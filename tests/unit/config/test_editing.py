"""Edits of the configuration's documents, and of what is inside them (SPEC.md A3)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import MOST_KEYS, Edit, address_in, content_at, differences, edited
from tests.kit.kernel import InvalidRequestError, NotFoundError

SHOP = "bizs/acme/shop"
STANDING = {"stage": '{"fleet":{"batch":5}}', SHOP: '{"rules":{"page":{}},"weight":2}'}
WRONG = ["", "nothing", "stage/", "tenants", "tenants/No", "bizs/acme", f"{SHOP}//a"]
names = st.sampled_from(["a", "b", "c"])
trees = st.recursive(
    st.integers(0, 3), lambda inner: st.dictionaries(names, inner, max_size=3), max_leaves=8
)


def edit(path: str, content: object) -> Edit:
    return Edit(address_in(path, "path"), content)


@pytest.mark.parametrize("text", [*WRONG, "stage" + "/a" * (MOST_KEYS + 1)])
def test_what_is_no_place_is_refused_by_its_field(text):
    with pytest.raises(InvalidRequestError) as error:
        address_in(text, "changes[0].path")

    assert [problem.field for problem in error.value.problems] == ["changes[0].path"]


@pytest.mark.parametrize(
    ("path", "content"),
    [("stage/fleet/batch", 5), (f"{SHOP}/rules/page", {}), ("stage", {"fleet": {"batch": 5}})],
)
def test_what_stands_at_a_place_is_found(path, content):
    assert content_at(STANDING, address_in(path, "path")) == content


@pytest.mark.parametrize("path", ["tenants/acme", f"{SHOP}/weight/more", f"{SHOP}/rules/no"])
def test_where_nothing_stands_nothing_is_found(path):
    with pytest.raises(NotFoundError):
        content_at({**STANDING, "bizs/acme/broken": "{"}, address_in(path, "path"))


def test_edits_are_made_one_after_the_other():
    made = edited(
        STANDING,
        [
            edit("tenants/acme", {"share": 2}),
            edit("tenants/acme/share", 3),
            edit("stage/pools/large", {"max_consumers": 3}),
            edit(f"{SHOP}/weight", None),
        ],
    )

    assert {path: json.loads(text) for path, text in made.items()} == {
        "stage": {"fleet": {"batch": 5}, "pools": {"large": {"max_consumers": 3}}},
        "tenants/acme": {"share": 3},
        SHOP: {"rules": {"page": {}}},
    }
    assert edited(made, [edit("tenants/acme", None)]).keys() == STANDING.keys()


def test_edits_inside_of_what_is_not_there_are_all_named():
    wrong = [
        edit("tenants/acme/share", 1),
        edit("stage/fleet", {}),
        edit(f"{SHOP}/weight/more", 1),
        edit(f"{SHOP}/rules/no", None),
        edit(f"{SHOP}/a/b/c", 1),
        edit("tenants/none", None),
    ]

    with pytest.raises(InvalidRequestError) as error:
        edited(STANDING, wrong)

    found = [problem.field for problem in error.value.problems]
    assert found == [f"changes[{number}].path" for number in (0, 2, 3, 4)]


@given(trees, names, names, trees)
def test_whatever_was_put_is_there_and_nothing_beside_it_has_changed(tree, first, second, content):
    standing = {"stage": json.dumps({"x": tree, "y": tree})}

    try:
        made = edited(standing, [edit(f"stage/x/{first}/{second}", content)])
    except InvalidRequestError:
        assert not isinstance(tree, dict) or not isinstance(tree.get(first, {}), dict)
        return

    assert content_at(made, address_in(f"stage/x/{first}/{second}", "path")) == content
    assert content_at(made, address_in("stage/y", "path")) == tree
    whole = json.loads(made["stage"])["x"]
    assert {name for name in whole if name != first} == {one for one in tree if one != first}


def test_differences_are_told_by_document_and_blanks_are_none():
    before = {"stage": '{"a":1}', SHOP: "{}", "tenants/b": "no json"}
    after = {"stage": '{ "a": 1 }', SHOP: '{"weight":2}', "tenants/c": "{}"}

    found = {one.path: one for one in differences(before, after)}

    assert {path: one.change for path, one in found.items()} == {
        SHOP: "changed",
        "tenants/b": "removed",
        "tenants/c": "added",
    }
    assert '+  "weight": 2' in found[SHOP].diff
    assert "-no json" in found["tenants/b"].diff
