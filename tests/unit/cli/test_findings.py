import io
import json
import re
import sys

import pytest

from tests.kit.api_server import BIZ, FIRST_ID, Fault, problem
from tests.kit.sdk import Client

URL = "https://example.org/a"


@pytest.fixture
def five(api):
    for number in range(5):
        reason = "PageGone" if number < 3 else "Throttled"
        api.findings.dead_letter(number, reason=reason)
    return api


class Terminal(io.TextIOWrapper):
    """A standard input at which somebody sits."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def answers(monkeypatch):
    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(text.encode())))

    return give


# ---- dead letters --------------------------------------------------------------------------------


def test_dead_letters_are_listed_in_a_table_or_as_lines(crawlfleet, five):
    done = crawlfleet("dead", "list", BIZ)
    rows = crawlfleet("dead", "list", BIZ, "--reason", "Throttled", "--since", "15m", "--json")

    assert all(part in done.out for part in ("PageGone", "404", "https://example.org/4"))
    assert [row["id"] for row in rows.rows()] == ["3", "4"]
    assert five.calls[-1].params["since"].endswith("Z")


def test_a_biz_without_dead_letters_has_no_table(crawlfleet, api):
    done = crawlfleet("dead", "list", BIZ)

    assert (done.code, done.out, done.err) == (0, "", "there are none: nothing was given up on\n")
    few = crawlfleet("dead", "list", BIZ, "--reason", "Extract", "--host", "a.example")
    assert few.err.endswith("reason Extract, host a.example\n")


def test_a_list_says_nothing_of_dead_letters_that_it_does_not_know(crawlfleet, five):
    row = crawlfleet("dead", "list", BIZ, "--limit", "1", "--json").rows()[0]

    assert row["biz"] == BIZ
    assert row["answer"]["status"] == 404
    assert not row.keys() & {"headers", "worker", "sample", "timeline", "meta", "body"}


def test_the_reasons_there_are_stand_in_the_help(crawlfleet):
    assert "RobotsDenied" in crawlfleet("dead", "list", "--help").out


def test_a_table_of_dead_letters_that_is_cut_says_so(crawlfleet, five):
    done = crawlfleet("dead", "list", BIZ, "--limit", "2")

    assert "https://example.org/2" not in done.out
    assert "more than these 2" in done.err


def test_a_dead_letter_is_shown_with_what_the_site_said(crawlfleet, five):
    done = crawlfleet("dead", "show", BIZ, "1")

    for part in (
        "answered 404",
        "content-type",
        "text/html",
        "<h1>gone</h1>",
        "0.250 s",
        "w-1",
        "192.0.2.4",
    ):
        assert part in done.out
    assert f"crawlfleet dead replay {BIZ} 1" in done.err
    assert crawlfleet("dead", "show", BIZ, "1", "--json").json()["sample"]["encoding"] == "text"
    assert crawlfleet("dead", "show", BIZ, "17").code == 4


def test_a_page_that_robots_txt_forbids_is_not_advised_to_be_replayed(crawlfleet, five):
    five.findings.dead_letter(7, reason="RobotsDenied")

    done = crawlfleet("dead", "show", BIZ, "7")

    assert done.code == 0
    assert "it would end so again while the site forbids it" in done.err
    assert "dead replay" not in done.err


def test_a_dead_letter_from_the_web_does_not_steer_the_terminal(crawlfleet, five):
    five.findings.dead_letter(7, error="\x1b[2Jgone")
    whole = five.findings.whole
    five.findings.whole = lambda dead_letter: {
        **whole(dead_letter),
        "sample": {"encoding": "text", "content": "\x1b]0;mine\x07"},
    }

    done = crawlfleet("dead", "show", BIZ, "7")

    assert "\x1b" not in done.out
    assert "\\x1b]0;mine\\x07" in done.out


def test_dead_letters_are_replayed_one_by_one_and_one_that_fails_does_not_stop_the_others(
    crawlfleet, five
):
    done = crawlfleet("dead", "replay", BIZ, "0", "17", "1", "--current-rule")

    assert (done.code, done.out) == (4, "replayed 2\n")
    assert "17: " in done.err
    assert five.findings.replayed == [("0", "current"), ("1", "current")]
    assert crawlfleet("dead", "replay", BIZ, "17").code == 4
    assert crawlfleet("dead", "replay", BIZ, "17", "18").code == 4
    assert crawlfleet("dead", "replay", BIZ, "0", "2", "--json").json() == {
        "replayed": 1,
        "failed": {"0": "the request is not dead"},
    }


def test_all_that_a_filter_means_are_replayed(crawlfleet, five):
    five.findings.skipped = 1

    done = crawlfleet("dead", "replay", BIZ, "--reason", "PageGone", "--host", "example.org")

    assert (done.code, done.out) == (0, "replayed 3\n")
    assert "left 1 dead letter " in done.err
    rest = crawlfleet("dead", "replay", BIZ, "--all", "--limit", "1", "--json")
    assert rest.json() == {"replayed": 1, "skipped": 1, "more": True}


def test_a_purge_of_many_asks_before_and_can_be_declined(crawlfleet, five, answers):
    answers("n\n")
    declined = crawlfleet("dead", "purge", BIZ, "--status", "404")
    left = len(five.findings.dead_letters)
    answers("y\n")
    agreed = crawlfleet("dead", "purge", BIZ, "--status", "404")

    assert (declined.code, left) == (1, 5)
    assert f" of {BIZ} with status 404 " in declined.err
    assert (agreed.code, agreed.out, five.findings.dead_letters) == (0, "purged 5\n", {})


def test_a_purge_of_many_where_nobody_is_asked_needs_a_yes(crawlfleet, five, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"y\n")))

    assert crawlfleet("dead", "purge", BIZ, "--all").code == 2
    assert len(five.findings.dead_letters) == 5
    assert crawlfleet("dead", "purge", BIZ, "--all", "--limit", "3", "--yes").out == "purged 3\n"


@pytest.mark.parametrize(
    ("command", "question"),
    [
        (("dead", "purge"), "Remove the dead letters of a{b} - all of them - for ever?"),
        (("seeds", "forget"), "Forget the seeds of a{b} - all of them -?"),
    ],
)
def test_a_biz_with_braces_in_its_name_is_asked_about(crawlfleet, api, answers, command, question):
    answers("n\n")

    declined = crawlfleet(*command, "a{b}", "--all")

    assert declined.code == 1
    assert question in declined.err
    assert "nothing was " in declined.err


def test_dead_letters_named_by_id_are_purged_without_a_question(crawlfleet, five):
    assert crawlfleet("dead", "purge", BIZ, "0", "1").out == "purged 2\n"
    assert list(five.findings.dead_letters) == ["2", "3", "4"]


@pytest.mark.parametrize(
    "arguments", [(), ("1", "--all"), ("--all", "--host", "x"), ("1", "--limit", "2")]
)
@pytest.mark.parametrize("verb", ["replay", "purge"])
def test_which_dead_letters_are_meant_is_never_guessed(crawlfleet, five, verb, arguments):
    assert crawlfleet("dead", verb, BIZ, *arguments).code == 2
    assert len(five.findings.dead_letters) == 5


# ---- explain, ledger, workers --------------------------------------------------------------------


def test_a_request_is_explained(crawlfleet, api):
    crawlfleet("submit", BIZ, URL)

    done = crawlfleet("explain", BIZ, str(FIRST_ID))

    assert done.lines[0].startswith(f"{FIRST_ID} is pending. ")
    assert done.lines[0].endswith(" 3 s.")
    for part in ("this request", f"all of {BIZ}", "submitted by tenant acme", "filled: "):
        assert part in done.out
    assert "last 50 changes" in done.err
    found = crawlfleet("explain", BIZ, str(FIRST_ID), "--json").json()
    assert found["standing"]["facts"]["workers_alive"] == 1
    assert crawlfleet("explain", BIZ, "17").code == 4


def test_what_is_neither_an_id_nor_a_url_is_named_before_anybody_is_asked(crawlfleet, api):
    done = crawlfleet("explain", BIZ, "127.0.0.1:8080/book/1.html")

    assert done.code == 2
    assert "'127.0.0.1:8080/book/1.html' is neither an id nor a URL" in done.err
    assert "https://" in done.err


def test_a_url_is_explained(crawlfleet, api):
    done = crawlfleet("explain", BIZ, URL)

    assert (done.code, "no seed" in done.lines[0]) == (0, True)
    assert "this visit" in done.out
    assert "(asked 192.0.2.5)" in done.out
    found = crawlfleet("explain", BIZ, URL, "--rule", "article", "--json").json()
    assert found["standing"]["facts"]["rule"] == "article"
    wrong = crawlfleet("explain", BIZ, "17", "--rule", "article")
    assert (wrong.code, "--rule" in wrong.err) == (2, True)


def test_a_ledger_that_balances_is_an_equation(crawlfleet, api):
    crawlfleet("submit", BIZ, URL, URL, "--job", "nightly")
    crawlfleet("submit", BIZ, URL)

    done = crawlfleet("ledger", BIZ)

    assert done.code == 0
    assert done.out.startswith("submitted 3 = pending 3 + leased 0 + ")
    assert done.out.count(" + ") == 6
    assert crawlfleet("ledger", BIZ, "--job", "nightly", "--json").json()["submitted"] == 2


def test_a_job_that_is_none_is_reported_what_a_job_is(crawlfleet, api):
    api.faults.append(
        Fault(404, json.dumps(problem("not-found", 404, "there is no job x")).encode())
    )

    done = crawlfleet("ledger", BIZ, "--job", "x")

    assert done.code == 4
    assert "no job x" in done.err
    assert "`crawlfleet job list news`" in done.err
    assert "30 days" in done.err
    assert "crawlfleet requests" not in done.err


def test_what_is_no_id_is_reported_where_ids_come_from(crawlfleet, api):
    errors = [{"field": "id", "message": "is no request id"}]
    refused = json.dumps(problem("invalid-request", 400, "not valid", errors)).encode()
    api.faults.extend([Fault(400, refused)] * 3)

    shown = crawlfleet("status", BIZ, "abc")
    alone = crawlfleet("explain", BIZ, "abc")
    beside = crawlfleet("dead", "replay", BIZ, "abc", "17")

    assert (shown.code, alone.code, beside.code) == (2, 2, 2)
    assert "`crawlfleet submit`" in shown.err
    assert "'abc' is neither a URL nor an id" in alone.err
    assert f"`crawlfleet requests {BIZ}`" in alone.err


@pytest.mark.parametrize("option", ["since", "until"])
def test_what_is_no_time_is_reported_both_ways_to_write_one(crawlfleet, api, option):
    done = crawlfleet("dead", "list", BIZ, f"--{option}", "yesterday")

    assert (done.code, api.calls) == (2, [])
    assert re.search(rf"{option}: .* 2026-01-31T08:00:00Z", done.err)
    assert "15m, 2h, 7d" in done.err
    assert crawlfleet("dead", "list", BIZ, f"--{option}", "1767225600123").code == 0


def test_a_list_is_no_wider_than_one_reads_but_for_urls_which_are_never_broken(crawlfleet, api):
    url, number = "https://example.org/" + "long/" * 60, str(FIRST_ID)
    api.findings.dead_letter(FIRST_ID, url=url, error="PageGone: " + "gone " * 50)

    out = crawlfleet("dead", "list", BIZ).out

    assert f"  {url}" in out.splitlines()
    assert max(len(line) for line in out.splitlines() if url not in line) <= 120
    assert number in out
    assert out.count("gone") == 50


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (1_002, "+1,002: 1,002 requests"),
        (-3, "-3: 3 requests"),
    ],
)
def test_a_ledger_that_does_not_balance_says_so_and_what_to_do(crawlfleet, api, difference, words):
    api.findings.ledger = {"submitted": 5_000, "others": 2, "difference": difference}

    done = crawlfleet("ledger", BIZ)

    assert done.code == 1
    assert done.out.startswith("submitted 5,000 ≠ pending 0 + ")
    assert done.out.endswith("others 2\n")
    assert words in done.err
    assert "docs/" in done.err
    assert crawlfleet("ledger", BIZ, "--json").code == 1


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (None, "no worker lives: nothing of this biz is open, and one starts when work comes"),
        ("waiting", "no worker lives: 1 request of this biz to be tried again"),
        ("pending", f"`crawlfleet doctor --biz {BIZ}` says what is wrong"),
    ],
)
def test_where_no_worker_lives_it_is_said_whether_one_is_to_be_expected(
    crawlfleet, api, state, said
):
    if state is not None:
        crawlfleet("submit", BIZ, URL)
        api.requests[str(FIRST_ID)]["state"] = state

    done = crawlfleet("workers", BIZ)

    assert (done.code, done.out) == (0, "")
    assert said in done.err


#: Each list, and what is said beside it where it is empty.
EMPTY = {
    "bizs": "config push",
    "requests": "there are none",
    "dead list": "nothing was given up on",
    "seeds list": "`crawlfleet seeds offer --help`",
    "seeds totals": "`crawlfleet seeds offer --help`",
    "records": f"`crawlfleet requests {BIZ}`",
    "job list": "`crawlfleet job start`",
    "schedule list": "`crawlfleet schedule put --help`",
    "spider list": "`crawlfleet spider put --help`",
    "hosts": "nothing of this biz is at a host now",
    "workers": "nothing of this biz is open",
    "demands": "nothing was learnt yet",
    "incidents": "nothing is wrong",
    "shares": "no tenant has work",
    "rule coverage": "nothing was counted yet",
}


@pytest.mark.parametrize("command", EMPTY)
def test_an_empty_list_has_no_head_and_says_what_to_do(crawlfleet, api, monkeypatch, command):
    monkeypatch.setattr(Client, "spiders", lambda *_: [])
    of_biz = () if command in {"bizs", "incidents", "shares"} else (BIZ,)
    form = ("--format", "table") if command == "records" else ()

    done = crawlfleet(*command.split(), *of_biz, *form)

    assert (done.code, done.out) == (0, "")
    assert EMPTY[command] in done.err


def test_workers_are_listed_with_how_they_are(crawlfleet, api):
    api.findings.workers = [
        {
            "worker": "w-7",
            "health": "suspected",
            "phi": 5.25,
            "silent_seconds": 4.4,
            "held": 3,
            "version": "0.9.1",
        }
    ]

    done = crawlfleet("workers", BIZ)

    assert all(part in done.out for part in ("w-7", "suspected", "5.2", "4.4 s", "3", "0.9.1"))
    assert crawlfleet("workers", BIZ, "--json").json()["workers"][0]["worker"] == "w-7"


def test_stats_report_how_much_was_submitted(crawlfleet, api):
    crawlfleet("submit", BIZ, URL, URL)

    assert "submitted" in crawlfleet("stats", BIZ).out
    assert crawlfleet("stats", BIZ, "--json").json()["submitted"] == 2


# ---- visits --------------------------------------------------------------------------------------


def test_a_page_is_shown_with_its_next_visit_and_what_was_saved(crawlfleet, api):
    api.findings.visit(URL)
    api.findings.visit(f"{URL}2", next_at=None, etag="\x1b[2J")

    done = crawlfleet("visit", BIZ, URL)
    other = crawlfleet("visit", BIZ, f"{URL}2")

    for part in ("2026-01-01", "8 times", "5 (62 %)", "2.0 days", "2026-01-03", 'W/"7"'):
        assert part in done.out
    assert "never by itself" in other.out
    assert "\x1b" not in other.out
    assert crawlfleet("visit", BIZ, URL, "--json").json()["saved"] == 5


def test_all_pages_are_shown_together(crawlfleet, api):
    none = crawlfleet("visit", BIZ)
    api.findings.visit(URL)

    done = crawlfleet("visit", BIZ)

    assert (none.code, none.out) == (0, "")
    assert "no page" in none.err
    assert "5 (62 %)" in done.out
    assert crawlfleet("visit", BIZ, "--json").json()["visits"] == 8


def test_a_page_that_is_not_known_is_reported_how_pages_come_to_be(crawlfleet, api):
    done = crawlfleet("visit", BIZ, URL)

    assert (done.code, done.out) == (4, "")
    assert "nothing is known" in done.err
    assert "Pages are remembered" in done.err
