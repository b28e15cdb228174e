"""Whatever has a job name is a job: shown, waited for and cancelled, what its pages lead to too."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.functions.apps.test_clock import tick
from tests.functions.crawling.test_follow import a_web
from tests.functions.crawling.test_segments_of_jobs import READ, following, job_of
from tests.functions.http import ask, submit
from tests.kit.jobs import REST, MongoJobs
from tests.kit.worlds.functions import biz
from tests.waiting import eventually


def jobs_listed(world: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(world, "GET", "/v1/docs/jobs").json["jobs"]
    return found


def jobs_of(world: Any) -> list[tuple[str, str, str]]:
    return [(one["name"], one["state"], one["by"]) for one in jobs_listed(world)]


def ledger_of(world: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(world, "GET", "/v1/docs/ledger", query={"job": name}).json
    return found


def test_what_is_submitted_under_a_name_is_a_job_until_its_links_are_read(world):
    world.fresh({"acme": {"docs": following()}})
    with a_web() as web:
        submit(world, f"{web.url}/0", job="sub1")
        begun = job_of(world, "sub1")
        seen = []

        def is_done() -> bool:
            world.work()
            seen.append(job_of(world, "sub1"))
            tick(world)
            return seen[-1]["state"] == "done"

        eventually(is_done)

    assert (begun["state"], begun["by"], begun["progress"]["tasks"]) == ("running", "submission", 1)
    assert all(one["ledger"]["submitted"] == READ + 1 for one in seen if one["state"] == "done")
    counts = {"done": READ, "dead": 1, "cancelled": 0, "expired": 0, "refused": 0}
    assert seen[-1]["counts"] == counts
    ledger = ledger_of(world, "sub1")
    assert (ledger["submitted"], ledger["done"]) == (READ + 1, READ)


def test_what_has_ended_of_jobs_is_seen_while_they_go_on_however_they_came_about(world):
    world.fresh({"acme": {"docs": biz(rules={"page": {"fields": {"title": {"css": "title"}}}})}})
    with a_web() as web:
        submit(world, f"{web.url}/0", f"{web.url}/13", job="sub1")
        eventually(lambda: world.work() and job_of(world, "sub1")["open"] == 0)
    submit(world, "http://127.0.0.1:9/later", job="sub1")
    order = {"urls": ["http://127.0.0.1:9/a", "http://127.0.0.1:9/b"], "name": "june"}
    assert ask(world, "POST", "/v1/docs/jobs", order).status == 201
    eventually(lambda: tick(world) and job_of(world, "june")["state"] == "running")

    asked_at = datetime.now(UTC) - timedelta(seconds=1)
    june, sub1 = jobs_listed(world)
    whole = job_of(world, "sub1")

    ended = {"done": 1, "dead": 1, "cancelled": 0, "expired": 0, "refused": 0}
    for found in (sub1, whole):
        assert (found["state"], found["counts"], found["open"]) == ("running", ended, 1)
        assert asked_at < datetime.fromisoformat(found["counted_at"])
    [read] = whole["coverage"]
    assert (read["pages"], read["records"], read["fields"][0]["count"]) == (1, 1, 1)
    none = dict.fromkeys(ended, 0)
    assert (june["state"], june["counts"], june["open"]) == ("running", none, 2)


def test_a_job_that_has_ended_is_counted_as_of_its_end(world):
    world.fresh({"acme": {"docs": following()}})
    submit(world, "http://127.0.0.1:9/a", job="sub1")
    before = jobs_listed(world)[0]
    assert ask(world, "POST", "/v1/docs/jobs/sub1/cancel").status == 200

    [found] = jobs_listed(world)

    assert (before["open"], before["ended_at"]) == (1, None)
    assert (found["open"], found["counts"]["cancelled"]) == (0, 1)
    assert found["counted_at"] == found["ended_at"] == job_of(world, "sub1")["counted_at"]


def test_a_job_of_submissions_is_ended_by_rounds_and_runs_again_when_more_comes(world):
    world.fresh({"acme": {"docs": following()}})
    submit(world, "http://127.0.0.1:9/a", job="sub1")
    assert ask(world, "POST", "/v1/docs/jobs/sub1/cancel").status == 200
    assert jobs_of(world) == [("sub1", "cancelled", "submission")]

    submit(world, "http://127.0.0.1:9/b", job="sub1")

    found = job_of(world, "sub1")
    assert (found["state"], found["ledger"]["pending"], found["ledger"]["cancelled"]) == (
        *("running", 1),
        1,
    )
    assert ask(world, "POST", "/v1/docs/jobs/sub1/cancel").json["state"] == "cancelled"
    again = ask(world, "POST", "/v1/docs/jobs/sub1/cancel")
    assert (again.status, again.json["state"]) == (200, "cancelled")


def test_a_name_that_an_older_release_took_is_a_job_when_somebody_asks_for_it(world):
    world.fresh({"acme": {"docs": following()}})
    submit(world, "http://127.0.0.1:9/a", job="sub1")
    world.own.nodes.control("jobs").delete_many({"tenant": world.tenants["acme"]})
    assert jobs_of(world) == []

    assert job_of(world, "sub1")["state"] == "running"
    assert jobs_of(world) == [("sub1", "running", "submission")]
    assert ask(world, "GET", "/v1/docs/jobs/sub2").status == 404
    assert ask(world, "POST", "/v1/docs/jobs/sub2/cancel").status == 404
    assert ask(world, "GET", "/v1/docs/jobs/sub1", key="rival").status == 404


def test_a_seed_may_be_offered_under_the_name_of_a_job(world):
    world.fresh({"acme": {"docs": following()}})
    with a_web() as web:
        offered = {"seeds": [{"url": f"{web.url}/13", "job": "sub1"}]}
        assert ask(world, "POST", "/v1/docs/seeds", offered).status == 200

        assert jobs_of(world) == [("sub1", "running", "submission")]


def test_rounds_end_a_job_of_submissions_after_a_rest(world):
    world.fresh({"acme": {"docs": following()}})
    submit(world, "http://127.0.0.1:9/a", job="sub1")
    queued = ask(world, "GET", "/v1/docs/requests").json["requests"][0]["id"]
    assert ask(world, "DELETE", f"/v1/docs/requests/{queued}").status == 200

    tick(world)
    # Nothing of it is open; it goes on in the store, as a router may have left out a note of it.
    done = [("sub1", "done", "submission")]
    jobs, key = MongoJobs(world.own.nodes), (world.tenants["acme"], "docs", "sub1")
    kept = jobs.get(*key)
    assert kept.state == "running"
    assert jobs_of(world) == done
    assert job_of(world, "sub1")["state"] == "done"
    before = kept.created_at - REST
    change = {"$set": {"submitted_at": before, "due_at": before}}
    world.own.nodes.control("jobs").update_one({"_id": "/".join(kept.key)}, change)

    # Whose turn a round is goes by Redis' clock: the next one comes half a second later.
    eventually(lambda: tick(world) and jobs.get(*key).state == "done")
    assert jobs_of(world) == done
    answer = ask(world, "POST", "/v1/docs/jobs/sub1/cancel")
    assert (answer.status, "has ended" in answer.json["detail"]) == (409, True)
