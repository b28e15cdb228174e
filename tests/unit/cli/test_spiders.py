"""`crawlfleet spider`: keep, show, list, versions, delete."""

import json

import pytest

from tests.kit.api_server import BIZ

PUT = ("spider", "put", BIZ, "all", "--rule", "article", "--pattern", "https://a.example/{z}/{p}")


def test_a_spider_is_put_by_options(crawlfleet, api):
    done = crawlfleet(*PUT, "--values", "p=0..90/10", "--priority", "8")

    assert done.code == 0, done.err
    assert json.loads(api.made("PUT")[0].body) == {
        "rule": "article",
        "start": {
            "pattern": "https://a.example/{z}/{p}",
            "values": {"p": {"first": 0, "last": 90, "step": 10}},
        },
        "priority": 8,
    }
    assert "all" in done.out
    assert crawlfleet(*PUT, "--json").json()["version"] == 2


def test_values_of_a_spider_are_given_one_by_one_and_by_the_old_name_with_commas(crawlfleet, api):
    new = crawlfleet(*PUT, "--value", "z=a", "--value", "z=b,c", "--value", "p=7")
    old = crawlfleet(*PUT, "--values", "z=a,b", "--values", "z=c", "--values", "p=1..3")

    sent = [json.loads(call.body)["start"]["values"] for call in api.made("PUT")]
    assert sent == [
        {"z": ["a", "b,c"], "p": ["7"]},
        {"z": ["a", "b", "c"], "p": {"first": 1, "last": 3, "step": 1}},
    ]
    assert new.err == ""
    assert "--values is called --value now" in old.err


def test_a_spider_is_put_by_a_file(crawlfleet, api, tmp_path):
    path = tmp_path / "spider.yaml"
    path.write_text("rule: article\nstart: {urls: [https://a.example/]}\n")

    done = crawlfleet("spider", "put", BIZ, "all", "--file", str(path), "--json")

    assert (done.code, done.json()["tasks"]) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--url", "https://a.example/"), "needs --rule"),
        (
            ("--rule", "a", "--pattern", "https://a/{p}", "--values", "p"),
            "write page=7",
        ),
        (("--rule", "a", "--pattern", "https://a/{p}", "--values", "p=9..1"), "nothing in it"),
        (("--rule", "a", "--file", "{file}"), "leave the other options out"),
        (("--file", "{list}"), "is no spider"),
        (("--file", "{odd}"), "odd.yaml"),
    ],
)
def test_what_is_wrong_is_reported_before_anything_is_sent(
    crawlfleet, api, tmp_path, arguments, said
):
    files = {"file": "rule: a\n", "list": "[1]\n", "odd": "a: {\n"}
    for name, content in files.items():
        (tmp_path / f"{name}.yaml").write_text(content)
    places = {name: str(tmp_path / f"{name}.yaml") for name in files}

    filled = [places.get(one.strip("{}"), one) if one.startswith("{") else one for one in arguments]
    done = crawlfleet("spider", "put", BIZ, "all", *filled)

    assert (done.code, api.calls) == (2, [])
    assert said in done.err


def test_what_the_api_refuses_is_reported_by_its_field(crawlfleet, api):
    done = crawlfleet("spider", "put", BIZ, "all", "--rule", "a", "--pattern", "https://{x}/")

    assert done.code == 2
    assert "start.pattern" in done.err


def test_spiders_are_listed_and_shown(crawlfleet, api):
    crawlfleet(*PUT, "--values", "p=1..3", "--description", "Three.")
    crawlfleet("spider", "put", BIZ, "two", "--rule", "article", "--url", "https://a.example/x")

    listed = crawlfleet("spider", "list", BIZ)
    rows = crawlfleet("spider", "list", BIZ, "--json").rows()
    shown = crawlfleet("spider", "show", BIZ, "all")

    assert [row["name"] for row in rows] == ["article", "all", "two"]
    assert all(name in listed.out for name in ("article", "all", "two", "configuration"))
    assert "1 to 3" in shown.out
    assert "whoever starts" in shown.out
    assert "Three." in shown.out
    assert "https://a.example/x" in crawlfleet("spider", "show", BIZ, "two").out
    assert crawlfleet("spider", "show", BIZ, "two", "--json").json()["tasks"] == 1
    assert crawlfleet("spider", "show", BIZ, "none").code == 4


def test_versions_and_deleting(crawlfleet, api):
    crawlfleet(*PUT)
    crawlfleet(*PUT, "--priority", "1")

    assert (
        crawlfleet("spider", "show", BIZ, "all", "--version", "1", "--json").json()["priority"] == 5
    )
    assert len(crawlfleet("spider", "versions", BIZ, "all", "--json").json()["versions"]) == 2
    assert "article" in crawlfleet("spider", "versions", BIZ, "all").out
    api.spiders.scheduled.add("all")
    refused = crawlfleet("spider", "delete", BIZ, "all")
    assert (refused.code, "nightly" in refused.err) == (1, True)
    api.spiders.scheduled.clear()
    assert crawlfleet("spider", "delete", BIZ, "all").out == "all deleted\n"
    assert crawlfleet("spider", "delete", BIZ, "all", "--json").code == 4
