import pytest

from tests.kit.config import Stage, Tree, must_operate, operates, readable_tenants
from tests.kit.kernel import NotOperatorError, names

DEFAULT = names.DEFAULT_TENANT


def operated_by(*operators: str) -> Tree:
    return Tree(revision="", stage=Stage(operators=operators), tenants={}, bizs={})


@pytest.mark.parametrize(
    ("named", "operator", "others"),
    [
        ((), DEFAULT, ["acme"]),
        (("ops", "night"), "ops", ["acme", DEFAULT]),
        (("ops", DEFAULT), DEFAULT, ["acme"]),
    ],
    ids=["none is named", "others are named", "the default tenant is named"],
)
def test_operators_are_those_who_are_named_or_else_the_default_tenant(named, operator, others):
    tree = operated_by(*named)

    assert operates(tree, operator)
    assert readable_tenants(tree, operator) is None
    must_operate(tree, operator)
    for other in others:
        assert readable_tenants(tree, other) == (other,)
        with pytest.raises(NotOperatorError):
            must_operate(tree, other)
