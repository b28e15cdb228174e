"""Identity of entries: each is new once, whatever a feed does with its ids."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.examples import examples
from tests.kit.feeds import (
    KEPT,
    KEYS_MAX,
    Entry,
    Level,
    identity,
    item_id,
    key_of,
    level_of,
    same_of,
    told,
)

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


def entries(count, first=0, **fields):
    return [
        Entry(id=f"urn:{n}", link=f"https://example.org/{n}", title=f"Title {n}", **fields)
        for n in range(first, first + count)
    ]


def read(*readings, level=Level.ID, seen=b"", every=timedelta(minutes=5)):
    """Give the titles that are new in each reading, and what is kept at last."""
    found, at = [], NOW
    for reading in readings:
        told_now = told(reading, level, seen, at)
        level, seen = told_now.level, told_now.seen
        found.append([entry.title for _, entry in told_now.new])
        at += every
    return found, level, seen


def test_an_entry_is_new_once():
    found, level, _ = read(entries(3), entries(3), entries(3, first=1), [])

    assert found == [["Title 0", "Title 1", "Title 2"], [], ["Title 3"], []]
    assert level is Level.ID


def test_an_entry_that_is_edited_is_no_new_one():
    one = entries(1)[0]

    assert read([one], [replace(one, title="Another", content="More")])[0] == [["Title 0"], []]


def test_back_ends_that_take_turns_repeat_nothing():
    ours, theirs = entries(5), entries(5, first=3)

    assert [len(new) for new in read(ours, theirs, ours, theirs)[0]] == [5, 3, 0, 0]


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({"id": ""}, Level.LINK),
        ({"id": "same"}, Level.LINK),
        ({"id": "", "link": ""}, Level.TITLE),
        ({"id": "", "link": "https://example.org/"}, Level.TITLE),
        ({"id": "", "link": "", "title": ""}, Level.CONTENT),
    ],
)
def test_a_feed_whose_ids_tell_nothing_apart_is_known_by_more(change, level):
    some = [replace(one, **{"content": f"text {n}"} | change) for n, one in enumerate(entries(20))]

    assert level_of(some) is level
    assert [len(new) for new in read(some[:10], some)[0]] == [10, 10]


def test_a_date_tells_entries_of_one_link_apart():
    some = [
        Entry(link="https://example.org/", title="News", published_at=NOW + timedelta(hours=n))
        for n in range(5)
    ]

    assert level_of(some) is Level.DATE


def test_a_few_bad_ids_do_not_change_what_a_feed_is_known_by():
    some = [*entries(38), replace(entries(1)[0], title="again"), Entry(title="bare")]

    found, level, _ = read(some, some)

    assert level is Level.ID or level_of(some) is not Level.ID
    assert [len(new) for new in found] == [40, 0]


def test_a_feed_that_loses_its_ids_repeats_nothing_that_it_still_tells_apart():
    before = entries(20)
    after = [replace(one, id="") if n > 10 else one for n, one in enumerate(entries(20))]

    found, level, _ = read(before, after, after)

    assert level is Level.LINK
    assert found[1] == [f"Title {n}" for n in range(11, 20)]
    assert found[2] == []


def test_a_level_is_never_left_for_a_coarser_one():
    bad, good = [replace(one, id="same") for one in entries(5)], entries(5)

    found, level, _ = read(bad, good)

    assert level is Level.LINK
    assert found[1] == []


def test_the_same_entry_twice_is_one():
    one = entries(1)[0]

    assert read([one, one])[0] == [["Title 0"]]


def test_a_key_is_kept_for_a_month_after_it_left_the_feed():
    first, others = entries(1), entries(3, first=1)
    nearly = KEPT - timedelta(minutes=1)

    assert read(first, others, first, every=nearly / 2)[0][2] == []
    assert read(first, others, others, first, every=KEPT)[0][3] == ["Title 0"]


def test_so_many_keys_are_kept_and_the_latest_of_them():
    seen = b"".join(
        identity._KEPT.pack(n.to_bytes(8, "big"), int(NOW.timestamp() // 60) - n)
        for n in range(KEYS_MAX + 5)
    )

    kept = identity._opened(told(entries(2), Level.ID, seen, NOW).seen)

    assert len(kept) == KEYS_MAX
    assert set(kept) >= {n.to_bytes(8, "big") for n in range(KEYS_MAX - 2)}


texts = st.sampled_from(["", "a", "b", "c"])
strangers = st.lists(
    st.builds(
        Entry,
        id=texts,
        link=texts,
        title=texts,
        content=texts,
        published_at=st.sampled_from([None, NOW]),
    ),
    max_size=12,
)


@examples(2)
@given(st.lists(strangers, max_size=5))
def test_whatever_a_feed_says_what_it_repeats_is_not_new(readings):
    level, seen = Level.ID, b""
    for reading in readings:
        once = told(reading, level, seen, NOW)
        again = told(reading, once.level, once.seen, NOW)

        assert again.new == ()
        assert again.level == once.level >= level
        assert len({one for one, _ in once.new}) == len(once.new)
        level, seen = once.level, once.seen


@pytest.mark.parametrize(
    ("level", "one", "same"),
    [
        (Level.ID, {"id": "https://n.example/?p=7"}, "//n.example/?p=7"),
        (
            Level.ID,
            {"id": "HTTP://N.example/?p=7#top", "link": "https://x.test/"},
            "//n.example/?p=7",
        ),
        (Level.ID, {"id": "tag:n.example,2026:7"}, "tag:n.example,2026:7"),
        (Level.ID, {"id": "urn:uuid:7"}, "urn:uuid:7"),
        (Level.ID, {"id": "7", "link": "https://n.example/7"}, ""),
        (Level.ID, {"id": "constructor:7"}, ""),
        (Level.LINK, {"link": "https://n.example/7"}, "//n.example/7"),
        (Level.LINK, {"link": "/7"}, ""),
        (Level.TITLE, {"link": "https://n.example/", "title": "7"}, ""),
        (Level.CONTENT, {"id": "https://n.example/7", "summary": "7"}, ""),
    ],
)
def test_an_entry_is_the_same_in_each_feed_by_an_id_or_link_that_is_its_own(level, one, same):
    entry = Entry(**one)

    assert same_of(item_id(level, key_of(entry, level)), entry) == same


def test_entries_that_share_an_id_in_their_feed_are_the_same_as_none_of_another():
    shared = [Entry(id="urn:all", title=str(number)) for number in range(3)]
    found = told(shared, Level.ID, b"", NOW)

    assert {same_of(one, entry) for one, entry in found.new} == {""}
