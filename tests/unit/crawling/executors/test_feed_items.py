"""Feeds as streams read them: the feed itself, then its entries, without markup and in bounds."""

import json

import pytest

from tests.kit.kernel import ExtractError
from tests.unit.crawling.executors.reading import page, spider

RSS = """<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"
 xmlns:thr="http://purl.org/syndication/thread/1.0"
 xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"
 xmlns:content="http://purl.org/rss/1.0/modules/content/"
 xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>
<title>The &amp;amp; News</title><language>en-GB</language>{about}
<atom:link rel="hub" href="https://hub.example/"/><atom:link rel="self" href="/feed"/>
<item><guid isPermaLink="false">7</guid><title>A &lt;b&gt;deal&lt;/b&gt;</title><link>/p/7</link>
<description>&lt;p&gt;Signed &amp;amp; sealed&lt;/p&gt;&lt;script&gt;x&lt;/script&gt;</description>
<content:encoded>&lt;p&gt;One&lt;/p&gt;&lt;p&gt;Two&lt;/p&gt;</content:encoded>
<dc:creator>Ann</dc:creator><category>Climate</category><category>COP31</category>
<thr:in-reply-to ref="6"/><pubDate>Tue, 24 Nov 2026 10:00:00 GMT</pubDate></item>
<item/></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="fr"><title>T</title>
<link rel="hub" href="/hub"/><entry><id>tag:2</id><title>Un</title>
<content xml:lang="nl">Een</content><updated>2026-11-24T10:00:00Z</updated></entry></feed>"""


@pytest.fixture
def records(read):
    def of(body):
        return read(spider("feed_items"), page(body)).records

    return of


def test_rss_gives_the_feed_then_its_entries(records):
    feed, entry, bare = records(RSS.format(about="<ttl>90</ttl>"))

    assert feed["title"] == "The & News"
    assert (feed["language"], feed["ttl_seconds"]) == ("en-GB", 5_400)
    assert feed["hubs"] == ["https://hub.example/"]
    assert feed["topic"].endswith("/feed")
    assert entry == {
        "id": "7",
        "link": "https://garden.example/p/7",
        "title": "A deal",
        "summary": "Signed & sealed",
        "content": "One\n\nTwo",
        "authors": ["Ann"],
        "categories": ["Climate", "COP31"],
        "published_at": "2026-11-24T10:00:00+00:00",
        "replies_to": "6",
    }
    assert bare == {}


@pytest.mark.parametrize(
    ("about", "seconds"),
    [
        ("<sy:updatePeriod>hourly</sy:updatePeriod>", 3_600),
        (
            "<sy:updatePeriod>daily</sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>",
            21_600,
        ),
        ("<ttl>99999999999999999999</ttl>", 31_536_000),
        ("<ttl>soon</ttl><sy:updatePeriod>never</sy:updatePeriod>", None),
    ],
)
def test_a_feed_says_how_long_it_may_be_kept(records, about, seconds):
    assert records(RSS.format(about=about))[0].get("ttl_seconds") == seconds


def test_atom_has_the_language_of_its_content_and_no_link_but_one_of_the_web(records):
    feed, entry = records(ATOM)

    assert feed["language"] == "fr"
    assert entry["language"] in {"fr", "nl"}
    assert (entry["id"], entry["content"]) == ("tag:2", "Een")
    assert "link" not in entry
    assert entry["updated_at"] == "2026-11-24T10:00:00+00:00"


def test_json_feeds_are_feeds(records):
    feed, one, two = records(
        json.dumps(
            {
                "version": "https://jsonfeed.org/version/1.1",
                "title": "T",
                "language": "en",
                "feed_url": "https://garden.example/feed.json",
                "hubs": [{"type": "WebSub", "url": "https://hub.example/"}, {"type": "x"}, 5],
                "items": [
                    {
                        "id": 7,
                        "url": "/p/7",
                        "title": "A",
                        "content_html": "<p>B</p>",
                        "authors": [{"name": "Ann"}, {"url": "x"}],
                        "tags": ["x", 3, "y"],
                        "date_published": "2026-11-24T10:00:00Z",
                    },
                    {"id": "8", "content_text": "a < b", "author": {"name": "Bob"}, "title": 5},
                    "no item",
                ],
            }
        )
    )

    assert feed["hubs"] == ["https://hub.example/"]
    assert one["link"] == "https://garden.example/p/7"
    assert (one["id"], one["content"], one["authors"], one["categories"]) == (
        *("7", "B"),
        *(["Ann"], ["x", "y"]),
    )
    assert two == {"id": "8", "content": "a < b", "authors": ["Bob"]}


@pytest.mark.parametrize("body", ["{", "{}", '{"version": 1, "items": []}', "<p>hello", ""])
def test_what_is_no_feed_is_an_error(records, body):
    with pytest.raises(ExtractError, match="page: "):
        records(body)


def test_texts_are_cut_off(records):
    _, entry = records(
        "<rss version='2.0'><channel><item><title>" + "long " * 30_000 + "</title></item></channel>"
        "</rss>"
    )

    assert len(entry["title"]) <= 100_000
