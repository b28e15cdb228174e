"""Dead letters, reasons, the ledger and workers at the edge, over services that a test makes."""

import base64
import json
from datetime import UTC, datetime

import msgspec
import pytest

from tests.kit.api import dead_letter_views
from tests.kit.dead_letters import Changed, DeadLetterFilter
from tests.kit.explain import Explanation, Standing, Step, StepKind
from tests.kit.fleet import Health, WorkerHealth, WorkerStatus
from tests.kit.kernel import Listing
from tests.kit.requests import Answer, Body, Event, Ledger, Request, State, Tracked
from tests.unit.api.test_rest import NOW, NoServices, an_event, ask

AT = datetime(2026, 1, 1, 8, 30, tzinfo=UTC)
ID = 400_000_000_000_000_000
ANSWER = Answer(
    url="https://example.org/gone",
    status=404,
    headers={"content-type": "text/html; charset=utf-8"},
    seconds=0.25,
    sample="<h1>fort für immer</h1>".encode(),
)


def a_dead_letter(answer: Answer | None = ANSWER) -> Tracked:
    return Tracked(
        request=Request(
            id=ID,
            tenant="acme",
            biz="docs",
            queued_at=AT,
            body=Body(url="https://example.org/", rule="page", rule_version="v1"),
            job="nightly",
        ),
        state=4,
        attempts=3,
        timeline=(Event(at=AT, state=State.DEAD, by="w", why="answered 404"),),
        worker="w",
        error="PageGone: answered 404",
        reason="PageGone",
        answer=answer,
    )


# ---- lists ---------------------------------------------------------------------------------------


def test_a_list_has_the_facts_of_each_dead_letter_and_no_samples():
    asked = []

    def list_dead_letters(tenant, biz, dead_letters, *, cursor, limit):
        asked.append((tenant, biz, dead_letters, cursor, limit))
        return Listing([a_dead_letter(), a_dead_letter(None)], "next", more=True)

    query = {
        "reason": "PageGone",
        "status": "404",
        "host": "example.org",
        "text": "404",
        "since": "2026-01-01T08:30:00Z",
        "until": str(int(AT.timestamp() * 1000) + 1),
        "cursor": "c",
        "limit": "2",
    }
    event = an_event(path="/v1/docs/dead-letters", queryStringParameters=query)
    status, page = ask(NoServices(list_dead_letters=list_dead_letters), event)

    meant = DeadLetterFilter(
        reason="PageGone",
        status=404,
        host="example.org",
        text="404",
        since=AT,
        until=AT.replace(microsecond=1000),
    )
    assert asked == [("acme", "docs", meant, "c", 2)]
    assert (status, page["cursor"], page["more"]) == (200, "next", True)
    first, second = page["dead_letters"]
    assert first["answer"] == {
        "url": "https://example.org/gone",
        "status": 404,
        "headers": {"content-type": "text/html; charset=utf-8"},
        "seconds": 0.25,
    }
    assert (first["reason"], first["status"], first["job"]) == ("PageGone", 404, "nightly")
    assert (second["answer"], second["status"]) == (None, 0)
    assert not {"sample", "timeline"} & first.keys()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "word"),
        ("status", "1000"),
        ("reason", ""),
        ("reason", "pagegone"),
        ("host", "a b"),
        ("text", "x" * 256),
        ("since", "yesterday"),
        ("until", "2026-01-01"),
        ("limit", "0"),
    ],
)
def test_a_wrong_filter_is_named(name, value):
    event = an_event(path="/v1/docs/dead-letters", queryStringParameters={name: value})

    status, problem = ask(NoServices(list_dead_letters=None), event)

    assert (status, [error["field"] for error in problem["errors"]]) == (400, [name])


# ---- one -----------------------------------------------------------------------------------------


def test_one_dead_letter_is_shown_whole_without_its_tenant():
    services = NoServices(get_dead_letter=lambda *_: a_dead_letter())

    status, shown = ask(services, an_event(path=f"/v1/docs/dead-letters/{ID}"))

    assert (status, shown["id"], shown["state"]) == (200, str(ID), "dead")
    assert shown["sample"] == {"encoding": "text", "content": "<h1>fort für immer</h1>"}
    assert shown["timeline"][0]["why"] == "answered 404"
    assert "acme" not in str(shown)


@pytest.mark.parametrize(
    ("sample", "charset", "text"),
    [
        ("für".encode(), "", "für"),
        ("für".encode(), "; charset=UTF-8", "für"),
        (b"fur", '; charset="us-ascii"', "fur"),
        ("für".encode(), "; charset=iso-8859-1", None),
        ("für".encode("latin-1"), "; charset=utf-8", None),
        ("für 文".encode()[:-1], "", "für "),
        ("🕷x".encode()[1:], "", None),
        (b"\x89PNG\r\n\x1a\n", "", None),
    ],
)
def test_a_sample_is_text_where_it_is_utf_8_and_the_site_does_not_say_otherwise(
    sample, charset, text
):
    headers = {"content-type": f"text/html{charset}"}

    shown = dead_letter_views.sample_view(Answer(url="u", headers=headers, sample=sample))

    if text is None:
        assert (shown.encoding, base64.b64decode(shown.content)) == ("base64", sample)
    else:
        assert (shown.encoding, shown.content) == ("text", text)


@pytest.mark.parametrize(
    ("body", "current"),
    [(None, False), ("", False), ('{"rule": "frozen"}', False), ('{"rule": "current"}', True)],
)
def test_one_letter_is_replayed_by_its_rule_as_it_was_unless_reported_otherwise(body, current):
    asked = []

    def replay_dead_letter(tenant, biz, request_id, *, current_rule):
        asked.append((tenant, biz, request_id, current_rule))
        return a_dead_letter()

    event = an_event("POST", f"/v1/docs/dead-letters/{ID}/replay", body=body)
    status, _ = ask(NoServices(replay_dead_letter=replay_dead_letter), event)

    assert (status, asked) == (200, [("acme", "docs", str(ID), current)])


def test_a_purge_of_one_answers_with_nothing():
    event = an_event("DELETE", f"/v1/docs/dead-letters/{ID}")

    assert ask(NoServices(purge_dead_letter=lambda *_: None), event) == (204, None)


# ---- many ----------------------------------------------------------------------------------------


def test_many_are_replayed_and_purged_as_the_body_says():
    asked = []

    def change(tenant, biz, dead_letters, **options):
        asked.append((dead_letters, options))
        return Changed(3, 1, "on")

    services = NoServices(replay_dead_letters=change, purge_dead_letters=change)
    document = {"filter": {"host": "example.org", "since": "0"}, "rule": "current", "cursor": "c"}
    replayed = ask(
        services, an_event("POST", "/v1/docs/dead-letters/replay", body=json.dumps(document))
    )
    purged = ask(
        services,
        an_event("POST", "/v1/docs/dead-letters/purge", body='{"all": true, "limit": 7}'),
    )

    assert replayed == (200, {"replayed": 3, "skipped": 1, "cursor": "on", "more": True})
    assert purged == (200, {"purged": 3, "skipped": 1, "cursor": "on", "more": True})
    epoch, by = datetime(1970, 1, 1, tzinfo=UTC), {"by": "api:acme", "now": NOW}
    assert asked == [
        (
            DeadLetterFilter(host="example.org", since=epoch),
            {"current_rule": True, "cursor": "c", "limit": 500, **by},
        ),
        (DeadLetterFilter(), {"cursor": None, "limit": 7, **by}),
    ]


@pytest.mark.parametrize("verb", ["replay", "purge"])
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("", "body"),
        ("{}", "filter"),
        ('{"filter": {}}', "filter"),
        ('{"filter": {"hots": "example.org"}}', "filter.hots"),
        ('{"filter": {"host": ""}}', "filter.host"),
        ('{"filter": {"host": "https://"}}', "filter.host"),
        ('{"filter": {"reason": "Nope"}}', "filter.reason"),
        ('{"filter": {"all": true}}', "filter.all"),
        ('{"filter": {"since": "soon"}}', "filter.since"),
        ('{"all": true, "filter": {"host": "x"}}', "all"),
        ('{"all": false}', "filter"),
        ('{"all": true, "limit": 0}', "limit"),
        ('{"all": true, "limit": 1001}', "limit"),
        ('{"all": "yes"}', "all"),
        ("[]", "body"),
    ],
)
def test_nobody_changes_everything_by_a_slip(verb, body, field):
    event = an_event("POST", f"/v1/docs/dead-letters/{verb}", body=body)

    status, problem = ask(NoServices(), event)

    assert (status, [error["field"] for error in problem["errors"]]) == (400, [field])


def test_a_reason_that_no_error_has_is_reported_which_there_are():
    query = {"queryStringParameters": {"reason": "pagegone"}}
    body = '{"filter": {"reason": "Nope"}}'

    _, listed = ask(NoServices(), an_event(path="/v1/docs/dead-letters", **query))
    _, purged = ask(NoServices(), an_event("POST", "/v1/docs/dead-letters/purge", body=body))

    for problem in (listed, purged):
        (error,) = problem["errors"]
        assert all(name in error["message"] for name in ("AddressRefused", "CutOff", "PageGone"))


@pytest.mark.parametrize("host", ["Shop.Example:8443", "https://shop.example/a?b", "shop.example"])
def test_a_host_is_meant_whatever_was_copied_with_it(host):
    asked = []

    def list_dead_letters(tenant, biz, meant, *, cursor, limit):
        asked.append(meant)
        return Listing([], None, more=False)

    def purge_dead_letters(tenant, biz, meant, **_):
        asked.append(meant)
        return Changed(0)

    services = NoServices(
        list_dead_letters=list_dead_letters, purge_dead_letters=purge_dead_letters
    )
    body = json.dumps({"filter": {"host": host}})
    ask(services, an_event(path="/v1/docs/dead-letters", queryStringParameters={"host": host}))
    ask(services, an_event("POST", "/v1/docs/dead-letters/purge", body=body))

    assert asked == [DeadLetterFilter(host="shop.example")] * 2


def test_all_within_the_filter_is_reported_its_place():
    body = '{"filter": {"all": true}}'

    _, problem = ask(NoServices(), an_event("POST", "/v1/docs/dead-letters/replay", body=body))

    assert [error["field"] for error in problem["errors"]] == ["filter.all"]


def test_a_rule_that_is_neither_is_reported_what_it_may_be():
    event = an_event("POST", "/v1/docs/dead-letters/replay", body='{"all": true, "rule": "new"}')

    _, problem = ask(NoServices(), event)

    [error] = problem["errors"]
    assert error["field"] == "rule"
    assert "frozen, current" in error["message"]


# ---- why, whether all is there, who works --------------------------------------------------------


def test_an_explanation_is_shown_with_its_steps_and_facts():
    explained = Explanation(
        tracked=a_dead_letter(),
        steps=(
            Step(at=AT, kind=StepKind.REQUEST, by="router", why="submitted", state=0),
            Step(at=AT, kind=StepKind.QUEUE_KEY, by="scheduler", why="filled: lost"),
        ),
        standing=Standing(sentence="It was given up on.", facts={"status": 404}),
        missing="only the last 50",
    )
    services = NoServices(explain=lambda *_: explained)

    status, shown = ask(services, an_event(path=f"/v1/docs/requests/{ID}/explain"))

    assert status == 200
    assert shown["standing"] == {"sentence": "It was given up on.", "facts": {"status": 404}}
    assert [(step["kind"], step["state"]) for step in shown["steps"]] == [
        ("request", "pending"),
        ("lane", None),
    ]
    assert (shown["state"], shown["missing"]) == ("dead", "only the last 50")


@pytest.mark.parametrize(("lost", "balanced"), [(0, True), (2, False)])
def test_a_ledger_is_shown_term_by_term(lost, balanced):
    asked = []

    def ledger(tenant, biz, job):
        asked.append((tenant, biz, job))
        return Ledger(submitted=10 + lost, pending=1, leased=2, done=4, dead=2, own={100: 1})

    event = an_event(path="/v1/docs/ledger", queryStringParameters={"job": "nightly"})
    status, shown = ask(NoServices(ledger=ledger), event)

    assert asked == [("acme", "docs", "nightly")]
    assert (status, shown["job"], shown["submitted"]) == (200, "nightly", 10 + lost)
    assert (shown["difference"], shown["balanced"]) == (lost, balanced)


@pytest.mark.parametrize("job", ["", "x" * 256, "\ud800", "a\x00b", "two words"])
def test_a_job_of_no_name_is_refused(job):
    event = an_event(path="/v1/docs/ledger", queryStringParameters={"job": job})

    status, problem = ask(NoServices(ledger=None), event)

    assert (status, problem["errors"][0]["field"]) == (400, "job")


def test_a_worker_is_shown_with_what_it_holds_of_the_biz():
    status = WorkerHealth(
        worker="w",
        health=Health.SUSPECTED,
        phi=5.4321,
        silent_ms=4_400,
        worker_status=WorkerStatus(started_ms=1_767_256_200_123, held={"acme/docs": 3}),
    )
    fresh = msgspec.structs.replace(status, worker_status=WorkerStatus())

    _, shown = ask(
        NoServices(workers=lambda *_: [status, fresh]), an_event(path="/v1/docs/workers")
    )

    assert shown["workers"][0] == {
        "worker": "w",
        "health": "suspected",
        "phi": 5.43,
        "silent_seconds": 4.4,
        "since": "2026-01-01T08:30:00.123Z",
        "held": 3,
        "pool": "main",
        "done": 0,
        "failed": 0,
        "version": "",
    }
    assert (shown["workers"][1]["since"], shown["workers"][1]["held"]) == (None, 0)
