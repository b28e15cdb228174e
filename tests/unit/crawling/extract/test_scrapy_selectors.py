"""``::text`` and ``::attr(x)`` in CSS selectors mean what they mean in Scrapy."""

import pytest
from parsel import Selector as Parsel

from tests.kit.config import Field, Follow, Rule, Selector
from tests.kit.extract import check_rule, try_rule
from tests.kit.requests import Page

BODY = """<html><body><h1>One <b>bold</b> two</h1><h2>Sub</h2>
<ul><li><a href="/a" rel="nofollow">A</a></li><li><a name=x>no link</a></li>
<li>three<a href="/c">C <i>deep</i></a> tail</li></ul>
<p title="::text, and more">quoted</p><!-- no text --><p></p></body></html>"""
PAGE = Page(url="https://example.org/", status=200, headers={}, body=BODY.encode())


def read(**fields):
    trial = try_rule(Rule(fields={name: Field(**said) for name, said in fields.items()}), PAGE)
    assert trial.problems == ()
    return trial.records[0]


@pytest.mark.parametrize(
    "css",
    [
        "h1::text",
        "h1 ::text",
        "h1::text, h2::text",
        "a::attr(href)",
        "a::attr( href )",
        "li > ::text",
        "ul ::attr(href)",
        "li::text, a::text",
        "li a::attr(nothing)",
        "p[title='::text, and more']::text",
        "p[title='::text, and more']::attr(title)",
        "p::text",
        "ul *::text",
    ],
)
def test_what_is_found_is_what_scrapy_finds(css):
    found = Parsel(text=BODY).css(css)

    values = read(all={"css": css, "list": True, "strip": False}, one={"css": css, "strip": False})

    assert values == {"all": found.getall(), "one": found.get()}
    assert read(number={"css": css, "count": True}) == {"number": len(found)}


def test_inside_items_they_are_read_of_each_item():
    item = Field(css="::text")
    rule = Rule(items=Selector(css="li"), fields={"text": Field(css="a::text"), "own": item})

    trial = try_rule(rule, PAGE)

    assert [record["text"] for record in trial.records] == ["A", "no link", "C"]
    assert [record["own"] for record in trial.records] == ["A", "no link", "three"]


def test_what_is_found_goes_through_regex_transforms_and_type():
    fields = {"css": "a::attr(href)", "regex": "/(.)", "transforms": ("upper",), "list": True}

    assert read(letters=fields) == {"letters": ["A", "C"]}
    assert read(link={"css": "a::attr(href)", "absolute": True}) == {
        "link": "https://example.org/a"
    }


def test_links_that_ask_not_to_be_followed_are_not_followed_by_attr_either():
    for follow in (Follow(css="a::attr(href)"), Follow(css="a[href]")):
        trial = try_rule(Rule(follow=(follow,)), PAGE)

        assert [link.url for link in trial.links] == ["https://example.org/c"]
        assert trial.refused == {"nofollow": 1}


def test_a_text_has_neither_attributes_nor_fields():
    rule = Rule(
        fields={
            "a": Field(css="a::text", attribute="href"),
            "b": Field(css="a::text", fields={"c": Field(css="i")}),
        }
    )

    assert [problem.field for problem in check_rule(rule)] == [
        "fields.a.attribute",
        "fields.b.fields.c.css",
    ]


def test_alternatives_take_the_same():
    [problem] = check_rule(Rule(fields={"a": Field(css="h1::text, a::attr(href)")}))

    assert "say the same of each" in problem.message


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ({"css": "div > > a"}, "from character 7 on: '> a'"),
        ({"css": "p["}, "from character 2 on: '['"),
        ({"css": "h1::texts"}, "from character 9 on: 's'"),
        ({"css": "li >> a::text"}, "from character 5 on: '> a::text'"),
        ({"css": "["}, "from character 1 on: '['"),
        ({"xpath": "//a[foo(]"}, "no function of XPath 1.0 is called foo, at character 5"),
        ({"xpath": "//h1/text()]"}, "at character 12"),
        ({"xpath": "//a[@x = #]"}, "at character 10"),
        ({"xpath": "//a[$x]"}, "at character 5"),
        ({"regex": r"\d+(?=x)"}, "from character 4 on: '(?=x)'"),
        ({"regex": "a(b"}, "from character 2 on: '(b'"),
        ({"json": "$.a[", "structured": "json_ld"}, "at character 5"),
        ({"json": "$[?foo(@)]", "structured": "json_ld"}, "at character 4"),
    ],
)
def test_the_error_of_a_selector_has_its_position(said, where):
    [problem] = check_rule(Rule(fields={"a": Field(**said)}))

    assert where in problem.message
