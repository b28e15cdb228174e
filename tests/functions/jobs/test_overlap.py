"""A schedule that runs one job at a time refuses a run by hand; who wins a race: the contract's."""

from typing import Any

from tests.functions.http import ask

PLAN = {"cron": "0 0 1 1 *", "rule": "page", "urls": ["https://a.example/"], "overlap": "skip"}


def test_a_run_by_hand_beside_one_that_has_not_ended_is_refused(world: Any) -> None:
    assert ask(world, "PUT", "/v1/docs/schedules/yearly", PLAN).status == 200
    begun = ask(world, "POST", "/v1/docs/schedules/yearly/run", {})
    again = ask(world, "POST", "/v1/docs/schedules/yearly/run", {})

    assert begun.status == 202, begun.text
    assert (again.status, again.json["type"]) == (409, "urn:crawlfleet:problem:conflict")
    assert begun.json["job"] in again.json["detail"]
    assert [job["name"] for job in ask(world, "GET", "/v1/docs/jobs").json["jobs"]] == [
        begun.json["job"]
    ]
