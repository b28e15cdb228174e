"""Redirect hops: the request that follows a redirect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import FetchLimits
from tests.kit.fetching import HeaderBook, first_hop, next_hop
from tests.kit.kernel import PageGoneError, problem_with
from tests.kit.requests import Body, Validators

HOME = "https://a.example/dir/page?q=1#part"
OURS = {"Authorization": "Bearer t", "Cookie": "a=b", "Content-Type": "text/x", "X-A": "1"}


def hop(method="GET", url=HOME, headers=OURS, body=None, validators=None):
    asked = Body(url=url, rule="r", rule_version="1", method=method, headers=headers, body=body)
    return first_hop(HeaderBook(), asked, FetchLimits(), validators)


@pytest.mark.parametrize(
    ("status", "method", "then", "keeps_body"),
    [
        (301, "GET", "GET", True),
        (301, "POST", "GET", False),
        (302, "POST", "GET", False),
        (302, "PUT", "PUT", True),
        (301, "DELETE", "DELETE", True),
        (302, "HEAD", "HEAD", True),
        (303, "POST", "GET", False),
        (303, "PUT", "GET", False),
        (303, "HEAD", "HEAD", True),
        (303, "GET", "GET", True),
        (307, "POST", "POST", True),
        (308, "POST", "POST", True),
        (308, "PATCH", "PATCH", True),
    ],
)
def test_method_and_body_go_on_as_in_browsers(status, method, then, keeps_body):
    body = None if method in {"GET", "HEAD"} else "x"

    after = next_hop(hop(method, body=body), status, "/next")

    assert after.method == then
    assert after.payload == (b"x" if body and keeps_body else None)
    assert ("Content-Type" in after.headers) == keeps_body
    assert after.headers["X-A"] == "1"


@pytest.mark.parametrize(
    ("place", "same"),
    [
        ("/other", True),
        ("https://a.example:443/other", True),
        ("https://A.EXAMPLE/other", True),
        ("http://a.example/other", False),
        ("https://a.example:444/other", False),
        ("https://b.a.example/other", False),
        ("//b.example/", False),
    ],
)
def test_what_says_who_we_are_stays_with_its_origin(place, same):
    after = next_hop(hop(), 302, place)

    assert ("Authorization" in after.headers, "Cookie" in after.headers) == (same, same)
    assert after.headers["X-A"] == "1"


def test_what_was_left_behind_does_not_come_back_with_the_way_home():
    away = next_hop(hop(), 302, "https://b.example/")

    home = next_hop(away, 302, HOME)

    assert "Authorization" not in home.headers


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("next", "https://a.example/dir/next#part"),
        ("?p=2", "https://a.example/dir/page?p=2#part"),
        ("../up", "https://a.example/up#part"),
        ("/x#there", "https://a.example/x#there"),
        ("#there", "https://a.example/dir/page?q=1#there"),
        ("  /x\t", "https://a.example/x#part"),
        ("//b.example", "https://b.example/#part"),
        ("HTTP://B.EXAMPLE/", "http://b.example/#part"),
        ("/a%2Fb?c=%2F", "https://a.example/a%2Fb?c=%2F#part"),
        ("/ü b", "https://a.example/%C3%BC%20b#part"),
        ("/caf\udce9", "https://a.example/caf%E9#part"),
        ("https://user:secret@b.example/", "https://b.example/#part"),
        ("https://user@b.example/", "https://b.example/#part"),
    ],
)
def test_a_place_is_where_a_browser_would_go(place, url):
    after = next_hop(hop(), 302, place)

    assert str(after.url) == url
    assert after.asked == url.partition("#")[0]


@pytest.mark.parametrize(
    "place",
    [
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        "ftp://a.example/",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "data:text/html,x",
        "javascript:alert(1)",
        "view-source:http://a.example/",
        "jar:http://a.example!/x",
        "ws://a.example/",
        "blob:http://a.example/x",
        "about:blank",
        "mailto:a@b.example",
        "unix:///var/run/docker.sock",
        "http+unix://socket/x",
        "http://",
        "http:///etc/passwd",
        "http:",
        "https://@/",
        "http://[",
        "http://[::1",
        "http://[fe80::1%25eth0]/",
        "http://a:99999999/",
        "http://a:-1/",
        "http://a..b/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://1.2.3.4.5/",
        "http://" + "a" * 300 + ".example/",
        "/" + "a" * 9_000,
    ],
)
def test_a_place_that_is_no_page_is_refused(place):
    with pytest.raises(PageGoneError):
        next_hop(hop(), 302, place)


@given(st.text(max_size=200))
def test_any_place_is_one_that_may_be_asked_for_or_refused(place):
    try:
        after = next_hop(hop(), 302, place)
    except PageGoneError as error:
        str(error).encode()
    else:
        assert problem_with(after.asked) is None
        after.asked.encode("ascii")


def test_validators_are_sent_where_they_ask_for_a_page():
    known = Validators(etag='"x"', last_modified="Wed, 21 Oct 2015 07:28:00 GMT")

    for method, expected in (("GET", True), ("HEAD", True), ("POST", False)):
        headers = hop(method, validators=known).headers
        assert ("If-None-Match" in headers) == ("If-Modified-Since" in headers) == expected


def test_validators_that_would_break_the_header_are_left_out():
    known = Validators(etag='"x"\r\nX-Evil: 1', last_modified="\ud800")

    headers = hop(validators=known).headers

    assert "If-None-Match" not in headers
    assert "If-Modified-Since" not in headers
