import csv
import io
import json
import re

import pytest

from tests.kit.api_server import BIZ, FIRST_ID, KEY, Fault, record

URL = "https://example.org/a"


@pytest.fixture
def three(api, crawlfleet):
    crawlfleet("submit", BIZ, *(f"{URL}/{n}" for n in range(3)))
    return api


# ---- requests ------------------------------------------------------------------------------------


def test_a_request_is_shown_with_its_timeline(crawlfleet, three):
    done = crawlfleet("status", BIZ, str(FIRST_ID))

    assert done.code == 0
    for part in (
        str(FIRST_ID),
        "pending",
        f"{URL}/0",
        "2026-01-01 00:00:00Z",
        "router",
        "accepted",
    ):
        assert part in done.out
    assert (
        crawlfleet("status", BIZ, str(FIRST_ID), "--json").json()["timeline"][0]["by"] == "router"
    )


def test_an_unknown_request_ends_with_its_own_code(crawlfleet, api):
    done = crawlfleet("status", BIZ, "17", "--json")

    assert (done.code, done.out) == (4, "")
    assert "crawlfleet requests BIZ" in done.err
    assert "requests expire" in done.err


def test_texts_from_the_web_do_not_steer_the_terminal(crawlfleet, three):
    three.requests[str(FIRST_ID)]["error"] = "\x1b[2J[bold]\x9b31mgone"

    done = crawlfleet("status", BIZ, str(FIRST_ID))

    assert "\x1b" not in done.out
    assert "\x9b" not in done.out
    assert "\\x1b[2J[bold]\\x9b31mgone" in done.out


def test_a_request_is_cancelled_once(crawlfleet, three):
    assert crawlfleet("cancel", BIZ, str(FIRST_ID)).out == f"{FIRST_ID} cancelled\n"

    again = crawlfleet("cancel", BIZ, str(FIRST_ID))
    assert again.code == 1
    assert "status BIZ ID" in again.err
    other = crawlfleet("cancel", BIZ, str(FIRST_ID + 1), "--json")
    assert other.json()["state"] == "cancelled"


def test_requests_are_listed_in_a_table_or_as_lines(crawlfleet, three):
    assert f"{URL}/2" in crawlfleet("requests", BIZ).out
    rows = crawlfleet("requests", BIZ, "--json", "--state", "pending", "--since", "15m").rows()
    assert [row["id"] for row in rows] == [str(FIRST_ID + n) for n in range(3)]
    assert three.calls[-1].params["since"].endswith("Z")
    assert three.calls[-1].params["state"] == "pending"


def test_a_table_that_is_cut_says_so(crawlfleet, three):
    done = crawlfleet("requests", BIZ, "--limit", "2")

    assert f"{URL}/2" not in done.out
    assert "more than these 2" in done.err


# ---- figures -------------------------------------------------------------------------------------


def test_a_list_of_none_says_so_and_what_was_asked_for(crawlfleet, three):
    done = crawlfleet("requests", BIZ, "--state", "leased")

    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("with state leased\n")


def test_the_workers_time_is_said_to_be_a_sum(crawlfleet, three):
    said = " ".join(crawlfleet("stats", BIZ).out.split())

    assert "summed over" in said
    assert "at once" in said


def test_stats_are_shown_in_tables_or_as_json(crawlfleet, three):
    done = crawlfleet("stats", BIZ)

    for part in ("pending", "submitted", "2.5", "fetch", "89%", "oldest since"):
        assert part in done.out
    assert crawlfleet("stats", BIZ, "--json").json()["rates"]["processed"]["60s"] == 1.25


def test_watching_gives_a_line_per_look(crawlfleet, three):
    done = crawlfleet("stats", BIZ, "--watch", "--interval", "0.001", "--times", "3", "--json")

    assert len(done.rows()) == 3


def test_watching_is_ended_by_an_interrupt_without_a_complaint(crawlfleet, three, pausing):
    def interrupted(_):
        raise KeyboardInterrupt

    pausing(interrupted)

    done = crawlfleet("stats", BIZ, "--watch")

    assert done.code == 0
    assert "pending" in done.out


# ---- records -------------------------------------------------------------------------------------


@pytest.fixture
def library(api):
    api.records = [record("1", 0, title="Börse", tags=["a", "b"]), record("2", 0, title=None)]
    api.records += [record("3", 0, title="x", price=3.5)]
    api.page = 2
    return api


def test_records_come_as_lines_of_json(crawlfleet, library):
    done = crawlfleet("records", BIZ)

    assert [row["id"] for row in done.rows()] == ["1-0", "2-0", "3-0"]
    assert done.rows()[0]["fields"] == {"title": "Börse", "tags": ["a", "b"]}
    assert (
        crawlfleet("records", BIZ, "--json", "--limit", "1", "--request", "2").rows()[0]["id"]
        == "2-0"
    )


def test_csv_has_a_column_for_every_field_that_occurs(crawlfleet, library, tmp_path):
    file = tmp_path / "out.csv"

    done = crawlfleet("records", BIZ, "--format", "csv", "--output", str(file))

    rows = list(csv.DictReader(io.StringIO(file.read_text("utf-8"), newline="")))
    assert [row["title"] for row in rows] == ["Börse", "", "x"]
    assert [row["tags"] for row in rows] == ['["a","b"]', "", ""]
    assert [row["price"] for row in rows] == ["", "", "3.5"]
    assert rows[0]["_stored_at"] == "2026-01-01T00:00:01.500000Z"
    assert f"3 records in {file}" in done.err
    assert list(tmp_path.iterdir()) == [file]


def test_csv_with_chosen_fields_has_those_columns_only(crawlfleet, library):
    done = crawlfleet("records", BIZ, "--format", "csv", "--fields", "price, title")

    assert done.lines[0].endswith("_stored_at,price,title")
    assert done.lines[3].endswith(",3.5,x")


def test_a_field_that_no_record_has_is_an_error_and_nothing_is_written(
    crawlfleet, library, tmp_path
):
    file = tmp_path / "out.csv"
    file.write_text("old")
    command = ("records", BIZ, "--format", "csv", "--fields", "title,prise")

    done = crawlfleet(*command, "--output", str(file))
    some = crawlfleet(*command, "--limit", "1", "--output", str(tmp_path / "some.csv"))

    assert (done.code, file.read_text()) == (2, "old")
    assert re.search(r"'prise'.* price", done.err)
    assert (some.code, "'prise'" in some.err) == (0, True)
    assert "1 record in " in some.err


def test_a_failed_export_leaves_the_old_file_alone(crawlfleet, library, tmp_path):
    file = tmp_path / "out.jsonl"
    file.write_text("old")
    library.faults.append(Fault(500))

    assert crawlfleet("records", BIZ, "--output", str(file)).code == 1

    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_run_goes_on_where_the_last_one_ended(crawlfleet, library, tmp_path):
    file, cursor = tmp_path / "out.csv", tmp_path / "cursor"
    options = ("records", BIZ, "--format", "csv", "--cursor-file", str(cursor), "-o", str(file))
    crawlfleet(*options)
    library.records.append(record("4", 0, title="new"))

    done = crawlfleet(*options)

    rows = list(csv.DictReader(io.StringIO(file.read_text("utf-8"), newline="")))
    assert done.code == 0
    assert list(dict.fromkeys(row["_id"] for row in rows)) == ["1-0", "2-0", "3-0", "4-0"]
    assert rows[-1]["title"] == "new"
    assert cursor.read_text() == "3\n"


def test_a_file_with_other_columns_is_not_spoilt(crawlfleet, library, tmp_path):
    file = tmp_path / "out.csv"
    file.write_text("name,size\n")

    done = crawlfleet("records", BIZ, "--format", "csv", "--cursor", "0", "-o", str(file))

    assert done.code == 2
    assert "has other columns" in done.err
    assert file.read_text() == "name,size\n"


def test_following_goes_on_until_interrupted_and_reports_the_cursor(
    crawlfleet, library, pausing, tmp_path
):
    slept = []

    def grow(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt
        library.records.append(record(f"9{len(slept)}", 0))

    pausing(grow)
    file, cursor = tmp_path / "out.jsonl", tmp_path / "cursor"

    done = crawlfleet(
        "records", BIZ, "--follow", "--output", str(file), "--cursor-file", str(cursor)
    )

    ids = [json.loads(line)["id"] for line in file.read_text().splitlines()]
    assert done.code == 0
    assert ids == ["1-0", "2-0", "3-0", "91-0", "92-0"]
    assert cursor.exists()


def test_csv_without_an_end_is_possible_with_chosen_fields(crawlfleet, library, pausing):
    def interrupted(_):
        raise KeyboardInterrupt

    pausing(interrupted)

    done = crawlfleet("records", BIZ, "--follow", "--format", "csv", "--fields", "title")

    assert done.code == 0
    assert len(done.lines) == 4
    assert "with --cursor 2" in done.err


def test_an_interrupted_export_leaves_nothing_half_done(crawlfleet, library, monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", interrupted)

    done = crawlfleet("records", BIZ, "--format", "csv", "-o", str(tmp_path / "out.csv"))

    assert done.code == 130
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named_before_anything_is_read(
    crawlfleet, library, tmp_path
):
    for option in ("--output", "--cursor-file"):
        done = crawlfleet("records", BIZ, option, str(tmp_path / "none" / "file"))

        assert done.code == 2
        assert f"'{tmp_path / 'none'}'" in done.err


def test_what_the_system_refuses_is_said_in_a_line(crawlfleet, library, monkeypatch, tmp_path):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied", "out.csv")

    monkeypatch.setattr("pathlib.Path.replace", refused)

    done = crawlfleet("records", BIZ, "--format", "csv", "-o", str(tmp_path / "out.csv"))

    assert done.code == 2
    assert done.err.splitlines()[-1].endswith("out.csv: Permission denied")


def test_options_that_exclude_each_other_are_refused(crawlfleet, library):
    assert crawlfleet("records", BIZ, "--json", "--format", "csv").code == 2
    assert crawlfleet("records", BIZ, "--fields", "title").code == 2
    follow = crawlfleet("records", BIZ, "--follow", "--format", "csv")
    assert follow.code == 2
    assert "--fields" in follow.err


# ---- schedules -----------------------------------------------------------------------------------


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
    assert "forward by 60 min" in shown
    assert "back by 60 min" in shown
    preview = crawlfleet("schedule", "next", BIZ, "--cron", "0 3 * * *", "--json").json()
    assert [run["shift_seconds"] for run in preview["runs"]] == [3600, -3600, 0]
    assert crawlfleet("schedule", "next", BIZ, "other").code == 4


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


def test_what_a_schedule_was_before_is_listed(crawlfleet, api):
    options = ("--cron", "0 3 * * *", "--rule", "article", "--url", URL)
    crawlfleet("schedule", "put", BIZ, "nightly", *options)

    assert "article on 1 URL " in crawlfleet("schedule", "versions", BIZ, "nightly").out
    listed = crawlfleet("schedule", "versions", BIZ, "nightly", "--limit", "1", "--json").json()
    assert [each["version"] for each in listed["versions"]] == [2]


def test_a_wrong_schedule_is_refused_with_its_field(crawlfleet, api):
    wrong = crawlfleet("schedule", "put", BIZ, "x", "--cron", "often", "--rule", "r", "--url", URL)

    assert (wrong.code, "cron: " in wrong.err) == (2, True)
    assert crawlfleet("schedule", "put", BIZ, "x", "--cron", "* * * * *", "--rule", "r").code == 2
    assert KEY not in wrong.err
