"""Conversations: whatever replies to what, in whatever order it came, there is one tree."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.streams import MOST_LEVELS, MOST_TURNS, Item, StreamItem, tree_of

BEGIN = datetime(2026, 11, 23, tzinfo=UTC)


def said(id_, replies_to="", minute=0, text=""):
    return StreamItem(
        id=id_,
        channel="x",
        seen=Item(text=text),
        received_at=BEGIN,
        published_at=BEGIN + timedelta(minutes=minute),
        replies_to=replies_to,
    )


def shape(turn):
    return {turn.id: [shape(one) for one in turn.replies]} if turn.replies else turn.id


def all_of(turn):
    yield turn
    for one in turn.replies:
        yield from all_of(one)


def depth(turn):
    return 1 + max(map(depth, turn.replies), default=-1)


def test_replies_stand_below_what_they_reply_to_by_time():
    items = [said("c", "a", 3), said("a", minute=1), said("b", "a", 2), said("d", "b", 4)]

    assert shape(tree_of("a", items)) == {"a": [{"b": ["d"]}, "c"]}


def test_a_parent_that_is_not_there_has_a_placeholder_which_it_fills():
    before = tree_of("a", [said("a"), said("c", "b", 2)])
    assert shape(before) == {"a": [{"b": ["c"]}]}
    assert before.replies[0].item is None

    after = tree_of("a", [said("a"), said("c", "b", 2), said("b", "a", 1)])
    assert shape(after) == {"a": [{"b": ["c"]}]}
    assert after.replies[0].item is not None


def test_what_replies_to_nothing_stands_below_the_root():
    tree = tree_of("a", [said("b"), said("c", "c")])

    assert shape(tree) == {"a": ["b", "c"]}
    assert tree.item is None


def test_a_circle_is_refused():
    tree = tree_of("a", [said("a", "c", 1), said("b", "c", 2), said("c", "b", 3)])

    assert {one.id for one in all_of(tree)} == {"a", "b", "c"}
    assert [one.id for one in all_of(tree) if one.is_cut_off] == ["c"]
    assert shape(tree) == {"a": [{"c": ["b"]}]}


def test_a_repeat_has_no_effect():
    assert shape(tree_of("a", [said("a"), said("b", "a"), said("b", "a")])) == {"a": ["b"]}


def test_a_tree_has_bounds():
    chain = [said(str(number), str(number - 1), number) for number in range(2 * MOST_TURNS)]

    tree = tree_of("0", chain)

    assert depth(tree) == MOST_LEVELS
    assert len(list(all_of(tree))) == MOST_TURNS


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 14)), max_size=30).flatmap(
        lambda links: st.tuples(st.just(links), st.permutations(links))
    )
)
def test_the_order_in_which_items_come_makes_no_difference(orders):
    # One link an id: an item does not change what it replies to.
    links = dict(orders[0])
    given_ = [said(str(id_), str(links[id_])) for id_ in links]
    shuffled = [
        said(str(id_), str(links[id_])) for id_ in dict.fromkeys(one for one, _ in orders[1])
    ]

    tree = tree_of("0", given_)

    ids = [one.id for one in all_of(tree)]
    assert len(ids) == len(set(ids))
    assert {str(id_) for id_ in links} <= set(ids)
    assert tree == tree_of("0", shuffled)
