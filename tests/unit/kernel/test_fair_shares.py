"""kernel.fairness: shares of a cost that is known afterwards, and rounds over tenants."""

from collections import Counter, defaultdict
from datetime import UTC, datetime
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import FairShares, QueueKey, by_shares, in_turns

#: The dearest entry, entries of a lease, and entries of one owner in flight, at most.
DEAREST, BATCH, MOST = 50, 8, 24


class Scene:
    """Owners that are leased entries, whose costs are drawn when they end."""

    def __init__(self, shares, data):
        self.shares, self.data = shares, data
        self.fair: FairShares[str] = FairShares()
        self.guess = {one: data.draw(st.integers(1, DEAREST)) for one in shares}
        self.in_flight: Counter[str] = Counter()
        self.took: Counter[str] = Counter()
        self.leases: Counter[str] = Counter()

    def end(self, one, count):
        for _ in range(min(count, self.in_flight[one])):
            cost = self.data.draw(st.integers(1, DEAREST))
            self.in_flight[one] -= 1
            before = self.fair.taken(one)
            assert self.fair.spend(one, self.shares[one], cost) >= before
            self.took[one] += cost

    def lease(self, working):
        present = self.fair.now
        guesses = {one: count * self.guess[one] for one, count in self.in_flight.items()}
        taken = {one: self.fair.taken(one) for one in working}
        who = self.fair.order({one: self.shares[one] for one in working}, guesses)[0]
        assert self.fair.now >= present
        assert all(self.fair.taken(one) >= at for one, at in taken.items())
        self.in_flight[who] += self.data.draw(st.integers(1, BATCH))
        self.leases[who] += 1
        for one in self.shares:
            over = max(0, self.in_flight[one] - MOST)
            self.end(one, max(over, self.data.draw(st.integers(0, BATCH))))
        return who

    def bound(self, a, b):
        return MOST * DEAREST * (1 / self.shares[a] + 1 / self.shares[b])


shares_of = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 5), min_size=2)


@given(shares_of, st.data())
def test_what_two_took_by_their_shares_differs_by_no_more_than_what_is_in_flight_of_each(
    shares, data
):
    """Whatever an entry takes, and whatever it is thought to take; no virtual time runs back."""
    scene = Scene(shares, data)
    for _ in range(40):
        scene.lease(shares)
        for a, b in combinations(shares, 2):
            apart = scene.took[a] / shares[a] - scene.took[b] / shares[b]
            assert abs(apart) <= scene.bound(a, b)


@given(shares_of, st.data())
def test_whoever_comes_and_goes_the_share_is_kept_while_two_have_work(shares, data):
    """From any moment on, twice the bound: each may be ahead by it when they meet."""
    scene = Scene(shares, data)
    working: set[str] = set()
    since: dict[str, tuple[int, dict[str, int]]] = {}
    for step in range(8):
        working = data.draw(st.sets(st.sampled_from(sorted(shares)), min_size=1))
        since = {one: at for one, at in since.items() if one in working}
        since |= {one: (step, dict(scene.took)) for one in working if one not in since}
        for _ in range(6):
            scene.lease(working)
            for a, b in combinations(sorted(working), 2):
                _, before = max((since[a], since[b]), key=lambda one: one[0])
                had = {one: (scene.took[one] - before.get(one, 0)) / shares[one] for one in (a, b)}
                assert abs(had[a] - had[b]) <= 2 * scene.bound(a, b)


@given(shares_of, st.data())
def test_nobody_with_work_starves(shares, data):
    """Each lease costs something, so others have only so many of them while one waits."""
    scene = Scene(shares, data)
    waited: defaultdict[str, int] = defaultdict(int)
    for _ in range(60):
        who = scene.lease(shares)
        for one in shares:
            waited[one] = 0 if one == who else waited[one] + 1
            others = [each for each in shares if each != one]
            most = sum(shares[each] * 3 * scene.bound(one, each) for each in others)
            assert waited[one] <= most


def test_who_is_dear_is_leased_less_often():
    fair: FairShares[str] = FairShares()
    both, leases = {"dear": 1, "cheap": 1}, Counter()
    for _ in range(1_000):
        who = fair.order(both, {})[0]
        leases[who] += 1
        fair.spend(who, 1, 9.0 if who == "dear" else 1.0)

    assert leases["cheap"] == pytest.approx(900, abs=10)


def test_what_is_in_flight_counts_before_it_has_ended():
    fair: FairShares[str] = FairShares()
    both = {"slow": 1, "quick": 1}
    assert fair.order(both, {"slow": 3.0})[0] == "quick"
    fair.spend("quick", 1, 4.0)

    assert fair.order(both, {"slow": 3.0})[0] == "slow"


def test_who_was_idle_begins_at_the_present_and_has_saved_nothing_up():
    fair: FairShares[str] = FairShares()
    both = {"idle": 1, "busy": 1}
    fair.order(both, {})
    for _ in range(100):
        fair.order({"busy": 1}, {})
        fair.spend("busy", 1, 1.0)

    leases: Counter[str] = Counter()
    for _ in range(20):
        who = fair.order(both, {})[0]
        leases[who] += 1
        fair.spend(who, 1, 1.0)
    assert abs(leases["idle"] - leases["busy"]) <= 2


def test_who_was_passed_over_has_saved_nothing_up():
    fair: FairShares[str] = FairShares()
    both = {"away": 1, "here": 1}
    for _ in range(50):
        assert fair.order(both, {}) == ["away", "here"]
        fair.passed("away")
        fair.spend("here", 1, 1.0)

    leases: Counter[str] = Counter()
    for _ in range(20):
        who = fair.order(both, {})[0]
        leases[who] += 1
        fair.spend(who, 1, 1.0)
    assert abs(leases["away"] - leases["here"]) <= 2


def test_pauses_are_no_way_to_more_than_a_share():
    """A tenant that is ahead stays so without work: else each pause would have it served."""
    fair: FairShares[str] = FairShares()
    took: Counter[str] = Counter()
    for step in range(400):
        working = {"full": 1} if step % 2 else {"full": 1, "coming and going": 1}
        who = fair.order(working, {})[0]
        fair.spend(who, 1, 10.0)
        took[who] += 1

    assert took["coming and going"] <= took["full"] + 1


def test_nobody_is_ahead_when_nobody_had_anything():
    fair: FairShares[str] = FairShares()
    both = {"a": 1, "b": 1}
    fair.order(both, {})
    fair.spend("a", 1, 100.0)
    assert fair.order(both, {}) == ["b", "a"]

    fair.lull()

    assert fair.order(both, {}) == ["a", "b"]


@given(st.lists(st.sampled_from("aaaab"), max_size=30), st.integers(0, 1_000))
def test_a_round_over_tenants_has_all_their_bizs_and_as_many_of_each_first(owners, minute):
    queues = [QueueKey(owner, str(n), "main") for n, owner in enumerate(owners)]
    found = in_turns(queues, datetime.fromtimestamp(60 * minute, UTC))

    assert sorted(found) == sorted(queues)
    head = found[: 2 * min(owners.count("a"), owners.count("b"))]
    assert sum(one.tenant == "a" for one in head) * 2 == len(head)


def test_every_biz_of_every_tenant_comes_first_within_few_rounds():
    queues = [QueueKey(owner, str(n), "main") for owner in "ab" for n in range(20)]
    first = {in_turns(queues, datetime.fromtimestamp(60 * n, UTC))[0] for n in range(120)}

    assert first == set(queues)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.01, 5)), max_size=40),
    st.fixed_dictionaries({"a": st.integers(1, 9), "b": st.integers(1, 9)}),
)
def test_a_round_goes_on_with_whom_took_least_time_by_its_share(things, shares):
    """While two have something left, what they took differs by no more than the dearest thing."""
    now, took = [0.0], Counter({"a": 0.0, "b": 0.0})
    left = Counter(owner for owner, _ in things)
    dearest = max((cost / shares[owner] for owner, cost in things), default=0.0)
    served = []
    for thing in by_shares(things, lambda one: one[0], shares.__getitem__, lambda: now[0]):
        owner, cost = thing
        served.append(thing)
        now[0] += cost
        left[owner] -= 1
        took[owner] += cost / shares[owner]
        if left["a"] and left["b"]:
            assert abs(took["a"] - took["b"]) <= dearest + 1e-9

    assert sorted(served) == sorted(things)


def test_a_round_that_is_gone_on_with_knows_what_each_took_before():
    now, taken, served = [0.0], {}, []
    for _ in range(4):
        for one in by_shares(["a", "b"], str, lambda _: 1, lambda: now[0], taken):
            now[0] += 5.0 if one == "a" else 1.0
            served.append(one)
            break

    assert served == ["a", "b", "b", "b"]
