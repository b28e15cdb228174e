"""Changes of subscriptions: what they take of a reader is bounded, whoever changes how often."""

from tests.kit.streams import Changed, KnownFilters
from tests.kit.subscriptions import Content, StreamKind, Subscription
from tests.kit.worlds.memory import START

FEED = ("https://news.example/",)


def a_subscription(text, number=1):
    content = Content(kind=StreamKind.RSS, filter=text, feeds=FEED)
    facts = {"number": number, "created_at": START, "changed_at": START}
    return Subscription(tenant="acme", biz="news", name="s", content=content, **facts)


def test_a_filter_is_read_once_until_its_text_changes(monkeypatch):
    known, read = KnownFilters(), []
    parsed = Content.parsed
    monkeypatch.setattr(Content, "parsed", lambda it: read.append(it.filter) or parsed(it))

    first = known.of("a", a_subscription("rain"))
    same = known.of("a", a_subscription("rain", number=2))
    other = known.of("a", a_subscription("snow", number=3))
    known.keep(())
    again = known.of("a", a_subscription("snow", number=3))

    assert first is same
    assert (first.text, other.text, again.text) == ("rain", "snow", "snow")
    assert read == ["rain", "snow", "snow"]


def test_what_takes_long_is_done_for_a_tenth_of_the_time():
    now = [0.0]
    changed = Changed(lambda: now[0], lambda: now[0])
    spent = 0.0
    for _ in range(1_000):
        changed.note()  # somebody changes something all the time
        if changed.is_due:
            with changed.taken_up():
                now[0] += 2.0
                spent += 2.0
        now[0] += 0.1

    assert 0.05 * now[0] < spent < 0.11 * now[0]


def test_what_takes_a_moment_is_done_at_once_and_nothing_without_a_change():
    now = [0.0]
    changed = Changed(lambda: now[0], lambda: now[0])
    assert not changed.is_due
    for _ in range(3):
        changed.note()
        assert changed.is_due
        with changed.taken_up():
            now[0] += 0.05
        assert not changed.is_due
