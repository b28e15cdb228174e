"""Validation of request targets: URLs, methods, headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import problem_with, problem_with_headers, problem_with_method

ADMISSIBLE = [
    "http://example.org",
    "HTTPS://EXAMPLE.org/",
    "http://example.org:8080/a/b?c=d&c=e#f",
    "http://example.org./",
    "http://93.184.215.14/",
    "http://[2606:4700::1111]:443/",
    "http://example.org/a b",
    "http://example.org/?u=http://other.org:99999/@x",
    "http://bücher.example/ö?ü=ß",
    "http://例え.テスト/",
    "http://a_b.example.org/",
    "http://3com.example/",
    "http://example.org?q",
    "http://example.org/" + "a" * 7_981,
]

INADMISSIBLE = [
    ("", "http or https"),
    ("example.org", "http or https"),
    ("//example.org/", "http or https"),
    (" http://example.org/", "http or https"),
    ("http:example.org", "http or https"),
    ("http:/example.org", "http or https"),
    ("ftp://example.org/", "http or https"),
    ("file:///etc/passwd", "http or https"),
    ("javascript:alert(1)", "http or https"),
    ("gopher://example.org/", "http or https"),
    ("http://example.org/" + "a" * 7_982, "8,000"),
    ("http://example.org/\n", "control"),
    ("http://example.org/\r\nHost: x", "control"),
    ("http://exam\tple.org/", "control"),
    ("http://example.org/\x00", "control"),
    ("http://example.org/\x7f", "control"),
    ("http://example.org/\x85", "control"),
    ("http://example.org/\ud800", "control"),
    ("http://user@example.org/", "credentials"),
    ("http://user:secret@example.org/", "credentials"),
    ("http://example.org\\@127.0.0.1/", "credentials"),
    ("http://", "no host"),
    ("http:///path", "no host"),
    ("http://:80/", "no host"),
    ("http://?q", "no host"),
    ("http://exa mple.org/", "host"),
    ("http://example.org\\x/", "host"),
    ("http://exam%70le.org/", "host"),
    ("http://a..b/", "host"),
    ("http://.example.org/", "host"),
    ("http://" + "a" * 64 + ".org/", "host"),
    ("http://" + "a." * 130 + "org/", "host"),
    ("http://2130706433/", "IPv4"),
    ("http://0x7f000001/", "IPv4"),
    ("http://0x7f.1/", "IPv4"),
    ("http://0177.0.0.1/", "IPv4"),
    ("http://127.1/", "IPv4"),
    ("http://1.2.3.4.5/", "IPv4"),
    ("http://256.1.1.1/", "IPv4"),
    ("http://127.0.0.1./x:y", "IPv4"),
    ("http://[::1/", "host"),
    ("http://[]/", "IPv6"),
    ("http://[1.2.3.4]/", "IPv6"),
    ("http://[fe80::1%25eth0]/", "network interface"),
    ("http://[::1]x/", "host"),
    ("http://::1/", "port"),
    ("http://example.org:/", "port"),
    ("http://example.org:0/", "port"),
    ("http://example.org:65536/", "port"),
    ("http://example.org:80a/", "port"),
    ("http://example.org:+80/", "port"),
    ("http://example.org:٨٠/", "port"),
    ("http://example.org:80:80/", "port"),
]


@pytest.mark.parametrize("url", ADMISSIBLE)
def test_admissible_url_has_no_problem(url):
    assert problem_with(url) is None


@pytest.mark.parametrize(("url", "part"), INADMISSIBLE)
def test_inadmissible_url_is_reported_why(url, part):
    assert part in problem_with(url)


@given(st.text() | st.text().map("http://".__add__))
def test_any_text_is_judged(text):
    assert problem_with(text) is None or isinstance(problem_with(text), str)


@pytest.mark.parametrize(
    "method", ["GET", "get", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
)
def test_methods_of_pages_are_admitted(method):
    assert problem_with_method(method) is None


@pytest.mark.parametrize(
    "method", ["", "CONNECT", "TRACE", "GET / HTTP/1.1\r\nX:", "\uff27\uff25\uff34", "BREW"]
)
def test_other_methods_are_not(method):
    assert "one of" in problem_with_method(method)


def test_ordinary_headers_have_no_problem():
    assert problem_with_headers({"X-Any_1": "a\tb ü ", "accept": ""}) is None


@pytest.mark.parametrize("name", ["", "X A", "X:", "X\r\nY", "Ü", "X\x00", "x" * 257])
def test_bad_header_name_is_named(name):
    assert "header name" in problem_with_headers({"ok": "1", name: "v"})


@pytest.mark.parametrize("value", ["a\r\nX: b", "a\nb", "a\rb", "a\x00", "\x7f", "\ud800"])
def test_bad_header_value_is_refused_by_the_headers_name(value):
    assert problem_with_headers({"X-A": value}).startswith("'X-A' ")
