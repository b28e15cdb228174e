"""``crawlfleet overview`` against an API that answers with its own views."""

import json
import re

import msgspec
import pytest

from tests.kit.api import incident_view
from tests.kit.incidents import HandledIncident
from tests.kit.worlds.incidents import START, an_incident

SPEEDS = {"1s": 4.0, "5s": 3.0, "60s": 2.5}
RATES = {"submitted": SPEEDS, "processed": SPEEDS}
PLACE = {"tenant": "acme", "biz": "docs"}
COUNTS = {"queued": 12_000, "leased": 8, "delayed": 3}


@pytest.fixture
def seen(api):
    waits = {"oldest_seconds": 90.0, "rates": RATES, "finish_seconds": 400.0}
    biz = {**PLACE, **COUNTS, **waits, "late": True, "planned_seconds": None}
    late = {"kind": "schedule", **PLACE, "name": "nightly", "since": None, "why": "no such rule"}
    api.overview = {
        "at": "2026-03-01T12:00:00.000Z",
        "of_fleet": True,
        "revision": "r1",
        "config_refused": None,
        "workers": {
            "alive": 2,
            "suspected": 1,
            "dead": 0,
            "unwatched": 0,
            "present": 3,
            "wanted": 4,
        },
        "pools": [],
        "totals": {**COUNTS, **waits, "bizs": 1, "late": 1},
        "bizs": [{**biz, "dead": None, "expired": None}],
        "late": [late],
        "late_count": 1,
        "incidents": [msgspec.to_builtins(incident_view(START, HandledIncident(an_incident(1))))],
        "incident_counts": {"warning": 0, "critical": 1},
        "cost": {"usd": 1.25, "pages": 9_000, "per_1000_pages": 0.14, "lines": {}},
        "unread": [],
    }
    return api.overview


def test_everything_is_said_at_a_glance(crawlfleet, seen):
    done = crawlfleet("overview")

    assert done.code == 0
    assert "in: 4.0, 3.0, 2.5 a second over 1 s, 5 s, 60 s; out: 4.0, 3.0, 2.5" in done.out
    assert "1 bizs: 12,000 queued, 8 leased, 3 delayed; the oldest waits 90 s" in done.out
    assert "workers: 2 alive, 1 suspected, 0 dead" in done.out
    assert "wrong: 0 warning, 1 critical; late: 1; cost today: $1.25 for 9,000 pages" in done.out
    assert re.search(r"acme/docs +12,000 +8 +3 +90 s .*LATE", done.out)
    assert re.search(r"schedule +acme/docs +nightly", done.out)
    assert "no such rule" in done.out
    assert "biz acme/b1" in done.err


def test_what_nobody_can_say_is_said_to_be_so(crawlfleet, seen):
    seen |= {"workers": None, "cost": None, "late": None, "late_count": None, "bizs": []}
    seen |= {"incidents": None, "incident_counts": None}
    seen["unread"] = [{"what": "workers", "why": ""}, {"what": "money", "why": "is away"}]

    done = crawlfleet("overview")

    assert done.out.count("nobody can say now") == 4
    assert "could not be looked at: workers\n" in done.err
    assert "could not be looked at: money: is away" in done.err


def test_scripts_get_the_answer_as_it_is(crawlfleet, seen):
    done = crawlfleet("overview", "--json")

    found = json.loads(done.out)
    assert (found["late_count"], found["cost"]["usd"]) == (1, 1.25)
