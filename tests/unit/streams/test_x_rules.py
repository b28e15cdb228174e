"""Rules at X bring what the filters of a channel take, in few rules, and leave others' alone."""

from itertools import count

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from crawlfleet.kernel.errors import InvalidRequestError
from tests.kit.examples import examples
from tests.kit.streams import RuleLimits, parse, x_rules
from tests.unit.streams.filter_cases import ITEMS, MEANT

WIDE = RuleLimits()
NARROW = RuleLimits(characters=60)
FILTERS = st.dictionaries(st.sampled_from("abcd"), MEANT, min_size=1, max_size=4)


def parsed(meant):
    """The filters that a subscription may have, of those that were drawn."""
    found = {}
    for one, each in meant.items():
        try:
            found[one] = parse(each.text)
        except InvalidRequestError:
            continue
    return found


@examples(2)
@given(FILTERS, st.lists(ITEMS, min_size=1, max_size=6), st.sampled_from([WIDE, NARROW]))
def test_clauses_take_what_one_of_the_filters_takes_and_nothing_else(meant, items, limits):
    filters = parsed(meant)
    assume(filters)

    wanted = x_rules.wanted(filters, limits).clauses

    clauses = [parse(clause) for clause in wanted]
    assert all(len(clause) <= limits.characters for clause in wanted)
    for item in items:
        taken = any(each.takes(item) for each in filters.values())
        assert any(clause.takes(item) for clause in clauses) is taken


@given(FILTERS)
def test_the_clauses_of_a_rule_are_read_from_its_text(meant):
    wanted = x_rules.wanted(parsed(meant), WIDE).clauses
    assume(wanted)

    assert x_rules.parts(" OR ".join(wanted)) == wanted


class AtX(RuleBasedStateMachine):
    """The rules of an account, changed by what the product says alone."""

    limits = RuleLimits(characters=30, rules=6)

    def __init__(self):
        super().__init__()
        self.ids = count(1)
        self.rules = []
        self.wanted = set()
        self.missing = 0

    def follow(self):
        change = x_rules.change(self.rules, self.wanted, self.limits)
        here = {one.id for one in self.rules}
        assert here.issuperset(change.delete)
        self.rules = [one for one in self.rules if one.id not in change.delete]
        self.rules += [
            x_rules.Rule(id=str(next(self.ids)), value=value, tag=tag) for value, tag in change.add
        ]
        self.missing = change.missing

    @rule(terms=st.sets(st.sampled_from([f"term{number:02}" for number in range(40)]), max_size=6))
    def filters_change(self, terms):
        self.wanted ^= terms
        self.follow()

    @rule(tag=st.sampled_from(["", "mine", "crawlfleet", "crawlfleet 1", "crawlfleet 0"]))
    def somebody_adds_one(self, tag):
        if len(self.rules) < self.limits.rules:
            self.rules.append(x_rules.Rule(id=str(next(self.ids)), value="cats", tag=tag))
        self.follow()

    @rule(data=st.data())
    def one_is_lost(self, data):
        if self.rules:
            self.rules.remove(data.draw(st.sampled_from(self.rules)))
        self.follow()

    @invariant()
    def ours_bring_what_is_wanted(self):
        ours = [one for one in self.rules if self.is_ours(one)]
        brought = [clause for one in ours for clause in x_rules.parts(one.value)]
        assert set(brought) <= self.wanted
        assert len(brought) == len(set(brought))
        assert set(brought) == self.wanted or self.missing
        assert len(self.rules) <= self.limits.rules
        assert all(len(one.value) <= self.limits.characters for one in ours)

    @invariant()
    def nothing_is_changed_at_rest(self):
        again = x_rules.change(self.rules, self.wanted, self.limits)
        assert not again

    @staticmethod
    def is_ours(one):
        word, _, number = one.tag.partition(" ")
        return word == "crawlfleet" and number.isdigit() and number != "0"


def test_rules_at_x_are_what_is_wanted_whoever_changes_them():
    run_state_machine_as_test(AtX)


def test_a_filter_longer_than_a_rule_is_taken_apart():
    terms = " OR ".join(f"word{number:02}" for number in range(20))

    wanted = x_rules.wanted({"a": parse(f"storm ({terms})")}, NARROW)

    assert wanted.clauses == sorted(f"storm word{number:02}" for number in range(20))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" ".join(f"word{number:02}" for number in range(20)), "is longer than a rule of 60"),
        (
            " ".join(
                "(" + " OR ".join(f"w{part}x{number}" for number in range(20)) + ")"
                for part in range(3)
            ),
            "more than 200 alternatives",
        ),
    ],
)
def test_what_no_rules_can_bring_is_an_error_that_says_so_and_keeps_nobody_waiting(text, said):
    filters = {"a": parse(text), "b": parse("flood")}

    with pytest.raises(InvalidRequestError, match=said):
        x_rules.clauses(filters["a"], NARROW)

    assert x_rules.wanted(filters, NARROW) == (["flood"], ["a"])
