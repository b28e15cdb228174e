"""The list of breaks fits today's code (``python -m tests.breaks`` says which are found)."""

import ast
from collections import Counter

import pytest

from tests.breaks.catalogue import ROOT, Break, StaleBreakError, breaks

BREAKS = breaks()


def test_there_are_sixty_five_with_names_of_their_own():
    assert len(BREAKS) == 65
    assert [name for name, count in Counter(one.name for one in BREAKS).items() if count > 1] == []


@pytest.mark.parametrize("one", BREAKS, ids=lambda one: one.name)
def test_a_break_changes_todays_code_and_leaves_it_readable(one: Break):
    text = (ROOT / one.file).read_text(encoding="utf-8")

    broken = one.applied(text)

    assert broken != text
    if one.file.endswith(".py"):
        assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(text))


@pytest.mark.parametrize("one", BREAKS, ids=lambda one: one.name)
def test_the_tests_that_should_find_a_break_are_there(one: Break):
    assert one.paths(ROOT)


def test_a_break_whose_text_has_changed_is_reported():
    one = Break(name="a", capability="", file="b.py", old="x", new="y", why="", tests=())

    with pytest.raises(StaleBreakError, match=r"2 times in b\.py"):
        one.applied("x = x")
