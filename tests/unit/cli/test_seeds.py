import io
import json
import sys

import pytest

from tests.kit.api_server import BIZ, SEGMENT, Fault, problem, seed_id
from tests.unit.cli.test_findings import Terminal

URL = "https://example.org/{}"


@pytest.fixture
def five(api):
    for number in range(5):
        state = "failed" if number < 3 else "ready"
        api.seeds.keep(URL.format(number), state=state, why="404" if number < 3 else None)
    return api


def test_urls_are_offered_from_arguments_and_from_a_file(crawlfleet, api, tmp_path):
    path = tmp_path / "urls.txt"
    path.write_text(f'{URL.format(1)}\n# no\n{{"url": "{URL.format(2)}", "rule": "own"}}\n{{x\n')

    done = crawlfleet(
        "seeds", "offer", BIZ, URL.format(1), "ftp://x/", "-f", str(path), "--rule", "article"
    )

    assert (done.code, done.out) == (2, "accepted 2, duplicates 1, rejected 2\n")
    assert "URL 2: url: " in done.err
    assert "line 4: " in done.err
    assert [seed["rule"] for _, seed in sorted(api.seeds.kept.items())].count("own") == 1


def test_duplicates_are_no_failure(crawlfleet, api):
    crawlfleet("seeds", "offer", BIZ, URL.format(1))

    done = crawlfleet("seeds", "offer", BIZ, URL.format(1), "--starts-at", "2026-03-02T00:00:00Z")
    rows = crawlfleet("seeds", "offer", BIZ, URL.format(1), URL.format(2), "--json").rows()

    assert (done.code, done.out) == (0, "accepted 0, duplicates 1, rejected 0\n")
    assert [row["accepted"] for row in rows] == [False, True]
    assert rows[0]["why"] == f"known in segment {SEGMENT}"
    assert crawlfleet("seeds", "offer", BIZ).code == 2


def test_a_file_waits_for_a_full_biz_and_says_so_and_a_url_does_not(crawlfleet, api, tmp_path):
    full = Fault(429, json.dumps(problem("backlog-full", 429, "it is full")).encode())
    file = tmp_path / "urls.txt"
    file.write_text("".join(f"{URL.format(n)}\n" for n in range(1_500)))
    api.faults.extend([full] * 7)

    done = crawlfleet("seeds", "offer", BIZ, "-f", str(file))
    api.faults.extend([full] * 7)
    refused = crawlfleet("seeds", "offer", BIZ, URL.format(2_000))

    assert (done.code, done.out) == (0, "accepted 1500, duplicates 0, rejected 0\n")
    assert done.err.count(", 0 accepted so far") == 1
    assert (refused.code, "with --file" in refused.err) == (1, True)


def test_seeds_are_listed_in_a_table_or_as_lines(crawlfleet, five):
    done = crawlfleet("seeds", "list", BIZ)
    rows = crawlfleet("seeds", "list", BIZ, "--state", "failed", "--segment", SEGMENT, "--json")

    assert all(part in done.out for part in ("failed", "404", "https://example.org/4"))
    assert [row["state"] for row in rows.rows()] == ["failed"] * 3
    assert "more than these 2" in crawlfleet("seeds", "list", BIZ, "--limit", "2").err
    assert (
        crawlfleet("seeds", "list", BIZ, "--state", "handed").err
        == "there are none with state handed\n"
    )


def test_a_url_stands_whole_on_a_line_of_its_own(crawlfleet, api):
    url = URL.format("long/" * 40)
    api.seeds.keep(url, state="failed", why="404")

    assert f"  {url}" in crawlfleet("seeds", "list", BIZ).lines


def test_a_seed_whose_time_is_to_come_is_waiting_as_in_the_totals(crawlfleet, api):
    api.seeds.keep(URL.format(1), due_at="2999-03-01T00:00:00.000Z")
    api.seeds.keep(URL.format(2))

    found = crawlfleet("seeds", "list", BIZ).lines
    states = [line.split()[1] for line in found if line.startswith(SEGMENT)]

    assert sorted(states) == ["ready", "waiting"]


@pytest.mark.parametrize("content", [b"", b"# nothing\n\n"])
def test_a_file_with_nothing_to_offer_is_a_error_of_usage(crawlfleet, api, tmp_path, content):
    path = tmp_path / "urls.txt"
    path.write_bytes(content)

    done = crawlfleet("seeds", "offer", BIZ, "-f", str(path))

    assert done.code == 2
    assert "no entries" in done.err


@pytest.mark.parametrize("verb", ["release", "forget"])
def test_a_segment_without_seeds_is_not_found_and_those_there_are_are_named(crawlfleet, five, verb):
    done = crawlfleet("seeds", verb, BIZ, "--segment", "foo", *["--yes"][: verb == "forget"])

    assert (done.code, len(five.seeds.kept)) == (4, 5)
    assert f"'foo'; there are {SEGMENT}" in done.err


def test_a_segment_whose_seeds_have_not_ended_has_none_to_release(crawlfleet, api):
    api.seeds.keep(URL.format(1))

    done = crawlfleet("seeds", "release", BIZ, "--segment", SEGMENT)

    assert (done.code, done.out) == (0, "released 0\n")


def test_totals_are_shown(crawlfleet, five):
    done = crawlfleet("seeds", "totals", BIZ)

    assert SEGMENT in done.out
    assert crawlfleet("seeds", "totals", BIZ, "--json").json()[0]["failed"] == 3
    five.seeds.kept.clear()
    assert "there are none: " in crawlfleet("seeds", "totals", BIZ).err


def test_seeds_are_released_by_name_or_by_filter(crawlfleet, five):
    names = [seed_id(URL.format(number)) for number in range(5)]

    one = crawlfleet("seeds", "release", BIZ, names[0])
    both = crawlfleet("seeds", "release", BIZ, names[1], names[4])
    rest = crawlfleet("seeds", "release", BIZ, "--state", "failed", "--json")

    assert (one.code, one.out) == (0, "released 1\n")
    assert (both.code, both.out) == (4, "released 1\n")
    assert "1 seed left alone" in both.err
    assert rest.json() == {"released": 1, "more": False}


def test_forgetting_many_asks_before_and_can_be_declined(crawlfleet, five, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"n\n")))
    declined = crawlfleet("seeds", "forget", BIZ, "--state", "failed")
    left = len(five.seeds.kept)
    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"y\n")))
    agreed = crawlfleet("seeds", "forget", BIZ, "--state", "failed")

    assert (declined.code, left) == (1, 5)
    assert f" of {BIZ} with state failed?" in declined.err
    assert (agreed.code, agreed.out) == (0, "forgot 3\n")
    assert crawlfleet("seeds", "forget", BIZ, "--all", "--limit", "1", "--yes").out == "forgot 1\n"


def test_forgetting_many_where_nobody_is_asked_needs_a_yes(crawlfleet, five, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"y\n")))

    assert crawlfleet("seeds", "forget", BIZ, "--all").code == 2
    assert len(five.seeds.kept) == 5
    assert crawlfleet("seeds", "forget", BIZ, seed_id(URL.format(1))).out == "forgot 1\n"


@pytest.mark.parametrize(
    "arguments", [(), ("a/b", "--all"), ("--all", "--segment", "x"), ("a/b", "--limit", "2")]
)
@pytest.mark.parametrize("verb", ["release", "forget"])
def test_which_seeds_are_meant_is_never_guessed(crawlfleet, five, verb, arguments):
    assert crawlfleet("seeds", verb, BIZ, *arguments).code == 2
    assert len(five.seeds.kept) == 5


def test_a_key_is_explained_without_asking_anybody(crawlfleet, monkeypatch):
    monkeypatch.delenv("CRAWLFLEET_API_URL", raising=False)
    url = "https://www.Shop.example:443/a;jsessionid=1F/?b=2&a=1&utm_source=x#top"

    done = crawlfleet("seeds", "key", url)
    ruled = crawlfleet(
        "seeds", "key", url, "--ignore", "b", "--ignore-www", "--ignore-scheme", "--json"
    ).json()

    assert "https://www.shop.example/a/?a=1&b=2" in done.out
    for what, why in [("utm_source=x", "tracking"), (";jsessionid=1F", "session id"), ("#top", "")]:
        assert what in done.out
        assert why in done.out
    assert ruled["canonical"] == "http://shop.example/a/?a=1"
    assert len(ruled["key"]) == 32
    assert "b=2" in [each["what"] for each in ruled["dropped"]]
    assert crawlfleet("seeds", "key", "ftp://x/").code == 2
    assert "dropped" not in crawlfleet("seeds", "key", "http://a.example/").out
