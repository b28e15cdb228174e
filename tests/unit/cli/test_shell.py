"""``crawlfleet shell``: selectors and transforms are tried on a page, and become a rule's YAML."""

import io
import json
import sys

import pytest

from tests.kit.cli import parse

PAGE = """<html><head><title>Nuts</title><script type="application/ld+json">
{"@type": "Product", "name": "Hex", "sku": 7}</script></head><body><h1>Nuts &amp; bolts</h1>
<ul><li><a href="/nut">Hex <b>nut</b></a><i class=price>Price:\u00a01,5 EUR</i></li>
<li><a href="/wing">Wing nut</a></li></ul><a class=next href="/2">next</a></body></html>"""


@pytest.fixture
def shell(crawlfleet, monkeypatch, tmp_path):
    """Types lines into the shell on a page."""
    page = tmp_path / "page.html"
    page.write_text(PAGE)

    def typed(*lines, page=str(page), more=()):
        text = "".join(f"{line}\n" for line in lines).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        return crawlfleet("shell", page, *more)

    return typed


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("css h1", ["1 match", "  Nuts & bolts"]),
        ("css li a::text", ["2 matches", "  Hex", "  Wing nut"]),
        ("css a::attr(href)", ["3 matches", "  /nut", "  /wing", "  /2"]),
        ("xpath //li/a/@href", ["2 matches", "  /nut", "  /wing"]),
        ("xpath count(//li)", ["1 match", "  2"]),
        ("json_ld $[*].name", ["1 match", "  Hex"]),
        ("regex <b>(.*?)</b>", ["1 match", "  nut"]),
        ("field {css: li, count: true}", ["  2"]),
        ("field {fact: status}", ["  200"]),
        ("response.css('h1::text').get()", ["1 match", "  Nuts & bolts"]),
        ('response.xpath("//h1/text()").getall()', ["1 match", "  Nuts & bolts"]),
        ("css .nothing", ["0 matches"]),
    ],
)
def test_matches_are_shown(shell, line, found):
    done = shell(line)

    assert (done.code, done.err) == (0, done.err)
    assert [one for one in done.lines if "takes the first" not in one] == found


def test_json_is_read_by_jsonpath(shell, tmp_path):
    page = tmp_path / "page.json"
    page.write_text('{"items": [{"n": 1}, {"n": 2}]}')

    done = shell("json $.items[*].n", page=str(page))

    assert done.lines[:3] == ["2 matches", "  1", "  2"]


def test_transforms_and_keys_are_added_one_by_one_and_the_rule_is_valid(
    shell, crawlfleet, tmp_path
):
    done = shell(
        "items li",
        "css a::text",
        "then lower",
        "save name",
        "css a",
        "set {attribute: href, absolute: true}",
        "save link",
        "css .price",
        "set plain_space: true",
        "then {replace: {pattern: 'Price: ', with: ''}}",
        "then {number: {decimal: ','}}",
        "set type: number",
        "save price",
        "follow a.next",
        f"write {tmp_path / 'rule.yaml'}",
    )

    assert done.code == 0, done.err
    rules = json.loads(parse((tmp_path / "rule.yaml").read_text()))["rules"]
    assert rules["page"] == {
        "items": {"css": "li"},
        "fields": {
            "name": {"css": "a::text", "transforms": ["lower"]},
            "link": {"css": "a", "attribute": "href", "absolute": True},
            "price": {
                "css": ".price",
                "plain_space": True,
                "transforms": [
                    {"replace": {"pattern": "Price: "}},
                    {"number": {"decimal": ","}},
                ],
                "type": "number",
            },
        },
        "follow": [{"css": "a.next"}],
    }
    (tmp_path / "page.html").write_text(PAGE)
    (tmp_path / "biz.yaml").write_text(json.dumps({"rules": rules}))
    tried = crawlfleet(
        "rule", "try", *(str(tmp_path / n) for n in ("biz.yaml", "page.html")), "--json"
    )
    assert [record["price"] for record in tried.json()["records"]] == [1.5, None]


def test_the_yaml_says_what_each_field_found(shell):
    done = shell("css h1", "save title", "rule")

    assert done.lines[-4:] == [
        "rules:",
        "  page:",
        "    fields:",
        "      title: {css: h1}  # Nuts & bolts",
    ]


def test_with_json_the_rule_alone_is_on_standard_output(shell):
    done = shell("css h1", "save title", more=("--json",))

    assert done.json() == {"fields": {"title": {"css": "h1"}}}
    assert "1 match" in done.err


def test_unusual_white_space_is_shown_as_such(shell):
    done = shell("css .price")

    assert r"  Price:\xa01,5 EUR" in done.lines


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("css p[", "field.css: not a CSS selector that lexbor reads, from character 2 on: '['"),
        ("csss h1", "no command 'csss'; there are css"),
        ("prices", "`css SELECTOR` and `xpath EXPRESSION` try what selects"),
        (".price::text", "as a selector: css .price::text"),
        ("h2.name > a", "as a selector: css h2.name > a"),
        ("//li/a", "as a selector: xpath //li/a"),
        ("$..price", "as a selector: json_ld $..price"),
        ("css", "an expression is missing"),
        ("then lower", "there is no field yet"),
        ("field {csss: h1}", "is no field of this document; it has css"),
        ("field {css: h1", "no YAML"),
        ("save title", "there is no field yet"),
        ("drop title", "no field 'title'; it has none"),
        ("json $.a", "this page is read as html: json_ld, microdata and opengraph"),
        ("source pdf", "source is one of html, xml, json, text"),
        ("open /nowhere.html", "No such file"),
        ("guess detail", "it has page"),
    ],
)
def test_a_line_that_cannot_be_carried_out_says_why_and_fails_a_script(shell, line, said):
    done = shell(line, "css h1")

    assert said in done.err
    assert "1 match" in done.lines
    assert done.code == 1


def test_a_number_with_a_comma_is_told_the_step_that_reads_it(shell):
    line = "field {css: .price, transforms: [{match: '[0-9,]+'}], type: number}"

    wrong = shell(line)
    right = shell(line.replace("}]", "}, {number: {decimal: ','}}]"))

    assert "`{number: {decimal: ','}}`" in wrong.err
    assert "  1.5" in right.lines


def test_a_value_of_the_wrong_type_names_itself(shell):
    done = shell("css h1", "set type: number")

    assert "field" in done.err
    assert "is not a number" in done.err


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("css .nothing",), "its css matches nothing on this page"),
        (("field {css: h1, attribute: href}",), "no match has the attribute 'href'"),
        (("field {css: .price, regex: 'Price: (.*)'}",), "U+00A0: `plain_space: true`"),
        (("json_ld $.name",), "its data is a list: '$[*].name' does"),
        (("json_ld $.nothing",), "its json matches nothing on this page\n"),
        (("regex Price: 1",), "in its source: tags and entities such as &nbsp; are part"),
        (("field {css: h1, regex: 'x+'}",), "its regex matches nothing in 'Nuts & bolts'"),
        (("css h1", "then {match: '[0-9]'}"), "its transforms[0] leaves nothing of"),
    ],
)
def test_a_field_without_a_value_is_told_its_cause(shell, lines, why):
    assert why in shell(*lines).err


def test_help_lists_every_command_with_its_use(shell):
    done = shell("help")

    assert {"css", "xpath", "json", "then", "save", "rule", "quit"} <= {
        line.split()[0] for line in done.lines
    }
    assert all(len(line.split()) > 2 for line in done.lines)


def test_a_guess_is_a_beginning(shell):
    done = shell("guess", "drop headings", "drop url", "rule")

    assert done.code == 0 or "no field" in done.err
    assert "data_sku" in done.out


def test_another_page_may_be_opened_and_the_rule_stays(shell, tmp_path):
    (tmp_path / "other.html").write_text("<h1>Other</h1>")

    done = shell("css h1", "save title", f"open {tmp_path / 'other.html'}", "try")

    assert "title: Other" in done.out


def test_a_page_of_the_web_is_read_as_its_address_allows(shell, site):
    site.page = PAGE.encode()

    refused = shell(page=f"{site.url}/")
    assert (refused.code, site.heard) == (1, [])
    assert "--allow-private" in refused.err

    done = shell(
        "css h1", "fetch('" + f"{site.url}/2" + "')", page=f"{site.url}/", more=("--allow-private",)
    )
    assert done.code == 0, done.err
    assert [path for path, _ in site.heard if path != "/robots.txt"] == ["/", "/2"]


def test_a_redirect_to_a_private_address_is_refused_unasked(shell, site, monkeypatch):
    judged = iter([True, False])
    monkeypatch.setattr("crawlfleet.cli.rules.input.is_public", lambda _: next(judged))

    done = shell(page=f"{site.url}/to/x", more=("--ignore-robots",))

    assert done.code == 1
    assert "not public" in done.err
    assert [path for path, _ in site.heard] == ["/to/x"]
