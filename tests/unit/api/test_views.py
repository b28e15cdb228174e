from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tests.kit.api import request_views, result_views, schedule_views, views
from tests.kit.kernel import InvalidRequestError
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
from tests.kit.schedules import Schedule

AT = datetime(2026, 1, 1, 8, 30, 0, 123_000, tzinfo=UTC)
WRITTEN = "2026-01-01T08:30:00.123Z"
LARGE = 2**63 - 1


def a_tracked(**changes) -> Tracked:
    body = Body(url="https://example.org/", rule="page", rule_version="v1", meta={"n": 1})
    request = Request(id=LARGE, tenant="acme", biz="docs", queued_at=AT, body=body)
    timeline = (Event(at=AT, state=State.PENDING, by="router", why="submitted"),)
    return Tracked(request=request, state=0, attempts=0, timeline=timeline, **changes)


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
    shown = plain(request_views.request_view(a_tracked(due_at=AT, error="x"), lambda _: "reviewed"))

    assert shown["id"] == str(LARGE)
    assert (shown["state"], shown["flag"]) == ("reviewed", 0)
    assert (shown["queued_at"], shown["due_at"]) == (WRITTEN, WRITTEN)
    assert shown["timeline"] == [
        {"at": WRITTEN, "state": "pending", "by": "router", "why": "submitted"}
    ]
    assert (shown["meta"], shown["body"], shown["worker"]) == ({"n": 1}, None, None)
    assert "acme" not in str(shown)


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

    shown = plain(schedule_views.schedule_view(schedule))

    assert (shown["next_at"], shown["last_fired_at"]) == (WRITTEN, None)
    assert (shown["missed"], shown["urls"]) == ("all", ["https://example.org/"])
    assert "tenant" not in shown


def test_moments_are_written_to_the_millisecond():
    assert views.at(AT + timedelta(microseconds=999)) == WRITTEN
