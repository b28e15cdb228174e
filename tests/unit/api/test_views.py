from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from tests.kit.api import (
    dead_letter_views,
    explain_views,
    request_views,
    result_views,
    schedule_views,
    seed_views,
    views,
)
from tests.kit.explain import Explanation, Standing
from tests.kit.frontier import Seed, SeedSpec, SeedState
from tests.kit.kernel import InvalidRequestError
from tests.kit.mongo import new_document, request_of
from tests.kit.queue import Depth, Rates, Stats
from tests.kit.requests import (
    Accepted,
    Body,
    Event,
    Ledger,
    Record,
    Refused,
    Request,
    State,
    Tracked,
)
from tests.kit.schedules import Schedule, ScheduleState

AT = datetime(2026, 1, 1, 8, 30, 0, 123_000, tzinfo=UTC)
WRITTEN = "2026-01-01T08:30:00.123Z"
LARGE = 2**63 - 1


def a_tracked(**changes) -> Tracked:
    body = Body(url="https://example.org/", rule="page", rule_version="v1", meta={"n": 1})
    request = Request(id=LARGE, tenant="acme", biz="docs", queued_at=AT, body=body)
    timeline = (Event(at=AT, state=State.PENDING, by="router", why="submitted"),)
    facts = {"state": 0, "attempts": 0, "timeline": timeline, **changes}
    return Tracked(request=request, **facts)


def plain(view: object):
    return msgspec.json.decode(msgspec.json.encode(view))


def test_an_accepted_page_has_its_id_as_text():
    assert plain(request_views.submitted_view(Accepted(LARGE))) == {
        "id": str(LARGE),
        "state": "pending",
    }


def test_an_entry_is_an_id_or_a_problem():
    refused = Refused(InvalidRequestError.of("requests[3].url", "is missing"))

    assert plain(request_views.entry_view(Accepted(7, repeated=True))) == {
        "id": "7",
        "repeated": True,
    }
    assert plain(request_views.entry_view(Accepted(7))) == {"id": "7", "state": "pending"}
    assert plain(request_views.entry_view(refused)) == {
        "error": {
            "type": "urn:crawlfleet:problem:invalid-request",
            "title": "The request is not valid",
            "status": 400,
            "detail": "requests[3].url: is missing",
            "errors": [{"field": "requests[3].url", "message": "is missing"}],
        }
    }


def test_a_request_is_shown_whole_and_its_tenant_is_not():
    label = {0: "pending", 1_000: "reviewed"}.__getitem__
    tracked = a_tracked(due_at=AT, error="x", state=1_000)
    shown = plain(request_views.request_view(tracked, label))

    assert shown["id"] == str(LARGE)
    assert (shown["state"], shown["flag"]) == ("reviewed", 1_000)
    assert (shown["queued_at"], shown["due_at"]) == (WRITTEN, WRITTEN)
    assert shown["timeline"] == [
        {"at": WRITTEN, "state": "pending", "by": "router", "why": "submitted", "peers": []}
    ]
    assert (shown["meta"], shown["body"], shown["worker"]) == ({"n": 1}, None, None)
    assert "acme" not in str(shown)


def test_headers_that_look_like_credentials_are_masked_in_every_read():
    headers = {"Authorization": "Bearer s3cr3t", "x-api-KEY": "s3cr3t", "Accept-Language": "de"}
    shown = {"Authorization": "***", "x-api-KEY": "***", "Accept-Language": "de"}
    tracked = a_tracked()
    body = replace(tracked.request.body, headers=headers)
    tracked = replace(tracked, request=replace(tracked.request, body=body))
    seed = Seed(
        key="k",
        segment="s",
        spec=SeedSpec(url="https://a.example/", rule="r", headers=headers),
        state=SeedState.READY,
        offered_at=AT,
        due_at=AT,
    )

    assert request_views.request_view(tracked, str).headers == shown
    assert dead_letter_views.whole_dead_letter_view(tracked, str).headers == shown
    assert seed_views.seed_view(seed).headers == shown


def test_a_record_is_shown_with_its_fields_as_they_are():
    record = Record(
        request_id=LARGE,
        index=2,
        biz="docs",
        url="https://example.org/",
        rule="page",
        rule_version="v1",
        stored_at=AT,
        fields={"title": "Ü", "prices": [1.5, None], "none": float("nan")},
    )

    shown = plain(result_views.record_view(record))

    assert (shown["id"], shown["request_id"]) == (f"{LARGE}-2", str(LARGE))
    assert shown["fields"] == {"title": "Ü", "prices": [1.5, None], "none": None}
    assert shown["stored_at"] == WRITTEN


@pytest.mark.parametrize(("oldest", "written"), [(None, None), (1767256200123, WRITTEN)])
def test_stats_are_shown_by_span_and_phase(oldest, written):
    rates = Rates(per_1s=3.0, per_5s=2.0, per_60s=1.0)
    depth = Depth(queued=1, leased=2, delayed=3, oldest_ts=oldest)
    stats = Stats(
        states={"pending": 4},
        ledger=Ledger(submitted=9, pending=4),
        records=5,
        depth=depth,
        submitted=rates,
        processed=rates,
        phases={"fetch": 1.23456},
    )

    shown = plain(result_views.stats_view(stats))

    assert (shown["submitted"], shown["states"]) == (9, {"pending": 4})
    assert shown["queue"] == {"queued": 1, "leased": 2, "delayed": 3, "oldest_at": written}
    assert shown["rates"]["submitted"] == {"1s": 3.0, "5s": 2.0, "60s": 1.0}
    assert shown["phases"] == {"fetch": 1.235}


def test_a_schedule_is_shown_without_its_tenant():
    schedule = Schedule(
        tenant="acme",
        biz="docs",
        name="nightly",
        cron="0 3 * * *",
        time_zone="UTC",
        rule="page",
        urls=("https://example.org/",),
        next_at=AT,
    )

    shown = plain(schedule_views.schedule_view(schedule, ScheduleState.DUE))

    assert (shown["state"], shown["next_at"], shown["last_fired_at"]) == ("due", WRITTEN, None)
    assert (shown["missed"], shown["urls"]) == ("all", ["https://example.org/"])
    assert "tenant" not in shown


def test_moments_are_written_to_the_millisecond():
    assert views.at(AT + timedelta(microseconds=999)) == WRITTEN


def test_an_explanation_links_the_trace_of_a_request_that_has_one():
    tracked, trace = a_tracked(), "6b49d200" + "ab" * 12
    traced = replace(tracked, request=replace(tracked.request, trace=trace))

    def shown(of):
        explained = Explanation(tracked=of, steps=(), standing=Standing(sentence="s", facts={}))
        return plain(explain_views.explanation_view(explained, str))

    assert (shown(tracked)["trace"], shown(tracked)["trace_url"]) == (None, None)
    assert shown(traced)["trace"] == trace
    assert shown(traced)["trace_url"].endswith("#xray:traces/1-6b49d200-" + "ab" * 12)


def test_a_trace_is_kept_with_its_request():
    request = replace(a_tracked().request, trace="6b49d200" + "ab" * 12)

    assert request_of(new_document(request, 1)) == request
    assert "trace" not in new_document(replace(request, trace=None), 1)
