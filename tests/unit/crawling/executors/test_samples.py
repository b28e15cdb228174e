"""Each built-in executor reads a file as sites write them, with its sample spider."""

import pytest

from tests.kit.executors import BUILT_IN, check_spider
from tests.kit.extract import check_rule
from tests.unit.crawling.executors.reading import spider


def test_every_sample_spider_is_right(samples):
    for name, sample in samples.items():
        assert check_spider(sample, f"spiders.{name}.", check_rule=check_rule) == []


def test_every_executor_of_the_package_has_a_sample(samples):
    ours = set(BUILT_IN) - {"scrapy"}  # that one takes a project of its own

    assert {sample.executor for sample in samples.values()} == ours


def test_a_list_of_three_pages_is_read_to_its_end(read, samples, sample_page):
    url, meta, seen, pages = "https://garden.example/tools?page=1", {}, [], 0
    while url:
        pages += 1
        got = read(samples["listing"], sample_page(f"list-{pages}.html", url), rule="it", meta=meta)
        seen += [record["sku"] for record in got.records]
        further = [link for link in got.links if link.rule == "it"]
        assert all(link.depth == 0 for link in further)
        url, meta = (further[0].url, further[0].meta) if further else (None, {})

    assert pages == 3
    assert seen == ["SP-1", "RK-2", "SH-3", "HS-4", "WB-5"]


def test_an_item_of_a_list_is_followed_by_its_own_page(read, samples, sample_page):
    got = read(samples["listing"], sample_page("list-2.html", "https://garden.example/tools"))

    assert got.records[0] == {
        "sku": "SH-3",
        "name": "Secateurs & holster",
        "price": 49.0,
        "url": "https://garden.example/p/sh-3",
    }
    assert (got.links[0].url, got.links[0].rule, got.links[0].depth) == (
        "https://garden.example/p/sh-3",
        "product",
        1,
    )


def test_an_article_is_one_record(read, samples, sample_page):
    got = read(samples["article"], sample_page("article.html"))

    [record] = got.records
    assert record["title"] == "Pruning roses in March"
    assert record["author"] == "Zoë Müller"
    assert record["published"] == "2026-03-05T08:30:00+01:00"
    assert record["paragraphs"][1:] == [
        "Cut above an outward-facing bud.",
        "Use sharp secateurs, and clean them.",
    ]


def test_an_index_leads_to_the_sitemaps_that_have_changed(read, samples, sample_page):
    got = read(samples["pages"], sample_page("sitemap-index.xml"))

    assert got.records == []
    assert got.urls == [
        "https://garden.example/sitemap-products.xml.gz",
        "https://garden.example/sitemap-news.xml?a=1&b=2",
    ]
    assert {(link.rule, link.depth, link.meta["sitemap_level"]) for link in got.links} == {
        ("it", 0, 1)
    }


def test_a_packed_sitemap_gives_pages_with_what_it_says_of_them(read, samples, sample_page):
    got = read(samples["pages"], sample_page("sitemap-products.xml.gz"))

    assert got.urls == ["https://garden.example/p/sp-1", "https://garden.example/news/roses"]
    spade, roses = got.records
    assert spade["lastmod"] == "2026-03-05T00:00:00+00:00"
    assert (spade["changefreq"], spade["priority"], spade["news"]) == ("weekly", 0.8, None)
    assert spade["images"] == [
        {"loc": "https://img.garden.example/sp-1.jpg", "caption": "A spade"},
        {"loc": "https://img.garden.example/sp-1b.jpg"},
    ]
    assert roses["news"] == {
        "name": "Garden magazine",
        "language": "en",
        "publication_date": "2026-03-05T08:30:00+01:00",
        "title": "Pruning roses in March",
    }
    assert [one.place for one in got.skipped] == ["url 5"]


def test_a_feed_gives_entries_without_scripts(read, samples, sample_page):
    got = read(samples["news"], sample_page("news.rss"))

    roses, odd, bare = got.records
    assert roses == {
        "id": "tag:garden.example,2026:17",
        "title": "Pruning roses & hedges",
        "link": "https://garden.example/news/roses",
        "published": "2026-03-05T08:30:00+01:00",
        "updated": None,
        "summary": '<p>Cut above a bud. <a href="https://garden.example/news/buds">'
        "What is a bud?</a></p>",
        "content": "<p>Use <em>sharp</em> secateurs.</p>",
        "authors": ["Zoë Müller"],
        "tags": ["roses", "spring"],
        "enclosures": [{"url": "https://garden.example/roses.mp3", "type": "audio/mpeg"}],
    }
    assert odd["published"] is None  # "8:30 PM EST" is nothing to guess at
    assert bare["summary"] == "<b>Bold</b> claims"
    assert [(link.url, link.rule) for link in got.links] == [
        ("https://garden.example/news/roses", "article"),
        ("https://garden.example/news/odd", "article"),
    ]
    assert [one.place for one in got.skipped] == ["entry 2"]


def test_an_atom_feed_gives_its_xhtml_and_links_made_absolute(read, samples, sample_page):
    got = read(samples["news"], sample_page("news.atom"))

    [entry] = got.records
    assert entry["link"] == "https://garden.example/blog/mulch"
    assert entry["authors"] == ["Ana", "Béla"]
    assert entry["published"] == "2026-03-04T12:00:00.250000-05:00"
    assert entry["updated"] == "2026-03-05T18:30:02+00:00"
    assert entry["summary"] == "Bark, straw < leaves"
    assert entry["content"] == (
        '<p>Ten <b>centimetres</b>. <a href="https://garden.example/bark">Bark</a></p>'
    )


def test_a_catalogue_is_read_whatever_its_namespaces(read, samples, sample_page):
    got = read(samples["catalogue"], sample_page("catalogue.xml"))

    assert got.records == [
        {
            "sku": "SP-1",
            "name": "Spaten, geölt",
            "price": 34.9,
            "currency": "EUR",
            "images": [
                "https://garden.example/img/sp-1.jpg",
                "https://garden.example/img/sp-1b.jpg",
            ],
        },
        {"sku": "SH-3", "name": "Secateurs", "price": 49.0, "currency": "EUR", "images": []},
    ]
    assert [one.place for one in got.skipped] == ["records[1].price"]


def test_an_api_page_leads_to_the_next_one_by_its_cursor(read, samples, sample_page):
    page = sample_page("stock.json", "https://api.garden.example/stock?limit=3&cursor=old")

    got = read(samples["stock"], page, meta={"warehouse": 7})

    assert got.records == [
        {"sku": "SP-1", "stock": 12},
        {"sku": "RK-2", "stock": 0},
        {"sku": "WB-5", "stock": 0},
    ]
    [link] = got.links
    assert link.url == "https://api.garden.example/stock?limit=3&cursor=eyJhIjoxfQ%3D%3D"
    assert link.meta == {"warehouse": 7, "list_page": 2}


def test_lines_of_json_are_records_as_they_are(read, samples, sample_page):
    got = read(samples["orders"], sample_page("orders.ndjson"))

    assert [record["order"] for record in got.records] == [9007199254740993, 2, 5]
    assert got.records[2]["note"] == "Grüße"
    assert [one.place for one in got.skipped] == ["line 4", "line 5"]


def test_a_table_of_windows_1252_with_decimal_commas(read, samples, sample_page):
    got = read(samples["prices"], sample_page("prices-1252.csv"))

    assert got.records == [
        {
            "sku": "SP-1",
            "name": "Spaten, geölt",
            "price": 1234.5,
            "since": "2026-01-01T00:00:00+00:00",
        },
        {
            "sku": "RK-2",
            "name": 'Rechen "Profi" \N{EN DASH} 3 €',
            "price": 12.5,
            "since": "2026-02-15T00:00:00+00:00",
        },
        {"sku": "WB-5", "name": "Schubkarre", "price": None, "since": None},
    ]
    assert [one.place for one in got.skipped] == ["line 6", "line 8.sku", "line 9.price"]
    assert "'teuer'" in got.skipped[2].why


def test_a_list_of_urls_gives_each_once(read, samples, sample_page):
    got = read(samples["urls"], sample_page("urls.list"))

    assert got.urls == [f"https://garden.example/p/{name}" for name in ("sp-1", "rk-2", "sh-3")]
    assert [one.place for one in got.skipped] == ["line 6"]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (
            "products-utf8.csv",
            [
                {"sku": "SP-1", "name": "Spade", "description": "Forged.\nAsh handle, 1 m"},
                {"sku": "RK-2", "name": "Räke", "description": 'Says "leaf"'},
            ],
        ),
        (
            "stock-utf16.tsv",
            [
                {"sku": "SP-1", "stock": "12", "stock_2": "3"},
                {"sku": "Ω-9", "stock": "0", "stock_2": "0"},
            ],
        ),
    ],
)
def test_a_table_says_by_itself_how_it_is_written(read, sample_page, file, expected):
    assert read(spider("csv"), sample_page(file)).records == expected


def test_a_feed_is_read_as_streams_read_it(read, samples, sample_page):
    feed, *entries = read(samples["blog_items"], sample_page("news.atom")).records

    assert feed["title"]
    assert entries
    assert all(one["id"] and "<" not in one.get("content", "") for one in entries)
