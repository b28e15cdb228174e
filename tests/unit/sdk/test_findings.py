import json
from datetime import UTC, datetime

import pytest

from tests.kit.api_server import BIZ, FIRST_ID, Fault
from tests.kit.kernel import ConflictError, InvalidRequestError, NotFoundError

URL = "https://example.org/a"


@pytest.fixture
def five(api):
    for number in range(5):
        reason = "PageGone" if number < 3 else "Throttled"
        api.findings.dead_letter(number, reason=reason)
    return api


# ---- dead letters --------------------------------------------------------------------------------


def test_dead_letters_come_page_by_page_and_as_often_as_they_are_asked_for(client, five):
    dead_letters = client.dead_letters(BIZ, page_size=2)

    assert [dead_letter.id for dead_letter in dead_letters] == ["0", "1", "2", "3", "4"]
    first = next(iter(dead_letters))
    assert (first.reason, first.status, first.answer.seconds) == ("PageGone", 404, 0.25)
    assert first.sample is None


def test_a_filter_travels_whole(client, five):
    since = datetime(2026, 1, 1, tzinfo=UTC)
    meant = {"reason": "PageGone", "status": 404, "host": "example.org", "text": "404"}

    found = list(client.dead_letters(BIZ, **meant, rule="article", since=since, until="5"))

    assert len(found) == 3
    assert five.calls[-1].params == {
        "reason": "PageGone",
        "status": "404",
        "rule": "article",
        "host": "example.org",
        "text": "404",
        "since": "2026-01-01T00:00:00Z",
        "until": "5",
        "limit": "500",
    }


def test_one_dead_letter_has_everything(client, five):
    dead_letter = client.dead_letter(BIZ, "1")

    assert dead_letter.sample.body == b"<h1>gone</h1>"
    assert dead_letter.timeline[0].why == "answered 404"
    with pytest.raises(NotFoundError):
        client.dead_letter(BIZ, "17")


def test_a_dead_letter_is_replayed_by_its_rule_as_it_was_or_is(client, five):
    assert client.replay(BIZ, "0").state == "pending"
    client.replay(BIZ, "1", rule="current")

    assert five.findings.replayed == [("0", "frozen"), ("1", "current")]
    with pytest.raises(ConflictError):
        client.replay(BIZ, "0")


def test_a_replay_and_a_purge_whose_answers_are_lost_have_happened_once(client, five):
    five.faults.append(Fault(carry_out=True))
    assert client.replay(BIZ, "0").state == "pending"
    five.faults.append(Fault(carry_out=True))
    client.purge(BIZ, "1")

    assert list(five.findings.dead_letters) == ["2", "3", "4"]
    with pytest.raises(NotFoundError):
        client.purge(BIZ, "1")


def test_all_that_are_meant_are_replayed_call_by_call(client, five):
    five.findings.skipped = 2
    reported = []

    done = client.dead_letters(BIZ, reason="PageGone").replay(
        rule="current", progress=lambda count, of: reported.append((count, of))
    )

    assert (done.count, done.skipped, done.more) == (3, 2, False)
    assert reported == [(2, None), (3, None)]
    assert five.findings.replayed == [(number, "current") for number in "012"]
    bodies = [json.loads(call.body) for call in five.made("POST")]
    assert bodies == [
        {"filter": {"reason": "PageGone"}, "rule": "current", "limit": 1000},
        {"filter": {"reason": "PageGone"}, "rule": "current", "limit": 1000, "cursor": "1"},
    ]


def test_a_limit_ends_a_purge_and_its_cursor_goes_on(client, five):
    dead_letters = client.dead_letters(BIZ)

    done = dead_letters.purge(limit=3, everything=True)

    assert (done.count, done.more, done.cursor) == (3, True, "2")
    assert list(five.findings.dead_letters) == ["3", "4"]
    assert dead_letters.purge(everything=True, cursor=done.cursor).count == 2


def test_nobody_changes_everything_by_a_slip(client, five):
    with pytest.raises(InvalidRequestError, match="say everything=True"):
        client.dead_letters(BIZ).purge()
    with pytest.raises(InvalidRequestError, match="every dead letter"):
        client.dead_letters(BIZ, host="example.org").replay(everything=True)
    assert five.made("POST") == []


# ---- why, whether all is there, who works --------------------------------------------------------


def test_a_request_is_explained(client, api):
    client.submit(BIZ, URL)

    found = client.explain(BIZ, str(FIRST_ID))

    assert found.standing.facts["workers_alive"] == 1
    assert [(step.kind, step.state) for step in found.steps] == [
        ("request", "pending"),
        ("lane", None),
    ]
    assert found.missing is not None
    with pytest.raises(NotFoundError):
        client.explain(BIZ, "17")


def test_a_url_is_explained(client, api):
    found = client.explain_url(BIZ, f"{URL}?a=1&b=ü#x", rule="article")

    assert found.url == f"{URL}?a=1&b=ü#x"
    assert found.standing.facts == {"accepted_now": True, "rule": "article"}
    assert [step.kind for step in found.steps] == ["visit"]
    assert client.explain_url(BIZ, URL).standing.facts["rule"] is None


def test_the_ledger_is_of_the_biz_or_of_one_job(client, api):
    client.submit(BIZ, [URL, URL], job="nightly")
    client.submit(BIZ, URL)

    whole, nightly = client.ledger(BIZ), client.ledger(BIZ, job="nightly")

    assert (whole.submitted, whole.pending, whole.balanced) == (3, 3, True)
    assert (nightly.submitted, nightly.job) == (2, "nightly")
    assert sum(whole.terms.values()) + whole.difference == whole.submitted


def test_workers_are_listed_with_what_they_hold(client, api):
    api.findings.workers = [
        {"worker": "w", "health": "alive", "phi": 0.1, "silent_seconds": 0.5, "held": 3}
    ]

    [found] = client.workers(BIZ)

    assert (found.worker, found.health, found.held, found.since) == ("w", "alive", 3, None)


def test_coverage_is_reported_by_rule_version_and_field(client, api):
    fields = [{"name": "price", "count": 3, "share": 0.75}]
    api.findings.coverage = [
        {"rule": "detail", "version": "v2", "current": True, "records": 4, "fields": fields},
        {"rule": "detail", "version": "v1"},
    ]

    now, before = client.coverage(BIZ)

    assert (now.rule, now.version, now.current, now.pages, now.records) == (
        "detail",
        "v2",
        True,
        0,
        4,
    )
    assert [(field.name, field.count, field.share) for field in now.fields] == [("price", 3, 0.75)]
    assert (before.current, before.fields) == (False, ())


# ---- what is known of pages ----------------------------------------------------------------------


def test_a_page_is_reported_by_any_url_and_all_pages_by_their_sums(client, api):
    odd = "https://example.org/a?b=1&c=ü#x"
    api.findings.visit(odd)
    api.findings.visit(URL, next_at=None, visits=2, saved=0)

    found, other, totals = client.visit(BIZ, odd), client.visit(BIZ, URL), client.visits(BIZ)

    assert (found.url, found.interval_seconds, found.saved) == (odd, 172_800, 5)
    assert (found.next_at - found.visited_at).days == 2
    assert other.next_at is None
    assert (totals.pages, totals.visits, totals.changes, totals.saved) == (2, 10, 4, 5)
    with pytest.raises(NotFoundError):
        client.visit(BIZ, "https://example.org/unknown")
