"""Scrapy's requests and items as JSON, and back."""

import dataclasses
import json
import sys
import types
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import FormRequest, JsonRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.selector import Selector
from scrapy.settings import Settings
from scrapy.spiders import CrawlSpider, SitemapSpider

from tests.kit.executors import (
    NotPortableError,
    dump_request,
    fields_of_dict,
    item_fields,
    load_request,
    request_of,
)


class Lamp(scrapy.Item):
    name = scrapy.Field()
    parts = scrapy.Field()


@dataclasses.dataclass
class Part:
    name: str
    lamp: Lamp | None = None


class OwnRequest(scrapy.Request):
    attributes = (*scrapy.Request.attributes, "mood")

    def __init__(self, *args, mood=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.mood = mood


class ShopSpider(scrapy.Spider):
    name = "shop"
    asked: list[str] = []  # noqa: RUF012  what was looked up that must not be

    def found(self, response):
        """A callback."""

    def failed(self, failure):
        """An errback."""

    def _detail(self, response):
        """A callback that settings have to name."""

    @property
    def opened(self):
        self.asked.append("opened")
        return self.found


spider = ShopSpider()


class CrawlingSpider(CrawlSpider, ShopSpider):
    name = "crawling"

    def process_results(self, response, results):
        return results


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.datetimes(timezones=st.just(UTC) | st.none()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3) | st.just("$") | st.integers(), inner, max_size=3)
        | st.sets(st.integers() | st.binary(), max_size=3)
        | st.builds(Part, st.text(), st.builds(Lamp, name=inner))
    ),
    max_leaves=10,
)


def there_and_back(request):
    return load_request(dump_request(request, spider), spider)


@given(st.dictionaries(st.text(), values, max_size=4), st.binary(max_size=20), st.integers(-9, 9))
def test_a_request_comes_back_as_it_was(said, body, priority):
    request = scrapy.Request(
        "https://shop.example/é?q=1",
        spider.found,
        method="PUT",
        errback=spider.failed,
        headers={"Accept": ["a", "b"], "X-Raw": b"\xff"},
        body=body,
        cookies=[{"name": "a", "value": "b"}],
        meta=said,
        cb_kwargs=said,
        priority=priority,
        dont_filter=True,
        flags=["f"],
    )

    back = there_and_back(request)

    for name in request.attributes:
        assert getattr(back, name) == getattr(request, name)


@pytest.mark.parametrize(
    "request_",
    [
        FormRequest("https://shop.example/", formdata={"q": "é"}),
        JsonRequest("https://shop.example/", data={"a": [1]}),
        OwnRequest("https://shop.example/", mood={"good": (1,)}),
    ],
    ids=lambda request: type(request).__name__,
)
def test_requests_of_other_classes_keep_them(request_):
    back = there_and_back(request_)

    assert type(back) is type(request_)
    assert (back.method, back.body, back.headers) == (
        request_.method,
        request_.body,
        request_.headers,
    )
    assert getattr(back, "mood", None) == getattr(request_, "mood", None)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"meta": {"a": [{"sel": Selector(text="<a>")}]}},
            r"meta\['a'\]\[0\]\['sel'\]: JSON cannot",
        ),
        ({"cb_kwargs": {"f": print}}, r"cb_kwargs\['f'\]: JSON cannot hold builtins"),
        ({"meta": {print: 1}}, "meta's key: JSON cannot"),
        ({"meta": {"n": -(10**5_000)}}, r"meta\['n'\]: is a number of thousands of digits"),
        ({"callback": lambda response: None}, "callback: '<lambda>' is no method"),
        ({"callback": NO_CALLBACK}, "callback: 'NO_CALLBACK' is no method"),
        ({"callback": ShopSpider().found}, None),
        ({"errback": print}, "errback: 'print' is no method"),
        ({"meta": {"big": "x" * 2000}}, "has 2,.* bytes, 1,000 is the most"),
    ],
)
def test_what_json_cannot_hold_is_named(said, message):
    request = scrapy.Request("https://shop.example/", **said)

    if message is None:  # a method of another spider of the class: by name it is this one's
        assert dump_request(request, spider)
        return
    with pytest.raises(NotPortableError, match=message):
        dump_request(request, spider, 1000)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (b"junk", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "is no object with a URL"),
        ({"url": 1}, "is no object with a URL"),
        ({"url": "no scheme"}, "Missing scheme"),
        ({"callback": "gone"}, "the spider 'shop' has no method 'gone'"),
        ({"callback": "name"}, "has no method 'name'"),
        ({"callback": "__class__"}, "has no method"),
        ({"callback": "__init__"}, "'__init__' of the spider 'shop' is no callback"),
        ({"callback": "_parse"}, "'_parse' .* is no callback"),
        ({"callback": "_set_crawler"}, "is no callback"),
        ({"callback": "start_requests"}, "is no callback|no method"),
        ({"callback": "_callback"}, "no method"),
        ({"callback": "opened"}, "has no method 'opened'"),
        ({"errback": "__init__"}, "errback: '__init__' .* is no callback"),
        ({"callback": "_detail"}, "public method of its own; CRAWLFLEET_CALLBACKS may name"),
        (
            {"meta": {"a": {"$": ["item", ["tests.unit.scrapy.test_wire:Part.parts", {}]]}}},
            "no such class",
        ),
        ({"_class": "os:system"}, "imported no such class"),
        ({"_class": "builtins:dict"}, "imported no such class"),
        ({"_class": "this_was_never_imported:X"}, "imported no such class"),
        ({"meta": {"a": {"$": ["item", ["subprocess:Popen", {"args": "true"}]]}}}, "no such class"),
        ({"meta": {"a": {"$": ["call", []]}}}, "not as we write it"),
        ({"meta": {"a": {"$": "x"}}}, "not as we write it"),
        ({"meta": {"a": {"$": ["decimal", "x"]}}}, "not as we write it"),
        ({"headers": {"a": 1}}, "not as we write them"),
        ({"priority": "high"}, "not an integer"),
    ],
)
def test_what_is_no_request_of_ours_does_nothing_and_is_named(fields, message):
    if isinstance(fields, dict):
        fields = json.dumps({"url": "https://shop.example/"} | fields)

    with pytest.raises(NotPortableError, match=message):
        load_request(fields, spider)
    assert spider.asked == []


def test_an_item_of_another_package_runs_nothing_when_it_is_read_or_written(monkeypatch):
    made = []
    elsewhere = types.ModuleType("elsewhere")
    monkeypatch.setitem(sys.modules, "elsewhere", elsewhere)

    @dataclasses.dataclass
    class Gadget:
        command: str

        def __post_init__(self):
            made.append(self.command)

    Gadget.__module__, Gadget.__qualname__ = "elsewhere", "Gadget"
    elsewhere.Gadget = Gadget
    said = {"a": {"$": ["item", ["elsewhere:Gadget", {"command": "rm"}]]}}

    with pytest.raises(NotPortableError, match="imported no such class"):
        request_of({"url": "https://shop.example/", "cb_kwargs": said}, spider)

    assert made == []
    with pytest.raises(NotPortableError, match=r"elsewhere.Gadget is no class of Scrapy's items"):
        dump_request(scrapy.Request("https://shop.example/", meta={"a": Gadget("ls")}), spider)


def test_reading_asks_no_module_for_what_it_does_not_have(monkeypatch):
    asked = []
    lazy = types.ModuleType("lazy")
    lazy.__getattr__ = asked.append
    monkeypatch.setitem(sys.modules, "lazy", lazy)

    with pytest.raises(NotPortableError, match="imported no such class"):
        request_of({"url": "https://shop.example/", "_class": "lazy:Request"}, spider)

    assert asked == []


@pytest.mark.parametrize(
    ("kind", "name", "allowed"),
    [
        (ShopSpider, "parse", True),
        (CrawlingSpider, "found", True),
        (CrawlingSpider, "_callback", True),
        (CrawlingSpider, "_errback", True),
        (CrawlingSpider, "parse_start_url", True),
        (SitemapSpider, "_parse_sitemap", True),
        (CrawlingSpider, "process_results", False),
        (CrawlingSpider, "_compile_rules", False),
        (CrawlingSpider, "from_crawler", False),
        (CrawlingSpider, "parse_with_rules", False),
    ],
)
def test_callbacks_are_what_a_project_and_scrapys_own_spiders_call_by_requests(kind, name, allowed):
    its, fields = kind("x"), {"url": "https://shop.example/", "callback": name}

    if allowed:
        assert request_of(fields, its).callback.__name__ == name
        return
    with pytest.raises(NotPortableError, match="callback: "):
        request_of(fields, its)


def test_settings_may_name_callbacks_that_begin_with_an_underscore_and_no_others():
    its = ShopSpider()
    its.settings = Settings({"CRAWLFLEET_CALLBACKS": ["_detail", "__init__", "_set_crawler"]})

    request = scrapy.Request("https://shop.example/", its._detail)
    assert load_request(dump_request(request, its), its).callback == its._detail
    with pytest.raises(NotPortableError, match=r"callback: '_detail'.* is no callback"):
        dump_request(scrapy.Request("https://shop.example/", spider._detail), spider)
    for name in ("__init__", "_set_crawler"):
        with pytest.raises(NotPortableError, match="is no callback"):
            request_of({"url": "https://shop.example/", "callback": name}, its)


def test_an_item_is_a_record_whatever_its_kind():
    at = datetime(2026, 3, 1, tzinfo=UTC)
    item = Lamp(
        name="é",
        parts=[
            Part("bulb", Lamp(name=b"raw")),
            {
                "at": at,
                "on": date(2026, 3, 1),
                "t": time(1),
                "d": Decimal("1.20"),
                "u": UUID(int=1),
            },
            {"b", "a"},
            b"\xff",
        ],
    )

    assert item_fields(item) == {
        "name": "é",
        "parts": [
            {"name": "bulb", "lamp": {"name": "raw"}},
            {
                "at": "2026-03-01T00:00:00+00:00",
                "on": "2026-03-01",
                "t": "01:00:00",
                "d": "1.20",
                "u": "00000000-0000-0000-0000-000000000001",
            },
            ["a", "b"],
            "/w==",
        ],
    }


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (7, "is no item but builtins.int"),
        ({"a": {"b": object()}}, r"a\.b: is a object"),
        ({"a": timedelta(1)}, "a: is a timedelta"),
        ({"a": "x" * 5_000_000}, "larger than"),
    ],
)
def test_what_no_record_can_hold_is_named(item, message):
    with pytest.raises(NotPortableError, match=message):
        item_fields(item)


def test_a_dict_of_scrapys_own_becomes_the_same_request():
    request = FormRequest(
        "https://shop.example/a",
        spider.found,
        formdata={"q": "1"},
        headers={"A": ["1", "2"]},
        meta={"at": (1, 2)},
        priority=4,
    )

    back = request_of(fields_of_dict(request.to_dict(spider=spider)), spider)

    assert back.to_dict(spider=spider) == request.to_dict(spider=spider)
