"""kernel.fairness: parts of places that are held for as long as the work takes."""

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.kernel import DEMAND_SECONDS, FairParts, parts_of

#: The one that has work all the time.
BUSY = "v"


class Scene:
    """Places that owners hold for as long as is drawn, handed out among the able as is drawn."""

    def __init__(self, data, count, shares):
        self.data, self.count, self.shares = data, count, shares
        self.now, self.step, self.came = 0.0, 0, 0
        self.parts = FairParts(lambda: self.now)
        self.waiting = dict.fromkeys(shares, 0)
        # By owner, when each of its places was taken.
        self.held = {one: [] for one in shares}

    @property
    def part(self):
        return parts_of(self.count, self.shares)[BUSY]

    def able(self):
        held = {one: len(begun) for one, begun in self.held.items()}
        return self.parts.able(self.count, held, self.waiting, self.shares.__getitem__)

    def hand_out(self):
        while able := self.able():
            one = self.data.draw(st.sampled_from(able))
            self.waiting[one] -= 1
            self.held[one].append(self.step)
            assert sum(map(len, self.held.values())) <= self.count

    def go_on(self):
        """Let something come, or something end, and time pass."""
        self.step += 1
        self.now += self.data.draw(st.sampled_from([0.0, 0.5, 2 * DEMAND_SECONDS]))
        others = [one for one in self.shares if one != BUSY]
        running = [one for one, begun in self.held.items() if begun]
        if running and self.data.draw(st.booleans()):
            one = self.data.draw(st.sampled_from(running))
            self.held[one].pop(self.data.draw(st.integers(0, len(self.held[one]) - 1)))
        else:
            one = self.data.draw(st.sampled_from(others))
            self.waiting[one] += self.data.draw(st.integers(1, self.count))
            self.came = self.step
        self.hand_out()


shares_of = st.dictionaries(st.sampled_from("abc"), st.integers(1, 5), min_size=1)


@examples(0.5)
@given(st.data(), st.integers(4, 12), shares_of, st.integers(1, 5))
def test_who_has_work_all_the_time_has_its_part_but_for_what_others_had_begun_before_they_came(
    data, count, shares, share
):
    """Whatever others do, and for however long they hold what they have."""
    scene = Scene(data, count, {**shares, BUSY: share})
    for _ in range(data.draw(st.integers(0, 6))):
        scene.go_on()
    scene.waiting[BUSY], scene.came = 10_000, scene.step + 1
    for _ in range(30):
        scene.go_on()
        earlier = sum(
            begun < scene.came
            for one, places in scene.held.items()
            if one != BUSY
            for begun in places
        )
        assert len(scene.held[BUSY]) >= scene.part - earlier


@examples(0.5)
@given(st.data(), st.integers(2, 12), shares_of)
def test_no_place_is_free_while_somebody_waits_who_is_below_its_part(data, count, shares):
    scene = Scene(data, count, {**shares, BUSY: 1})
    for _ in range(20):
        scene.go_on()
        held = {one: len(begun) for one, begun in scene.held.items()}
        if sum(held.values()) < count:
            waiting = [one for one, many in scene.waiting.items() if many]
            parts = parts_of(count, scene.shares)
            assert all(held[one] >= parts[one] for one in waiting)


@given(st.integers(1, 60), st.dictionaries(st.integers(), st.floats(0.01, 100), min_size=1))
def test_parts_are_together_what_there_is_at_most_and_everybody_has_one(count, shares):
    parts = parts_of(count, shares)

    assert parts.keys() == shares.keys()
    assert min(parts.values()) >= 1
    assert sum(parts.values()) <= max(count, len(shares))
    whole = sum(shares.values())
    for one, part in parts.items():
        assert part <= max(1, count * shares[one] / whole + 1e-6)
        assert all(part <= other for two, other in parts.items() if shares[one] < shares[two])


def test_who_has_its_part_takes_no_place_of_who_has_none():
    """By shares alone it had two of four, and each of the three others would have none."""
    parts = parts_at([0.0])
    shares = {"a": 1, "b": 1, "c": 1, "v": 5}.__getitem__

    assert parts.able(4, {"v": 1, "a": 1, "b": 1}, {"v": 9, "c": 1}, shares) == ["c"]


def parts_at(now):
    return FairParts(lambda: now[0])


def same(_):
    return 1.0


def test_one_alone_has_all_places():
    parts = parts_at([0.0])

    assert parts.able(8, {"a": 7}, {"a": 1}, same) == ["a"]
    assert parts.able(8, {"a": 8}, {"a": 1}, same) == []


def test_places_are_kept_for_who_wanted_them_of_late_and_only_so_many():
    now = [0.0]
    parts = parts_at(now)
    parts.able(8, {}, {"a": 9, "b": 2}, same)
    now[0] = DEMAND_SECONDS / 2

    assert parts.able(8, {"a": 5}, {"a": 4}, same) == ["a"]
    assert parts.able(8, {"a": 6}, {"a": 3}, same) == []


def test_for_who_wants_none_any_more_nothing_is_kept():
    now = [0.0]
    parts = parts_at(now)
    parts.able(8, {}, {"a": 9, "b": 9}, same)
    assert parts.able(8, {"a": 4}, {"a": 5}, same) == []
    now[0] = 2 * DEMAND_SECONDS

    assert parts.able(8, {"a": 4}, {"a": 5}, same) == ["a"]


def test_parts_are_by_shares():
    parts = parts_at([0.0])
    shares = {"a": 1, "b": 3}.__getitem__

    assert parts.able(8, {"a": 2, "b": 5}, {"a": 9, "b": 9}, shares) == ["b"]
    assert parts.able(8, {"a": 1, "b": 6}, {"a": 9, "b": 9}, shares) == ["a"]
