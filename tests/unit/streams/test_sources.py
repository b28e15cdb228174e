"""Sources are what subscriptions need, at rest, always; workers share them evenly."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.kit.examples import examples
from tests.kit.streams import (
    NOTHING,
    Filter,
    Source,
    Subscription,
    covers,
    needed,
    parse,
    reload,
    worker_of,
)
from tests.unit.streams.filter_cases import MEANT

CHANNELS = st.sampled_from(["x", "feed"])
IDS = st.sampled_from([f"s{number}" for number in range(8)])
WORKERS = [f"w{number}" for number in range(10)]


def subscribed(id_, text, channel="x"):
    return Subscription(id=id_, channel=channel, filter=parse(text))


class Merging(RuleBasedStateMachine):
    """Sources that are begun and ended by reloads alone, beside what is needed."""

    def __init__(self):
        super().__init__()
        self.subscriptions = {}
        self.needed = NOTHING
        self.running = set()

    def follow(self):
        after = needed(self.subscriptions.values())
        change = reload(self.needed, after)
        assert self.running.issuperset(change.ended)
        assert self.running.isdisjoint(change.begun)
        self.running = (self.running - set(change.ended)) | set(change.begun)
        assert self.running.issuperset(change.changed)
        self.needed = after

    @rule(id_=IDS, channel=CHANNELS, meant=MEANT)
    def one_comes_or_changes(self, id_, channel, meant):
        self.subscriptions[id_] = Subscription(id=id_, channel=channel, filter=Filter(meant.node))
        self.follow()

    @rule(id_=IDS)
    def one_goes(self, id_):
        self.subscriptions.pop(id_, None)
        self.follow()

    @rule()
    def the_same_again_changes_nothing(self):
        assert reload(self.needed, needed(self.subscriptions.values())) == ((), (), ())

    @invariant()
    def each_is_served_by_a_source_that_covers_it_and_no_source_is_idle(self):
        assert self.needed.serving.keys() == self.subscriptions.keys()
        assert set(self.needed.serving.values()) == self.running
        for one in self.subscriptions.values():
            source = self.needed.serving[one.id]
            assert source.channel == one.channel
            assert covers(self.needed.filters[source], one.filter)

    @invariant()
    def the_order_in_which_they_came_makes_no_difference(self):
        again = needed(reversed(self.subscriptions.values()))
        assert again.serving == self.needed.serving
        assert again.filters.keys() == self.running


def test_sources_equal_what_subscriptions_need_always():
    run_state_machine_as_test(Merging, settings=examples(0.5, steps=10))


def test_a_source_serves_all_that_its_filter_covers_and_ends_with_the_last():
    wide, narrow = subscribed("wide", "climate OR energy"), subscribed("narrow", "energy -oil")
    phrase = subscribed("phrase", '"clean energy"')
    other = subscribed("other", "sport")

    both = needed([wide, narrow, phrase, other])
    assert both.serving["narrow"] == both.serving["phrase"] == both.serving["wide"]
    assert len(both.filters) == 2

    left = needed([narrow, other])
    change = reload(both, left)
    assert change.ended == (both.serving["wide"],)
    assert change.begun == (left.serving["narrow"],)
    assert reload(left, needed([other])) == ((left.serving["narrow"],), (), ())


def test_whoever_comes_to_a_source_that_covers_it_begins_none():
    before = needed([subscribed("wide", "climate OR energy")])

    change = reload(
        before, needed([subscribed("wide", "climate OR energy"), subscribed("a", "energy")])
    )

    assert (change.ended, change.begun) == ((), ())
    assert change.changed == (before.serving["wide"],)


def test_channels_share_no_source():
    found = needed([subscribed("a", "energy", "one"), subscribed("b", "energy", "two")])

    assert found.serving["a"] != found.serving["b"]


def test_sources_are_spread_evenly_and_the_fewest_move():
    sources = [Source("x", f"{number:032x}") for number in range(4_000)]
    before = {source: worker_of(source, WORKERS) for source in sources}
    after = {source: worker_of(source, WORKERS[:-1]) for source in sources}

    load = Counter(before.values())
    moved = [source for source in sources if before[source] != after[source]]
    assert max(load.values()) <= 1.2 * 400
    assert all(before[source] == WORKERS[-1] for source in moved)
    assert len(moved) == load[WORKERS[-1]] <= 0.13 * len(sources)


@given(st.permutations(WORKERS))
def test_the_order_of_workers_makes_no_difference(workers):
    assert worker_of(Source("x", "d"), workers) == worker_of(Source("x", "d"), WORKERS)
    assert worker_of(Source("x", "d"), []) is None
