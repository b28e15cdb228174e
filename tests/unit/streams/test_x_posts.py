"""Posts of X are read as items; what X says is wrong is told in its words."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.streams import parse, x_posts

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


def read(found):
    return x_posts.read_object(msgspec.json.encode(found), "x", NOW)


def a_post(**more):
    return {"id": "1995000000000000001", "text": "A #storm is coming, says @ann", **more}


def test_a_post_is_an_item_with_its_author_thread_and_time():
    answer = read(
        {
            "data": a_post(
                author_id="7",
                lang="en",
                conversation_id="1994000000000000000",
                created_at="2026-11-24T11:59:58.000Z",
                entities={
                    "hashtags": [{"start": 2, "end": 8, "tag": "storm"}],
                    "mentions": [{"username": "ann", "id": "9"}],
                },
                referenced_tweets=[
                    {"type": "replied_to", "id": "1994000000000000005"},
                    {"type": "quoted", "id": "1993000000000000009"},
                ],
            ),
            "includes": {"users": [{"id": "7", "name": "Bob", "username": "bob"}]},
            "matching_rules": [{"id": "1", "tag": "crawlfleet 1"}],
        }
    )

    item = answer.item
    assert item.id == "1995000000000000001"
    assert item.url == "https://x.com/bob/status/1995000000000000001"
    assert item.published_at == datetime(2026, 11, 24, 11, 59, 58, tzinfo=UTC)
    assert (item.conversation, item.replies_to) == ("1994000000000000000", "1994000000000000005")
    assert item.quotes == "1993000000000000009"
    assert item.seen.hashtags == ("storm",)
    assert item.fields["lang"] == "en"
    assert parse("from:bob #storm @ann lang:en").takes(item.seen)


def test_a_long_post_is_read_whole():
    note = {"text": "A storm, and much later a flood", "entities": {"hashtags": [{"tag": "sea"}]}}

    seen = read({"data": a_post(text="A storm, and ...", note_tweet=note)}).item.seen

    assert parse("flood #sea").takes(seen)


def test_a_deletion_takes_a_post_back():
    delete = {"event_at": "2026-11-24T11:59:00Z", "tweet": {"id": "5", "author_id": "7"}}

    assert read({"data": {"delete": delete}}).withdrawn.id == "5"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            {
                "errors": [
                    {
                        "title": "operational-disconnect",
                        "disconnect_type": "UpstreamOperationalDisconnect",
                        "detail": "This stream has been disconnected upstream.",
                    }
                ]
            },
            "UpstreamOperationalDisconnect: This stream has been disconnected upstream.",
        ),
        (
            {"title": "ConnectionException", "connection_issue": "TooManyConnections"},
            "TooManyConnections",
        ),
    ],
)
def test_an_error_in_the_stream_is_a_fault_in_the_words_of_x(found, said):
    assert read(found).fault == said


@pytest.mark.parametrize(
    ("line", "dropped"),
    [
        (b"{", x_posts.NOT_JSON),
        (b"[1]", x_posts.NO_POST),
        (b"{}", x_posts.NO_POST),
        (b'{"data": {"id": "../1", "text": "x"}}', x_posts.UNFIT),
        (b'{"data": {"id": 5, "text": "x"}}', x_posts.UNFIT),
        (b'{"data": {"delete": {"user": {"id": "5"}}}}', x_posts.NO_POST),
        (b'{"data": {"delete": []}}', x_posts.UNFIT),
        (b"\xff", x_posts.NOT_JSON),
    ],
)
def test_what_is_no_post_is_dropped_for_a_reason(line, dropped):
    assert x_posts.read_object(line, "x", NOW).dropped == dropped


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["data", "id", "text", "includes", "users", "errors", "title", "delete"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_comes_is_one_of_the_answers(found):
    answer = read(found)

    assert sum(map(bool, answer)) == 1


def test_a_page_of_search_is_read_from_the_oldest_on():
    page = {"data": [a_post(id="1000"), a_post(id="999"), {"id": 7}, a_post(id="1001")]}

    assert [item.id for item in x_posts.read_page(page, "x", NOW)] == ["999", "1000", "1001"]
    assert x_posts.read_page({"data": "none"}, "x", NOW) == ()
