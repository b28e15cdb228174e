"""The segment of a job: each run reads the whole site, unless its start says otherwise."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.functions.apps.test_clock import tick
from tests.functions.crawling.test_follow import a_web
from tests.functions.http import ask
from tests.kit.kernel import names
from tests.kit.worlds.functions import biz
from tests.waiting import eventually

#: The site's pages without the one that its robots.txt denies.
READ = 39


def following() -> dict[str, Any]:
    rule = {"fields": {"title": {"css": "title"}}, "follow": [{"css": "a[href]", "max_depth": 50}]}
    return biz(rules={"page": rule}, seeds={"span": "month"})


def job_of(world: Any, name: str) -> dict[str, Any]:
    found = ask(world, "GET", f"/v1/docs/jobs/{name}")
    assert found.status == 200, found.text
    return found.json


def run(world: Any, url: str, name: str, **more: Any) -> dict[str, Any]:
    started = ask(world, "POST", "/v1/docs/jobs", {"urls": [url], "name": name, **more})
    assert started.status == 201, started.text
    return ended(world, name)


def ended(world: Any, name: str) -> dict[str, Any]:
    def has_ended() -> bool:
        tick(world)
        world.work()
        return job_of(world, name)["state"] == "done"

    eventually(has_ended)
    return job_of(world, name)


def test_each_run_of_a_job_reads_the_whole_site(world):
    world.fresh({"acme": {"docs": following()}})
    with a_web() as web:
        first = run(world, f"{web.url}/0", "one")
        second = run(world, f"{web.url}/0", "two")

    assert [job["counts"]["done"] for job in (first, second)] == [READ, READ]
    assert (second["segment"], second["known_links"], second["known_in"]) == ("job", 0, None)
    totals = ask(world, "GET", "/v1/docs/seeds/totals").json["segments"]
    assert [one["segment"].rpartition(".")[2] for one in totals] == ["two", "one"]


def test_a_run_in_the_segment_of_the_biz_counts_what_earlier_runs_made_known(world):
    world.fresh({"acme": {"docs": following()}})
    with a_web() as web:
        first = run(world, f"{web.url}/0", "one", segment="biz")
        second = run(world, f"{web.url}/0", "two", segment="biz")

    assert (first["counts"]["done"], first["known_links"]) == (READ, 0)
    # Page 0 leads to 1, 2 and 7, and they are known to be read by then.
    assert (second["counts"]["done"], second["known_links"]) == (1, 3)
    [segment] = ask(world, "GET", "/v1/docs/seeds/totals").json["segments"]
    assert second["known_in"] == segment["segment"]


def fired(world: Any, url: str, name: str, **more: Any) -> dict[str, Any]:
    """The job that a schedule has started for a time that came a moment after it was put."""
    at = datetime.now(UTC).replace(second=0, microsecond=0)
    cron = f"{at.minute} {at.hour} {at.day} {at.month} *"
    world.clocks[names.ROUTER] = lambda: at - timedelta(seconds=1)
    plan = {"cron": cron, "rule": "page", "urls": [url], **more}
    put = ask(world, "PUT", f"/v1/docs/schedules/{name}", plan)
    assert put.status == 200, put.text
    del world.clocks[names.ROUTER]

    def jobs() -> list[dict[str, Any]]:
        tick(world)
        found: list[dict[str, Any]] = ask(
            world, "GET", "/v1/docs/jobs", query={"schedule": name}
        ).json["jobs"]
        return found

    eventually(jobs)
    [job] = jobs()
    assert (job["by"], datetime.fromisoformat(job["fire_at"])) == ("schedule", at)
    return job


def test_a_schedule_chooses_the_segment_of_the_jobs_that_it_fires(world):
    world.fresh({"acme": {"docs": following()}})
    with a_web() as web:
        run(world, f"{web.url}/0", "one", segment="biz")
        shared = ended(world, fired(world, f"{web.url}/0", "shared", segment="biz")["name"])
    own = fired(world, "http://127.0.0.1:9/", "own")

    assert (shared["segment"], shared["counts"]["done"], shared["known_links"]) == ("biz", 1, 3)
    assert own["segment"] == "job"
    for name, segment in (("own", None), ("shared", "biz")):
        assert ask(world, "GET", f"/v1/docs/schedules/{name}").json["segment"] == segment


def test_a_segment_longer_than_those_of_the_biz_is_refused_by_its_field(world):
    short = following() | {"seeds": {"span": "hour"}}
    world.fresh({"acme": {"docs": short}})

    for path, method, more in (
        ("/v1/docs/jobs", "POST", {}),
        ("/v1/docs/schedules/nightly", "PUT", {"cron": "0 3 * * *", "rule": "page"}),
    ):
        wrong = ask(world, method, path, {"urls": ["http://a.test/"], "segment": "day", **more})

        assert (wrong.status, wrong.fields) == (400, ["segment"]), wrong.text
        assert "seeds.span: hour" in wrong.text
