"""``crawlfleet job`` against an API that answers with its own views."""

import json
import re
import sys
from datetime import timedelta

import pytest

from tests.kit.api_server.jobs import START
from tests.kit.cli import judge
from tests.kit.config import Field, Rule
from tests.kit.jobs import JobState
from tests.kit.kernel import InvalidRequestError, Problem
from tests.kit.records import covered
from tests.kit.requests import Coverage, Ledger
from tests.kit.worlds.memory import make_biz


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


def test_a_value_that_is_given_again_is_one_more_value(crawlfleet, api):
    pattern = ("--pattern", "https://example.org/{kind}/{page}")

    done = crawlfleet(
        *("job", "start", "news", *pattern, "--value", "kind=new", "--value", "kind=old"),
        *("--value", "page=1..3", "--value", "page=7", "--name", "june", "--json"),
    )

    assert (done.code, done.err, done.json()["size"]) == (0, "", 8)
    whole = crawlfleet("job", "show", "news", "june", "--json").json()
    assert whole["places"] == {"kind": ["new", "old"], "page": ["1", "2", "3", "7"]}
    shown = crawlfleet("job", "show", "news", "june").out
    assert "new, old" in shown
    assert "1, 2, 3, 7" in shown


def test_a_spider_s_open_place_takes_several_values(crawlfleet, api):
    values = ("--value", "kind=new", "--value", "kind=old", "--value", "page=1..50/7")

    assert crawlfleet("job", "start", "news", "--spider", "shop", *values).code == 0

    sent = json.loads(api.calls[-1].body)["values"]
    assert sent == {"kind": ["new", "old"], "page": {"first": 1, "last": 50, "step": 7}}


def test_an_old_name_of_value_goes_on_working_and_names_the_new_one(crawlfleet, api):
    old = crawlfleet(
        *("job", "start", "news", "--pattern", "https://example.org/{page}"),
        *("--range", "page=1..3", "--range", "page=9..10", "--json"),
    )

    assert (old.code, old.json()["size"]) == (0, 5)
    assert old.err == "--range is called --value now: give it once for each value or range\n"
    assert "--range" not in crawlfleet("job", "start", "--help").out


@pytest.mark.parametrize("given", ["a..3", "1..b", "1..", "..9", "1..9/x", "-2..3", "1..9/"])
def test_a_value_that_looks_like_a_range_and_is_none_is_told_the_form(crawlfleet, api, given):
    done = crawlfleet(
        *("job", "start", "news", "--pattern", "https://example.org/{n}"),
        *("--value", f"n={given}"),
    )

    assert (done.code, api.calls) == (2, [])
    assert "is no range: write n=FIRST..LAST or n=FIRST..LAST/STEP" in done.err


def test_a_demand_that_is_given_twice_is_refused(crawlfleet, api):
    twice = ("--demand", "memory=1", "--demand", "memory=2")

    done = crawlfleet("job", "start", "news", "--spider", "shop", *twice)

    assert (done.code, api.calls) == (2, [])
    assert "memory is given twice" in done.err


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--spider", "shop", "--url", "https://example.org/"],
        ["--pattern", "https://example.org/{n}", "--value", "n=9..1"],
        ["--pattern", "https://example.org/{n}", "--value", "n=1..900", "--value", "n=1001..1200"],
        ["--pattern", "https://example.org/{n}", "--range", "n=1-2"],
        ["--pattern", "https://example.org/{n}", "--value", "n"],
        ["--spider", "shop", "--demand", "disk=1"],
        ["--spider", "shop", "--demand", "memory"],
        ["--spider", "shop", "--demand", "memory=1..2..3"],
        ["--spider", "shop", "--demand", "memory=nan"],
    ],
)
def test_what_makes_no_job_is_refused_at_once(crawlfleet, api, wrong):
    done = crawlfleet("job", "start", "news", *wrong)

    assert done.code == 2
    assert api.calls == []


def test_a_job_states_its_link_and_its_demand_in_the_units_of_what_is_shown(crawlfleet, api):
    done = crawlfleet(
        *("job", "start", "news", "--spider", "shop", "--name", "june", "--demand", "memory=1..2"),
        *("--demand", "bandwidth=5", "--test-url", "https://example.org/speed"),
        *("--seconds-below", "0.5", "--bytes-per-second-above", "1000"),
    )

    assert done.code == 0, done.err
    kept = api.jobs.kept["june"]
    assert (kept.demand.memory.average, kept.demand.memory.maximum) == (2.0**20, 2.0**21)
    assert (kept.demand.bandwidth.average, kept.demand.cpu) == (5_000.0, None)
    shown = " ".join(crawlfleet("job", "show", "news", "june").out.split())
    assert "demand memory 1.00..2.00 MB, bandwidth 5.00 kB/s" in shown
    assert "https://example.org/speed, below 0.5 s to the first byte, above 1,000 bytes/s" in shown


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


def test_a_job_of_which_robots_txt_forbids_pages_is_not_advised_to_retry_them(crawlfleet, api):
    line = "RobotsDenied: line 2 of robots.txt: Disallow: /kept/"
    api.jobs.keep("june")
    api.jobs.dead["june"] = 1
    api.findings.dead_letter(7, reason="RobotsDenied", error=line, job="june")

    for command in ("wait", "show"):
        done = crawlfleet("job", command, "news", "june")

        assert "retry" not in done.err
        said = " ".join(done.err.split())
        assert f"https://example.org/7 ({line})" in said
        assert "`politeness: {robots: ignore}`" in said
        assert "`deny`" in said
    api.findings.dead_letter(8, reason="PageGone", job="june")
    both = crawlfleet("job", "wait", "news", "june").err
    assert "job retry news june" in both
    assert "robots.txt forbids some" in both


def test_a_job_that_ended_at_its_quota_is_advised_to_raise_that_before_it_is_retried(
    crawlfleet, api
):
    used = "job june of biz news has used 4 of 4 requests in all (quotas[0])"
    api.jobs.keep("june")
    api.jobs.dead["june"] = 1
    api.findings.dead_letter(7, reason="QuotaExceeded", error=used, job="june")

    said = " ".join(crawlfleet("job", "wait", "news", "june").err.split())

    assert f"({used}): they would end so again until that limit is higher" in said
    assert "`crawlfleet quota show --biz news --job june`" in said
    assert "`crawlfleet quota set --help`" in said
    assert "once the limit is higher: crawlfleet job retry news june" in said


def test_the_end_of_a_job_says_for_which_reasons_its_tasks_died_the_most_frequent_first(
    crawlfleet, api
):
    line = "RobotsDenied: line 2 of robots.txt: Disallow: /kept/"
    api.jobs.keep("june")
    api.jobs.dead["june"] = 4
    api.findings.dead_letter(1, reason="RobotsDenied", error=line, job="june")
    api.findings.dead_letter(2, reason="PageGone", error="PageGone: 404", job="june")
    gone = crawlfleet("job", "wait", "news", "june").err
    no_number = "Extract: price: '€4.25' is not a number"
    for number in (3, 4):
        api.findings.dead_letter(number, reason="Extract", error=no_number, job="june")

    for command in ("wait", "show"):
        said = " ".join(crawlfleet("job", command, "news", "june").err.split())

        assert f"2 Extract, as https://example.org/3 ({no_number})" in said
        assert "1 PageGone, as https://example.org/2 (PageGone: 404)" in said
        assert said.index("2 Extract") < said.index("robots.txt forbids some")
        assert "job retry news june --current-rule" in said
    # No rule that is mended makes a page that there is not.
    assert "job retry news june" in gone
    assert "--current-rule" not in gone


def test_a_job_whose_pages_gave_no_record_says_so_and_whether_they_led_on(crawlfleet, api):
    for name in ("june", "may", "some", "dead"):
        api.jobs.keep(name, size=2)
    one = Coverage(pages=2, records=2, fields=dict.fromkeys(RULE.fields, 2))
    api.jobs.read["may"] = tuple(covered(make_biz(rules={"page": RULE}), {"page": one}))
    api.jobs.dead |= {"some": 1, "dead": 2}
    crawlfleet("submit", "news", "https://example.org/1", "--job", "june")
    for request in api.requests.values():
        request |= {"state": "done", "rule": "article"}

    june, may, *died = (
        " ".join(crawlfleet("job", "wait", "news", name).err.split())
        for name in ("june", "may", "some", "dead")
    )

    assert "no page of it gave a record, and none led on to another: `crawlfleet rule" in june
    assert "rule try article https://example.org/1 --remote --biz news" in june
    assert "no page" not in may
    assert not [said for said in died if "no page" in said]  # why they died is said


def test_a_job_without_pages_is_told_the_options_that_give_some():
    said = "is missing, and so is a spider; the rule names no URLs to begin with"

    for command in ("job", "schedule"):
        code, hint = judge(InvalidRequestError.of("start", said), command)

        assert code == 2
        assert {"--url", "--file", "--spider"} <= {*re.findall(r"--[a-z]+", hint)}


RULE = Rule(fields={name: Field(css=name) for name in ("title", "price", "sku")})
READ = Coverage(pages=126, records=126, fields={"title": 126, "price": 2, "sku": 0})


def test_a_job_whose_fields_are_mostly_empty_says_so_at_its_end_by_field(crawlfleet, api):
    api.jobs.keep("june")
    api.jobs.read["june"] = tuple(covered(make_biz(rules={"page": RULE}), {"page": READ}))

    for command in ("wait", "show"):
        done = crawlfleet("job", command, "news", "june")

        assert "its fields are mostly empty" in done.err
        assert "rule page: of 126 records have a value: price 2, sku 0" in done.err
        assert "crawlfleet rule try page URL --remote --biz news" in done.err
    assert "100.0%" in done.out
    assert "1.6%" in done.out
    found = crawlfleet("job", "show", "news", "june", "--json").json()["coverage"]
    assert (found[0]["empty"], found[0]["mostly_empty"]) == (["price", "sku"], True)


def test_a_single_empty_field_is_named_and_a_full_job_says_nothing(crawlfleet, api):
    biz = make_biz(rules={"page": RULE})
    one = Coverage(pages=9, records=9, fields={"title": 9, "price": 9})
    full = Coverage(pages=9, records=9, fields=dict.fromkeys(RULE.fields, 9))
    for name, read in (("june", one), ("july", full)):
        api.jobs.keep(name)
        api.jobs.read[name] = tuple(covered(biz, {"page": read}))

    june, july = (crawlfleet("job", "wait", "news", name).err for name in ("june", "july"))

    assert "of 9 records have a value: sku 0" in june
    assert "mostly" not in june
    assert "value" not in july


@pytest.mark.parametrize("command", ["wait", "show"])
def test_the_end_of_a_job_names_the_pages_that_it_did_not_read_as_others_had(
    crawlfleet, api, command
):
    api.jobs.keep("june", known_links=53, known_in="2026-11-23")
    api.jobs.keep("july")

    done = crawlfleet("job", command, "news", "june")

    said = " ".join(done.err.split())
    assert "53 pages that its links lead to were not read: known in segment 2026-11-23" in said
    assert "--segment job" in said
    assert "segment" not in crawlfleet("job", command, "news", "july").err


def test_a_job_of_submissions_is_not_advised_an_option_that_submit_has_not(crawlfleet, api):
    api.jobs.keep("june", by="submission", known_links=11, known_in="2026-11-23")

    def said():
        return " ".join(crawlfleet("job", "wait", "news", "june").err.split())

    assert "`crawlfleet job start news --rule RULE --url URL --segment job` reads all" in said()
    crawlfleet(
        "submit", "news", "https://example.org/?a=1&b=2", "--rule", "article", "--job", "june"
    )
    its_own = "--rule article --url 'https://example.org/?a=1&b=2'"
    assert f"`crawlfleet job start news {its_own} --segment job` reads all" in said()


def test_the_advice_for_an_empty_field_names_a_page_without_it(crawlfleet, api):
    biz = make_biz(rules={"page": RULE})
    api.jobs.keep("june")
    api.jobs.read["june"] = tuple(covered(biz, {"page": READ}))
    full = {"title": "a", "price": "1", "sku": "x"}
    api.records = [
        {"id": "1-0", "request_id": "1", "url": "https://example.org/full", "fields": full},
        {"id": "2-0", "request_id": "2", "url": "https://example.org/a?b&c", "fields": {}},
    ]

    for command in ("wait", "show"):
        said = crawlfleet("job", command, "news", "june").err
        assert "rule try page 'https://example.org/a?b&c' --remote --biz news" in said


def test_a_start_under_a_name_that_is_there_says_so_and_since_when(crawlfleet, api):
    start = ("job", "start", "news", "--spider", "shop", "--name", "june", "--wait")

    first, again = crawlfleet(*start), crawlfleet(*start)

    assert "already" not in first.err
    assert "job june was there already, since 20" in again.err
    assert "nothing is started twice; another --name starts one" in again.err
    assert again.out == first.out


def test_a_value_for_a_place_that_there_is_not_is_told_the_places_there_are(crawlfleet, api):
    wrong = InvalidRequestError(
        (Problem("values.m", "there is no such place to fill; its open places: n"),)
    )
    missing = InvalidRequestError((Problem("values.n", "is to be given: the pattern has {n}"),))

    assert judge(wrong, "job") == (2, "")
    assert judge(missing, "job")[1].startswith("`--value n=...` fills it")


def test_a_start_whose_wait_was_too_short_names_the_job_and_how_to_go_on(crawlfleet, api):
    done = crawlfleet(
        *("job", "start", "news", "--pattern", "https://example.org/{n}", "--value", "n=1..9999"),
        *("--wait", "--timeout", "0"),
    )

    [name] = api.jobs.kept
    assert done.code == 5
    assert f"{name} is started" in done.err
    assert f"the job {name} has not ended within 0 seconds" in done.err
    assert " 0 " not in done.err.replace("0 seconds", "")
    assert f"`crawlfleet job show news {name}`" in done.err
    assert f"`crawlfleet job wait news {name}`" in done.err
    assert "NAME" not in done.err


def test_a_start_chooses_its_segment(crawlfleet, api):
    started = ("job", "start", "news", "--rule", "article", "--url", "https://example.org/1")

    assert crawlfleet(*started, "--name", "june", "--segment", "day").code == 0
    assert crawlfleet(*started, "--name", "july", "--segment", "year").code == 2
    assert api.jobs.kept["june"].segment == "day"
    assert set(api.jobs.kept) == {"june"}


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
    assert "z" in done.lines[2]
    assert "more than these 2" in done.err
    rows = crawlfleet("job", "list", "news", "--state", "running", "--json").rows()
    assert [row["name"] for row in rows] == ["c", "b", "a"]
    assert "there are none" in crawlfleet("job", "list", "news", "--state", "unplaced").err


def test_a_list_shows_what_was_read_and_what_died_of_a_job_by_submission(crawlfleet, api):
    ended = {"state": JobState.DONE, "by": "submission", "size": 0, "expanded": 0}
    api.jobs.keep("sub", counts={"done": 64, "dead": 2}, **ended)

    line = crawlfleet("job", "list", "news").lines[2].split()

    assert line[:6] == ["sub", "done", "article", "66", "64", "2"]


def test_a_list_shows_how_far_jobs_are_and_when_that_was_counted(crawlfleet, api):
    api.jobs.keep("sub", by="submission", size=0, expanded=0)
    api.jobs.keep("june", refused=1)
    api.jobs.ledgers["sub"] = Ledger(submitted=190, done=64, dead=2, pending=124)

    known = crawlfleet("job", "list", "news")
    [_, listed] = crawlfleet("job", "list", "news", "--json").rows()
    api.jobs.ledgers.clear()
    away = crawlfleet("job", "list", "news")

    rows = [line.split()[:6] for line in known.lines[2:4]]
    assert rows == [
        ["june", "running", "article", "3", "-", "-"],
        ["sub", "running", "article", "190", "64", "2"],
    ]
    assert "of jobs that go on: as it was at 2026-03-01 12:00:30Z" in known.err
    assert "jobs that go on could not be counted now" in away.err
    assert (listed["open"], listed["counted_at"]) == (124, "2026-03-01T12:00:30Z")


def test_a_job_that_goes_on_is_shown_with_what_has_ended_and_when_that_was_counted(crawlfleet, api):
    api.jobs.keep("june", size=9)
    api.jobs.done["june"] = 3

    found = crawlfleet("job", "show", "news", "june", "--json").json()
    shown = " ".join(crawlfleet("job", "show", "news", "june").out.split())

    assert (found["counts"]["done"], found["open"]) == (4, 5)
    assert "counted 2026-03-01 12:00:30Z" in shown


def test_outside_of_a_terminal_a_wait_writes_now_and_then_how_far_the_job_is(
    crawlfleet, api, monkeypatch
):
    biz = make_biz(rules={"page": RULE})
    api.jobs.read["june"] = tuple(covered(biz, {"page": READ}))
    lines = []
    for seconds in (0.0, 3600.0):
        monkeypatch.setattr("crawlfleet.cli.following.LINE_SECONDS", seconds)
        api.jobs.keep("june")
        api.jobs.done.clear()
        said = crawlfleet("job", "wait", "news", "june").err.splitlines()
        lines.append([line for line in said if line.startswith("june ")])

    assert lines[0][0] == "june running: none ended, 3 open, 126 records, at 2026-03-01 12:00:30Z"
    assert lines[0][2] == "june running: 2 done, 1 open, 126 records, at 2026-03-01 12:00:30Z"
    assert len(lines[0]) == 3
    assert lines[1] == []


def test_a_job_without_open_tasks_that_has_not_ended_says_when_it_will(
    crawlfleet, api, monkeypatch
):
    monkeypatch.setattr("crawlfleet.cli.following.LINE_SECONDS", 0.0)
    whole = api.jobs.whole
    api.jobs.whole = lambda job: {**whole(job), "counts": {"done": 3}, "open": 0}
    api.jobs.keep("june")

    done = crawlfleet("job", "wait", "news", "june")

    assert "3 done, 0 open" in done.err
    assert "it ends when the next look, within a minute, finds no more" in done.err


def test_an_api_that_says_nothing_of_when_it_counted_is_followed_too(crawlfleet, api, monkeypatch):
    monkeypatch.setattr("crawlfleet.cli.following.LINE_SECONDS", 0.0)
    whole = api.jobs.whole
    api.jobs.whole = lambda job: {**whole(job), "counts": {}, "open": None, "counted_at": None}
    api.jobs.keep("june", size=1)

    assert crawlfleet("job", "wait", "news", "june").err.startswith("june running\n")


def test_a_job_that_was_cancelled_has_no_rate(crawlfleet, api):
    later = START + timedelta(minutes=1)
    api.jobs.keep("june", size=9_000, state=JobState.DONE, ended_at=later)
    api.jobs.keep("july", size=9_000, state=JobState.CANCELLED, cancelled_at=later, ended_at=later)
    api.jobs.done |= {"june": 8_000, "july": 8_000}

    shown = [crawlfleet("job", "show", "news", name).out for name in ("june", "july")]

    assert ["a second" in one for one in shown] == [True, False]


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
