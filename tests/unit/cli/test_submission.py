import io
import json
import sys
from types import SimpleNamespace

import pytest

from tests.kit.api_server import BIZ, FIRST_ID, KEY, Fault, problem
from tests.kit.cli import progress
from tests.kit.sdk import Client

URL = "https://example.org/a"


@pytest.fixture
def stdin(monkeypatch):
    def give(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


def test_one_url_prints_its_id_and_the_next_step(crawlfleet, api):
    done = crawlfleet("submit", BIZ, URL, "--rule", "article")

    assert (done.code, done.out) == (0, f"{FIRST_ID}\n")
    assert f"crawlfleet status {BIZ} {FIRST_ID}" in done.err
    assert json.loads(api.calls[0].body)["requests"] == [{"url": URL, "rule": "article"}]


@pytest.mark.parametrize(
    "command",
    [("submit", BIZ), ("seeds", "offer", BIZ), ("job", "start", BIZ, "--rule", "article", "--url")],
)
def test_the_environments_trace_is_gone_on_with(crawlfleet, api, monkeypatch, command):
    monkeypatch.setenv("TRACEPARENT", f"00-{'ab' * 16}-{'cd' * 8}-01")

    assert crawlfleet(*command, "https://example.org/a").code == 0

    assert api.calls[0].headers["traceparent"].startswith("00-abab")


def test_a_file_of_urls_and_entries_is_submitted(crawlfleet, api, tmp_path):
    file = tmp_path / "urls.txt"
    file.write_text(f'\ufeff{URL}/1\n\n# not this\n{{"url": "{URL}/2", "meta": {{"n": 1}}}}\n')

    done = crawlfleet("submit", BIZ, "--file", str(file), "--json")

    assert done.code == 0
    assert done.json()["accepted"] == 2
    assert [each["url"] for each in done.json()["requests"]] == [f"{URL}/1", f"{URL}/2"]
    assert list(api.requests.values())[1]["meta"] == {"n": 1}


def test_standard_input_is_read_and_wrong_lines_are_named_and_do_not_stop_the_others(
    crawlfleet, api, stdin
):
    stdin(f'{URL}/1\n{{"url":\nftp://x\n'.encode() + b"\xff\xfe\n" + f"{URL}/2\n".encode())

    done = crawlfleet("submit", BIZ, "-f", "-")

    assert (done.code, done.out) == (2, "accepted 2, rejected 3\n")
    assert "line 2: " in done.err
    assert "line 3: Invalid request: url: " in done.err
    assert "line 4: " in done.err


def test_refusals_are_shown_up_to_a_number_and_counted(crawlfleet, api):
    done = crawlfleet("submit", BIZ, URL, *["ftp://x"] * 25)

    assert "URL 2: " in done.err
    assert " 5 more " in done.err
    assert done.code == 2


def test_scripts_get_one_document_with_an_answer_to_each_entry(crawlfleet, api):
    done = crawlfleet("submit", BIZ, URL, "ftp://x", "--json")

    document = done.json()
    assert (done.code, document["accepted"], document["rejected"]) == (2, 1, 1)
    assert document["requests"][0] == {"id": str(FIRST_ID), "state": "pending", "url": URL}
    assert document["requests"][1]["place"] == "URL 2"
    assert document["requests"][1]["error"]["errors"][0]["field"] == "url"


def test_waiting_ends_well_when_all_are_done(crawlfleet, api):
    api.done_after = 1

    done = crawlfleet("submit", BIZ, URL, f"{URL}/2", "--wait", "--json")

    assert done.code == 0
    assert done.json()["states"] == {"done": 2}
    assert {each["state"] for each in done.json()["requests"]} == {"done"}


def test_a_second_submission_under_a_job_that_is_waited_for_says_what_it_does_not_read(
    crawlfleet, api
):
    api.done_after = 1
    under = ("submit", BIZ, URL, "--rule", "article", "--job", "june", "--wait")

    first = crawlfleet(*under)
    api.jobs.keep("june", by="submission")
    again = crawlfleet(*under)

    assert "already" not in first.err
    assert "job june was there already, since 2026-03-01 12:00:00Z: links that were" in again.err
    assert "are not followed again" in again.err


def test_waiting_tells_which_fields_of_what_was_read_have_no_value(crawlfleet, api):
    api.done_after = 1
    api.final_state = lambda request: request.update(records=1) or "done"
    fields = {"title": "Nut", "price": None, "sku": ""}
    api.records = [
        {"id": f"{FIRST_ID + n}-0", "request_id": str(FIRST_ID + n), "url": URL, "fields": fields}
        for n in range(2)
    ]

    done = crawlfleet("submit", BIZ, URL, f"{URL}/2", "--rule", "article", "--wait")

    assert done.code == 0
    assert "its fields are mostly empty" in done.err
    assert "rule article: of 2 records have a value: price 0, sku 0" in done.err
    assert f"crawlfleet rule try article {URL} --remote --biz {BIZ}" in done.err


def test_under_a_job_what_the_links_lead_to_is_waited_for(crawlfleet, api):
    api.done_after = 1
    api.jobs.keep("june", size=126)
    api.jobs.keep("july", known_links=5, known_in="2026-11-23")
    api.jobs.dead["july"] = 1

    fine = crawlfleet("submit", BIZ, URL, "--job", "june", "--wait")
    bad = crawlfleet("submit", BIZ, URL, "--job", "july", "--wait")
    document = crawlfleet("submit", BIZ, URL, "--job", "june", "--wait", "--json").json()

    assert (fine.code, "june done: 126 done" in fine.out) == (0, True)
    assert "was not waited for" not in fine.err
    assert (bad.code, "1 dead" in bad.out) == (1, True)
    assert "5 pages that its links lead to were not read" in bad.err
    assert [job["name"] for job in document["jobs"]] == ["june"]


def test_outside_of_a_terminal_a_wait_writes_now_and_then_what_has_finished(
    crawlfleet, api, monkeypatch
):
    monkeypatch.setattr("crawlfleet.cli.following.LINE_SECONDS", 0.0)
    api.done_after = 1
    api.jobs.keep("june", size=2)

    done = crawlfleet("submit", BIZ, URL, f"{URL}/2", "--job", "june", "--wait")
    api.jobs.keep("july", size=2)
    quiet = crawlfleet("submit", BIZ, URL, "--job", "july", "--wait", "--json")

    assert "finished 2 of 2\n" in done.err
    assert "june running: 1 done, 1 open, at 2026-03-01 12:00:30Z\n" in done.err
    assert "finished" not in quiet.err
    assert "open" not in quiet.err


def test_the_jobs_of_lines_are_waited_for(crawlfleet, api, tmp_path):
    api.done_after = 1
    api.jobs.keep("june")
    file = tmp_path / "pages.jsonl"
    file.write_text(json.dumps({"url": URL, "job": "june"}))

    done = crawlfleet("submit", BIZ, "--file", str(file), "--wait")

    assert "june done" in done.out


def test_without_a_job_it_is_said_that_links_are_not_waited_for(crawlfleet, api):
    api.done_after = 1

    done = crawlfleet("submit", BIZ, URL, "--wait")

    said = "what their links lead to, where a rule follows any, was not waited for"
    assert said in " ".join(done.err.split())


@pytest.mark.parametrize("state", ["dead", "cancelled", "expired"])
def test_waiting_fails_when_one_does_not_end_well_and_shows_which(crawlfleet, api, state):
    api.done_after = 1
    api.final_state = lambda request: state if request["url"].endswith("bad") else "done"

    done = crawlfleet("submit", BIZ, URL, f"{URL}/bad", "--wait")

    assert done.code == 1
    assert f"{URL}/bad" in done.out
    [failed] = [each["id"] for each in api.requests.values() if each["url"].endswith("bad")]
    assert f"crawlfleet explain {BIZ} {failed}\n" in done.err


def test_waiting_that_takes_too_long_still_reports_the_ids(crawlfleet, api):
    done = crawlfleet("submit", BIZ, URL, "--wait", "--timeout", "0", "--json")

    assert done.code == 5
    assert done.json()["unfinished"] == 1
    assert done.json()["requests"][0]["id"] == str(FIRST_ID)
    assert done.json()["error"]["kind"] == "WaitTimeoutError"
    assert "--timeout" in done.err


def test_a_submission_that_breaks_off_reports_what_was_accepted(crawlfleet, api, tmp_path):
    file = tmp_path / "urls.txt"
    file.write_text("".join(f"{URL}/{n}\n" for n in range(1500)))
    answer = api.answer
    api.answer = lambda call: _lose_second(api, answer, call)

    done = crawlfleet("submit", BIZ, "-f", str(file))

    assert done.code == 1
    assert done.out == "accepted 1000, rejected 0\n"
    assert "may have been" in done.err
    assert "with that --idempotency-key" in done.err
    key = api.calls[0].headers["idempotency-key"]
    assert f"idempotency key {key} " in done.err

    api.answer = answer
    again = crawlfleet("submit", BIZ, "-f", str(file), "--idempotency-key", key)

    assert (again.code, again.out) == (0, "accepted 1500, rejected 0\n")
    assert "1500 of them" in again.err
    assert len(api.requests) == 1500


def _lose_second(api, answer, call):
    if len(api.calls) == 1:
        api.faults.extend([Fault(carry_out=True)] * 5)
    return answer(call)


def test_job_and_ids_travel_and_a_repeated_page_is_said_to_be(crawlfleet, api, tmp_path):
    file = tmp_path / "entries"
    file.write_text(f'{{"url": "{URL}", "client_id": "b"}}\n')
    one = ("submit", BIZ, URL, "--client-id", "a", "--job", "nightly", "--idempotency-key", "k")

    crawlfleet(*one)
    again = crawlfleet(*one, "--json")
    crawlfleet("submit", BIZ, "-f", str(file))

    assert again.json()["requests"] == [{"id": str(FIRST_ID), "url": URL, "repeated": True}]
    assert "accepted before" in crawlfleet(*one).err
    sent = [json.loads(call.body)["requests"][0] for call in api.calls]
    del sent[-1]
    assert sent[0] == sent[1] == {"url": URL, "job": "nightly", "client_id": "a"}
    assert sent[2] == {"url": URL, "client_id": "b"}
    assert len(api.requests) == 2


def test_a_key_that_stands_for_another_submission_is_said(crawlfleet, api):
    crawlfleet("submit", BIZ, URL, "--idempotency-key", "k")

    other = crawlfleet("submit", BIZ, f"{URL}/2", "--idempotency-key", "k")

    assert other.code == 2
    assert "give another one" in other.err


def test_one_client_id_is_for_one_page(crawlfleet, api):
    assert crawlfleet("submit", BIZ, URL, URL, "--client-id", "a").code == 2
    assert "of their own" in crawlfleet("submit", BIZ, "-f", "-", "--client-id", "a").err
    assert api.calls == []


FULL = Fault(429, json.dumps(problem("backlog-full", 429, "it is full")).encode())


def test_a_file_waits_for_a_full_biz_and_says_so_once_a_stretch(crawlfleet, api, tmp_path):
    file = tmp_path / "urls.txt"
    file.write_text("".join(f"{URL}/{n}\n" for n in range(1500)))
    api.faults.extend([FULL] * 7)

    done = crawlfleet("submit", BIZ, "-f", str(file))

    assert (done.code, done.out) == (0, "accepted 1500, rejected 0\n")
    assert done.err.count(", 0 accepted so far") == 1
    assert BIZ in done.err


def test_a_file_waits_for_room_no_longer_than_it_is_reported(crawlfleet, api, tmp_path):
    file = tmp_path / "urls.txt"
    file.write_text("".join(f"{URL}/{n}\n" for n in range(1500)))
    answer, taken = api.answer, []

    def once(call):
        taken.append(call)
        full = (429, problem("backlog-full", 429, "it is full"))
        return answer(call) if len(taken) == 1 else full

    api.answer = once

    done = crawlfleet("submit", BIZ, "-f", str(file), "--timeout", "0")

    assert (done.code, done.out) == (5, "accepted 1000, rejected 0\n")
    assert "(it is full): 1,000 " in done.err
    assert "with --timeout" in done.err


def test_errors_of_a_file_come_in_the_order_of_its_lines_and_name_lines(crawlfleet, api, tmp_path):
    file = tmp_path / "entries"
    file.write_bytes(b"# first\n{nothing\nftp://x\n\xff\n" + f"{URL}\nftp://y\n{{\n".encode())
    answer = api.answer

    def twin(call):
        status, document = answer(call)
        for each in document["requests"][2]["error"]["errors"]:
            each["message"] = "is that of requests[1] too, which is another entry"
        return status, document

    api.answer = twin

    done = crawlfleet("submit", BIZ, "-f", str(file), "--json")
    shown = crawlfleet("submit", BIZ, "-f", str(file)).err

    places = [each.get("place") for each in done.json()["requests"]]
    assert places == ["line 2", "line 3", "line 4", None, "line 6", "line 7"]
    assert [row[:6] for row in shown.splitlines()[:5]] == [place for place in places if place]
    assert "line 5 too" in shown


def test_a_page_does_not_wait_for_long_for_a_full_biz(crawlfleet, api):
    api.faults.extend([FULL] * 7)

    done = crawlfleet("submit", BIZ, URL)

    assert done.code == 1
    assert "it is full" in done.err
    assert "with --file" in done.err


def test_nothing_to_submit_is_a_error_of_usage(crawlfleet, api, tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("# nothing\n")

    assert crawlfleet("submit", BIZ).code == 2
    assert "give URLs" in crawlfleet("submit", BIZ).err
    assert crawlfleet("submit", BIZ, "-f", str(empty)).code == 2
    assert crawlfleet("submit", BIZ, "-f", str(tmp_path / "none")).code == 2
    assert crawlfleet("submit").code == 2


def test_exit_codes_distinguish_kinds_of_failure(crawlfleet, api):
    assert crawlfleet("submit", "sports", URL).code == 4
    assert crawlfleet("submit", BIZ, URL, "--api-key", "wrong-key-00").code == 2
    api.faults.append(Fault(500))
    assert crawlfleet("submit", BIZ, URL).code == 1
    api.faults.extend(Fault(503) for _ in range(5))
    assert crawlfleet("submit", BIZ, URL).code == 3
    api.close()
    gone = crawlfleet("submit", BIZ, URL, "--json")
    assert (gone.code, gone.json()["error"]["kind"]) == (3, "UnreachableError")
    assert "crawlfleet up" in gone.err


def test_a_server_that_is_no_api_is_said_to_be_none_and_its_page_is_not_shown(crawlfleet, api):
    api.faults.append(Fault(404, b"<html><title>Not Found</title><p>nothing here</p></html>"))

    done = crawlfleet("stats", BIZ)

    assert done.code == 3
    assert "(404): a page" in done.err
    assert "'Not Found'" in done.err
    assert "--api-url" in done.err
    assert "nothing here" not in done.err


def test_when_to_come_back_is_said(crawlfleet, api):
    full = json.dumps(problem("backlog-full", 429, "it is full")).encode()
    api.faults.append(Fault(429, full, {"retry-after": "300"}))

    assert "in 300 s (Retry-After)" in crawlfleet("submit", BIZ, URL).err


def test_the_key_is_never_shown(crawlfleet, api):
    shown = []
    for fault in (Fault(403, KEY.encode()), Fault(500, f'{{"detail": "{KEY}"}}'.encode())):
        api.faults.append(fault)
        done = crawlfleet("submit", BIZ, URL)
        shown.append(done.out + done.err)
    done = crawlfleet("submit", BIZ, URL, "--api-key", "wrong-key-00")

    assert KEY not in "".join(shown)
    assert "wrong-key-00" not in done.out + done.err


def test_an_interrupted_run_says_so(crawlfleet, api, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "submit_each", interrupted)

    assert crawlfleet("submit", BIZ, URL).code == 130


def test_an_interrupted_wait_says_where_the_requests_are(crawlfleet, api, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "wait", interrupted)

    done = crawlfleet("submit", BIZ, URL, "--wait")

    assert done.code == 130
    assert f"requests {BIZ} --since 10m" in done.err


def test_progress_is_drawn_on_a_terminal_only(capfdbinary, monkeypatch):
    with progress("pages") as advance:
        advance(1, 2)
    assert capfdbinary.readouterr().err == b""

    terminal = SimpleNamespace(
        isatty=lambda: True, write=sys.stderr.write, flush=sys.stderr.flush, encoding="utf-8"
    )
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("pages") as advance:
        advance(2, 2)
    assert b"2/2" in capfdbinary.readouterr().err


def test_a_priority_goes_to_entries_that_have_none_and_is_one(crawlfleet, api, tmp_path):
    file = tmp_path / "entries"
    file.write_text(f'{{"url": "{URL}", "priority": 0}}\n{URL}\n')

    crawlfleet("submit", BIZ, "-f", str(file), "--priority", "10")
    wrong = crawlfleet("submit", BIZ, URL, "--priority", "11")

    sent = json.loads(api.calls[0].body)["requests"]
    assert sent == [{"url": URL, "priority": 0}, {"url": URL, "priority": 10}]
    assert "--priority" in wrong.err
    assert len(api.calls) == 1
