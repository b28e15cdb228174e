"""The sample rules yield what they say, on the pages that lie beside them."""

from pathlib import Path

import pytest

from tests.kit.cli import choose
from tests.kit.extract import try_rule
from tests.kit.requests import Page

FOLDER = Path(__file__).parents[2] / "samplesconfig" / "rules"


def tried(name, page):
    body = (FOLDER / "pages" / page).read_bytes()
    headers = {"content-type": "text/html"}
    found = Page(url="https://coast.example/local", status=200, headers=headers, body=body)
    trial = try_rule(choose(FOLDER, None, name).reader, found)
    assert trial.problems == ()
    return trial


def test_a_front_page_gives_its_teasers_and_leads_to_articles_and_older_ones():
    trial = tried("front", "front.html")

    assert trial.records[0] == {
        "url": "https://coast.example/2024/03/harbour-bridge#top",
        "headline": "Harbour bridge reopens",
        "section": "Harbour",
        "writers": "Ines Holm and Tom Ray",
        "published": "2024-03-05T06:30:00+01:00",
    }
    assert [record["published"] for record in trial.records[1:]] == [
        "2024-03-04T18:05:00+01:00",
        "2024-07-04T10:00:00+02:00",
        None,
    ]
    assert [(link.url, link.rule, link.depth, link.meta) for link in trial.links] == [
        ("https://coast.example/2024/03/harbour-bridge", "article", 1, {"section": "Local"}),
        (
            "https://magazine.coast.example/2024/03/market-hall",
            "article",
            1,
            {"section": "Local"},
        ),
        ("https://coast.example/local?page=2", "", 0, {"list_page": 2}),
    ]
    assert trial.refused == {"in deny": 1, "outside of domains": 1}


def test_an_article_gives_what_it_says_for_machines_and_what_people_read():
    [record] = tried("article", "article.html").records

    assert record["headline"] == "Harbour bridge reopens after nine months"
    assert record["authors"] == ["Ines Holm", "Tom Ray"]
    assert record["image"] == "https://coast.example/img/bridge-1.jpg"
    assert "cut a ribbon in the rain" in record["text"]
    assert "Weather" not in record["text"]
    assert record["words_of_caution"] == "an earlier version gave the cost in the wrong currency."


def test_offers_are_read_from_microdata():
    assert tried("offers", "books.html").records == (
        {"name": "Brücken der Küste", "isbn": "9783161484100", "price": 1299.0, "available": True},
        {"name": "Brot ohne Kneten", "isbn": "312345678X", "price": 12.5, "available": False},
    )


def test_shelves_hold_rows_hold_books():
    trial = tried("catalogue", "books.html")
    travel, kitchen = trial.records

    assert travel["rows"][0]["books"][0] == {
        "title": "Brücken der Küste",
        "id": 17,
        "blurb": "Von Pfeilern und Bögen",
    }
    assert travel["rows"][1] == {"label": "unten", "books": []}
    assert [book["id"] for row in kitchen["rows"] for book in row["books"]] == [21]
    assert [link.url for link in trial.links] == ["https://coast.example/shelves?page=2"]


@pytest.mark.parametrize("name", ["front", "article", "offers", "catalogue"])
def test_every_field_of_the_samples_is_found_somewhere(name):
    page = {"front": "front.html", "article": "article.html"}.get(name, "books.html")

    assert all(tried(name, page).coverage.fields.values())
