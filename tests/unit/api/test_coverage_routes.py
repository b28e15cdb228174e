"""The coverage of rules at the edge."""

from tests.kit.requests import Coverage, RuleCoverage
from tests.unit.api.test_dead_letter_routes import NoServices, an_event, ask


def test_coverage_is_shown_by_field_with_its_share():
    fields = {"title": 3, "price": 2, "b": 0, "wild": 9}
    counted = Coverage(pages=2, records=3, rejected=2, fields=fields)
    found = [
        RuleCoverage(rule="detail", version="v2", current=True, coverage=counted),
        RuleCoverage(rule="detail", version="v1", current=False, coverage=Coverage(pages=1)),
    ]

    status, shown = ask(NoServices(coverage=lambda *_: found), an_event(path="/v1/docs/coverage"))

    assert status == 200
    assert shown["coverage"] == [
        {
            "rule": "detail",
            "version": "v2",
            "current": True,
            "pages": 2,
            "records": 3,
            "rejected": 2,
            "fields": [
                {"name": "b", "count": 0, "share": 0.0},
                {"name": "price", "count": 2, "share": 0.6667},
                {"name": "title", "count": 3, "share": 1.0},
                {"name": "wild", "count": 9, "share": 1.0},
            ],
            "empty": [],
            "mostly_empty": False,
            "hours": [],
        },
        {
            "rule": "detail",
            "version": "v1",
            "current": False,
            "pages": 1,
            "records": 0,
            "rejected": 0,
            "fields": [],
            "empty": [],
            "mostly_empty": False,
            "hours": [],
        },
    ]
