"""Sitemaps, feeds, XML and lists: what sites write, and what they should not."""

import gzip
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.executors import mended
from tests.kit.kernel import ExtractError
from tests.unit.crawling.executors.reading import page, spider

SITEMAP = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</urlset>'


def urlset(*urls):
    return SITEMAP.format("".join(f"<url><loc>{url}</loc></url>" for url in urls))


@pytest.mark.parametrize("pages", [2_000, pytest.param(50_000, marks=pytest.mark.long)])
def test_a_sitemap_of_thousands_of_pages_is_read_whole(read, pages):
    urls = [f"https://garden.example/p/{n}" for n in range(pages)]

    got = read(spider("sitemap", rule="p"), page(gzip.compress(urlset(*urls).encode(), mtime=0)))

    assert got.urls == urls
    assert got.skipped == []


def test_the_pages_of_a_sitemap_are_chosen_by_patterns(read):
    by = spider("sitemap", rule="p", include=["/p/", "/q/"], exclude=[r"\?", "[.]pdf$"])
    paths = ["/p/1", "/q/2", "/r/3", "/p/4?x=1", "/p/5.pdf"]

    got = read(by, page(urlset(*(f"https://garden.example{path}" for path in paths))))

    assert got.urls == ["https://garden.example/p/1", "https://garden.example/q/2"]


def test_what_changed_lately_is_counted_from_now(read):
    dated = "".join(
        f"<url><loc>https://garden.example/{n}</loc><lastmod>{date}</lastmod></url>"
        for n, date in enumerate(["2026-03-09", "2026-03-01", "2026", "last week"])
    )

    got = read(spider("sitemap", rule="p", changed_within_days=2), page(SITEMAP.format(dated)))

    assert got.urls == ["https://garden.example/0", "https://garden.example/3"]


def test_indexes_of_indexes_end(read):
    index = "<sitemapindex><sitemap><loc>/again.xml</loc></sitemap></sitemapindex>"
    meta, levels = {}, 0
    while links := read(spider("sitemap", rule="p"), page(index), meta=meta).links:
        meta, levels = links[0].meta, levels + 1

    assert levels == 3


def test_a_sitemap_may_come_with_white_space_and_in_several_gzip_members(read):
    text = ("\r\n  <?xml version='1.0'?>" + urlset("https://garden.example/1")).encode()
    packed = gzip.compress(text[:60], mtime=0) + gzip.compress(text[60:], mtime=0) + b"\0" * 512

    assert read(spider("sitemap", rule="p"), page(packed)).urls == ["https://garden.example/1"]


SHOP_SITEMAP = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
  <!-- made by a shop that escapes nothing & knows nothing of it -->
  <url><loc>https://garden.example/index.php?route=product&product_id=41</loc>
    <lastmod>2026-03-01</lastmod></url>
  <url><loc>https://garden.example/?a=1&amp;b=2&#38;c=3&copy=4</loc></url>
  <url><loc><![CDATA[https://garden.example/?x=1&y=2&amp;z=3]]></loc>
    <image:image><image:loc>https://garden.example/i?w=1&h=2</image:loc>
      <image:title>Café&eacute; &nbsp;& Bar</image:title></image:image></url>
  <url><loc>https://garden.example/last?q=a&</loc></url>
</urlset>
"""


@pytest.mark.parametrize("packed", [False, True])
def test_a_sitemap_with_bare_ampersands_is_read_whole(read, packed):
    body = SHOP_SITEMAP.encode()

    got = read(
        spider("sitemap", rule="p", records=True),
        page(gzip.compress(body, mtime=0) if packed else body),
    )

    assert got.urls == [
        "https://garden.example/index.php?route=product&product_id=41",
        "https://garden.example/?a=1&b=2&c=3&copy=4",
        "https://garden.example/?x=1&y=2&amp;z=3",
        "https://garden.example/last?q=a&",
    ]
    (image,) = got.records[2]["images"]
    assert image == {"loc": "https://garden.example/i?w=1&h=2", "title": "Caféé \xa0& Bar"}
    assert got.skipped == []


@given(st.lists(st.integers(1, 40)))
def test_a_document_is_mended_alike_however_it_is_cut(sizes):
    whole = SHOP_SITEMAP.encode()
    cuts = list(accumulate(sizes, initial=0))
    chunks = [whole[a:b] for a, b in zip(cuts, [*cuts[1:], len(whole)], strict=True)]

    assert b"".join(mended(iter(chunks))) == b"".join(mended(iter([whole])))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8", "shift_jis"])
def test_what_is_well_formed_stays_as_it_is_when_it_is_mended(encoding):
    text = "<a>ア&amp;b&#38;&#x26;&lt;<![CDATA[a&b;]]><!-- c --></a>"

    assert b"".join(mended(iter([text.encode(encoding)]))) == text.encode(encoding)


def test_a_document_whose_encoding_shifts_is_not_touched():
    text = "<a>あい&</a>".encode("iso2022_jp")

    assert b"".join(mended(iter([text]))) == text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "page: is empty"),
        ("<html><body>Not found</body></html>", "page: is no sitemap: its root is 'html'"),
        ("User-agent: *", "page: no well-formed XML"),
        (urlset("https://garden.example/1")[:-5], "page: no well-formed XML"),
        (gzip.compress(urlset("https://garden.example/1").encode(), mtime=0)[:-12], "broken gzip"),
        (b"\x1f\x8bnot really", "page: broken gzip"),
    ],
)
def test_what_is_no_sitemap_says_why(read, body, why):
    with pytest.raises(ExtractError, match=why):
        read(spider("sitemap", rule="p"), page(body))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Caf&eacute; & Bar&nbsp;1", "Café & Bar\xa01"),
        ("a &unknown; b", "a &unknown; b"),
        ("Ring\x07ing", "Ringing"),
        ("<![CDATA[5 < 6]]> & more", "5 < 6 & more"),
    ],
)
def test_a_feed_that_is_no_xml_is_mended(read, text, title):
    feed = (
        f"<rss version='2.0'><channel><item><title>{text}</title>"
        "<link>https://a.example/?a=1&b=2</link></item></channel></rss>"
    )

    [entry] = read(spider("feed"), page(feed)).records

    assert entry["title"] == title
    assert entry["link"] == "https://a.example/?a=1&b=2"


def test_a_feed_says_its_encoding_like_any_page(read):
    text = "<?xml version='1.0' encoding='windows-1251'?>"
    text += "<rss version='2.0'><channel><item><title>Сад</title></item></channel></rss>"

    for encoding, kind in (
        ("cp1251", "application/rss+xml"),
        ("utf-8-sig", ""),
        ("utf-16", ""),
    ):
        [entry] = read(spider("feed"), page(text.encode(encoding), content_type=kind)).records
        assert entry["title"] == "Сад"


def test_rdf_and_old_feeds_are_feeds(read):
    rdf = (
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        '<item rdf:about="urn:1"><title>One</title><dc:date>2026-03-05</dc:date></item></rdf:RDF>'
    )
    old = (
        '<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" '
        '"http://my.netscape.com/publish/formats/rss-0.91.dtd">'
        '<rss version="0.91"><channel><item><title>Two</title></item></channel></rss>'
    )

    [one] = read(spider("feed"), page(rdf)).records
    [two] = read(spider("feed"), page(old)).records

    assert (one["title"], one["published"]) == ("One", "2026-03-05T00:00:00+00:00")
    assert two["title"] == "Two"


@pytest.mark.parametrize("body", ["", "<html><body><p>Hello</body></html>", "plain text", "{}"])
def test_what_is_no_feed_is_an_error(read, body):
    with pytest.raises(ExtractError, match="page: "):
        read(spider("feed"), page(body))


def test_a_feed_gives_links_alone_where_entries_are_not_wanted(read):
    feed = "<rss version='2.0'><channel>{}</channel></rss>".format(
        "".join(f"<item><link>https://a.example/{n}</link></item>" for n in range(5))
    )

    got = read(spider("feed", rule="p", records=False, max_entries=3), page(feed))

    assert got.urls == [f"https://a.example/{n}" for n in range(3)]
    assert [str(one) for one in got.skipped] == ["entry 3: follows 3 entries"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("list/group/r", ["1", "2"]),
        ("/list/group/r", ["1", "2"]),
        ("list/*/r", ["1", "2", "4"]),
        ("//r", ["1", "2", "4", "5"]),
        ("//other/r", ["4"]),
        ("list/r", ["5"]),
        ("group/r", []),
    ],
)
def test_records_of_xml_are_found_by_their_path(read, path, expected):
    body = (
        "<l:list xmlns:l='urn:l'><l:group><r><n>1</n></r><r><n>2<r><n>3</n></r></n></r></l:group>"
        "<other><r><n>4</n></r></other><r><n>5</n></r></l:list>"
    )

    got = read(spider("xml", records=path, fields={"n": {"xpath": "n/text()"}}), page(body))

    assert [record["n"] for record in got.records] == expected


def test_an_xml_file_of_any_size_takes_little_memory(read):
    import tracemalloc

    record = "<r id='{}'><name>Product {} &amp; " + "more " * 200 + "</name></r>\n"
    body = page("<x>" + "".join(record.format(n, n) for n in range(4_000)) + "</x>")
    by = spider("xml", records="x/r", fields={"id": {"xpath": "@id", "type": "integer"}})
    tracemalloc.start()
    try:
        total = sum(record["id"] for record in read.stream(by, body))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert total == sum(range(4_000))
    assert len(body.body) > 4_000_000
    assert peak < 3_000_000


def test_the_charset_of_the_answer_counts_where_xml_says_nothing(read):
    by = spider("xml", records="x/r", fields={"v": {"xpath": "."}})

    for body, kind in (
        ("<x><r>é</r></x>".encode("latin-1"), "text/xml; charset=ISO-8859-1"),
        ("<?xml version='1.0' encoding='latin1'?><x><r>é</r></x>".encode("latin-1"), ""),
        ("<x><r>é</r></x>".encode("utf-16"), ""),
        ("<x><r>é</r></x>".encode(), ""),
        ("\ufeff<x><r>é</r></x>".encode(), "text/xml; charset=ISO-8859-1"),
        ("\ufeff\n<?xml version='1.0' encoding='latin1'?><x><r>é</r></x>".encode(), ""),
    ):
        assert read(by, page(body, content_type=kind)).records == [{"v": "é"}]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"css": "a.next"}, "https://garden.example/?p=2"),
        ({"xpath": "//a[@class='next']"}, "https://garden.example/?p=2"),
        ({"xpath": "//a[@class='next']/@href"}, "https://garden.example/?p=2"),
        ({"xpath": "string(//a[@class='next']/@href)"}, "https://garden.example/?p=2"),
        ({"regex": r'data-next="(\d+)"'}, "https://garden.example/3"),
        ({"css": "a.self"}, None),
        ({"css": "a.gone"}, None),
    ],
)
def test_the_next_page_is_found_by_any_selector(read, selector, expected):
    by = spider(
        "paginated_list", items={"css": "li"}, fields={"t": {"css": "b"}}, next_page=selector
    )
    body = (
        '<li><b>x</b></li><a class="next" href="?p=2#top">2</a><a class="self" href="#">1</a>'
        '<i data-next="3"></i>'
    )

    got = read(by, page(body, "https://garden.example/"))

    assert got.urls == ([expected] if expected else [])


def test_a_list_ends_after_as_many_pages_as_it_may_have(read):
    by = spider(
        "paginated_list",
        items={"css": "li"},
        fields={"t": {"css": "b"}},
        next_page={"css": "a"},
        max_pages=3,
    )
    body = page('<li><b>x</b></li><a href="?p=next">more</a>')

    numbers = [len(read(by, body, meta={"list_page": n}).links) for n in (1, 2, 3, 4)]

    assert numbers == [1, 1, 0, 0]


def test_a_next_page_that_is_no_link_is_reported(read):
    by = spider(
        "paginated_list",
        items={"css": "li"},
        fields={"t": {"css": "b"}},
        next_page={"css": "a"},
    )

    got = read(by, page('<li><b>x</b></li><a href="javascript:more()">more</a>'))

    assert got.links == []
    assert got.skipped[0].place == "next_page"


def test_a_rule_for_links_works_inside_an_executor_too(read):
    by = spider(
        "detail",
        fields={"t": {"css": "h1"}},
        follow=[{"css": "nav a", "rule": "p"}, {"css": ".more", "pagination": True}],
    )
    body = '<h1>x</h1><nav><a href="/1">1</a></nav><a class="more" href="?p=2">2</a>'

    got = read(by, page(body), rule="it", meta={"list_page": 4})

    assert [(link.url, link.rule, link.depth) for link in got.links] == [
        ("https://garden.example/1", "p", 1),
        ("https://garden.example/x?p=2", "it", 0),
    ]
    assert got.links[1].meta == {"list_page": 5}


def test_what_is_no_list_of_urls_gives_no_links_of_its_lines(read):
    body = page(
        '<?xml version="1.0"?>\n<urlset>\n<loc>https://a.example/1</loc>\nnot a link\n"/q"\n/right'
    )

    got = read(spider("url_list", rule="p"), body)

    assert got.urls == ["https://garden.example/right"]
    assert [one.place for one in got.skipped] == [f"line {n}" for n in range(1, 6)]
    assert "'<?xml" in got.skipped[0].why


def test_a_list_of_urls_says_what_is_a_comment_and_what_is_bad(read):
    body = page("// list\r\nhttps://a.example/1 // one\nhttps://a.example/#2\n\nftp://a.example/\n")

    got = read(spider("url_list", rule="p", comment="//"), body)

    assert got.urls == ["https://a.example/1", "https://a.example/"]
    assert [one.place for one in got.skipped] == ["line 5"]
    with pytest.raises(ExtractError, match=r"^line 5: "):
        read(spider("url_list", rule="p", comment="//", bad_rows="fail"), body)
    assert len(read(spider("url_list", rule="p", max_urls=1), body).links) == 1
