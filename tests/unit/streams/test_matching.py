"""One pass finds what evaluating each filter by itself finds, whatever comes and goes."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.kit import streams
from tests.kit.examples import examples
from tests.kit.streams import Filter, Item, Matcher, is_anchored, parse
from tests.unit.streams.filter_cases import ITEMS, MEANT

SUBSCRIBERS = st.sampled_from(["ann", "bob", "cat", "dan"])


class Matching(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.matcher = Matcher()
        self.filters = {}

    @rule(given=st.dictionaries(SUBSCRIBERS, MEANT, min_size=1))
    def subscribers_come_or_change(self, given):
        filters = {name: Filter(meant.node) for name, meant in given.items()}
        filters = {name: one for name, one in filters.items() if is_anchored(one.root)}
        self.matcher.put_all(filters)
        self.filters |= filters

    @rule(name=SUBSCRIBERS, other=SUBSCRIBERS)
    def two_want_the_same(self, name, other):
        if name in self.filters:
            self.matcher.put_all({other: self.filters[name]})
            self.filters[other] = self.filters[name]

    @rule(name=SUBSCRIBERS)
    def a_subscriber_goes(self, name):
        self.matcher.drop(name)
        self.filters.pop(name, None)

    @rule(item=ITEMS)
    def an_item_comes(self, item):
        found = self.matcher.match(item)

        assert sorted(found) == sorted(
            name for name, wanted in self.filters.items() if wanted.takes(item)
        )

    @invariant()
    def all_are_there(self):
        assert len(self.matcher) == len(self.filters)


@pytest.mark.parametrize("few", [1_000, 2])
def test_one_pass_finds_what_each_filter_by_itself_takes(monkeypatch, few):
    monkeypatch.setattr(streams.matching, "FEW_TERMS", few)

    run_state_machine_as_test(Matching, settings=examples(0.5, steps=12))


def test_a_matcher_that_nobody_has_a_filter_in_finds_nothing():
    matcher = Matcher()
    assert matcher.match(Item(text="anything")) == []

    matcher.put_all({"ann": parse("#tag")})
    matcher.drop("ann")
    assert matcher.match(Item(text="#tag")) == []


def test_a_filter_stands_under_what_is_rarest_by_its_length():
    matcher = Matcher()
    matcher.put_all(
        {
            **{f"s{number}": parse(f"news company{number}") for number in range(50)},
            "tag": parse("announcement #cop31verylong"),
            "alternatives": parse("news (company1 OR company2)"),
            "dense": parse("news 東京都"),
        }
    )

    assert sorted(matcher.match(Item(text="news of company1"))) == ["alternatives", "s1"]
    assert matcher.candidates(Item(text="news announcement")) == 0
    assert matcher.candidates(Item(text="company1")) == 2
    assert matcher.candidates(Item(text="#cop31verylong 東京都")) == 2


def test_an_alternative_of_what_is_excluded_takes_what_has_one_of_them_only():
    matcher = Matcher()
    matcher.put_all({"ann": parse("x (-a OR -b)")})

    assert matcher.match(Item(text="x a")) == ["ann"]
    assert matcher.match(Item(text="x a b")) == []


def test_terms_that_come_later_are_found_beside_those_of_before():
    matcher = Matcher()
    for number in range(3 * streams.matching.FEW_TERMS):
        matcher.put_all({f"s{number}": parse(f"word{number}")})
        if number % 500 == 0:
            assert matcher.match(Item(text=f"the word{number}")) == [f"s{number}"]

    assert sorted(matcher.match(Item(text="word0 word2999 word7x"))) == ["s0", "s2999"]
