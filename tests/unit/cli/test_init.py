"""``crawlfleet init``: a configuration to begin with, guessed from a page."""

import json
import shlex
from pathlib import Path

import pytest

from tests.kit.cli import parse
from tests.kit.trials import name_of

SHOP = """<html><head><title>Books</title><meta name=description content="All of them">
<script type="application/ld+json">{"@context": "https://schema.org", "@graph": [
 {"@type": "WebSite", "name": "not this"},
 {"@type": "Product", "name": "Set", "sku": "A-1", "offers": [{"price": 51.77}]}]}</script></head>
<body><nav><ul><li><a href=/>Home</a><li><a href=/a>A</a><li><a href=/b>B</a><li><a href=/c>C</a>
</ul></nav><h1>All\u00a0books</h1><h2>New\u2028ones</h2><ol class="row">%s</ol>
<ul class=pager><li class=next><a href=/2>next</a></ul></body></html>"""
BOOK = """<li class="col-6 item"><img src="/%d.jpg"><h3><a href="/book/%d">Book %d</a></h3>
<div><p class="price_color">\u00a351.77</p><p class="stock">In stock</p></div></li>"""
PAGE = (SHOP % "".join(BOOK % (n, n, n) for n in range(20))).encode()


@pytest.fixture
def begun(tmp_path, crawlfleet):
    """Runs `init` for a saved page; the text of the biz, and the biz."""

    def run(page, *more):
        (tmp_path / "page.html").write_bytes(page)
        folder = tmp_path / "begun"
        done = crawlfleet("init", str(folder), "--from", str(tmp_path / "page.html"), *more)
        assert done.code == 0, done.err
        text = (folder / "bizs/default/mysite.yaml").read_text()
        return done, text, json.loads(parse(text))

    return run


def valid(crawlfleet, folder):
    done = crawlfleet("config", "validate", str(folder))
    assert done.code == 0, done.err
    return done.out


def test_without_a_page_there_is_a_commented_beginning_that_is_valid(
    crawlfleet, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    done = crawlfleet("init")

    assert (done.code, done.out.split()) == (
        0,
        ["myconfig/bizs/default/mysite.yaml"],
    )
    assert valid(crawlfleet, "myconfig").startswith("1 document,")
    assert "#" in (tmp_path / "myconfig/bizs/default/mysite.yaml").read_text()


def test_settings_of_the_stage_are_written_only_where_they_are_asked_for(crawlfleet, tmp_path):
    folder = tmp_path / "own"

    done = crawlfleet("init", str(folder), "--stage-file")

    assert (done.code, len(done.out.split())) == (0, 2)
    assert "allow_private_addresses: false" in (folder / "stage.yaml").read_text()
    assert valid(crawlfleet, folder).startswith("2 documents,")


def test_no_biz_of_the_samples_has_the_name_that_a_new_one_gets():
    samples = {
        file.stem for file in Path(__file__).parents[3].glob("samplesconfig/*/bizs/*/*.yaml")
    }

    urls = ("http://127.0.0.1:8000/", "http://[::1]/", "http://localhost/", "https://1st.example/")
    names = ["mysite", *map(name_of, urls)]

    assert names == ["mysite", "host-127-0-0-1", "host-1", "localhost", "host-1st"]
    assert "site" in samples
    assert samples.isdisjoint(names)


def test_a_rule_is_guessed_from_title_headings_lists_and_structured_data(begun, crawlfleet):
    done, _, biz = begun(PAGE)

    page, listed = biz["rules"]["page"], biz["rules"]["list"]
    assert {"url", "title", "description", "headings"} <= page["fields"].keys()
    assert page["fields"]["data_sku"] == {
        "structured": "json_ld",
        "json": "$[?@['@type']=='Product'].sku",
    }
    assert page["fields"]["data_offers"]["json"].endswith(".offers..price")
    assert listed["items"] == {"css": "li.item"}
    assert listed["fields"]["price"] == {"css": "p.price_color"}
    assert set(listed["fields"]) == {"name", "link", "price", "image"}
    assert listed["follow"] == [{"css": "li.next a", "pagination": True}]
    assert "list: 4 fields, 20 records on this page" in done.err


def test_what_a_field_found_stands_beside_it_and_breaks_no_line(begun):
    _, text, _ = begun(PAGE)

    assert "name: {css: h3}  # Book 0" in text
    assert "# A record of each of these: 20 on this page." in text


@pytest.mark.parametrize("page", [PAGE, PAGE.replace(b"class=next", b"")], ids=["pages", "one"])
def test_the_pages_that_a_list_leads_to_are_read_where_the_comment_that_says_so_is_taken_out(
    begun, crawlfleet, tmp_path, page
):
    _, text, biz = begun(page)
    own = tmp_path / "begun/bizs/default/mysite.yaml"

    lines = [line for line in text.splitlines() if "read by the rule" not in line]
    own.write_text(
        "\n".join(
            line.replace("# follow", "follow").replace("# -", "-").replace("#   -", "  -")
            for line in lines
        )
    )

    assert not any(one.get("rule") for one in biz["rules"]["list"].get("follow", ()))
    assert valid(crawlfleet, tmp_path / "begun")
    saved = str(tmp_path / "page.html")
    tried = crawlfleet(
        *("rule", "try", str(tmp_path / "begun"), saved, "--biz", "mysite", "--rule", "list"),
        *("--url", "https://books.example/", "--json"),
    )
    links = [one["url"] for one in tried.json()["links"] if one["rule"] == "page"]
    assert len(links) == 20
    assert "https://books.example/book/7" in links


def test_a_guess_is_valid_and_yields_what_it_says(begun, crawlfleet, tmp_path):
    begun(PAGE)

    valid(crawlfleet, tmp_path / "begun")
    done = crawlfleet(
        *("rule", "try", str(tmp_path / "begun"), str(tmp_path / "page.html")),
        *("--rule", "list", "--json"),
    )
    found = done.json()
    assert len(found["records"]) == 20
    assert all(count == 20 for count in found["coverage"]["fields"].values())


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"<p>",
        b"\xff\xfe\x00",
        b"<ul>" + b"<li><a href=x>" * 3_000,
        b"<h1>#: {[&*!|>'\"%@`</h1>",
    ],
)
def test_of_a_poor_page_a_valid_beginning_is_made_too(begun, crawlfleet, tmp_path, page):
    begun(page)

    valid(crawlfleet, tmp_path / "begun")


def test_json_is_guessed_by_its_members(crawlfleet, tmp_path):
    (tmp_path / "page.json").write_text('{"name": "Nut", "price": 3, "parts": [1], "a b": 1}')

    done = crawlfleet("init", str(tmp_path / "c"), "--from", str(tmp_path / "page.json"))

    biz = json.loads(parse((tmp_path / "c/bizs/default/mysite.yaml").read_text()))
    assert done.code == 0, done.err
    assert biz["rules"]["page"]["source"] == "json"
    assert biz["rules"]["page"]["fields"] == {
        "url": {"fact": "url"},
        "name": {"json": "$.name"},
        "price": {"json": "$.price", "type": "number"},
        "parts": {"json": "$.parts", "type": "json"},
    }


def test_a_biz_that_is_there_stays_and_another_one_joins_it(begun, crawlfleet, tmp_path):
    _, text, _ = begun(PAGE)
    page = str(tmp_path / "page.html")

    again = crawlfleet("init", str(tmp_path / "begun"), "--from", page)
    more = crawlfleet("init", str(tmp_path / "begun"), "--from", page, "--biz", "shop")

    assert again.code == 2
    assert "is there already" in again.err
    assert (tmp_path / "begun/bizs/default/mysite.yaml").read_text() == text
    assert more.code == 0, more.err
    assert valid(crawlfleet, tmp_path / "begun").startswith("2 documents")


def test_a_page_of_the_web_is_read_as_robots_txt_and_its_address_allow(crawlfleet, site, tmp_path):
    site.page = PAGE

    refused = crawlfleet("init", str(tmp_path / "a"), "--from", f"{site.url}/list")
    assert refused.code == 1
    assert "address that is not public (allow_private_addresses of the stage)" in refused.err
    assert "--allow-private" in refused.err
    assert site.heard == []

    done = crawlfleet(
        "init", str(tmp_path / "a"), "--from", f"{site.url}/list", "--allow-private", "--stage-file"
    )
    assert done.code == 0, done.err
    assert "allow_private_addresses: true" in (tmp_path / "a/stage.yaml").read_text()
    assert (
        f"crawlfleet job start host-127-0-0-1 --rule list --url {site.url}/list --wait" in done.err
    )

    site.robots = (200, b"User-agent: *\nDisallow: /")
    denied = crawlfleet(
        "init", str(tmp_path / "b"), "--from", f"{site.url}/list", "--allow-private"
    )
    assert denied.code == 1
    assert not (tmp_path / "b").exists()


def test_of_a_page_that_is_gone_nothing_is_guessed(crawlfleet, site, tmp_path):
    done = crawlfleet("init", str(tmp_path / "a"), "--from", f"{site.url}/gone", "--allow-private")

    assert done.code == 2
    assert "404" in done.err


def test_a_name_that_no_biz_can_have_is_refused(crawlfleet, tmp_path):
    done = crawlfleet("init", str(tmp_path / "a"), "--biz", "My Shop")

    assert done.code == 2
    assert "--biz" in done.err


def test_the_next_commands_can_be_pasted_into_a_shell(crawlfleet, tmp_path, site):
    site.page = PAGE
    folder, page = tmp_path / "my own", f"{site.url}/?a=1&b=2"

    done = crawlfleet("init", str(folder), "--biz", "shop", "--from", page, "--allow-private")

    commands = [shlex.split(line) for line in done.err.splitlines() if "  crawlfleet " in line]
    assert ["crawlfleet", "config", "validate", str(folder)] in commands
    # The list follows its further pages, which a submission does not wait for.
    [start] = [words for words in commands if words[1:3] == ["job", "start"]]
    assert start[3:] == ["shop", "--rule", "list", "--url", page, "--wait"]
