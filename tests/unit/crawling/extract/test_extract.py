import gc
import subprocess
import sys

import pytest

from tests.kit.config import Field, Rule
from tests.kit.extract import Compiled, RuleExtractor
from tests.kit.kernel import ExtractError
from tests.kit.requests import Page


def one(extract, body, source="html", **field):
    [record] = extract({"source": source, "fields": {"it": field}}, body)
    return record["it"]


ITEM = "li.item"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"css": "title"}, "Nuts & bolts"),
        ({"css": "title", "strip": False}, " Nuts & bolts "),
        ({"css": "h7"}, None),
        ({"css": "h7", "default": "none"}, "none"),
        ({"css": "h7", "list": True}, []),
        ({"css": ".tag", "list": True}, ["steel", "M4"]),
        ({"css": ITEM, "count": True}, 3),
        ({"css": ITEM, "regex": "EUR", "count": True}, 2),
        ({"css": ITEM, "attribute": "data-id", "type": "integer", "list": True}, [7, 8]),
        ({"css": "input", "attribute": "disabled"}, ""),
        ({"css": "h1", "take": "html"}, "<h1>Nuts</h1>"),
        ({"css": "a i", "take": "inner_html"}, "nut"),
        ({"css": ".price", "regex": "EUR (.*)", "type": "number", "list": True}, [1234.5, 0.75]),
        ({"css": "time", "attribute": "datetime", "type": "date"}, "2024-03-05T00:00:00+00:00"),
        ({"xpath": "//h1"}, "Nuts"),
        ({"xpath": "//a/@href", "list": True}, ["nut?id=7#top", "https://other.example/8"]),
        ({"xpath": "//h1/text()"}, "Nuts"),
        ({"xpath": "count(//li)", "type": "integer"}, 3),
        ({"xpath": "1 div 2", "type": "number"}, 0.5),
        ({"xpath": "boolean(//li)", "type": "boolean"}, True),
        ({"xpath": "string(//li/@data-id)"}, "7"),
        (
            {"xpath": "//li[2]/a", "take": "html"},
            '<a href="https://other.example/8">Wing <i>nut</i></a>',
        ),
        ({"xpath": "//li[2]/a", "take": "inner_html"}, "Wing <i>nut</i>"),
        ({"xpath": "//li", "count": True}, 3),
        ({"regex": r"data-id=.(\d)", "list": True, "type": "integer"}, [7, 8]),
        ({"fact": "url"}, "https://shop.example/a/b"),
        ({"fact": "url", "regex": "/([^/]*)$"}, "b"),
        ({"fact": "status", "type": "integer"}, 200),
        ({"fact": "content_type"}, "text/html"),
        ({"fact": "fetched_at"}, "2024-05-01T00:00:00+00:00"),
    ],
)
def test_field_of_html_page_is(extract, field, expected):
    assert one(extract, "shop.html", **field) == expected


@pytest.mark.parametrize("selector", [{"css": "a[href]"}, {"xpath": "//a[@href]"}])
def test_links_are_joined_with_the_base_of_the_page(extract, selector):
    links = one(extract, "shop.html", attribute="href", absolute=True, list=True, **selector)

    assert links == ["https://shop.example/catalogue/nut?id=7#top", "https://other.example/8"]


@pytest.mark.parametrize("engine", ["css", "xpath"])
def test_items_give_one_record_per_match(extract, engine):
    css = engine == "css"
    rule = {
        "items": {"css": "li.item"} if css else {"xpath": "//li[@class='item']"},
        "fields": {
            "id": {"attribute": "data-id", "type": "integer"},
            "name": {"css": "a"} if css else {"xpath": "./a"},
            "tags": {
                **({"css": ".tag"} if css else {"xpath": ".//span"}),
                "list": True,
                "fields": {"word": {}, "first": {"regex": ">(.)"}},
            },
            "link": {
                **({"css": "a"} if css else {"xpath": "a"}),
                "fields": {"to": {"attribute": "href"}},
            },
        },
    }

    records = extract(rule, "shop.html")

    assert [r["id"] for r in records] == [7, 8, None]
    assert [r["name"] for r in records] == ["Hex nut", "Wing nut", "Lock nut"]
    assert records[0]["tags"] == [{"word": "steel", "first": "s"}, {"word": "M4", "first": "M"}]
    assert records[1]["tags"] == []
    assert [r["link"]["to"] for r in records] == ["nut?id=7#top", "https://other.example/8", None]


def test_items_without_a_match_give_no_record(extract):
    assert extract({"items": {"css": "h9"}, "fields": {"a": {"css": "b"}}}, "shop.html") == []


def test_items_by_regex_are_texts(extract):
    rule = {
        "source": "text",
        "items": {"regex": r"(?m)^(\w+=\d+)$"},
        "fields": {"key": {"regex": r"^\w+"}, "value": {"regex": r"\d+$", "type": "integer"}},
    }

    assert extract(rule, b"a=1\nno\nb=2\n") == [{"key": "a", "value": 1}, {"key": "b", "value": 2}]


def test_json_inside_a_page_has_fields_of_its_own(extract):
    product = one(
        extract,
        "shop.html",
        css="script",
        type="json",
        fields={
            "name": {"json": "$.name"},
            "prices": {"json": "$..price", "type": "number", "list": True},
        },
    )

    assert product == {"name": "Nuts", "prices": [1.5, 2.0]}


def test_names_in_xml_match_in_every_namespace(extract):
    rule = {
        "source": "xml",
        "items": {"xpath": "/feed/entry"},
        "fields": {
            "title": {"xpath": "title"},
            "clip": {"xpath": "media:title"},
            "link": {"xpath": "link/@href", "absolute": True},
            "at": {"xpath": "updated", "type": "date"},
        },
    }

    first, second = extract(rule, "feed.xml")

    assert first == {
        "title": "One",
        "clip": "Clip",
        "link": "https://shop.example/1",
        "at": "2024-03-05T10:00:00+00:00",
    }
    assert (second["clip"], second["at"]) == (None, "2024-03-06T10:00:00+02:00")
    assert one(extract, "feed.xml", "xml", xpath="/feed/title") == "Café news"


def test_json_values_keep_their_types_where_asked(extract):
    rule = {
        "source": "json",
        "items": {"json": "$.results[*]"},
        "fields": {
            "id": {"json": "$.id", "type": "integer"},
            "name": {"json": "$.name"},
            "raw": {"json": "$.name", "type": "json"},
            "on": {"json": "$.active", "type": "boolean"},
            "score": {"json": "$.score"},
            "tags": {"json": "$.tags[*]", "list": True},
            "email": {"json": "$.email", "default": "-"},
            "all": {"json": "$.tags", "type": "json"},
        },
    }

    first, second = extract(rule, "api.json")

    assert first == {
        "id": 9007199254740993,
        "name": "Ada",
        "raw": " Ada ",
        "on": True,
        "score": "1.5",
        "tags": ["a", "b"],
        "email": "-",
        "all": ["a", None, "b"],
    }
    assert (second["on"], second["score"], second["tags"]) == (False, "2", [])


def test_json_filters_are_data(extract):
    active = one(extract, "api.json", "json", json="$.results[?@.active==true].name")
    found = one(
        extract, "api.json", "json", json="$.results[?search(@.name,'^B')].id", type="integer"
    )

    assert (active, found) == ("Ada", 2)


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"fields": {"a": {"css": "h9", "required": True}}}, "a"),
        ({"fields": {"a": {"css": "h1", "type": "integer"}}}, "a"),
        ({"fields": {"a": {"css": ".tag", "type": "integer", "list": True}}}, "a"),
        (
            {"items": {"css": "li"}, "fields": {"a": {"attribute": "data-id", "required": True}}},
            "items[2].a",
        ),
        (
            {
                "fields": {
                    "l": {
                        "css": "li",
                        "list": True,
                        "fields": {"p": {"css": "b", "required": True}},
                    }
                }
            },
            "l[2].p",
        ),
        (
            {
                "items": {"css": "li"},
                "fields": {"l": {"fields": {"p": {"css": "b", "type": "number"}}}},
            },
            "items[0].l.p",
        ),
        ({"source": "json", "fields": {"a": {"json": "$.b"}}}, "a"),
        ({"fields": {"a": {"css": "h1["}}}, "fields.a.css"),
    ],
)
def test_error_names_the_field(extract, rule, field):
    with pytest.raises(ExtractError) as error:
        extract(rule, "shop.html")

    assert error.value.field == field


def test_parsers_are_loaded_by_the_rules_that_need_them():
    code = (
        f"import sys, {RuleExtractor.__module__};"
        "print([m for m in ('lxml','bs4','jsonpath','selectolax','re2') if m in sys.modules])"
    )

    printed = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert printed.stdout.strip() == "[]"


def compiled_rules() -> int:
    """Rules that this process keeps compiled."""
    gc.collect()
    return sum(type(each) is Compiled for each in gc.get_objects())


def test_compiled_rules_are_kept_within_bounds():
    extractor, others = RuleExtractor(rules_kept=2), compiled_rules()
    page = Page(url="https://a.example/", status=200, headers={}, body=b"<h1>x</h1>")

    for tag in ("h1", "h2", "h3", "h1"):
        extractor.extract(Rule(fields={"a": Field(css=tag)}), page)

    assert compiled_rules() - others == 2
