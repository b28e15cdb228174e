"""Places of a feed reader: divided among tenants, few at a host, none lost."""

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.feeds import FeedPlaces

TENANTS = {f"http://{who}-{n}.example/": (who,) for who in "abc" for n in range(9)}
TENANTS |= {f"http://shared.example/{n}": ("a", "b") for n in range(9)}
FEEDS = sorted(TENANTS)


def places_at():
    return FeedPlaces(lambda: 0.0, lambda: TENANTS)


def test_who_is_alone_has_all_places_and_leaves_them_to_others_as_they_end():
    places = places_at()
    theirs = places.choose([one for one in FEEDS if TENANTS[one] == ("a",)], 6)
    ours = [one for one in FEEDS if TENANTS[one] == ("b",)]
    more = [one for one in FEEDS if TENANTS[one] == ("a",) and one not in theirs]

    assert (len(theirs), places.choose([*more, *ours], 6)) == (6, [])
    places.leave(theirs[:2])

    assert places.choose([*more, *ours], 6) == ours[:2]


def test_a_feed_of_several_takes_a_place_of_who_holds_fewest():
    places = places_at()
    held = places.choose([one for one in FEEDS if TENANTS[one] == ("a",)][:2], 6)

    (shared,) = places.choose(["http://shared.example/1"], 6)

    assert [places.holder(one) for one in held] == ["a", "a"]
    assert places.holder(shared) == "b"
    places.leave([shared])
    assert places.holder(shared) == ""


@examples(1)
@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.sampled_from(FEEDS), max_size=20)), max_size=12),
    st.integers(1, 8),
)
def test_never_more_than_there_are_are_held_and_whoever_is_below_its_part_is_served(steps, count):
    places, held = places_at(), {}
    for leaves, feeds in steps:
        if leaves:
            places.leave(feeds)
            held = {one: by for one, by in held.items() if one not in feeds}
        due = list(dict.fromkeys(one for one in feeds if one not in held))
        chosen = places.choose(due, count)
        assert set(chosen) <= set(due)
        held |= {one: places.holder(one) for one in chosen}
        assert len(held) <= count
        assert all(held[one] in TENANTS[one] for one in chosen)
        hosts = [one.split("/")[2] for one in held]
        assert all(hosts.count(host) <= 4 for host in hosts)
        for feed in set(due) - set(chosen):
            below = [one for one in TENANTS[feed] if not list(held.values()).count(one)]
            is_full = len(held) == count or hosts.count(feed.split("/")[2]) == 4
            assert is_full or not below, "one that holds nothing is given what is free"
