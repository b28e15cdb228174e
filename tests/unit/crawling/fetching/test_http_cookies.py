"""The rules by which a jar takes and gives cookies."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from tests.kit.examples import examples
from tests.kit.fetching import MAX_COOKIES, MAX_HEADER_BYTES, MAX_JAR_BYTES, MAX_OF_DOMAIN, Jar

HOME = "https://shop.example.co.uk/basket/list"


def jar_after(*said, url=HOME):
    jar = Jar()
    jar.learn(URL(url), said)
    return jar


@pytest.mark.parametrize(
    ("said", "url", "sent"),
    [
        ("a=b", "https://shop.example.co.uk/", ""),  # the default path is /basket
        ("a=b", "https://shop.example.co.uk/basket/x", "a=b"),
        ("a=b; Path=/", "https://shop.example.co.uk/", "a=b"),
        ("a=b; Path=/", "https://example.co.uk/", ""),
        ("a=b; Path=/", "https://x.shop.example.co.uk/", ""),
        ("a=b; Path=/; Domain=example.co.uk", "https://x.example.co.uk/", "a=b"),
        ("a=b; Path=/; Domain=.example.co.uk", "https://example.co.uk/", "a=b"),
        ("a=b; Path=/; Domain=example.co.uk", "https://badexample.co.uk/", ""),
        ("a=b; Path=/; Secure", "http://shop.example.co.uk/", ""),
        ("a=b; Path=/; Secure; HttpOnly; SameSite=Lax", "https://shop.example.co.uk/", "a=b"),
        ("a=b; Path=/; Max-Age=0", "https://shop.example.co.uk/", ""),
        ("a=b; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT", HOME, ""),
        ("a=b; Path=/; Expires=Fri, 01 Jan 2100 00:00:00 GMT", HOME, "a=b"),
        ("a=b; Path=/; Expires=nonsense", HOME, "a=b"),
        ("a=b; Path=/; Version=1", HOME, "a=b"),
        ('a="b c"; Path=/', HOME, 'a="b c"'),
        ("__Host-a=b; Path=/; Secure", HOME, "__Host-a=b"),
    ],
)
def test_a_cookie_is_sent_where_it_belongs(said, url, sent):
    assert jar_after(said).header(URL(url)) == sent


@pytest.mark.parametrize(
    "said",
    [
        "a=b; Domain=co.uk",
        "a=b; Domain=.uk",
        "a=b; Domain=other.co.uk",
        "a=b; Domain=evil.shop.example.co.uk",
        "__Host-a=b; Path=/; Secure; Domain=example.co.uk",
        "__Host-a=b; Secure",
        "__Host-a=b; Path=/",
        "__Secure-a=b; Path=/",
        "a=" + "b" * 5_000,
        "a" * 5_000 + "=b",
        "",
        ";;;",
        "=",
        "a=b\r\nX-Evil: 1",
        "a=\udcff",
    ],
    ids=lambda said: ascii(said[:40]),
)
def test_a_cookie_that_is_not_the_sites_to_set_is_not_kept(said):
    jar = jar_after(said)

    for url in (HOME, "https://other.co.uk/", "https://evil.shop.example.co.uk/"):
        assert jar.header(URL(url)) in {"", "="}


@pytest.mark.parametrize(
    ("home", "said", "other"),
    [
        ("https://me.github.io/", "a=b; Domain=github.io", "https://you.github.io/"),
        ("http://10.1.2.3/", "a=b; Domain=.2.3", "http://9.9.2.3/"),
        ("http://127.0.0.1/", "a=b", "http://127.0.0.2/"),
        ("http://[2001:db9::1]/", "a=b", "http://[2001:db9::2]/"),
        ("http://shop.example.com/", "a=b; Secure", "https://shop.example.com/"),
        ("http://localhost/", "a=b; Domain=local", "http://other/"),
    ],
)
def test_nobody_sets_cookies_for_others(home, said, other):
    assert jar_after(said, url=home).header(URL(other)) == ""


@pytest.mark.parametrize("home", ["http://127.0.0.1:8080/", "http://[::1]/", "http://localhost/"])
def test_hosts_that_are_no_domains_keep_their_own(home):
    assert jar_after("a=b", url=home).header(URL(home)) == "a=b"


def test_cookies_are_bounded_the_first_go_first():
    jar = jar_after(*(f"c{n}=v; Path=/" for n in range(MAX_OF_DOMAIN + 10)))
    sent = jar.header(URL(HOME)).split("; ")
    assert sent[0] == "c10=v"
    assert len(sent) == MAX_OF_DOMAIN

    for n in range(MAX_COOKIES + 20):
        jar.learn(URL(f"https://h{n}.example.org/"), ["a=b"])

    assert jar.header(URL("https://h0.example.org/")) == ""
    assert jar.header(URL(f"https://h{MAX_COOKIES + 19}.example.org/")) == "a=b"


def test_large_cookies_are_bounded_in_the_jar_and_in_the_header():
    jar = Jar()
    for host in range(5):
        jar.learn(URL(f"https://h{host}.example.org/"), [f"c{n}={'v' * 4_000}" for n in range(50)])

    header = jar.header(URL("https://h4.example.org/"))

    assert 4_000 < len(header) <= MAX_HEADER_BYTES
    assert len(jar.merge(None)) < MAX_JAR_BYTES * 1.2


def test_what_was_saved_is_taken_up():
    saved = jar_after("a=b; Path=/; Domain=example.co.uk", "c=d; Path=/; Secure").merge(None)

    other = Jar()
    other.merge(saved)

    assert other.header(URL(HOME)) == "a=b; c=d"
    assert other.header(URL("http://x.example.co.uk/")) == "a=b"


def test_two_workers_of_a_job_come_to_know_each_others_cookies():
    one, two = jar_after("login=yes; Path=/"), jar_after("basket=full; Path=/")

    saved = one.merge(None)
    one.exchanged()
    saved = two.merge(saved)
    two.exchanged()
    one.merge(saved)

    assert sorted(one.header(URL(HOME)).split("; ")) == ["basket=full", "login=yes"]
    assert sorted(two.header(URL(HOME)).split("; ")) == ["basket=full", "login=yes"]
    assert not two.changed


def test_of_two_values_the_one_that_was_set_here_since_the_last_time_wins():
    jar = jar_after("a=1; Path=/")
    jar.merge(None)
    jar.exchanged()
    theirs = jar_after("a=2; Path=/").merge(None)

    jar.merge(theirs)
    assert jar.header(URL(HOME)) == "a=2"

    jar.exchanged()
    jar.learn(URL(HOME), ["a=3; Path=/"])
    assert jar.changed
    jar.merge(theirs)
    assert jar.header(URL(HOME)) == "a=3"


def test_what_was_deleted_here_stays_deleted():
    jar = jar_after("a=1; Path=/", "b=2; Path=/")
    saved = jar.merge(None)
    jar.exchanged()

    jar.learn(URL(HOME), ["a=; Path=/; Max-Age=0"])
    assert jar.changed
    jar.merge(saved)

    assert jar.header(URL(HOME)) == "b=2"


@pytest.mark.parametrize("saved", [b"", b"nonsense", b"\x91\x92ab", b"\xc0" * 600_000])
def test_what_cannot_be_read_is_no_cookies(saved):
    jar = jar_after("a=b; Path=/")
    jar.merge(saved)

    assert jar.header(URL(HOME)) == "a=b"


@examples(2)
@given(st.lists(st.text(max_size=200), max_size=20))
def test_whatever_is_said_a_jar_takes_it(said):
    jar = Jar()
    jar.learn(URL(HOME), said)
    jar.header(URL(HOME))
    Jar().merge(jar.merge(None))


def test_a_flood_of_cookies_takes_little_time():
    awkward = [
        "a=" + "b;" * 16_000,
        "a=b; Expires=" + "1 " * 16_000,
        "a=b; Expires=" + "Mon, 01 " * 4_000,
        " " * 32_000 + "a=b",
        '"' * 32_000,
        "a=b; Path=" + "/" * 32_000,
        "a=b; Domain=" + "." * 32_000,
        "a=b; Domain=" + "a." * 16_000,
    ]
    started = time.process_time()

    jar_after(*(awkward * 16))

    assert time.process_time() - started < 20
