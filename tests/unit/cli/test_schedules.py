"""``crawlfleet schedule``: put, shown, paused, run; what is refused."""

import pytest

from tests.kit.api_server import BIZ, KEY

URL = "https://example.org/a"


def test_a_schedule_is_put_shown_listed_and_deleted(crawlfleet, api, tmp_path):
    pages = tmp_path / "pages"
    pages.write_text(f"# front\n{URL}/2\n\n")
    options = ("--cron", "0 3 * * *", "--rule", "article", "--url", URL, "-f", str(pages))

    put = crawlfleet("schedule", "put", BIZ, "nightly", *options, "--json")

    assert put.json()["urls"] == [URL, f"{URL}/2"]
    assert "2026-01-02 00:00:00Z" in crawlfleet("schedule", "put", BIZ, "nightly", *options).out
    assert f"{URL}/2" in crawlfleet("schedule", "show", BIZ, "nightly").out
    assert crawlfleet("schedule", "show", BIZ, "nightly", "--json").json()["name"] == "nightly"
    assert "nightly" in crawlfleet("schedule", "list", BIZ).out
    assert len(crawlfleet("schedule", "list", BIZ, "--json").json()["schedules"]) == 1
    assert crawlfleet("schedule", "delete", BIZ, "nightly").out == "nightly deleted\n"
    assert crawlfleet("schedule", "delete", BIZ, "nightly", "--json").code == 4


def test_a_schedule_of_a_spider_is_put_and_shown(crawlfleet, api):
    options = ("--cron", "0 3 * * *", "--spider", "shop", "--spider-version", "2")
    more = ("--set", "kind=new=old", "--overlap", "skip", "--missed", "skip", "--jitter", "60")

    put = crawlfleet("schedule", "put", BIZ, "weekly", *options, *more, "--json").json()

    assert (put["values"], put["overlap"]) == ({"kind": "new=old"}, "skip")
    api.schedules["weekly"]["last_outcome"] = {
        "outcome": "skipped",
        "fire_at": "2026-01-01T00:00:00Z",
        "at": "2026-01-01T00:00:30Z",
        "job": None,
        "why": "weekly.x has not ended",
    }
    shown = crawlfleet("schedule", "show", BIZ, "weekly").out
    for word in ("spider shop v2", "kind=new=old", "300 s", "60 s", "weekly.x has not ended"):
        assert word in shown
    assert "skipped" in crawlfleet("schedule", "list", BIZ).out


def test_a_schedule_s_values_that_are_given_again_are_more_values(crawlfleet, api):
    put = ("schedule", "put", BIZ, "weekly", "--cron", "0 3 * * *", "--spider", "shop", "--json")

    new = crawlfleet(*put, "--value", "kind=a", "--value", "kind=b", "--value", "n=1..9")
    old = crawlfleet(*put, "--set", "kind=a", "--set", "kind=b", "--set", "n=1..9")

    assert (new.err, new.json()["values"]) == ("", {"kind": ["a", "b"], "n": {"last": 9}})
    assert old.json()["values"] == {"kind": ["a", "b"], "n": "1..9"}
    assert old.err == "--set is called --value now: give it once for each value or range\n"
    assert "kind=a, b" in crawlfleet("schedule", "show", BIZ, "weekly").out


def test_a_start_comes_from_a_file(crawlfleet, api, tmp_path):
    start = tmp_path / "start.yaml"
    start.write_text("pattern: https://a.example/{day}\nvalues: {day: [2026-01-01]}\n")
    put = ("schedule", "put", BIZ, "days", "--cron", "0 3 * * *", "--rule", "r", "--start")

    done = crawlfleet(*put, str(start), "--json")
    assert done.err == ""
    kept = done.json()

    assert kept["start"]["values"] == {"day": ["2026-01-01"]}
    assert "a pattern" in crawlfleet(*put, str(start)).out
    for text, said in (("- x", "holds no pattern"), ("a: [", "line 1")):
        start.write_text(text)
        wrong = crawlfleet(*put, str(start))
        assert (wrong.code, said in wrong.err) == (2, True)


@pytest.mark.parametrize(
    "options",
    [
        ("put", "x", "--cron", "* * * * *", "--url", URL),
        ("put", "x", "--cron", "* * * * *", "--rule", "r", "--url", URL, "--set", "novalue"),
        ("put", "x", "--cron", "* * * * *", "--rule", "r", "--url", URL, "--priority", "11"),
        ("next",),
        ("next", "x", "--count", "51"),
    ],
)
def test_what_a_schedule_cannot_be_is_refused_before_it_is_sent(crawlfleet, api, options):
    assert crawlfleet("schedule", options[0], BIZ, *options[1:]).code == 2
    assert api.calls == []


def test_the_next_runs_are_shown_with_the_shifts_of_clocks(crawlfleet, api):
    options = ("--cron", "0 3 * * *", "--rule", "article", "--url", URL)
    crawlfleet("schedule", "put", BIZ, "nightly", *options)

    shown = crawlfleet("schedule", "next", BIZ, "nightly", "-n", "3").out

    assert "2026-03-29 03:00:05+02:00" in shown
    assert ("due" in shown, "waiting" in shown) == (True, True)
    assert "forward by 60 min" in shown
    assert "back by 60 min" in shown
    preview = crawlfleet("schedule", "next", BIZ, "--cron", "0 3 * * *", "--json").json()
    assert [run["shift_seconds"] for run in preview["runs"]] == [3600, -3600, 0]
    assert crawlfleet("schedule", "next", BIZ, "other").code == 4


FAILED = {
    "outcome": "failed",
    "fire_at": "2026-01-02T00:00:00Z",
    "at": "2026-01-02T00:00:01Z",
    "job": None,
    "why": "this biz has no rule 'article'",
}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"state": "paused", "next_at": None}, "paused"),
        ({"state": "due"}, "due"),
        ({"state": "due", "last_outcome": FAILED}, "due, tried again 2026-01-02 00:00:00Z"),
        ({"state": "running"}, "running, then 2026-01-02 00:00:00Z"),
        ({"state": "waiting"}, "2026-01-02 00:00:00Z"),
        ({"state": "over", "next_at": None}, "over"),
    ],
)
def test_a_schedule_says_when_it_fires_next_or_why_not(crawlfleet, api, facts, said):
    options = ("--cron", "0 3 * * *", "--rule", "article", "--url", URL, "--segment", "biz")
    crawlfleet("schedule", "put", BIZ, "nightly", *options)
    api.schedules["nightly"] |= facts

    shown = " ".join(crawlfleet("schedule", "show", BIZ, "nightly").out.split())

    assert said in shown
    assert ("next" in shown, "segment biz" in shown) == (True, True)


def test_a_schedule_is_paused_resumed_and_run(crawlfleet, api):
    options = ("--cron", "0 3 * * *", "--rule", "article", "--url", URL)
    crawlfleet("schedule", "put", BIZ, "nightly", *options)

    assert crawlfleet("schedule", "pause", BIZ, "nightly", "--json").json()["enabled"] is False
    assert "2026-01-03" in crawlfleet("schedule", "resume", BIZ, "nightly").out
    run = crawlfleet("schedule", "run", BIZ, "nightly", "--idempotency-key", "k-1")
    assert run.out.startswith("nightly.now.k-1 expanding, 1,234 ")
    assert "wait news nightly.now.k-1" in run.err
    assert crawlfleet("schedule", "run", BIZ, "nightly", "--json").json()["size"] == 1234
    assert crawlfleet("schedule", "run", BIZ, "other").code == 4


def test_a_schedule_whose_job_goes_on_names_it_with_what_may_be_done(crawlfleet, api):
    options = ("--cron", "0 3 * * *", "--rule", "article", "--url", URL, "--overlap", "skip")
    crawlfleet("schedule", "put", BIZ, "nightly", *options)
    api.jobs.keep("nightly.now.1", schedule="nightly")

    refused = crawlfleet("schedule", "run", BIZ, "nightly")

    assert refused.code == 1
    assert f"`crawlfleet job show {BIZ} nightly.now.1`" in refused.err
    api.jobs.kept.clear()  # it has ended since
    assert "has not ended" in crawlfleet("schedule", "run", BIZ, "nightly").err


def test_a_paused_schedule_that_is_put_anew_is_said_to_fire_again(crawlfleet, api):
    put = ("schedule", "put", BIZ, "nightly", "--rule", "article", "--url", URL, "--cron")

    first = crawlfleet(*put, "0 3 * * *")
    crawlfleet("schedule", "pause", BIZ, "nightly")
    resting = crawlfleet(*put, "0 4 * * *", "--disabled")
    again = crawlfleet(*put, "0 4 * * *")

    assert "paused" not in first.err + resting.err
    assert "nightly was paused, and fires again from now on: --disabled" in again.err


def test_what_a_schedule_was_before_is_listed(crawlfleet, api):
    options = ("--cron", "0 3 * * *", "--rule", "article", "--url", URL)
    crawlfleet("schedule", "put", BIZ, "nightly", *options)

    assert "article on 1 URL " in crawlfleet("schedule", "versions", BIZ, "nightly").out
    listed = crawlfleet("schedule", "versions", BIZ, "nightly", "--limit", "1", "--json").json()
    assert [each["version"] for each in listed["versions"]] == [2]


def test_a_wrong_schedule_is_refused_with_its_field(crawlfleet, api):
    wrong = crawlfleet("schedule", "put", BIZ, "x", "--cron", "often", "--rule", "r", "--url", URL)

    assert (wrong.code, "cron: " in wrong.err) == (2, True)
    assert crawlfleet("schedule", "put", BIZ, "x", "--cron", "* * * * *", "--url", URL).code == 2
    assert KEY not in wrong.err


@pytest.mark.parametrize(
    ("outcome", "became"),
    [
        ("failed", "could not start its job"),
        ("waiting", "waits to start its job"),
        ("skipped", "was skipped"),
    ],
)
def test_a_list_says_of_a_fire_that_started_no_job_why(crawlfleet, api, outcome, became):
    options = ("--cron", "0 3 * * *", "--rule", "article", "--url", URL)
    for name in ("nightly", "weekly"):
        crawlfleet("schedule", "put", BIZ, name, *options)
    api.schedules["nightly"]["last_outcome"] = FAILED | {"outcome": outcome}
    api.schedules["weekly"]["last_outcome"] = FAILED | {"outcome": "started", "job": "w", "why": ""}

    shown = " ".join(crawlfleet("schedule", "list", BIZ).err.split())

    why = f"nightly: the fire of 2026-01-02 00:00:00Z {became}: this biz has no rule 'article'"
    assert why in shown
    assert "weekly:" not in shown


def test_an_earlier_failure_is_shown_after_a_fire_that_worked(crawlfleet, api):
    options = ("--cron", "0 3 * * *", "--rule", "article", "--url", URL)
    crawlfleet("schedule", "put", BIZ, "nightly", *options)
    kept = api.schedules["nightly"]
    kept["last_outcome"] = kept["last_failure"] = FAILED
    assert "last failure" not in crawlfleet("schedule", "show", BIZ, "nightly").out
    started = {"outcome": "started", "job": "n", "why": "", "fire_at": "2026-01-03T00:00:00Z"}
    kept["last_outcome"] = FAILED | started

    shown = " ".join(crawlfleet("schedule", "show", BIZ, "nightly").out.split())

    assert "last failure 2026-01-02 00:00:00Z" in shown
    assert "why it failed this biz has no rule 'article'" in shown


def test_a_list_says_of_many_fires_that_started_no_job_how_many_there_are(crawlfleet, api):
    options = ("--cron", "0 3 * * *", "--rule", "article", "--url", URL)
    for number in range(12):
        crawlfleet("schedule", "put", BIZ, f"n{number:02}", *options)
        api.schedules[f"n{number:02}"]["last_outcome"] = FAILED

    shown = crawlfleet("schedule", "list", BIZ).err

    assert shown.count("could not start its job") == 10
    assert f"and 2 more: `crawlfleet schedule show {BIZ} NAME` says why" in " ".join(shown.split())
