import time

import msgspec
import pytest

from tests.kit.config import Rule
from tests.kit.extract import Addresses, RuleExtractor
from tests.kit.kernel import ExtractError
from tests.kit.requests import Page
from tests.unit.crawling.extract.test_check_rule import problems

pytestmark = pytest.mark.measured

EXTRACTOR = RuleExtractor()
PAGE = b"""<title>Tools</title><h1 class=category>Garden</h1>
<a href="/nut?id=1#top">nut</a> <a href="nut?id=1">again, from the folder</a>
<a href="/nut?id=1">again</a> <a href="//img.shop.example/x">site</a>
<a href="https://other.example/8" rel="noopener NoFollow">other</a>
<a href="https://Other.Example">other</a> <a href="mailto:me@shop.example">mail</a>
<a href="#top">top</a> <a href="javascript:go()">go</a> <a>none</a> <a href="">empty</a>
<a href="http://[broken">broken</a> <a href="ftp://shop.example/">ftp</a>
<a href="/logout">log out</a> <a class=next href="?page=2">next</a>"""


def harvest(follow, body=PAGE, depth=0, meta=None, url="https://shop.example/a/b", **rule):
    headers = {"content-type": "text/html", **rule.pop("headers", {})}
    page = Page(url=url, status=200, headers=headers, body=body)
    follow = [follow] if isinstance(follow, dict) else follow
    converted = msgspec.convert({"follow": follow, **rule}, Rule)
    return EXTRACTOR.harvest(converted, page, depth, meta)


def urls(*arguments, **more):
    return [link.url for link in harvest(*arguments, **more).links]


ALL = {"css": "a[href]", "domains": "any"}


def test_links_are_absolute_without_fragment_in_the_pages_order_and_once():
    assert urls(ALL) == [
        "https://shop.example/nut?id=1",
        "https://shop.example/a/nut?id=1",
        "https://img.shop.example/x",
        "https://other.example/",
        "https://shop.example/logout",
        "https://shop.example/a/b?page=2",
    ]


@pytest.mark.parametrize("source", ["html", "xml"])
def test_links_are_found_by_xpath_as_elements_and_as_attributes(source):
    body = b'<r><a href="/1"/><a href="/2" rel="nofollow"/><url>/3</url></r>'

    def of(path):
        return urls({"xpath": path}, body, source=source)

    assert of("//a") == ["https://shop.example/1"]
    assert of("//a/@href") == ["https://shop.example/1", "https://shop.example/2"]
    assert of("//url/text()") == ["https://shop.example/3"]


def test_links_are_found_in_json_and_in_any_text():
    body = b'{"next": "/list?page=2", "items": [{"id": 7}, {"id": 8}, {"id": null}]}'

    assert urls({"json": "$.next"}, body, source="json") == ["https://shop.example/list?page=2"]
    assert urls(
        {"json": "$.items[*].id", "transforms": [{"prefix": "/item/"}]}, body, source="json"
    ) == ["https://shop.example/item/7", "https://shop.example/item/8"]
    assert urls({"regex": r"https?://\S+"}, b"see https://shop.example/x now", source="text") == [
        "https://shop.example/x"
    ]


def test_links_are_found_in_structured_data_and_in_other_attributes():
    body = b"""<script type="application/ld+json">{"itemListElement": [{"url": "/p/1"}]}</script>
    <button onclick="show(17)">more</button><button onclick="hide()">less</button>"""

    assert urls({"structured": "json_ld", "json": "$..url"}, body) == ["https://shop.example/p/1"]
    assert urls(
        {
            "css": "button",
            "attribute": "onclick",
            "regex": r"show\((\d+)\)",
            "transforms": [{"prefix": "/show/"}],
        },
        body,
    ) == ["https://shop.example/show/17"]


@pytest.mark.parametrize(
    ("domains", "hosts"),
    [
        ("same_host", {"shop.example"}),
        ("same_site", {"shop.example", "img.shop.example"}),
        ("any", {"shop.example", "img.shop.example", "other.example"}),
        (["other.example"], {"other.example"}),
        (["shop.example"], {"shop.example", "img.shop.example"}),
        (["op.example"], set()),
    ],
)
def test_links_lead_no_further_than_their_domains(domains, hosts):
    found = urls({"css": "a", "domains": domains})

    assert {url.split("/")[2] for url in found} == hosts


def test_links_match_one_pattern_that_is_allowed_and_none_that_is_denied():
    follow = {"css": "a", "allow": ["[?]id=", "(?i)LOGOUT"], "deny": ["log.?out$", "/a/"]}

    assert urls(follow) == ["https://shop.example/nut?id=1"]


def test_links_are_a_level_deeper_and_end_at_their_depth():
    follow = {"css": ".next", "max_depth": 3, "rule": "detail"}

    [link] = harvest(follow, depth=2).links

    assert (link.depth, link.rule) == (3, "detail")
    assert urls(follow, depth=3) == []


def test_further_pages_lie_as_deep_and_are_counted():
    follow = {"css": ".next", "pagination": True, "max_pages": 3, "max_depth": 0}

    [second] = harvest(follow, depth=2, meta={"job": "x"}).links
    [third] = harvest(follow, depth=2, meta=second.meta).links

    assert (second.depth, second.meta) == (2, {"job": "x", "list_page": 2})
    assert third.meta == {"job": "x", "list_page": 3}
    assert urls(follow, depth=2, meta=third.meta) == []
    assert urls(follow, meta={"list_page": "x"}) == ["https://shop.example/a/b?page=2"]


def test_a_page_does_not_lead_to_itself_unless_another_rule_is_to_read_it():
    body = b'<a href="/a/b#top"></a>'

    assert urls({"css": "a"}, body) == []
    assert urls({"css": "a", "rule": "detail"}, body) == ["https://shop.example/a/b"]


def test_one_link_may_be_read_by_two_rules():
    follows = [{"css": ".next", "rule": "list"}, {"css": "a", "rule": "detail", "allow": ["page="]}]

    found = harvest(follows).links

    assert [(link.rule, link.url) for link in found] == [
        ("list", "https://shop.example/a/b?page=2"),
        ("detail", "https://shop.example/a/b?page=2"),
    ]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'<meta name="robots" content="index, NoFollow">', {}),
        (b"<META CONTENT='none' NAME='ROBOTS'>", {}),
        (b"", {"x-robots-tag": "noindex, nofollow"}),
    ],
)
def test_a_page_that_asks_for_it_is_not_followed_unless_one_insists(body, headers):
    body += b"<a href=/x></a>"

    assert urls({"css": "a"}, body, headers=headers) == []
    assert urls({"css": "a", "obey_nofollow": False}, body, headers=headers) != []


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'<meta name="robots" content="noindex">', {}),
        (b'<meta name="googlebot" content="nofollow"><p>robots', {}),
        (b"", {"x-robots-tag": "otherbot: nofollow"}),
    ],
)
def test_what_is_asked_of_others_counts_for_them(body, headers):
    assert urls({"css": "a"}, body + b"<a href=/x></a>", headers=headers) != []


def test_links_that_ask_not_to_be_followed_may_be_all_the_same():
    assert "https://other.example/8" in urls({**ALL, "obey_nofollow": False})


def test_links_take_fields_of_the_page_along():
    follow = {
        "css": ".next",
        "meta": {"category": {"css": "h1"}, "title": {"css": "title", "transforms": ["upper"]}},
    }

    [link] = harvest(follow).links

    assert link.meta == {"category": "Garden", "title": "TOOLS"}


def test_what_links_take_along_is_small():
    follow = {"css": "a", "meta": {"text": {"css": "p"}}}

    with pytest.raises(ExtractError, match=r"follow\[0\].*2,000 bytes"):
        harvest(follow, b"<a href=/x></a><p>" + b"x" * 3_000)


def test_a_page_gives_a_bounded_number_of_links():
    body = b"".join(b"<a href=/%d></a>" % n for n in range(12_000))

    assert len(urls({"css": "a"}, body)) == 1_000
    assert urls({"css": "a", "limit": 2}, body) == [
        "https://shop.example/0",
        "https://shop.example/1",
    ]
    assert len(urls([{"css": "a", "rule": "x"}, {"css": "a", "rule": "y"}], body)) == 1_000


@pytest.mark.parametrize(
    "body",
    [
        b"<a href='" + b"/" * 100_000 + b"'>" * 9,
        b"<a href='" + b"../" * 2_000 + b"'>" * 1_000,
        b"".join(b"<a href='../%d/../../%d e'></a>" % (n, n) for n in range(9_999)),
        b"".join(b"<a href='http://%d.example/'></a>" % n for n in range(9_999)),
        b"<base href='http://" + b"a" * 100_000 + b"'>" + b"<a href=x></a>" * 9_999,
        "<a href='http://ü.example/é'></a>".encode() * 9_999,
    ],
    ids=lambda body: repr(body[:18]),
)
def test_hostile_links_cost_little(body):
    began = time.process_time()

    found = urls({"css": "a", "domains": "same_site", "deny": ["(x+x+)+y"]}, body)

    assert time.process_time() - began < 12
    assert all(len(url) <= 8_000 for url in found)


@pytest.mark.parametrize(
    ("link", "url"),
    [
        (" /a b ", "https://shop.example/a%20b"),
        ("/\u00e9?q=\u00fc", "https://shop.example/%C3%A9?q=%C3%BC"),
        ("https://b\u00fccher.example/", "https://xn--bcher-kva.example/"),
        ("/a%20b", "https://shop.example/a%20b"),
        ("./x/../y", "https://shop.example/a/y"),
        ("/x/./y/../z", "https://shop.example/x/z"),
        ("?c=d", "https://shop.example/a/b?c=d"),
        ("HTTPS://Other.example:8443/X?Y#z", "https://other.example:8443/X?Y"),
        ("https://other.example?x", "https://other.example/?x"),
        ("/a\n b", "https://shop.example/a%20b"),
        ("https://me:pw@other.example/", None),
        ("https://127.1/", None),
        ("https://other.example:99999/", None),
        ("//", "https://shop.example/a/b"),
        ("/" + "x" * 8_000, None),
        ("file:///etc/passwd", None),
    ],
)
def test_a_link_is_made_a_url_that_can_be_requested(link, url):
    assert Addresses("https://Shop.example/a/b").of(link) == url


@pytest.mark.parametrize(
    ("follow", "wrong"),
    [
        ({}, ""),
        ({"css": "a["}, ".css"),
        ({"json": "$.a"}, ".json"),
        ({"css": "a", "allow": ["x", "("]}, ".allow[1]"),
        ({"css": "a", "deny": ["(?!a)"]}, ".deny[0]"),
        ({"css": "a", "transforms": [{}]}, ".transforms[0]"),
        ({"css": "a", "meta": {"x": {"css": "["}}}, ".meta.x.css"),
    ],
)
def test_error_is_named_where_it_is(follow, wrong):
    assert problems({"follow": [follow]}) == [f"rules.shop.follow[0]{wrong}"]


def test_a_rule_that_gives_nothing_is_a_error_and_one_that_only_follows_is_none():
    assert problems({}) == ["rules.shop.fields"]
    assert problems({"follow": [{"css": "a"}]}) == []
    assert harvest({"css": "a"}).records == ()


def test_a_field_that_cannot_be_read_takes_the_links_with_it():
    with pytest.raises(ExtractError) as error:
        harvest({"css": "a"}, fields={"x": {"css": "h9", "required": True}})

    assert error.value.field == "x"
