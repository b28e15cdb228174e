"""XML that is broken: what libxml2 leaves out is read all the same, at a bounded cost."""

import subprocess
import sys
from contextlib import suppress
from time import thread_time

import msgspec
import pytest

from tests.kit.config import Rule
from tests.kit.extract import (
    REPAIRED_BYTES_MAX,
    UNITS_MAX,
    Meter,
    RuleExtractor,
    UnreadableError,
    parse_xml,
    repaired_xml,
)
from tests.kit.requests import Page

TWO = "<r><a>1</a><a>2</a></r>"


def titles(body, expression="//a"):
    """The texts that a rule reads of a page."""
    fields = {"found": {"xpath": expression, "list": True}}
    rule = msgspec.convert({"source": "xml", "fields": fields}, Rule)
    text = body.encode() if isinstance(body, str) else body
    page = Page(url="https://x.example/feed", status=200, headers={}, body=text)
    [record] = RuleExtractor().extract(rule, page)
    return record["found"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"Notice: it is slow {TWO}", ["1", "2"]),
        (f"<br />\n<b>Notice</b>: x<br />\n<?xml version='1.0'?>{TWO}", ["1", "2"]),
        (f"{TWO}<script>track()</script>", ["1", "2"]),
        ("<a>1</a><a>2</a>", ["1", "2"]),
        ("<r><a n=1>1</a><a n=2>2</a></r>", ["1", "2"]),
        ("<r><a>A & B</a><a>C</a></r>", ["A & B", "C"]),
        ("<r><a>caf&eacute;</a></r>", ["caf\u00e9"]),
        ("<r><a>1 < 2</a><a>3</a></r>", ["1 < 2", "3"]),
        ("<r><a>1</b></a><a>2</a></r>", ["1", "2"]),
        ("<r><a>1\x08</a><a>2\x00</a></r>", ["1", "2"]),
        ("<r><a><![CDATA[1 < 2]]></a><a>2 & 3</a></r>", ["1 < 2", "2 & 3"]),
        ("<r><!-- never ends <a>1</a><a>2 & 3</a></r>", ["1", "2 & 3"]),
        ("<r><a>1</a><x&y>no</x&y><a>2</a></r>", ["1", "2"]),
        ('<r><a t="x > <b>">1</a><a>2 & 3</a></r>', ["1", "2 & 3"]),
    ],
)
def test_what_a_broken_page_holds_is_read(body, expected):
    assert titles(body) == expected


def test_names_keep_their_capitals_and_no_name_is_html_s():
    feed = (
        "<rss xmlns:media='urn:m'><item><link>https://x.example/?a=1&b=2</link>"
        "<pubDate>now</pubDate><guid isPermaLink='false'>7</guid><media:title>T & U</media:title>"
        "<script><b>s</b></script><meta>m</meta></item></rss>"
    )

    assert titles(feed, "//item/link") == ["https://x.example/?a=1&b=2"]
    assert titles(feed, "/rss/item/pubDate") == ["now"]
    assert titles(feed, "//guid[@isPermaLink='false']") == ["7"]
    assert titles(feed, "//media:title") == titles(feed, "//title") == ["T & U"]
    assert titles(feed, "//item/script | //item/meta") == ["s", "m"]


def test_a_page_that_declares_entities_is_not_repaired():
    body = '<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]><r><a>1 & &e;</a></r>'

    assert titles(body) == ["1"]
    assert titles("<r><a>1 & &unknown; &#65;&copy=</a></r>") == ["1 & &unknown; A&copy="]


def test_a_page_without_an_element_stays_unreadable():
    for body in (b"hello", b"<", b"1 < 2 & 3"):
        with pytest.raises(UnreadableError, match="no element"):
            parse_xml(body)
    assert repaired_xml("no element") is None


def test_a_page_that_is_too_large_to_be_repaired_is_what_libxml2_recovers():
    filling = "<x>0</x>" * (REPAIRED_BYTES_MAX // 8)

    assert titles(f"<r><a>A & B</a>{filling}</r>") == ["A  B"]


def test_repair_is_charged_to_the_page():
    meter = Meter()
    body = b"<r>" + b"<a>1 & 2</a>" * 15_000 + b"</r>"
    parse_xml(body, meter)
    meter.spend(UNITS_MAX - 1.5 * 400 * len(body))

    with pytest.raises(UnreadableError, match="too costly"):
        parse_xml(body, meter)


@pytest.mark.untraced
@pytest.mark.parametrize("part", ["<a b ", '<a b="', "<!--", "<![CDATA[", "<a>", "<a b='>"])
def test_no_page_of_that_size_takes_long(part):
    body = (part * REPAIRED_BYTES_MAX)[:REPAIRED_BYTES_MAX].encode()
    began = thread_time()

    with suppress(UnreadableError):
        parse_xml(body)

    # One that took time by the square of its size took five minutes.
    assert thread_time() - began < 10


@pytest.mark.parametrize(("body", "is_read"), [(TWO, False), ("<r>A & B</r>", True)])
def test_the_forgiving_parser_is_imported_by_broken_pages_alone(body, is_read):
    code = (
        "import sys; from crawlfleet.crawling.extract.document import parse_xml;"
        f"parse_xml({body.encode()!r}); print('bs4' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == str(is_read)
