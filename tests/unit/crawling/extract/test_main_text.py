import time

import pytest

from tests.kit.kernel import ExtractError
from tests.unit.crawling.extract.test_check_rule import problems

pytestmark = pytest.mark.measured

SECOND = (
    "A ferry that cannot land tries again. How often, and after which pause, is set for each "
    "harbour; the default is four attempts, the pause doubling from five seconds to an hour."
)


def main_text(extract, body, **field):
    [record] = extract({"fields": {"text": {"main_text": True, **field}}}, body, "text/html")
    return record["text"]


@pytest.mark.parametrize(
    ("page", "said", "unsaid"),
    [
        (
            "article_news.html",
            [
                "Harbour bridge reopens after nine months",
                "cut a ribbon in the rain",
                "Ferries stay until May",
                "“Nobody will miss the queue,”",
            ],
            ["Weather", "cookies", "Read more", "Imprint", "dataLayer", "never shown"],
        ),
        (
            "article_blog.html",
            ["My grandmother never had a mixer", "300 g of water", "250 °C", "Crème fraîche"],
            ["Archive", "2022", "Follow me", "All rights reserved", "Which pot"],
        ),
        (
            "article_docs.html",
            [
                "Configuring retries",
                "A ferry that cannot land",
                "max_attempts: 4",
                "The first pause",
            ],
            ["Installation", "Contents", "Created with"],
        ),
    ],
)
def test_main_text_is_the_article_without_what_is_around_it(extract, page, said, unsaid):
    text = main_text(extract, page)

    assert [part for part in said if part not in text] == []
    assert [part for part in unsaid if part in text] == []


def test_paragraphs_stand_on_lines_of_their_own_and_text_can_be_changed(extract):
    text = main_text(extract, "article_docs.html")

    assert text.splitlines()[:3:2] == [
        "Configuring retries",
        SECOND,
    ]
    assert main_text(extract, "article_docs.html", transforms=[{"slice": [0, 11]}]) == "Configuring"
    assert main_text(extract, "article_docs.html", regex="ferry (.*?) tries") == "that cannot land"


@pytest.mark.parametrize(
    "body", [b"", b"<p>", b"\0", b"\xff\xfe", b"<html><body></html>"], ids=repr
)
def test_a_page_without_text_has_an_empty_one(extract, body):
    assert main_text(extract, body) == ""


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ({"source": "xml", "fields": {"it": {"main_text": True}}}, "fields.it.main_text"),
        ({"fields": {"it": {"main_text": True, "css": "p"}}}, "fields.it"),
        ({"fields": {"it": {"main_text": True, "list": True}}}, "fields.it.main_text"),
        ({"fields": {"it": {"main_text": True, "fields": {"a": {}}}}}, "fields.it.main_text"),
    ],
)
def test_error_is_named_where_it_is(rule, wrong):
    assert f"rules.shop.{wrong}" in problems(rule)


@pytest.mark.parametrize(
    "body",
    [
        b"<div>" * 4_000 + b"<p>hi",
        b"<p>x" * 60_000,
        b"<div class='content'>" * 4_000 + b"x</div>" * 4_000,
        b"<a href=x>y</a>" * 60_000,
        b"<table>" * 20_000,
        b"<p class='" + b"content " * 200_000 + b"'>x",
        b"x" * 2_000_000,
        b"&amp;" * 400_000,
    ],
    ids=lambda body: repr(body[:14]),
)
def test_hostile_page_costs_little(extract, body):
    began = time.process_time()

    try:
        main_text(extract, body)
    except ExtractError as error:
        assert error.field == "text"  # noqa: PT017  a text is a fine answer too

    assert time.process_time() - began < 15
