import json
import socket

import pytest

from tests.kit.cli import ask
from tests.kit.config import FetchLimits
from tests.kit.kernel import ConfigError, FetchError, TooLargeError

PAGE = b"""<title>Nuts</title><ul><li data-id=7><a href="/nut">Hex <b>nut</b></a></li>
<li data-id=8><a href="https://other.example/">Wing\x1b[31m nut</a></li></ul>"""
RULE = """
# One record for each item of the list.
items: {css: li}
fields:
  id: {attribute: data-id, type: integer}
  name: {css: a}
  colour: {css: .colour}
  parts: {css: a, list: true, fields: {bold: {css: b}}}
follow:
  - css: a[href]
"""
BIZ = {
    "generations": [{"starts_at": "2026-01-01T00:00:00Z", "nodes": ["main"], "databases": ["a"]}],
    "fetch": {"user_agent": "AcmeBot/1.0"},
    "rules": {
        "page": {"fields": {"title": {"css": "title"}}},
        "list": {"follow": [{"css": "a", "rule": "pgae"}], "fields": {"n": {"css": "li"}}},
    },
}
#: The same with spiders.
SPIDERS = {
    **BIZ,
    "spiders": {
        "rows": {
            "executor": "paginated_list",
            "parameters": {"items": {"css": "li"}, "fields": {"name": {"css": "a"}}},
        },
        "csv": {
            "executor": "csv",
            "parameters": {
                "columns": {"sku": {}, "price": {"type": "number"}},
                "bad_rows": "skip",
            },
        },
    },
}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "page.html").write_bytes(PAGE)
    (tmp_path / "rule.yaml").write_text(RULE)
    (tmp_path / "biz.json").write_text(json.dumps(BIZ))
    (tmp_path / "spiders.json").write_text(json.dumps(SPIDERS))
    place = tmp_path / "stage" / "bizs" / "acme"
    place.mkdir(parents=True)
    (place / "shop.json").write_text(json.dumps(BIZ))
    return tmp_path


@pytest.fixture
def site(site):
    site.page = PAGE
    return site


def attempt(crawlfleet, files, *more, rule="rule.yaml", page="page.html"):
    return crawlfleet("rule", "try", str(files / rule), str(files / page), *more)


def test_a_rule_is_tried_on_a_saved_page(crawlfleet, files):
    done = attempt(crawlfleet, files, "--url", "https://shop.example/list")

    assert done.code == 0
    assert "rule: 2 records" in done.out
    assert "name: Hex nut" in done.out
    assert "bold: nut" in done.out
    assert "colour: nothing" in done.out
    assert "https://shop.example/nut" in done.out
    assert "1 outside of domains" in done.err
    assert "\x1b" not in done.out


def test_a_field_that_is_never_found_stands_out(crawlfleet, files):
    lines = attempt(crawlfleet, files).lines
    coverage = lines[lines.index(next(line for line in lines if line.startswith("coverage"))) :]

    rows = [line.split() for line in coverage if " of 2" in line]

    assert rows[0][:4] == ["colour", "0", "of", "2"]
    assert "never:" in rows[0]
    assert rows[1][:4] == ["id", "2", "of", "2"]


def test_scripts_get_everything_as_one_document(crawlfleet, files):
    found = attempt(crawlfleet, files, "--url", "https://shop.example/", "--json").json()

    assert [record["id"] for record in found["records"]] == [7, 8]
    assert [link["url"] for link in found["links"]] == ["https://shop.example/nut"]
    assert found["coverage"]["fields"]["colour"] == 0
    assert found["refused"] == {"outside of domains": 1}
    assert found["problems"] == []
    assert found["seconds"] > 0


def test_more_records_are_shown_on_demand(crawlfleet, files):
    done = attempt(crawlfleet, files, "--limit", "1")

    assert "record 1" not in done.out
    assert "1 of 2 are shown" in done.err


def test_every_error_of_a_rule_is_named_and_the_page_not_looked_at(crawlfleet, files):
    (files / "rule.yaml").write_text(
        "fields:\n  a: {css: 'p['}\n  b: {css: p, transforms: [{split: ','}]}\n"
        "follow:\n  - {css: a, deny: ['(']}\n"
    )

    done = attempt(crawlfleet, files)

    assert done.code == 2
    for field in ("fields.a.css: ", "fields.b.transforms[0]: ", "follow[0].deny[0]: "):
        assert field in done.err
    assert "3 mistakes" in done.err
    reported = attempt(crawlfleet, files, "--json").json()["problems"]
    assert "fields.a.css" in [problem["field"] for problem in reported]


@pytest.mark.parametrize("head", ["", "rules:\n  page:\n"])
def test_an_error_that_its_type_shows_hides_no_other_of_a_rule(crawlfleet, files, head):
    lines = ["fields: {a: {css: 'p['}}", "follow: [{css: a, limit: x}, {css: 'a['}]"]
    indent = "    " if head else ""
    (files / "rule.yaml").write_text(head + "".join(f"{indent}{line}\n" for line in lines))

    done = attempt(crawlfleet, files)

    assert done.code == 2
    for field in ("fields.a.css: ", "follow[0].limit: ", "follow[1].css: "):
        assert field in done.err


def test_a_key_that_no_rule_has_is_named_with_what_there_is(crawlfleet, files):
    (files / "rule.yaml").write_text("fields:\n  a: {csss: p, transforms: [shout]}\n")

    done = attempt(crawlfleet, files)

    assert done.code == 2
    assert "fields.a.csss: " in done.err
    assert "fields.a.transforms[0]: " in done.err


def test_a_page_that_cannot_be_read_names_the_field_and_what_to_do(crawlfleet, files):
    (files / "rule.yaml").write_text("fields:\n  price: {css: title, type: number}\n")

    done = attempt(crawlfleet, files)

    assert done.code == 1
    assert "rule: price: 'Nuts'" in done.err
    assert "`transforms`" in done.err


def test_a_rule_of_a_biz_is_chosen_by_name(crawlfleet, files):
    done = attempt(crawlfleet, files, "--rule", "page", rule="biz.json")
    unsaid = attempt(crawlfleet, files, rule="biz.json")
    unknown = attempt(crawlfleet, files, "--rule", "pge", rule="biz.json")

    assert "title: Nuts" in done.out
    assert (unsaid.code, unknown.code) == (2, 2)
    assert "it has list, page" in unsaid.err
    assert "rule pge; " in unknown.err


def test_links_lead_to_rules_of_the_biz(crawlfleet, files):
    done = attempt(crawlfleet, files, "--rule", "list", rule="biz.json")

    assert done.code == 2
    assert "follow[0].rule: 'pgae'" in done.err
    assert "it has page, list" in done.err


def test_a_rule_is_found_in_a_folder_of_configuration(crawlfleet, files):
    by_name = attempt(crawlfleet, files, "--biz", "shop", "--rule", "page", rule="stage")
    by_path = attempt(crawlfleet, files, "--biz", "acme/shop", "--rule", "page", rule="stage")
    wrong = attempt(crawlfleet, files, "--biz", "shpo", rule="stage")

    assert by_name.code == by_path.code == 0
    assert (wrong.code, "it has acme/shop" in wrong.err) == (2, True)


def test_a_rule_is_tried_on_a_page_of_the_web_asked_for_once(crawlfleet, files, site):
    done = crawlfleet(
        "rule", "try", str(files / "biz.json"), f"{site.url}/x", "--rule", "page", "--json"
    )

    assert done.json()["records"] == [{"title": "Nuts"}]
    assert [path for path, _ in site.heard] == ["/robots.txt", "/x"]
    assert {headers["User-Agent"] for _, headers in site.heard} == {"AcmeBot/1.0"}


@pytest.mark.parametrize("option", [(), ("--ignore-robots",)], ids=["robots", "page"])
def test_a_site_that_is_not_there_is_not_reachable_and_is_reported_in_words(
    crawlfleet, files, option
):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/x"
        done = crawlfleet("rule", "try", str(files / "rule.yaml"), url, *option)

    assert done.code == 3
    assert "connection refused" in done.err
    assert "HTTPConnectionPool" not in done.err


def test_a_page_that_its_site_does_not_want_fetched_is_not_asked_for(crawlfleet, files, site):
    site.robots = 200, b"User-agent: AcmeBot\nDisallow: /x\n"
    command = ("rule", "try", str(files / "biz.json"), f"{site.url}/x", "--rule", "page")

    refused = crawlfleet(*command)
    asked = [path for path, _ in site.heard]
    ignored = crawlfleet(*command, "--ignore-robots")

    assert (refused.code, asked) == (1, ["/robots.txt"])
    assert "AcmeBot: Disallow: /x" in refused.err
    assert "--ignore-robots where" in refused.err
    assert (ignored.code, "Nuts" in ignored.out) == (0, True)
    assert "robots.txt is not" in ignored.err
    assert [path for path, _ in site.heard] == ["/robots.txt", "/x"]


def test_a_biz_that_ignores_robots_txt_is_tried_so(crawlfleet, files, site):
    site.robots = 200, b"User-agent: *\nDisallow: /\n"
    rude = {**BIZ, "politeness": {"robots": "ignore"}}
    (files / "rude.json").write_text(json.dumps(rude))

    done = crawlfleet("rule", "try", str(files / "rude.json"), f"{site.url}/x", "--rule", "page")

    assert (done.code, [path for path, _ in site.heard]) == (0, ["/x"])


@pytest.mark.parametrize("status", [429, 503])
def test_while_robots_txt_cannot_be_read_nothing_else_is_asked_for(crawlfleet, files, site, status):
    site.robots = status, b""

    done = crawlfleet("rule", "try", str(files / "rule.yaml"), f"{site.url}/x")

    assert (done.code, [path for path, _ in site.heard]) == (1, ["/robots.txt"])
    assert f"answered {status}" in done.err


def test_a_redirect_to_what_is_not_wanted_is_not_followed(crawlfleet, files, site):
    site.robots = 200, b"User-agent: *\nDisallow: /secret\n"

    done = crawlfleet("rule", "try", str(files / "rule.yaml"), f"{site.url}/to/to/secret")

    assert done.code == 1
    assert "Disallow: /secret" in done.err
    assert [path for path, _ in site.heard] == ["/robots.txt", "/to/to/secret", "/to/secret"]


def test_redirects_are_followed_so_far_and_reported(site):
    page = ask(f"{site.url}/to/to/x", FetchLimits())

    assert page.url == f"{site.url}/x"
    assert page.redirects == (f"{site.url}/to/to/x", f"{site.url}/to/x")
    with pytest.raises(TooLargeError, match="more than 3 redirects"):
        ask(f"{site.url}/to", FetchLimits(max_redirects=3))
    assert len(site.heard) == 3 + 4


def test_a_worker_is_not_asked_to_ignore_robots_txt(crawlfleet, files):
    done = attempt(crawlfleet, files, "--remote", "--biz", "shop", "--ignore-robots")

    assert (done.code, "a worker obeys" in done.err) == (2, True)


def test_a_status_that_a_worker_would_not_take_is_reported(crawlfleet, files, site):
    done = crawlfleet("rule", "try", str(files / "rule.yaml"), f"{site.url}/gone")

    assert done.code == 1
    assert done.err.startswith("the site answered with 404")  # before what its fields lack


def test_a_record_that_its_schema_does_not_take_ends_with_1_and_says_why(crawlfleet, files):
    (files / "rule.yaml").write_text(
        RULE + "schema: {properties: {id: {maximum: 7}}, required: [name]}\n"
    )

    done = attempt(crawlfleet, files)
    found = attempt(crawlfleet, files, "--json")

    assert (done.code, found.code) == (1, 1)
    assert "rule: 1 record" in done.out
    assert "stored: record 1, id: " in done.err
    assert [record["id"] for record in found.json()["records"]] == [7]
    assert found.json()["rejected_count"] == 1
    assert found.json()["coverage"]["records"] == 2


def test_a_schema_that_is_none_is_a_error_of_the_rule(crawlfleet, files):
    (files / "rule.yaml").write_text(RULE + "schema: {properties: {id: {type: nubmer}}}\n")

    done = attempt(crawlfleet, files)

    assert done.code == 2
    assert "schema.properties.id" in done.err
    assert "1 mistake in the rule" in done.err


def test_a_spider_is_tried_as_rules_are(crawlfleet, files):
    done = attempt(crawlfleet, files, "--rule", "rows", rule="spiders.json")

    assert done.code == 0, done.err
    assert "rows: 2 records" in done.out
    assert "name: Hex nut" in done.out


def test_a_spider_of_its_own_file_names_its_errors(crawlfleet, files):
    (files / "spider.yaml").write_text("executor: csv\nparameters: {colums: {}}\n")

    done = attempt(crawlfleet, files, rule="spider.yaml")

    assert (done.code, "parameters.colums: " in done.err) == (2, True)
    assert "in the spider; " in done.err


def test_what_an_executor_left_out_is_reported_with_its_reason(crawlfleet, files):
    (files / "prices.csv").write_text("sku,price\nA,1\nB,cheap\nC,2\n")

    done = attempt(crawlfleet, files, "--rule", "csv", rule="spiders.json", page="prices.csv")

    assert done.code == 0, done.err
    assert "csv: 2 records" in done.out
    assert "out: line 3.price: " in done.err
    assert "not followed" not in done.err


def test_items_that_match_nothing_are_reported_and_no_field_is_blamed(crawlfleet, files):
    (files / "empty.html").write_text("<p>Nothing here</p>")

    done = attempt(crawlfleet, files, page="empty.html")

    assert "`items` matched nothing" in done.err
    assert "its selector" not in done.out
    assert "0 of 0" not in done.out


def test_a_spider_that_finds_nothing_says_so(crawlfleet, files):
    (files / "stock.json").write_text('{"items": [1, 2]}')

    done = attempt(crawlfleet, files, "--rule", "rows", rule="spiders.json", page="stock.json")

    assert "no record, no link" in done.err
    assert "never:" not in done.out


@pytest.mark.parametrize("page", ["ftp://x/y", "localhost:8901/list1", "shop.example/list"])
@pytest.mark.parametrize("remote", [False, True])
def test_an_address_that_is_not_of_the_web_is_reported_as_one(crawlfleet, files, page, remote):
    more = ("--remote", "--biz", "docs", "--api-url", "http://127.0.0.1:1", "--api-key", "k")

    done = crawlfleet("rule", "try", str(files / "rule.yaml"), page, *(more if remote else ()))

    assert done.code == 2
    assert page in done.err
    assert "http:// or https://" in " ".join(done.err.split())


def test_a_page_without_end_is_given_up(site):
    with pytest.raises(FetchError, match="longer than 100,000 bytes"):
        ask(f"{site.url}/endless", FetchLimits(max_body_bytes=100_000))


def test_a_page_that_trickles_is_given_up(site):
    with pytest.raises(FetchError, match="not there after"):
        ask(f"{site.url}/slow", FetchLimits(total_seconds=0.3))


def test_what_cannot_be_asked_for_is_named():
    with pytest.raises(ConfigError, match="has no host"):
        ask("http:///x", FetchLimits())
    with pytest.raises(FetchError):
        ask("http://127.0.0.1:1/", FetchLimits(connect_seconds=2))


@pytest.mark.parametrize("missing", ["no.yaml", "page"])
def test_a_file_that_is_not_there_is_named(crawlfleet, files, missing):
    arguments = (files / missing, files / "page.html")
    if missing == "page":
        arguments = (files / "rule.yaml", files / missing)

    done = crawlfleet("rule", "try", *map(str, arguments))

    assert done.code == 2
    assert missing in done.err
