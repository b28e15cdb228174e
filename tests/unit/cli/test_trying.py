"""``crawlfleet rule try --remote``."""

import base64
import json

import pytest

from tests.kit.api_server import BIZ, Fault

URL = "https://example.org/list"
RULE = {"fields": {"name": {"css": "b"}}}


@pytest.fixture
def rule(tmp_path):
    file = tmp_path / "rule.json"
    file.write_text(json.dumps(RULE))
    return str(file)


def test_a_file_is_sent_with_a_saved_page(api, crawlfleet, rule, tmp_path):
    page = tmp_path / "page.html"
    page.write_bytes(b"<b>Nut</b>")

    done = crawlfleet("rule", "try", rule, str(page), "--remote", "--biz", BIZ, "--url", URL)

    assert done.code == 0, done.err
    assert api.trials.asked == [
        {
            "rule": RULE,
            "depth": 0,
            "page": {
                "body_base64": base64.b64encode(b"<b>Nut</b>").decode(),
                "url": URL,
                "content_type": "text/html",
            },
        }
    ]
    assert "rule: 2 records" in done.out
    assert "1 of 2" in done.out
    assert "https://example.org/nut" in done.out
    assert "2 nofollow" in done.err


def test_a_rule_in_force_is_tried_on_a_url_by_its_name(api, crawlfleet):
    page = {"url": URL, "status": 200, "content_type": "text/html", "bytes": 9, "seconds": 0.1}
    way = {**page, "redirects": ["https://example.org/"]}
    api.trials.changes = {
        "fetched": way,
        "cut": True,
        "record_count": 900,
        "rejected": ["record 3, price: is missing"],
        "rejected_count": 1,
    }

    done = crawlfleet("rule", "try", "article", URL, "--remote", "--biz", BIZ)

    assert (done.code, api.trials.asked) == (1, [{"rule": "article", "depth": 0, "url": URL}])
    assert f"200 from {URL}, by 1 redirect" in done.err
    assert "cut: 900 records, 1 links" in done.err
    assert "record 3, price: " in done.err


def test_the_fleet_says_why_a_field_has_no_value(api, crawlfleet, rule):
    why = "its css matches nothing on this page"
    api.trials.changes = {
        "coverage": [{"name": "price", "count": 0, "share": 0.0, "why": why}],
        "record_count": 2,
    }

    done = crawlfleet("rule", "try", rule, URL, "--remote", "--biz", BIZ)

    assert f"never: {why}" in " ".join(done.out.split())


def test_what_a_spider_left_out_is_reported_with_its_reason(api, crawlfleet):
    api.trials.changes = {"left_out": ["line 3: price: is no number"], "left_out_count": 12}

    done = crawlfleet("rule", "try", "prices", URL, "--remote", "--biz", BIZ)

    assert done.code == 0
    assert "line 3: price: " in done.err
    assert "left out: 11 more" in done.err


def test_a_page_that_is_too_large_to_send_is_reported_with_the_bound(
    api, crawlfleet, rule, tmp_path
):
    page = tmp_path / "page.html"
    page.write_bytes(b"x" * 1_000_001)

    done = crawlfleet("rule", "try", rule, str(page), "--remote", "--biz", BIZ)

    assert (done.code, api.trials.asked) == (2, [])
    assert "1,000,001 bytes; 1,000,000 " in done.err
    assert "without --remote" in done.err


def test_a_call_that_is_too_large_is_reported_with_the_bound_and_the_api_not_doubted(
    api, crawlfleet
):
    api.faults.append(Fault(413, b'{"message": "Request Too Long"}'))

    done = crawlfleet("rule", "try", "article", URL, "--remote", "--biz", BIZ)

    assert done.code == 2
    assert "1,000,000 bytes" in done.err
    assert "Is it up?" not in done.err


def test_json_is_the_answer(api, crawlfleet):
    done = crawlfleet("rule", "try", "article", URL, "--remote", "--biz", BIZ, "--json")

    assert (done.code, done.json()["record_count"]) == (0, 2)


FAILURE = {"status": 0, "retryable": False, "retry_after_seconds": None}


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        (
            {"error": FAILURE | {"reason": "PageGone", "message": "answered 404", "status": 404}},
            ["PageGone: answered 404", "will not help"],
        ),
        (
            {"error": FAILURE | {"reason": "Throttled", "message": "no slot", "retryable": True}},
            ["Throttled: no slot", "may succeed"],
        ),
        (
            {"problems": [{"field": "n", "message": "is missing, and required"}]},
            ["article: n: is missing, and required", "nothing of this page"],
        ),
    ],
    ids=["gone", "busy", "unreadable"],
)
def test_what_gives_nothing_ends_with_1(api, crawlfleet, changes, reported):
    api.trials.changes = changes

    done = crawlfleet("rule", "try", "article", URL, "--remote", "--biz", BIZ)

    assert done.code == 1
    assert all(text in done.err for text in reported), done.err


def test_a_wrong_rule_ends_with_2_and_names_its_field(api, crawlfleet, rule):
    api.trials.mistakes = [{"field": "rule.fields.name.css", "message": "is no selector"}]

    done = crawlfleet("rule", "try", rule, URL, "--remote", "--biz", BIZ)

    assert done.code == 2
    assert "rule.fields.name.css: " in done.err


def test_a_biz_is_needed_for_the_fleet_and_a_file_without_it(api, crawlfleet):
    lost = crawlfleet("rule", "try", "article", URL, "--remote")
    local = crawlfleet("rule", "try", "article", URL)

    assert (lost.code, local.code) == (2, 2)
    assert "--remote needs --biz" in lost.err
    assert "tried with --remote" in local.err
    assert api.calls == []
