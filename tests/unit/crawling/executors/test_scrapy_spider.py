"""A Scrapy spider read as an executor: its callbacks over pages that a worker has downloaded."""

import json
import sys
import types

import msgspec
import pytest
import scrapy
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from tests.kit.config import LARGEST_SEED, Spider
from tests.kit.executors import Registry, SpiderExecutors, check_spider
from tests.kit.frontier import SeedSpec
from tests.kit.kernel import ExtractError
from tests.kit.requests import SCRAPY_META, Body, Link, Page, Skipped

HTML = b"""<html><body><h1>Lamps</h1>
<a class=item href="/lamp/1?b=2">one</a> <a class=item href="/lamp/2#top">two</a>
<a href="https://elsewhere.example/">out</a> <a href="mailto:me@shop.example">mail</a>
</body></html>"""


class Lamp(scrapy.Item):
    name = scrapy.Field()
    page = scrapy.Field()


class ShopSpider(scrapy.Spider):
    name = "shop"
    allowed_domains = ("shop.example",)

    def __init__(self, lang="en", **options):
        super().__init__(**options)
        self.lang = lang

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            if not link.startswith("mailto:"):
                yield response.follow(
                    link,
                    self.parse_lamp,
                    cb_kwargs={"list_page": Lamp(name=response.css("h1::text").get())},
                    meta={"at": (1, b"x")},
                    headers={"Accept-Language": self.lang},
                    cookies={"seen": "1"},
                    priority=3,
                )
        yield {"title": response.css("h1::text").get(), "depth": response.meta["depth"]}

    def parse_lamp(self, response, list_page):
        assert response.meta["at"] == (1, b"x")
        yield Lamp(name=response.url, page=list_page["name"])
        yield None

    async def parse_async(self, response):
        for number in range(2):
            yield {"number": number, "tags": {"b", "a"}}

    async def parse_coroutine(self, response):
        return [{"number": 7}]

    async def parse_waiting(self, response):
        import asyncio

        await asyncio.sleep(1)
        yield {}

    def parse_one(self, response):
        return {"one": response.request.url, "was": response.meta.get("redirect_urls")}

    def parse_posting(self, response):
        yield {"kept": True}
        yield scrapy.Request("https://shop.example/", method="POST", body=b"\xff")
        yield scrapy.Request("https://shop.example/x", callback=lambda response: None)
        yield {"bad": object()}
        yield 17

    def parse_searching(self, response):
        for words in ("lamp", "tool"):
            form = {"q": words}
            yield scrapy.FormRequest(response.url, formdata=form, callback=self.parse_found)

    def parse_found(self, response):
        return {"asked": response.request.body.decode(), "by": response.request.method}

    def parse_again(self, response):
        yield scrapy.Request(response.url, callback=self.parse_again, dont_filter=True)
        for turn in (1, 1, 2):
            kept = {"turn": turn}
            yield scrapy.Request(response.url, self.parse_one, dont_filter=True, cb_kwargs=kept)
        yield scrapy.Request(response.url, callback=self.parse_one)
        yield scrapy.Request(response.url, callback=self.parse_again)

    def parse_counting(self, response):
        self.pages = getattr(self, "pages", 0) + 1
        return {"pages": self.pages}

    def parse_failing(self, response):
        yield {"kept": True}
        raise KeyError("price")


class RuledSpider(CrawlSpider):
    name = "ruled"
    rules = (Rule(LinkExtractor(restrict_css=".item"), callback="parse_item", follow=False),)

    def parse_item(self, response):
        yield {"url": response.url, "text": response.meta["link_text"]}


@pytest.fixture(autouse=True)
def _shipped(monkeypatch):
    """The operator's package, as a function would carry it."""
    for name in ("spiders", "spiders.shop"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    module = sys.modules["spiders.shop"]
    module.ShopSpider, module.RuledSpider, module.Lamp = ShopSpider, RuledSpider, Lamp
    module.LargeSpider = LargeSpider


executors = SpiderExecutors(Registry(installed=False), rules=None)


def spider(kind="ShopSpider", **parameters):
    return Spider(executor="scrapy", parameters={"spider": f"spiders.shop:{kind}", **parameters})


def read(body=HTML, url="https://shop.example/list", callback=None, depth=0, redirects=(), **said):
    meta = {"from": "client", SCRAPY_META: json.dumps({"callback": callback})} if callback else {}
    page = Page(
        url=url,
        status=200,
        headers={"content-type": "text/html; charset=utf-8", "content-encoding": "gzip"},
        body=body,
        redirects=redirects,
    )
    asked = Body(url=url, rule="shop", rule_version="v", meta=meta, depth=depth)
    return list(executors.read(spider(**said), page, asked))


def test_a_url_alone_is_read_by_parse_and_its_requests_become_links():
    one, two, record = read(arguments={"lang": "de"}, depth=2)

    assert record == {"title": "Lamps", "depth": 2}
    assert isinstance(one, Link)
    assert (one.url, one.rule, one.depth) == ("https://shop.example/lamp/1?b=2", "shop", 3)
    assert one.headers == {"Accept-Language": "de", "Cookie": "seen=1"}
    assert two.url == "https://shop.example/lamp/2"
    carried = json.loads(one.meta[SCRAPY_META])
    assert (carried["callback"], carried["priority"]) == ("parse_lamp", 3)


class LargeSpider(scrapy.Spider):
    name = "large"

    def __init__(self, size="0", letter="x", cookies="0", **options):
        super().__init__(**options)
        self.note, self.cookie = letter * int(size), "c" * int(cookies)

    def parse(self, response):
        cookies = {"seen": self.cookie} if self.cookie else {}
        yield response.follow("/next", cb_kwargs={"note": self.note}, cookies=cookies)


def found_of(**arguments):
    """The one link of a page, or why it is none."""
    [one] = read(kind="LargeSpider", arguments=arguments)
    return one


def size_of(link):
    """The bytes of the offer that a link becomes, its names as long as they may be."""
    return len(
        msgspec.msgpack.encode(
            SeedSpec(
                url=link.url,
                rule="r" * 64,
                depth=link.depth,
                meta=link.meta,
                headers=link.headers,
                job="j" * 64,
                found_by="f" * 32,
            )
        )
    )


def test_a_link_that_is_taken_fits_into_an_offer_and_one_that_does_not_is_reported():
    least, most = 0, LARGEST_SEED
    while most - least > 1:  # how much a callback can be given
        middle = (least + most) // 2
        taken = isinstance(found_of(size=str(middle)), Link)
        least, most = (middle, most) if taken else (least, middle)

    assert LARGEST_SEED - 2_500 < size_of(found_of(size=str(least))) <= LARGEST_SEED
    refused = found_of(size=str(most))
    assert isinstance(refused, Skipped)
    assert "62,000" in refused.why


def test_what_a_link_has_in_headers_and_other_letters_counts_too():
    assert isinstance(found_of(size="1000", cookies=str(LARGEST_SEED - 4_000)), Link)
    assert isinstance(found_of(size="3000", cookies=str(LARGEST_SEED - 4_000)), Skipped)
    assert isinstance(found_of(size="20000", letter="\u3042"), Skipped)


def test_a_link_is_read_by_its_callback_with_what_it_was_given():
    link, *_ = read()

    page = Page(url=link.url, status=200, headers={}, body=b"<h1>1</h1>")
    body = Body(url=link.url, rule="shop", rule_version="v", meta=link.meta, depth=link.depth)

    assert list(executors.read(spider(), page, body)) == [
        {"name": "https://shop.example/lamp/1?b=2", "page": "Lamps"}
    ]


@pytest.mark.parametrize(
    ("callback", "records"),
    [
        ("parse_async", [{"number": n, "tags": ["a", "b"]} for n in range(2)]),
        ("parse_coroutine", [{"number": 7}]),
        ("parse_one", [{"one": "https://shop.example/list", "was": None}]),
    ],
)
def test_callbacks_of_every_kind_are_run_to_their_end(callback, records):
    assert read(callback=callback) == records


def test_after_a_redirect_the_request_is_the_one_that_was_asked_for():
    was = ("https://shop.example/old",)

    assert read(callback="parse_one", redirects=was) == [{"one": was[0], "was": list(was)}]


@pytest.mark.parametrize(
    ("host", "followed"),
    [
        ("shop.example:8080", True),
        ("SHOP.example", True),
        ("www.shop.example:8080", True),
        ("notshop.example", False),
        ("shop.example.evil.example", False),
        ("shop.example@evil.example", False),
    ],
)
def test_the_domains_of_a_spider_hold_whatever_the_port(host, followed):
    page = f'<h1>x</h1><a href="http://{host}/lamp">x</a>'.encode()

    links = [each for each in read(page) if isinstance(each, Link)]

    assert len(links) == followed


def test_what_can_be_no_link_and_no_record_is_left_out_and_reported():
    kept, post, nameless, bad, number = read(callback="parse_posting")

    assert kept == {"kept": True}
    assert all(isinstance(each, Skipped) for each in (post, nameless, bad, number))
    assert "has a body that is no text of UTF-8" in post.why
    assert "no method" in nameless.why
    assert (bad.place, "object" in bad.why) == ("bad", True)
    assert "builtins.int" in number.why


def test_a_form_is_a_link_whose_callback_is_given_the_answer_to_that_post():
    first, other = read(callback="parse_searching")

    assert (first.method, first.body, other.body) == ("POST", "q=lamp", "q=tool")
    assert first.headers["Content-Type"] == "application/x-www-form-urlencoded"
    page = Page(url=first.url, status=200, headers={}, body=b"<p>found</p>")
    asked = {"method": first.method, "body": first.body, "meta": first.meta}
    body = Body(url=page.url, rule="shop", rule_version="v", depth=1, **asked)
    assert list(executors.read(spider(), page, body)) == [{"asked": "q=lamp", "by": "POST"}]


def test_a_request_with_dont_filter_is_a_link_to_be_repeated_and_no_other_is():
    links = read(callback="parse_again")

    # Scrapy would ask twice for what is said twice in every respect; here that is one.
    assert [link.repeat for link in links] == [True, True, True, False]
    assert len({link.identity for link in links}) == 4


def test_rules_of_a_crawl_spider_give_links_for_its_callbacks():
    links = read(kind="RuledSpider")
    assert [link.url for link in links] == [
        "https://shop.example/lamp/1?b=2",
        "https://shop.example/lamp/2",
    ]

    page = Page(url=links[0].url, status=200, headers={}, body=b"<h1>1</h1>")
    body = Body(url=page.url, rule="shop", rule_version="v", meta=links[0].meta, depth=1)
    found = list(executors.read(spider(kind="RuledSpider"), page, body))

    assert found == [{"url": page.url, "text": "one"}]


def test_settings_say_how_deep_it_goes():
    assert len(read(settings={"DEPTH_LIMIT": 1}, depth=0)) == 3
    assert read(settings={"DEPTH_LIMIT": 1}, depth=1) == [{"title": "Lamps", "depth": 1}]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"callback": "parse_failing"}, "KeyError: 'price'"),
        ({"callback": "parse_waiting"}, "awaited|event loop"),
        ({"callback": "parse_nothing"}, "has no method 'parse_nothing'"),
        ({"callback": "name"}, "has no method 'name'"),
        ({"callback": "__init__"}, "meta.scrapy.callback: '__init__' .* is no callback"),
        ({"callback": "from_crawler"}, "has no method|is no callback"),
        ({"kind": "Lamp"}, "is no Scrapy spider"),
        ({"kind": "Nobody"}, "is no Scrapy spider"),
    ],
)
def test_what_is_wrong_is_named(said, message):
    with pytest.raises(ExtractError, match=message):
        read(**said)


def test_each_tenant_and_biz_has_a_spider_object_of_its_own():
    page = Page(url="https://shop.example/", status=200, headers={}, body=HTML)
    meta = {SCRAPY_META: json.dumps({"callback": "parse_counting"})}
    body = Body(url=page.url, rule="shop", rule_version="v", meta=meta)
    shared = spider()

    def counted(*owner):
        [record] = executors.read(shared, page, body, owner=owner)
        return record["pages"]

    assert [counted("a", "shop"), counted("a", "shop"), counted("a", "books")] == [1, 2, 1]
    assert [counted("b", "shop"), counted("a", "shop"), counted("b", "shop")] == [1, 3, 2]


def test_a_configuration_cannot_import_what_the_operator_did_not_name():
    foreign = Spider(executor="scrapy", parameters={"spider": "os:system"})

    [problem] = check_spider(foreign)
    assert problem.field == "parameters.spider"
    assert "'os'" in problem.message
    page = Page(url="https://shop.example/", status=200, headers={}, body=b"")
    with pytest.raises(ExtractError, match="operator's packages"):
        list(executors.read(foreign, page, Body(url=page.url, rule="r", rule_version="v")))


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({}, "parameters.spider"),
        ({"spider": "spiders.shop"}, "parameters.spider"),
        ({"spider": "spiders.shop:S", "settings": {"lower": 1}}, "parameters.settings"),
        ({"spider": "spiders.shop:S", "callback": "parse"}, "parameters.callback"),
    ],
)
def test_parameters_match_what_is_declared(parameters, field):
    problems = check_spider(Spider(executor="scrapy", parameters=parameters))

    assert [problem.field[: len(field)] for problem in problems] == [field]
