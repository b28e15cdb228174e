import csv
import io
import json
import re

import pytest

from tests.kit.api_server import BIZ, FIRST_ID, Fault, record
from tests.kit.config import Field, Rule
from tests.kit.jobs import JobState
from tests.kit.records import covered
from tests.kit.requests import Coverage
from tests.kit.worlds.memory import make_biz

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


@pytest.mark.parametrize("command", [("status",), ("cancel",), ("dead", "show")])
def test_a_url_in_the_place_of_an_id_is_told_which_commands_take_one(crawlfleet, api, command):
    done = crawlfleet(*command, BIZ, "https://example.org/1")

    assert done.code == 2
    assert f"`crawlfleet requests {BIZ} --url https://example.org/1`" in done.err
    assert f"`crawlfleet explain {BIZ} https://example.org/1`" in done.err


def test_an_unknown_request_ends_with_its_own_code(crawlfleet, api):
    done = crawlfleet("status", BIZ, "17", "--json")

    assert (done.code, done.out) == (4, "")
    assert f"crawlfleet requests {BIZ}`" in done.err
    assert "requests expire" in done.err


def test_texts_from_the_web_do_not_steer_the_terminal(crawlfleet, three):
    three.requests[str(FIRST_ID)]["error"] = "\x1b[2J[bold]\x9b31mgone"

    done = crawlfleet("status", BIZ, str(FIRST_ID))

    assert "\x1b" not in done.out
    assert "\x9b" not in done.out
    assert "\\x1b[2J[bold]\\x9b31mgone" in done.out


TO_REVIEWED = ("--from", "done", "--to", "reviewed")


def test_requests_are_changed_to_a_state_of_the_bizs_own(crawlfleet, three):
    three.finish()
    ids = [str(FIRST_ID + n) for n in range(2)]

    done = crawlfleet("transition", BIZ, *ids, *TO_REVIEWED, "--why", "by Ann")

    assert (done.code, done.out) == (0, "changed 2, refused 0\n")
    assert json.loads(three.calls[-1].body)["why"] == "by Ann"
    again = crawlfleet("transition", BIZ, ids[0], *TO_REVIEWED)
    assert (again.code, again.out) == (0, "changed 0, refused 0, 1 were already\n")


def test_those_that_could_not_be_changed_are_named_and_the_exit_code_says_so(crawlfleet, three):
    three.requests[str(FIRST_ID)]["state"] = "done"

    done = crawlfleet("transition", BIZ, str(FIRST_ID), str(FIRST_ID + 1), "17", *TO_REVIEWED)

    assert (done.code, done.out) == (1, "changed 1, refused 2\n")
    assert f"{FIRST_ID + 1}: request {FIRST_ID + 1} is pending, not done" in done.err
    assert "17: no request" in done.err


def test_ids_are_read_from_standard_input_and_each_is_a_line_of_json(
    crawlfleet, three, monkeypatch
):
    three.finish()
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{FIRST_ID}\n\n {FIRST_ID + 1} \n"))

    done = crawlfleet("transition", BIZ, "-", *TO_REVIEWED, "--json")

    assert done.code == 0
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"id": str(FIRST_ID + n), "state": "reviewed"} for n in range(2)
    ]


def test_a_transition_that_the_biz_has_not_is_bad_input(crawlfleet, three):
    done = crawlfleet("transition", BIZ, "17", "--from", "done", "--to", "archived")

    assert done.code == 2
    assert "to_state: done may become reviewed" in done.err
    assert crawlfleet("transition", BIZ, *TO_REVIEWED).code == 2


def test_a_request_is_cancelled_once(crawlfleet, three):
    assert crawlfleet("cancel", BIZ, str(FIRST_ID)).out == f"{FIRST_ID} cancelled\n"

    again = crawlfleet("cancel", BIZ, str(FIRST_ID))
    assert again.code == 1
    assert f"status {BIZ} {FIRST_ID}`" in again.err
    other = crawlfleet("cancel", BIZ, str(FIRST_ID + 1), "--json")
    assert other.json()["state"] == "cancelled"


def test_requests_are_listed_in_a_table_or_as_lines(crawlfleet, three):
    assert f"{URL}/2" in crawlfleet("requests", BIZ).out
    rows = crawlfleet("requests", BIZ, "--json", "--state", "pending", "--since", "15m").rows()
    assert [row["id"] for row in rows] == [str(FIRST_ID + n) for n in range(3)]
    assert three.calls[-1].params["since"].endswith("Z")
    assert three.calls[-1].params["state"] == "pending"
    none = crawlfleet("requests", BIZ, "--job", "june")
    assert three.calls[-1].params["job"] == "june"
    assert none.err.endswith("with job june\n")


def test_requests_of_a_page_or_a_job_are_a_table_the_newest_first(crawlfleet, three):
    crawlfleet("submit", BIZ, f"{URL}/9", "--job", "june")

    every = crawlfleet("requests", BIZ)
    of_page = crawlfleet("requests", BIZ, "--url", f"{URL}/1")
    of_job = crawlfleet("requests", BIZ, "--job", "june", "--url", f"{URL}/9", "--json")

    ids = [line.split()[0] for line in every.lines[2:] if "://" not in line]
    assert ids == [str(FIRST_ID + n) for n in (3, 2, 1, 0)]
    assert every.lines[0].split() == ["id", "state", "job", "queued", "tries", "records"]
    assert every.lines[2].split()[1:3] == ["pending", "june"]
    assert [line.strip() for line in of_page.lines if "://" in line] == [f"{URL}/1"]
    assert [row["job"] for row in of_job.rows()] == ["june"]
    assert "order" not in three.calls[-1].params
    assert crawlfleet("requests", BIZ, "--order", "oldest").lines[2].startswith(str(FIRST_ID))


def test_a_table_that_is_cut_says_so(crawlfleet, three):
    done = crawlfleet("requests", BIZ, "--limit", "2")

    assert f"{URL}/0" not in done.out
    assert "more than these 2" in done.err
    assert "--url" in done.err


def test_bizs_are_listed_with_their_rules_and_spiders(crawlfleet, api):
    assert "config push FOLDER --stage STAGE" in crawlfleet("bizs").err
    one = {"name": "news", "description": "Daily.", "rules": ["article", "list"], "spiders": []}
    api.bizs.append(one)

    assert crawlfleet("bizs", "--json").json() == {"bizs": [one]}
    shown = crawlfleet("bizs")
    assert shown.lines[-1].split(None, 3)[:3] == ["news", "article,", "list"]


# ---- figures -------------------------------------------------------------------------------------


def test_a_list_of_none_says_so_and_what_was_asked_for(crawlfleet, three):
    done = crawlfleet("requests", BIZ, "--state", "leased")

    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("with state leased\n")
    both = crawlfleet("requests", BIZ, "--since", "15m", "--state", "leased")
    assert "with state leased, since 20" in both.err


def test_the_workers_time_is_said_to_be_a_sum(crawlfleet, three):
    words = set(crawlfleet("stats", BIZ).out.split())

    assert {"summed", "over", "all", "pages,", "also", "under", "way", "at", "once"} <= words


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


def test_a_records_trace_is_in_jsonl_and_in_a_column_of_its_own_where_any_has_one(
    crawlfleet, library
):
    assert "_trace" not in crawlfleet("records", BIZ, "--format", "csv").out
    library.records[1]["trace"] = "ab" * 16

    rows = list(csv.DictReader(io.StringIO(crawlfleet("records", BIZ, "--format", "csv").out)))
    chosen = crawlfleet("records", BIZ, "--format", "csv", "--fields", "title,_trace")
    lines = crawlfleet("records", BIZ, "--json").rows()

    assert [row["_trace"] for row in rows] == ["", "ab" * 16, ""]
    assert chosen.lines[0] == "title,_trace"
    assert chosen.lines[2].endswith(f",{'ab' * 16}")
    assert [line["trace"] for line in lines] == [None, "ab" * 16, None]


def test_no_cell_of_csv_is_a_formula_and_numbers_stay_as_they_are(crawlfleet, api, tmp_path):
    formulas = ("=1+1", "+cmd|'/c calc'!A0", "-2+3", "@SUM(A1)", "\tx", "\r=1")
    numbers = (-3, -1.5, "-12.50", "+4e-2", "-", "it's")
    for number, value in enumerate((*formulas, *numbers)):
        api.records.append(record(str(number), 0, **{"=value": value}))
    file, cursor = tmp_path / "out.csv", tmp_path / "cursor"
    options = ("records", BIZ, "--format", "csv", "--cursor-file", str(cursor), "-o", str(file))

    crawlfleet(*options)
    # What it has begun it goes on with: the columns are read back as they were meant.
    api.records.append(record("99", 0, **{"=value": "last"}))
    again = crawlfleet(*options)

    header, *rows = csv.reader(io.StringIO(file.read_bytes().decode(), newline=""))
    assert (again.code, header[-1]) == (0, "'=value")
    cells = list({row[0]: row[-1] for row in rows}.values())
    assert cells[: len(formulas)] == [f"'{value}" for value in formulas]
    assert cells[len(formulas) :] == ["-3", "-1.5", "-12.50", "+4e-2", "'-", "it's", "last"]


def test_csv_with_chosen_fields_has_those_columns_only_in_that_order(crawlfleet, library):
    csv_of = ("records", BIZ, "--format", "csv", "--fields")

    done = crawlfleet(*csv_of, "price, title")
    beside = crawlfleet(*csv_of, "_url,title,_stored_at,_id", "--limit", "1")

    assert done.lines == ["price,title", ",Börse", ",", "3.5,x"]
    assert beside.lines == [
        "_url,title,_stored_at,_id",
        "https://example.org/1,Börse,2026-01-01T00:00:01.500000Z,1-0",
    ]


def test_columns_come_in_the_order_of_the_rule_though_a_field_of_it_is_new(crawlfleet, api):
    api.records = [record("1", 0, url="u", words=1)]
    api.records += [record("2", 0, first=0, url="u", title="x", topic="t", words=1, last=2)]

    done = crawlfleet("records", BIZ, "--format", "csv")
    table = crawlfleet("records", BIZ, "--format", "table", "--order", "oldest")

    assert done.lines[0].endswith("_job,first,url,title,topic,words,last")
    assert table.lines[0].split()[2:] == ["first", "url", "title", "topic", "words"]


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
    assert (some.code, "'prise'" in some.err) == (2, True)
    assert not (tmp_path / "some.csv").exists()


def test_a_field_that_no_record_has_is_refused_before_the_first_row(crawlfleet, library):
    for form in ("jsonl", "csv", "table"):
        done = crawlfleet("records", BIZ, "--format", form, "--fields", "title,prise")

        assert (done.code, done.out) == (2, "")
        assert re.search(r"'prise'; they have price, title, tags", done.err)
    later = crawlfleet("records", BIZ, "--cursor", "2", "--fields", "title,prise")
    assert (later.code, len(later.rows()), "'prise'" in later.err) == (0, 1, True)
    library.records.clear()
    assert crawlfleet("records", BIZ, "--fields", "prise").code == 0


def test_a_field_that_only_other_records_have_is_no_error(crawlfleet, library):
    fields = [{"name": "isbn", "count": 3, "share": 1.0, "why": None}]
    library.findings.coverage = [{"rule": "article", "version": "1", "fields": fields}]

    done = crawlfleet("records", BIZ, "--format", "csv", "--fields", "title,isbn", "--limit", "1")

    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == "title,isbn"


def test_lines_have_the_chosen_fields_alone(crawlfleet, library):
    rows = crawlfleet("records", BIZ, "--fields", "price,title").rows()

    assert [row["fields"] for row in rows] == [
        {"title": "Börse"},
        {"title": None},
        {"price": 3.5, "title": "x"},
    ]


def test_records_are_asked_for_by_what_they_are(crawlfleet, library):
    options = {
        "--job": "june",
        "--rule": "article",
        "--rule-version": "1a",
        "--host": "a.example",
        "--field": "price=3.5",
        "--until": "2026-01-31T08:00:00Z",
        "--order": "newest",
    }
    typed = [each for pair in options.items() for each in pair]

    done = crawlfleet("records", BIZ, "--since", "2h", *typed)

    assert done.code == 0
    asked = library.calls[-1].params
    assert {name: asked[name.strip("-").replace("-", "_")] for name in options} == options
    assert asked["since"].endswith("Z")
    for wrong in (("--follow",), ("--cursor", "1")):
        assert crawlfleet("records", BIZ, "--order", "newest", *wrong).code == 2


def test_a_table_shows_the_newest_records_with_a_column_a_field(crawlfleet, library):
    library.records[0]["fields"]["title"] = "a long title " * 30
    library.records[0]["request_id"] = "7300123456789012345"

    done = crawlfleet("records", BIZ, "--format", "table")

    assert library.calls[0].params["order"] == "newest"
    head = next(line for line in done.lines if line.strip())
    assert head.split() == ["request", "stored", "url", "title", "tags", "price"]
    assert "7300123456789012345" in done.out
    assert max(map(len, done.lines)) <= 120
    assert len(done.lines) == 5, done.out
    few = crawlfleet("records", BIZ, "--format", "table", "--fields", "tags", "--limit", "2")
    assert "title" not in few.out
    assert "there are more than these 2" in few.err
    assert crawlfleet("records", BIZ, "--format", "table", "--output", "x.txt").code == 2
    library.records.clear()
    none = crawlfleet("records", BIZ, "--format", "table")
    assert (none.code, none.out) == (0, "")
    assert none.err.startswith("there are none: ")


def test_rows_of_csv_carry_the_job_and_a_file_of_before_goes_on_as_it_was(
    crawlfleet, library, tmp_path
):
    library.records[2]["job"] = "june"
    new = crawlfleet("records", BIZ, "--format", "csv")
    file = tmp_path / "old.csv"
    file.write_text("_id,_request_id,_url,_rule,_stored_at,title\r\n")

    crawlfleet("records", BIZ, "--format", "csv", "--cursor", "2", "-o", str(file))

    assert [row["_job"] for row in csv.DictReader(new.lines)] == ["", "", "june"]
    [row] = csv.DictReader(io.StringIO(file.read_text("utf-8"), newline=""))
    assert ("_job" in row, row["title"]) == (False, "x")


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
    assert crawlfleet("records", BIZ, "--json", "--format", "table").code == 2
    follow = crawlfleet("records", BIZ, "--follow", "--format", "csv")
    assert follow.code == 2
    assert "--fields" in follow.err


def test_a_filter_by_a_job_or_a_rule_that_there_is_not_says_so_and_names_what_there_is(
    crawlfleet, api
):
    api.jobs.keep("june")
    api.records = []

    job = crawlfleet("records", BIZ, "--job", "jun")
    rule = crawlfleet("records", BIZ, "--rule", "artcle", "--format", "table")
    known = crawlfleet("records", BIZ, "--job", "june", "--rule", "article")

    assert (job.code, rule.code, known.code) == (0, 0, 0)
    assert "there is no job 'jun'; the newest are june" in job.err
    assert "there is no rule or spider 'artcle'; this biz has article" in rule.err
    assert "there is no" not in known.err
    assert job.out == known.out == ""


def test_a_filter_by_a_field_that_no_record_has_says_so_and_names_those_there_are(crawlfleet, api):
    api.records = []
    price = {"name": "price", "count": 3, "share": 1.0}
    api.findings.coverage = [{"rule": "article", "version": "1", "fields": [price]}]

    wrong = crawlfleet("records", BIZ, "--field", "prise=1")
    right = crawlfleet("records", BIZ, "--field", "price=1")

    assert (wrong.code, wrong.out) == (0, "")
    assert "no record has the field 'prise'; they have price" in wrong.err
    assert "no record has" not in right.err


def test_records_of_a_job_of_which_later_runs_have_saved_some_anew_are_said_to_be_what_is_left(
    crawlfleet, api
):
    api.jobs.keep("june")
    biz = make_biz(rules={"article": Rule(fields={"title": Field(css="title")})})
    read = {"article": Coverage(pages=3, records=3, fields={"title": 3})}
    api.jobs.read["june"] = tuple(covered(biz, read))
    api.records = [{**record(str(FIRST_ID), 0, title="A"), "job": "june"}]

    left = crawlfleet("records", BIZ, "--job", "june")
    first = crawlfleet("records", BIZ, "--job", "june", "--limit", "1")
    narrowed = crawlfleet("records", BIZ, "--job", "june", "--since", "1h")
    api.records += [{**record(str(FIRST_ID + n), n, title="B"), "job": "june"} for n in (1, 2)]
    whole = crawlfleet("records", BIZ, "--job", "june")

    assert "the job has stored 3 records, and 1 of them are its own still" in left.err
    assert "its own still" not in first.err + narrowed.err + whole.err


def test_an_empty_export_of_an_earlier_run_says_that_later_ones_have_saved_its_records(
    crawlfleet, api, tmp_path
):
    api.jobs.keep("june")
    api.records, api.records_note = [], "the job june has stored 3 records with a key of their own"
    file = tmp_path / "out.jsonl"

    done = crawlfleet("records", BIZ, "--job", "june", "--rule", "article", "-o", str(file))

    shown = " ".join(done.err.split())
    assert f"{api.records_note}; as they are now: crawlfleet records {BIZ} --rule article" in shown
    assert "--cursor" not in shown
    assert done.code == 0


def test_no_cursor_is_offered_where_a_job_has_ended_and_nothing_follows(crawlfleet, api, tmp_path):
    api.jobs.keep("june")
    api.records = [{**record(str(FIRST_ID), 0, title="A"), "job": "june"}]
    options = ("records", BIZ, "--job", "june", "-o", str(tmp_path / "out.jsonl"))

    assert "go on from here with --cursor" in crawlfleet(*options).err
    api.jobs.keep("june", state=JobState.DONE)
    assert "--cursor" not in crawlfleet(*options).err
