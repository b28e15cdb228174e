"""Records with a key of their own are the latest run's, and an earlier run says so."""

from typing import Any

from tests.functions.crawling.test_recrawl import an_edition
from tests.functions.crawling.test_segments_of_jobs import run
from tests.functions.http import ask
from tests.kit.worlds.functions import biz


def records_of(world: Any, job: str, **more: str) -> dict[str, Any]:
    found = ask(world, "GET", "/v1/docs/records", query={"job": job, **more})
    assert found.status == 200, found.text
    return found.json


def test_a_run_whose_records_a_later_one_has_saved_anew_says_so(world):
    rule = {"fields": {"title": {"css": "title"}}, "key": ["title"]}
    world.fresh({"acme": {"docs": biz(rules={"page": rule})}})
    with an_edition() as site:
        run(world, f"{site.url}1", "one")
        assert len(records_of(world, "one")["records"]) == 1
        assert records_of(world, "one")["note"] is None
        run(world, f"{site.url}1", "two")

    earlier, later = records_of(world, "one"), records_of(world, "two")

    assert (earlier["records"], len(later["records"]), later["note"]) == ([], 1, None)
    assert "the job one has stored 1 records with a key of their own" in earlier["note"]
    assert "saved anew by later runs" in earlier["note"]
    assert "1 records" in records_of(world, "one", rule="page")["note"]
    for other in ({"rule": "other"}, {"host": "nowhere.example"}, {"field": "price"}):
        assert records_of(world, "one", **other)["note"] is None, other
    assert records_of(world, "never")["note"] is None
