"""Files that are made to exhaust whoever reads them: each ends soon, and says why."""

import base64
import gzip
import random
import resource
from time import thread_time

import pytest

from tests.kit.executors import PageBounds
from tests.kit.kernel import ExtractError
from tests.unit.crawling.executors.reading import Reader, page, spider

LAUGHS = (
    b"<!DOCTYPE r [<!ENTITY a 'aaaaaaaaaa'>"
    + b"".join(b"<!ENTITY %c '%s'>" % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9))
    + b"]>"
)
MEGA = 1_000_000
SITEMAP = spider("sitemap", rule="p")
FEED = spider("feed")
XML = spider("xml", records="//r", fields={"a": {"xpath": "a"}})
JSON = spider("json")
LINES = spider("json", format="ndjson", bad_records="skip")
CSV = spider("csv", bad_rows="skip")
URLS = spider("url_list", rule="p")


def rss(inside):
    return b"<rss version='2.0'><channel><item>" + inside + b"</item></channel></rss>"


def description(text):
    return rss(b"<description><![CDATA[" + text + b"]]></description>")


REFUSED = {
    "a sitemap of ampersands": (
        SITEMAP,
        lambda: b"<urlset><url><loc>" + b"&" * 12 * MEGA + b"</loc></url></urlset>",
        "url.*(larger|longer|text|huge|well-formed)"),
    "a sitemap of a billion laughs": (
        SITEMAP, lambda: LAUGHS + b"<urlset><url><loc>&j;</loc></url></urlset>",
        "page: declares entities"),
    "laughs in an attribute of the root": (
        XML, lambda: LAUGHS + b"<x a='&j;'><r><a>1</a></r></x>", "page: "),
    "laughs that are few": (
        XML, lambda: b"<!DOCTYPE x [<!ENTITY a 'b'>]><x><r><a>&a;</a></r></x>",
        "page: declares entities"),
    "a feed of laughs": (FEED, lambda: LAUGHS + rss(b"<title>&j;</title>"),
        "page: declares entities"),
    "a file of this machine as an entity": (
        XML,
        lambda: b"<!DOCTYPE x [<!ENTITY f SYSTEM 'file:///etc/passwd'>]>"
        b"<x><r><a>&f;</a></r></x>",
        "page: declares entities"),
    "a file of this machine as a parameter entity": (
        FEED, lambda: b"<!DOCTYPE x [<!ENTITY % f SYSTEM 'file:///etc/passwd'> %f;]>" + rss(b""),
        "page: declares entities"),
    "a million elements inside each other": (
        XML, lambda: b"<x>" + b"<q>" * MEGA, "page: no well-formed XML: Excessive depth"),
    "a deep record": (
        XML, lambda: b"<x><r>" + b"<q>" * MEGA, "page: no well-formed XML: Excessive depth"),
    "a record of a million elements": (
        XML, lambda: b"<x><r>" + b"<q/>" * MEGA + b"</r></x>", "x/r: "),
    "a record of one long text": (
        XML, lambda: b"<x><r><a>" + b"a" * 9 * MEGA, "x/r: is larger than 2,000,000 bytes"),
    "a URL of a million images": (
        SITEMAP, lambda: b"<urlset><url>" + b"<image><loc>x</loc></image>" * (MEGA // 4),
        "urlset/url: "),
    "five thousand namespaces": (
        XML,
        lambda: b"<x " + b"".join(b"xmlns:a%d='u' " % n for n in range(5_000)) + b">"
        + b"<r><a>1</a></r>" * 500 + b"</x>",
        r"records\[0\]: has over 100 namespaces"),
    "a gzip bomb of a table": (
        CSV, lambda: gzip.compress(b"a\n" + (b"x" * 900_000 + b"\n") * 75, 1),
        "page: unpacks to more than"),
    "a gzip bomb of JSON": (
        JSON, lambda: gzip.compress(b"[" + b" " * 70 * MEGA, 1), "page: unpacks to more than"),
    "gzip in gzip": (
        SITEMAP, lambda: gzip.compress(gzip.compress(b"<urlset/>")), "page: no well-formed XML"),
    "an entry of sixty thousand categories": (
        FEED, lambda: rss(b"".join(b"<category>%d</category>" % n for n in range(60_000))),
        "entry 1: has more than 300 of 'category'"),
    "a feed of ten thousand entries": (
        FEED, lambda: b"<rss version='2.0'><channel>" + b"<item/>" * 10_000 + b"</channel></rss>",
        "page: has more than 5,000 entries"),
    "a feed of a million elements": (
        FEED, lambda: rss(b"<p/>" * MEGA), "page: has more than 100,000 elements"),
    "a feed of eleven million characters": (
        FEED, lambda: description(b"a" * 11 * MEGA), "page: is longer than 10,000,000"),
    "JSON's NaN": (JSON, lambda: b'[{"a":NaN}]', "page: no JSON"),
    "JSON's infinity": (JSON, lambda: b'[{"a":1e999}]', "no JSON|out of range"),
    "five million open brackets": (JSON, lambda: b"[" * 5 * MEGA, "page: no JSON"),
    "a deep object": (
        JSON, lambda: b"[" + b'{"a":' * 900 + b"1" + b"}" * 900 + b"]",
        r"records\[0\]: JSON nested over 64 deep"),
    "five million numbers": (
        JSON, lambda: b"[" + b"1," * 5 * MEGA + b"1]", "page: holds more than 2,000,000 values"),
    "an object of ten megabytes on one line": (
        JSON, lambda: b'[{"a":"' + b"x" * 10 * MEGA + b'"}]',
        r"records\[0\]: is larger than 2,000,000 bytes"),
    "an integer of a thousand digits": (
        JSON, lambda: b'[{"a":' + b"9" * 1_000 + b"}]", "records|page"),
    "a table whose header is ten megabytes long": (
        CSV, lambda: b"a," * 5 * MEGA, "line 1: a row of more than 1,000,000 characters"),
    "a table whose rows are all bad": (
        CSV, lambda: b"a,b\n" + b"1\n" * 100_001, "page: has more than 100,000 things"),
}  # fmt: skip


#: The same, so large that what is not linear in it would take hours.
HUGE = {
    "a sitemap of sixty million ampersands": (
        SITEMAP,
        lambda: b"<urlset><url><loc>" + b"&" * 60 * MEGA + b"</loc></url></urlset>",
        "url.*(larger|longer|text|huge|well-formed)"),
    "twenty thousand namespaces": (
        XML,
        lambda: b"<x " + b"".join(b"xmlns:a%d='u' " % n for n in range(20_000)) + b">"
        + b"<r><a>1</a></r>" * 2_000 + b"</x>",
        r"records\[0\]: has over 100 namespaces"),
    "a gzip bomb of a sitemap": (
        SITEMAP, lambda: gzip.compress(b"<urlset>" + (b"<a>" + b"x" * MEGA + b"</a>") * 80, 1),
        "page: unpacks to more than 67,108,864 bytes"),
    "lines that are all no objects": (
        LINES, lambda: b"1\n" * 200_000, "page: has more than 100,000 things"),
    "lines that are all no URLs": (
        URLS, lambda: b"x:y\n" * 200_000, "page: has more than 100,000 things"),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [*REFUSED, *(pytest.param(name, marks=pytest.mark.long) for name in HUGE)]
)
def test_it_is_refused_in_seconds_and_says_why(name):
    spider, body, why = (REFUSED | HUGE)[name]
    file = page(body())
    began = thread_time()

    with pytest.raises(ExtractError, match=why):
        Reader()(spider, file)

    assert thread_time() - began < 12


@pytest.mark.parametrize(("spider", "line"), [(LINES, b"1\n"), (URLS, b"x:y\n")])
def test_lines_that_are_all_bad_are_not_read_to_their_end(spider, line):
    with pytest.raises(ExtractError, match="1,000 things"):
        Reader(bounds=PageBounds(skipped=1_000))(spider, page(line * 1_001))


READ = {
    "an endless field": (CSV, lambda: b'a,b\n1,"' + b"x" * 10 * MEGA, [], 1),
    "a quote that is not closed, and rows after it": (
        CSV, lambda: b'a,b\n1,"' + b"x" * MEGA + b"\n3,4\n", [{"a": "3", "b": "4"}], 1),
    "a row of ten megabytes, and one after it": (
        CSV, lambda: b"a,b\n" + b"1," * 5 * MEGA + b"\n3,4\n", [{"a": "3", "b": "4"}], 1),
    "nine million quotes": (CSV, lambda: b"a,b\n" + b'"' * 9 * MEGA, [], 1),
    "a line of ten megabytes, and one after it": (
        LINES, lambda: b'{"a":"' + b"x" * 10 * MEGA + b'"}\n{"a":1}', [{"a": 1}], 1),
    "a URL of ten megabytes": (URLS, lambda: b"https://a.example/" + b"x" * 10 * MEGA, [], 1),
    "a sitemap of many other elements": (
        SITEMAP, lambda: b"<urlset>" + b"<a/>" * 50_000 + b"</urlset>", [], 0),
    "a file of this machine as a document type": (
        XML, lambda: b"<!DOCTYPE x SYSTEM 'file:///etc/passwd'><x><r><a>1</a></r></x>",
        [{"a": "1"}], 0),
}  # fmt: skip


#: More of it, in the proofs.
MUCH = {
    "a sitemap of two hundred thousand other elements": (
        SITEMAP, lambda: b"<urlset>" + b"<a/>" * 200_000 + b"</urlset>", [], 0),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [*READ, *(pytest.param(name, marks=pytest.mark.long) for name in MUCH)]
)
def test_what_is_right_in_it_is_read_in_seconds(name):
    spider, body, records, skipped = (READ | MUCH)[name]
    file = page(body())
    began = thread_time()

    got = Reader()(spider, file)

    assert (got.records, len(got.skipped)) == (records, skipped)
    assert thread_time() - began < 12


@pytest.mark.parametrize(
    "text",
    [
        b"<!--" * MEGA,
        b"<div>" * MEGA,
        b"<a " * MEGA,
        b"<![CDATA[" * 100_000,
        b"&" * MEGA,
        b"<p style='" + b"a:b;" * MEGA + b"'>",
        (b"<!--" * 190 + b"a" * 100_000) * 20,
    ],
    ids=["comments", "depth", "tags", "sections", "references", "style", "some comments"],
)
def test_texts_of_a_feed_that_cost_quadratic_time_are_made_plain(text):
    file = page(description(text.replace(b"]]>", b"")))
    began = thread_time()

    [entry] = Reader()(FEED, file).records

    assert "<script" not in entry["summary"]
    assert thread_time() - began < 12


def test_markup_that_a_feed_hides_in_base64_is_not_cleaned_for_hours():
    hidden = base64.b64encode(b"<!--" * MEGA)
    feed = (
        b"<feed version='0.3' xmlns='http://purl.org/atom/ns#'><entry><title>t</title>"
        b"<content type='text/html' mode='base64'>" + hidden + b"</content></entry></feed>"
    )
    began = thread_time()

    [entry] = Reader()(FEED, page(feed)).records

    assert (entry["title"], entry["content"]) == ("t", None)
    assert thread_time() - began < 8


def test_a_bomb_takes_no_memory():
    bomb = gzip.compress(b"<urlset>" + (b"<a>" + b"x" * MEGA + b"</a>") * 68, 1)
    Reader()(SITEMAP, page(b"<urlset/>"))  # what is loaded once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(ExtractError, match=" 67,108,864 bytes"):
        Reader()(SITEMAP, page(bomb))

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


@pytest.mark.parametrize(
    ("length", "patterns"),
    [
        (2_000, ["(?:(?:a|b|ab|ba){1,30}){1,30}x"] * 3),
        # Each search is too short to ask for the time, and all URLs are in one chunk of the page.
        (600, [rf"(\w*a\w{{{200 + n}}}|\w*b\w{{{200 + n}}})Z" for n in range(50)]),
    ],
)
def test_patterns_that_cost_milliseconds_a_url_end_with_the_pages_time(length, patterns):
    """RE2 cannot keep the states of these: up to 80 us a character."""
    picked = random.Random(1)
    urls = ("".join(picked.choices("ab", k=length)) for _ in range(90))
    body = "".join(f"<url><loc>https://garden.example/{url}</loc></url>" for url in urls)
    slow = spider("sitemap", rule="p", include=patterns)
    read = Reader(bounds=PageBounds(cpu_seconds=0.3))
    began = thread_time()

    with pytest.raises(ExtractError, match=r" 0\.3 CPU seconds"):
        read(slow, page(f"<urlset>{body}</urlset>"))

    assert thread_time() - began < 4


def test_a_pattern_of_many_repetitions_is_no_pattern():
    with pytest.raises(ExtractError, match="too large"):
        Reader()(spider("sitemap", rule="p", exclude=["(?:abcdefghijkl){1,1000}x"]), page("<a/>"))
