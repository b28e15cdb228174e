"""``crawlfleet job`` against an API that answers with its own views."""

import re
import sys

import pytest

from tests.kit.jobs import JobState


def test_a_job_is_started_and_it_is_said_how_to_follow_it(crawlfleet, api, tmp_path):
    pages = tmp_path / "pages.txt"
    pages.write_text("# shops\nhttps://example.org/2\n\n")

    done = crawlfleet(
        *("job", "start", "news", "--rule", "article", "--url", "https://example.org/1"),
        *("--file", str(pages), "--name", "june", "--priority", "7"),
    )

    assert (done.code, done.out) == (0, "june running, 2 tasks\n")
    assert "job wait news june" in done.err
    assert api.jobs.kept["june"].priority == 7


def test_a_pattern_its_ranges_and_values_make_the_tasks(crawlfleet, api):
    done = crawlfleet(
        *("job", "start", "news", "--pattern", "https://example.org/{kind}/{page}"),
        *("--range", "page=1..50", "--value", "kind=new", "--name", "june", "--json"),
    )

    assert (done.code, done.json()["size"], done.json()["values"]) == (0, 50, {"kind": "new"})


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--spider", "shop", "--url", "https://example.org/"],
        ["--url", "https://example.org/", "--range", "n=1..2"],
        ["--pattern", "https://example.org/{n}", "--range", "n=1-2"],
        ["--pattern", "https://example.org/{n}", "--value", "n"],
    ],
)
def test_what_makes_no_job_is_refused_at_once(crawlfleet, api, wrong):
    done = crawlfleet("job", "start", "news", *wrong)

    assert done.code == 2
    assert api.calls == []


def test_a_started_job_can_be_waited_for(crawlfleet, api):
    done = crawlfleet("job", "start", "news", "--spider", "shop", "--name", "june", "--wait")

    assert (done.code, done.out) == (0, "june done: 1 done\n")


def test_a_job_with_failed_tasks_ends_with_a_code_and_with_what_to_do(crawlfleet, api):
    api.jobs.keep("june")
    api.jobs.dead["june"] = 1

    done = crawlfleet("job", "wait", "news", "june")

    assert done.code == 1
    assert re.findall(r"\d \w+", done.out) == ["2 done", "1 dead"]
    assert "retry news june" in done.err
    assert "news --job june" in done.err


def test_waiting_too_short_is_a_time_out(crawlfleet, api):
    api.jobs.keep("june", size=10_000)

    assert crawlfleet("job", "wait", "news", "june", "--timeout", "0").code == 5
    assert crawlfleet("job", "wait", "news", "july").code == 4


def test_trouble_is_reported_once_while_one_waits(crawlfleet, api):
    api.jobs.keep("june", trouble="the biz has no room")

    done = crawlfleet("job", "wait", "news", "june")

    assert done.err.count("no room") == 1
    assert done.code == 0


def test_at_a_terminal_a_bar_shows_what_is_done_and_reports_how_long_it_will_take(
    crawlfleet, monkeypatch, api
):
    api.jobs.keep("june", size=4)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    api.jobs.done["june"] = 1

    done = crawlfleet("job", "wait", "news", "june", "--timeout", "0")

    assert done.code == 5
    assert "2/4" in done.err
    assert "about 0 s" in done.err


def test_jobs_are_listed(crawlfleet, api):
    for name in ("a", "b", "c"):
        api.jobs.keep(name)
    api.jobs.keep("z", state=JobState.DONE, spider="shop")

    done = crawlfleet("job", "list", "news", "--limit", "2")

    assert done.code == 0
    assert "z" in done.lines[3]
    assert "more than these 2" in done.err
    rows = crawlfleet("job", "list", "news", "--state", "running", "--json").rows()
    assert [row["name"] for row in rows] == ["c", "b", "a"]
    assert "there are none" in crawlfleet("job", "list", "news", "--state", "unplaced").err


def test_a_job_is_shown_with_where_its_tasks_are(crawlfleet, api):
    api.jobs.keep("june", spider="shop", spider_version=3, values={"kind": "new"}, refused=1)
    api.jobs.dead["june"] = 1
    crawlfleet("job", "show", "news", "june")

    done = crawlfleet("job", "show", "news", "june")

    assert done.code == 0
    for part in ("shop (version 3)", "kind=new", "2 of 3 (66.7%)", "pending", "2026-03-01"):
        assert part in done.out
    assert "retry news june" in done.err
    assert crawlfleet("job", "show", "news", "june", "--json").json()["ledger"]["dead"] == 1


def test_a_job_is_cancelled(crawlfleet, api):
    api.jobs.keep("june")
    api.jobs.keep("may", state=JobState.DONE)

    assert crawlfleet("job", "cancel", "news", "june").out == "june cancelled\n"
    assert crawlfleet("job", "cancel", "news", "june", "--json").json()["state"] == "cancelled"
    assert crawlfleet("job", "cancel", "news", "may").code == 1
    assert crawlfleet("job", "retry", "news", "june").code == 1


def test_failed_tasks_are_retried(crawlfleet, api):
    api.jobs.keep("june", state=JobState.DONE)

    done = crawlfleet("job", "retry", "news", "june", "--current-rule")

    assert (done.code, done.out) == (0, "retried 2\n")
    assert "left 1 task " in done.err
    assert api.jobs.retried == [{"rule": "current"}]
    assert crawlfleet("job", "retry", "news", "june", "--json").json()["retried"] == 2
