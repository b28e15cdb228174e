"""kernel.fairness: entries by weight, nobody starves, a lull saves nothing up."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import FairQueue

weights_of = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 100), min_size=1)


def served(weights: dict[str, int], queue: int, of: FairQueue[str] | None = None) -> list[str]:
    of = of or FairQueue()
    return [of.taken(of.order(weights)[0], weights) for _ in range(queue)]


def test_a_weight_of_three_beside_one_is_served_thirty_of_forty_times():
    assert Counter(served({"a": 3, "b": 1}, 40)) == {"a": 30, "b": 10}


@given(weights_of)
def test_a_round_serves_each_biz_as_often_as_its_weight(weights):
    whole = sum(weights.values())
    assert Counter(served(weights, whole)) == weights


@given(weights_of)
def test_nobody_waits_for_longer_than_a_round(weights):
    whole = sum(weights.values())
    order = served(weights, 3 * whole)
    for one in weights:
        places = [-1, *(n for n, who in enumerate(order) if who == one), len(order)]
        assert max(b - a for a, b in pairwise(places)) <= whole


@given(st.lists(st.tuples(weights_of, st.integers(1, 30)), max_size=8))
def test_whoever_comes_and_goes_nobody_with_work_waits_for_more_than_twice_a_round(phases):
    queue: FairQueue[str] = FairQueue()
    waited: Counter[str] = Counter()
    longest = 2 * max((sum(weights.values()) for weights, _ in phases), default=0) + 6
    for weights, count in phases:
        for one in set(waited) - weights.keys():
            del waited[one]
        for _ in range(count):
            who = queue.taken(queue.order(weights)[0], weights)
            waited.update(weights.keys() - {who})
            waited[who] = 0
            assert max(waited.values()) <= longest


def test_who_had_no_work_has_saved_nothing_up():
    queue: FairQueue[str] = FairQueue()
    served({"a": 1, "b": 1}, 3, queue)
    served({"a": 1}, 50, queue)

    assert Counter(served({"a": 1, "b": 1}, 10, queue)) == {"a": 5, "b": 5}


batches = st.integers(1, 1_000)


@given(weights_of, st.data())
def test_what_two_have_had_by_their_weights_differs_by_no_more_than_a_batch_of_each(weights, data):
    """However many entries each lease brings, and however these come out for one of them."""
    most = {one: data.draw(batches) for one in weights}
    queue: FairQueue[str] = FairQueue()
    had: Counter[str] = Counter()
    for _ in range(60):
        who = queue.order(weights)[0]
        entries = data.draw(st.integers(1, most[who]))
        queue.taken(who, weights, entries)
        had[who] += entries
        share = {one: Fraction(had[one], weights[one]) for one in weights}
        batch = {one: Fraction(most[one], weights[one]) for one in weights}
        for a, b in combinations(weights, 2):
            assert abs(share[a] - share[b]) <= batch[a] + batch[b]


@given(st.integers(1, 100), st.integers(1, 100), st.integers(1, 64))
def test_one_entry_a_lease_beside_batches_is_no_smaller_share(slim, full, batch):
    weights = {"slim": slim, "full": full}
    queue: FairQueue[str] = FairQueue()
    had: Counter[str] = Counter()
    while had["full"] < 3 * batch:
        who = queue.order(weights)[0]
        entries = 1 if who == "slim" else batch
        had[queue.taken(who, weights, entries)] += entries

    ahead = Fraction(had["slim"], slim) - Fraction(had["full"], full)
    assert abs(ahead) <= Fraction(1, slim) + Fraction(batch, full)


@given(weights_of, batches, st.integers(0, 50), st.data())
def test_who_was_away_has_at_most_a_batch_more_than_its_weight_when_it_comes(
    weights, batch, away, data
):
    late = data.draw(st.sampled_from(sorted(weights)))
    others = {one: weight for one, weight in weights.items() if one != late}
    queue: FairQueue[str] = FairQueue()
    for _ in range(away if others else 0):
        queue.taken(queue.order(others)[0], others, batch)

    had: Counter[str] = Counter()
    for _ in range(40):
        had[queue.taken(queue.order(weights)[0], weights, batch)] += batch
        for one in others:
            ahead = Fraction(had[late], weights[late]) - Fraction(had[one], weights[one])
            assert ahead <= Fraction(2 * batch, weights[late]) + Fraction(2 * batch, weights[one])


def test_pauses_between_batches_are_no_way_to_more_of_them():
    """The queue remembers the share of an empty biz: else this one would get every second lease."""
    queue: FairQueue[str] = FairQueue()
    both = {"coming and going": 1, "full": 3}
    had: Counter[str] = Counter()
    for _ in range(400):
        who = queue.order(both)[0]
        had[queue.taken(who, both, 32)] += 32
        if who == "coming and going":
            rest = {"full": 3}
            had[queue.taken(queue.order(rest)[0], rest, 32)] += 32

    assert abs(had["full"] - 3 * had["coming and going"]) <= 3 * 32


def test_who_is_passed_over_as_it_has_nothing_is_charged_nothing_and_saves_nothing_up():
    queue: FairQueue[str] = FairQueue()
    both = {"a": 1, "b": 1}
    for _ in range(20):
        assert queue.order(both) == ["a", "b"]  # and nothing comes of a's
        queue.taken("b", both, 32)

    had: Counter[str] = Counter()
    for _ in range(20):
        had[queue.taken(queue.order(both)[0], both, 32)] += 1
    assert abs(had["a"] - had["b"]) <= 2


def test_when_nobody_had_anything_nobody_is_behind():
    queue: FairQueue[str] = FairQueue()
    both = {"a": 1, "b": 1}
    queue.taken("a", both, 1_000)
    assert queue.order(both) == ["b", "a"]

    queue.lull()

    assert queue.order(both) == ["a", "b"]
