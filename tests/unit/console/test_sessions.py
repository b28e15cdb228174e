"""Sessions: a key in two halves, for a time, and gone when it is ended."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.console import LONGEST_KEY, TERM, Session, Sessions

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
KEY = "k" * 40


class Store(dict[str, Session]):
    """The store of sessions in memory; it forgets nothing by itself."""

    def put(self, name: str, session: Session, term: timedelta) -> None:
        assert term == TERM
        self[name] = session

    def remove(self, name: str) -> None:
        self.pop(name, None)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=200))
def test_a_session_gives_back_the_key_it_was_made_of(key: str):
    store = Store()
    cookie, session = Sessions(store).begin(key, "acme", NOW, operator=False)

    assert Sessions(store).find(cookie, NOW) == (key, session)
    assert session.expires_at == NOW + TERM


def test_neither_half_has_the_key_and_the_store_has_no_cookie():
    store = Store()
    cookie, session = Sessions(store).begin(KEY, "acme", NOW, operator=True)
    [(name, _)] = store.items()

    assert KEY not in cookie
    assert session.half != KEY.encode()
    assert name not in cookie
    assert cookie.partition(".")[0] not in name


def test_two_sessions_of_one_key_have_nothing_in_common():
    store = Store()
    one, other = (Sessions(store).begin(KEY, "acme", NOW, operator=False)[0] for _ in range(2))

    assert len(store) == 2
    assert not {*one.split(".")} & {*other.split(".")}


def test_a_session_ends_when_its_time_is_over_even_if_the_store_still_has_it():
    sessions = Sessions(Store())
    cookie, _ = sessions.begin(KEY, "acme", NOW, operator=False)

    assert sessions.find(cookie, NOW + TERM - timedelta(seconds=1)) is not None
    assert sessions.find(cookie, NOW + TERM) is None


def test_a_session_that_was_ended_is_gone_and_the_others_stay():
    sessions = Sessions(Store())
    one, other = (sessions.begin(KEY, "acme", NOW, operator=False)[0] for _ in range(2))

    sessions.end(one)
    sessions.end(one)

    assert sessions.find(one, NOW) is None
    assert sessions.find(other, NOW) is not None


@given(st.text(max_size=400))
def test_whatever_is_sent_as_a_cookie_is_no_session(cookie: str):
    sessions = Sessions(Store())
    sessions.begin(KEY, "acme", NOW, operator=False)
    sessions.end(cookie)

    assert sessions.find(cookie, NOW) is None


def test_another_pad_under_a_sessions_name_is_refused_or_gives_no_key():
    sessions = Sessions(Store())
    cookie, _ = sessions.begin(KEY, "acme", NOW, operator=False)
    other, _ = sessions.begin(KEY[:-1], "acme", NOW, operator=False)
    mixed = f"{cookie.partition('.')[0]}.{other.partition('.')[2]}"

    assert sessions.find(mixed, NOW) is None


@pytest.mark.parametrize("key", ["", "k" * (LONGEST_KEY + 1)])
def test_what_is_no_key_begins_no_session(key: str):
    store = Store()

    with pytest.raises(ValueError, match="API key"):
        Sessions(store).begin(key, "acme", NOW, operator=False)
    assert not store
