"""WebSub: hubs are found, asked, answered, believed only when they sign, and never alone."""

import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.examples import examples
from tests.kit.feeds import About, Hub, Lease, websub

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
URL = "https://example.org/feed"
HUB = Hub(url="https://hub.example/", topic=URL)
LEASE = Lease(hub=HUB, secret="s" * 40, asked_at=NOW)
HELD = replace(LEASE, until=NOW + timedelta(days=10), trusted=True)
ASKS = {
    "hub.mode": "subscribe",
    "hub.topic": URL,
    "hub.challenge": "c",
    "hub.lease_seconds": "864000",
}


def hub_of(link="", hubs=(), topic=""):
    headers = {"link": link} if link else {}
    return websub.hub_of(headers, About(hubs=hubs, topic=topic), URL)


@pytest.mark.parametrize(
    ("link", "hub"),
    [
        ('<https://hub.example/>; rel="hub", <https://example.org/t>; rel="self"', "t"),
        ("<https://hub.example/>;rel=hub,<https://example.org/t>;rel=self", "t"),
        ('<https://hub.example/>; title="a;b"; REL="x hub"', "feed"),
        ("</h>; rel=prev, <https://hub.example/>; rel=hub; rel=self", "feed"),
    ],
)
def test_a_hub_is_found_in_the_header(link, hub):
    assert hub_of(link) == Hub(url="https://hub.example/", topic=f"https://example.org/{hub}")


def test_the_header_counts_before_the_document():
    document = {"hubs": ("https://other.example/",), "topic": "https://example.org/d"}

    assert hub_of("<https://hub.example/>; rel=hub", **document) == HUB
    assert hub_of(**document) == Hub(url=document["hubs"][0], topic=document["topic"])
    assert hub_of("<https://example.org/h>; rel=self", **document).topic.endswith("/h")


def test_a_hub_may_be_relative_and_one_that_cannot_be_asked_is_none():
    assert hub_of(hubs=("/hub",)).url == "https://example.org/hub"
    assert hub_of(hubs=("ftp://hub.example/", "http://[", "https://hub.example/")) == HUB
    assert hub_of(hubs=("javascript:x",)) is None
    assert hub_of("<https://hub.example/", topic=URL) is None
    assert hub_of() is None


@examples(2)
@given(st.text('<>;,=" relhubsf/:', max_size=80))
def test_any_header_is_read(link):
    hub_of(link)


def test_a_hub_is_asked_with_a_topic_a_callback_and_a_secret():
    said = parse_qs(websub.form(LEASE, "https://us.example/push/1"))

    assert said == {
        "hub.mode": ["subscribe"],
        "hub.topic": [URL],
        "hub.callback": ["https://us.example/push/1"],
        "hub.lease_seconds": ["864000"],
        "hub.secret": [LEASE.secret],
    }
    ends = parse_qs(websub.form(LEASE, "https://us.example/push/1", ends=True))
    assert ends["hub.mode"] == ["unsubscribe"]
    assert "hub.secret" not in ends


def test_a_subscription_that_is_meant_is_confirmed_by_its_challenge():
    meant = websub.answer(LEASE, ASKS, NOW)

    assert (meant.status, meant.challenge) == (200, "c")
    assert meant.lease.until == NOW + timedelta(days=10)


@pytest.mark.parametrize(
    ("seconds", "span"),
    [
        ("60", websub.LEASE_LEAST),
        ("9" * 30, websub.LEASE_MOST),
        ("", websub.LEASE),
        ("-5", websub.LEASE),
        ("x", websub.LEASE),
    ],
)
def test_a_lease_is_held_within_bounds(seconds, span):
    meant = websub.answer(LEASE, ASKS | {"hub.lease_seconds": seconds}, NOW)

    assert meant.lease.until == NOW + span


@pytest.mark.parametrize(
    "change",
    [
        {"hub.topic": "https://example.org/other"},
        {"hub.mode": "unsubscribe"},
        {"hub.mode": ""},
        {"hub.challenge": ""},
        {"hub.challenge": "c" * 4_001},
    ],
)
def test_what_was_not_asked_for_is_not_confirmed(change):
    meant = websub.answer(HELD, ASKS | change, NOW)

    assert (meant.status, meant.lease) == (404, HELD)


def test_what_nobody_wants_ends_and_never_begins():
    assert websub.answer(None, ASKS, NOW).status == 404
    assert websub.answer(None, ASKS | {"hub.mode": "unsubscribe"}, NOW).challenge == "c"


def test_a_hub_that_denies_is_trusted_no_longer():
    denied = websub.answer(HELD, {"hub.mode": "denied", "hub.topic": URL}, NOW)

    assert (denied.lease.until, denied.lease.trusted) == (None, False)
    assert not websub.is_pushing(denied.lease, NOW)


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
def test_a_push_is_believed_by_its_signature(method):
    signature = hmac.new(LEASE.secret.encode(), b"<rss/>", getattr(hashlib, method)).hexdigest()

    assert websub.is_signed(LEASE, f"{method}={signature}", b"<rss/>")
    assert websub.is_signed(LEASE, f" {method}={signature.upper()}", b"<rss/>")
    assert not websub.is_signed(LEASE, f"{method}={signature}", b"<rss>x</rss>")
    assert not websub.is_signed(replace(LEASE, secret="t" * 40), f"{method}={signature}", b"<rss/>")
    assert not websub.is_signed(LEASE, f"{method}={signature[:-2]}", b"<rss/>")


@pytest.mark.parametrize("header", ["", "sha1", "sha1=", "md5=0", "new=1", "sha256=ü"])
def test_a_header_that_is_no_signature_is_not_believed(header):
    assert not websub.is_signed(LEASE, header, b"")


def test_a_hub_is_asked_when_new_silent_or_near_the_end_of_its_lease():
    soon = NOW + timedelta(minutes=1)

    assert websub.wants_asking(None, HUB, NOW)
    assert not websub.wants_asking(None, None, NOW)
    assert not websub.wants_asking(HELD, None, NOW)
    # A feed that names others in turn has us call none of them more often.
    assert not websub.wants_asking(HELD, replace(HUB, url="https://new.example/"), soon)
    other = replace(HUB, url="https://new.example/")
    assert websub.wants_asking(HELD, other, NOW + websub.ANOTHER)
    assert not websub.wants_asking(LEASE, HUB, soon)
    assert websub.wants_asking(LEASE, HUB, NOW + websub.UNANSWERED)
    assert not websub.wants_asking(HELD, HUB, NOW + timedelta(days=7))
    assert websub.wants_asking(HELD, HUB, NOW + timedelta(days=8))


def test_a_lease_is_renewed_before_it_ends_with_the_same_secret():
    at = websub.renewed_at(HELD)
    assert NOW < at < HELD.until

    again = websub.asked(HELD, HUB, "another secret here", at)

    assert (again.secret, again.until, again.asked_at) == (HELD.secret, HELD.until, at)
    assert websub.is_pushing(again, at)
    moved = websub.asked(HELD, replace(HUB, topic="https://example.org/t"), "x" * 16, at)
    assert (moved.secret, moved.until) == ("x" * 16, None)


def test_a_secret_is_neither_short_nor_longer_than_allowed():
    for secret in ("short", "x" * 200):
        with pytest.raises(ValueError, match="16 to 199"):
            websub.asked(None, HUB, secret, NOW)


def test_a_hub_is_trusted_from_its_first_push_until_polling_finds_what_it_missed():
    held = replace(HELD, trusted=False)
    assert not websub.is_pushing(held, NOW)

    pushing = websub.pushed(held)
    assert websub.is_pushing(pushing, NOW)
    assert not websub.is_pushing(pushing, pushing.until)
    assert not websub.is_pushing(websub.missed(pushing), NOW)
    assert not websub.is_pushing(None, NOW)


def test_a_short_lease_is_renewed_within_it_and_one_that_has_ended_only_after_hours():
    short = replace(HELD, until=NOW + timedelta(hours=1))
    assert not websub.wants_asking(short, HUB, NOW + timedelta(minutes=47))
    assert websub.wants_asking(short, HUB, NOW + timedelta(minutes=48))

    ended = replace(short, asked_at=NOW + timedelta(hours=2))
    assert not websub.wants_asking(ended, HUB, NOW + timedelta(hours=7))
    assert websub.wants_asking(ended, HUB, NOW + timedelta(hours=8))
