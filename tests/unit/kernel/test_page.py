import time
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import Field, PageFact, Rule
from tests.kit.recrawl import PageContent
from tests.kit.requests import Page

RULE = Rule(
    fields={
        "title": Field(css="h1"),
        "seen": Field(fact=PageFact.FETCHED_AT),
        "at": Field(fact=PageFact.URL),
        "offers": Field(
            css="li",
            list=True,
            fields={"price": Field(css="b"), "asked": Field(fact=PageFact.FETCHED_AT)},
        ),
    }
)


def page(body: bytes = b"", kind: str = "text/html; charset=utf-8") -> Page:
    return Page(url="https://example.org/", status=200, headers={"content-type": kind}, body=body)


def digest(*records: dict, body: bytes = b"", rule: Rule | None = None, kind: str = "text/html"):
    content = PageContent(rule)
    for record in records:
        content.add(record)
    return content.digest(page(body, kind))


def test_a_page_is_its_records_where_it_has_any():
    assert digest({"a": 1}, body=b"one") == digest({"a": 1}, body=b"two")
    assert digest({"a": 1}) != digest({"a": 2})
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}, {"a": 2}) != digest({"a": 2}, {"a": 1})
    assert digest({"a": 1}) != digest({"a": 1}, {"a": 1})
    assert len(bytes.fromhex(digest({"a": 1}))) == 16


def test_when_a_page_was_fetched_is_no_part_of_it():
    def record(at: str, price: str = "1", url: str = "u") -> dict:
        offers = [{"price": price, "asked": at}, {"price": "2", "asked": at}]
        return {"title": "t", "seen": at, "at": url, "offers": offers}

    first = digest(record("2026"), rule=RULE)

    assert digest(record("2027"), rule=RULE) == first
    assert digest(record("2026", price="3"), rule=RULE) != first
    assert digest(record("2026", url="v"), rule=RULE) != first
    assert digest({**record("2026"), "offers": None}, rule=RULE) != first


def test_any_value_that_a_spider_gives_is_hashed():
    odd = {"at": datetime(2026, 1, 1, tzinfo=UTC), "price": Decimal("1.5"), "raw": b"\xff", "c": 1j}

    assert digest(odd) == digest(dict(odd))
    assert digest(odd) != digest({**odd, "c": 2j})


@pytest.mark.parametrize(
    "noise",
    [
        b"<h1>News</h1><p>of today</p>",
        b"<h1 class='x7'>News</h1>\n\n  <p data-token=9>of   today</p>",
        b"<script nonce=1>a<b</script><h1>News</h1><p>of today</p>",
        b"<SCRIPT>if (a </SCRIPTx) </SCRIPT ><h1>News</h1><style>p{}</style><p>of today</p>",
        b"<!-- built at 12:07 <p> --><h1>News</h1><p>of today</p><!-- 3 ms",
        b"<h1>News</h1><p>of today</p><input type=hidden name=csrf value=17><script>never ended",
    ],
)
def test_a_page_without_records_is_what_one_reads_of_it(noise):
    plain = digest(body=b"<h1>News</h1><p>of today</p>")

    assert digest(body=noise) == plain
    assert digest(body=b"<h1>News</h1><p>of yesterday</p>") != plain


def test_what_is_no_markup_counts_to_the_byte():
    assert digest(body=b'{"a": 1}', kind="application/json") != digest(
        body=b'{"a":  1}', kind="application/json"
    )
    assert digest(body=b"<a>1", kind="text/plain") != digest(body=b"<b>1", kind="text/plain")
    assert digest(body=b"<a>1", kind="application/rss+xml") == digest(
        body=b"<b>1", kind="application/rss+xml"
    )
    assert digest(body=b"<a>1", kind="") == digest(body=b" <b>1", kind="")


@given(st.binary(max_size=200))
def test_no_body_is_too_odd_to_be_hashed(body):
    assert digest(body=body) == digest(body=body)


@pytest.mark.parametrize(
    "piece",
    [b"<", b"<!--", b"<script", b"<script>", b"</script", b"<!-->", b"<a", b"< ", b"<style "],
)
def test_a_page_made_to_be_slow_is_hashed_as_quickly_as_it_is_long(piece):
    body = piece * (1_000_000 // len(piece))

    started = time.process_time()
    digest(body=body)

    assert time.process_time() - started < 5
