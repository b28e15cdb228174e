"""Terms are packed into few rules, rules into few channels, and a change moves few of them."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.kit.examples import examples
from tests.kit.streams import Packing, RuleLimits, channels, least, repack

NOTHING = Packing({})


def terms_of(packing):
    return sorted(term for terms in packing.rules.values() for term in terms)


def named(draw, count):
    """Different terms of 4 to 14 letters."""
    found = {}
    while len(found) < count:
        found["".join(draw.choices("abcdefghij", k=draw.randint(4, 14)))] = None
    return list(found)


class Repacking(RuleBasedStateMachine):
    """Small rules, so that all that may go wrong does so with few terms."""

    limits = RuleLimits(characters=60, terms=0)
    longest = 60

    def __init__(self):
        super().__init__()
        self.packing = NOTHING
        self.terms = set()

    @rule(data=st.data())
    def terms_come_and_go(self, data):
        new = data.draw(
            st.sets(st.tuples(st.integers(1, self.longest), st.integers(0, 3)), max_size=8)
        )
        self.terms ^= {chr(ord("a") + number) * length for length, number in new}
        before = self.packing

        change = repack(before, self.terms, self.limits)

        self.packing = change.packing
        assert set(change.removed) == before.rules.keys() - change.packing.rules.keys()
        assert set(change.added) == change.packing.rules.keys() - before.rules.keys()
        for number in before.rules.keys() & change.packing.rules.keys():
            assert before.rules[number] == change.packing.rules[number]

    @rule()
    def nothing_changes(self):
        change = repack(self.packing, self.terms, self.limits)

        assert (change.removed, change.added, change.moved) == ((), (), 0)

    @invariant()
    def every_term_is_in_one_rule_and_no_rule_is_over_its_limits(self):
        assert terms_of(self.packing) == sorted(self.terms)
        for number, terms in self.packing.rules.items():
            assert len(self.packing.text(number)) <= self.limits.characters
            assert 0 < len(terms) <= (self.limits.terms or math.inf)

    @invariant()
    def rules_are_as_few_as_first_fit_promises(self):
        room = self.limits.characters + 4
        total, largest = sum(len(it) + 4 for it in self.terms), max(map(len, self.terms), default=0)
        if self.terms and not self.limits.terms and room > largest + 4:
            assert len(self.packing.rules) <= total / (room - largest - 4) + 2


@pytest.mark.parametrize("terms", [0, 2])
@pytest.mark.parametrize("longest", [60, 8])
def test_whatever_comes_and_goes_each_term_is_in_one_rule(terms, longest):
    class Machine(Repacking):
        pass

    Machine.limits = RuleLimits(characters=60, terms=terms)
    Machine.longest = longest
    run_state_machine_as_test(Machine, settings=examples(0.25, steps=8))


@given(st.lists(st.text("ab", min_size=1, max_size=20), unique=True), st.integers(0, 5))
def test_no_packing_is_below_the_lower_bound(terms, most):
    limits = RuleLimits(characters=20, terms=most)

    found = repack(NOTHING, terms, limits)

    assert len(found.packing.rules) >= least(terms, limits)


@pytest.mark.parametrize(
    "limits", [RuleLimits(), RuleLimits(characters=2_048), RuleLimits(terms=50)]
)
def test_rules_are_within_five_percent_of_the_optimum(limits):
    terms = named(random.Random(7), 3_000)

    found = repack(NOTHING, terms, limits)

    assert len(found.packing.rules) <= 1.05 * least(terms, limits)


def test_a_change_moves_few_terms_however_often_there_is_one():
    draw = random.Random(11)
    limits = RuleLimits()
    terms = named(draw, 2_000)
    packing = repack(NOTHING, terms, limits).packing
    moved = 0
    for new in range(20):
        gone = set(draw.sample(terms, 20))
        terms = [term for term in terms if term not in gone]
        terms += [f"new{new}-{number}" for number in range(draw.randint(0, 30))]
        change = repack(packing, terms, limits)
        packing, moved = change.packing, moved + change.moved
        assert len(packing.rules) <= max(1.05 * least(terms, limits), least(terms, limits) + 1)

    assert moved <= 20 * 20


def test_a_term_that_comes_touches_one_rule():
    terms = named(random.Random(3), 500)
    packing = repack(NOTHING, terms, RuleLimits()).packing

    change = repack(packing, [*terms, "another"], RuleLimits())

    assert (len(change.added), change.moved) == (1, 0)
    assert len(change.removed) <= 1


def test_rules_that_were_packed_badly_are_packed_anew():
    scattered = Packing({n: (letter * 30,) for n, letter in enumerate("abcdefgh")})

    change = repack(scattered, terms_of(scattered), RuleLimits(characters=64))

    assert len(change.packing.rules) <= 4 + 1
    assert terms_of(change.packing) == terms_of(scattered)


def test_where_no_term_fits_beside_another_each_has_a_rule():
    terms = [letter * 40 for letter in "abcdefgh"]

    found = repack(NOTHING, terms, RuleLimits(characters=60))

    assert len(found.packing.rules) == least(terms, RuleLimits(characters=60)) == 8


def test_a_term_longer_than_a_rule_is_refused():
    with pytest.raises(ValueError, match="a term of 61 characters is longer than a rule"):
        repack(NOTHING, ["a" * 61], RuleLimits(characters=60))


@given(st.lists(st.sets(st.integers(1, 40)), min_size=1, max_size=5), st.integers(1, 10))
def test_rules_are_in_as_few_channels_as_there_can_be_and_stay_there(steps, most):
    standing = {}
    for rules in steps:
        found = channels(rules, standing, most)

        assert found.keys() == rules
        assert len(set(found.values())) == math.ceil(len(rules) / most)
        assert all(list(found.values()).count(each) <= most for each in found.values())
        kept = set(found.values()) & set(standing.values())
        for one in rules & standing.keys():
            assert found[one] == standing[one] or standing[one] not in kept
        standing = found
