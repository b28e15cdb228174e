"""Visit routes of the API, over services that a test makes."""

from datetime import UTC, datetime

from tests.kit.kernel import NotFoundError
from tests.kit.requests import Validators, Visit, VisitTotals
from tests.unit.api.test_rest import NoServices, an_event, ask

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
VISIT = Visit(
    key="ab" * 16,
    url="https://example.org/?a=1",
    rule="page",
    rule_version="v1",
    depth=1,
    visited_at=NOW,
    changed_at=NOW,
    interval_seconds=3_600.00049,
    validators=Validators(etag='"1"'),
    content="cd",
    visits=3,
    changes=1,
    saved=1,
)


def test_one_page_is_asked_for_by_its_url():
    asked = []

    def visit(tenant: str, biz: str, url: str) -> Visit:
        asked.append((tenant, biz, url))
        return VISIT

    url = "https://example.org/?a=1&b=ü#x"
    event = an_event(
        path="/v1/docs/visits",
        queryStringParameters={"url": url},
        multiValueQueryStringParameters={"url": [url]},
    )
    status, body = ask(NoServices(visit=visit), event)

    assert (status, asked) == (200, [("acme", "docs", url)])
    assert body == {
        "visit": {
            "url": "https://example.org/?a=1",
            "key": "ab" * 16,
            "rule": "page",
            "rule_version": "v1",
            "depth": 1,
            "visited_at": "2026-03-01T12:00:00.000Z",
            "changed_at": "2026-03-01T12:00:00.000Z",
            "next_at": None,
            "interval_seconds": 3600.0,
            "visits": 3,
            "changes": 1,
            "saved": 1,
            "spared": 0,
            "etag": '"1"',
            "last_modified": None,
            "content": "cd",
        },
        "totals": None,
    }


def test_without_a_url_all_pages_are_reported_together():
    totals = VisitTotals(pages=5, visits=20, changes=4, saved=9, spared=3, due=1)

    status, body = ask(NoServices(visit_totals=lambda *_: totals), an_event(path="/v1/docs/visits"))

    assert (status, body["visit"]) == (200, None)
    counts = {"visits": 20, "changes": 4, "saved": 9, "spared": 3}
    assert body["totals"] == {"pages": 5, **counts, "due": 1}


def test_a_page_that_is_not_known_is_not_found():
    def visit(*_: str) -> Visit:
        raise NotFoundError("nothing is known")

    event = an_event(path="/v1/docs/visits", queryStringParameters={"url": "https://x.example/"})
    status, body = ask(NoServices(visit=visit), event)

    assert (status, body["detail"]) == (404, "nothing is known")
