"""Starts by events, end to end: an event is one job, a wrong one is told, what is away raises."""

import pytest

from tests.functions.http import ask
from tests.kit.jobs import MongoJobs
from tests.kit.kernel import StoreUnavailableError, names
from tests.kit.spiders import url_at
from tests.kit.worlds.functions import World

PLAN = {"rule": "page", "start": {"pattern": "https://example.org/{zone}/{page}"}}


@pytest.fixture
def kept(world: World) -> World:
    plan = {**PLAN, "start": {**PLAN["start"], "values": {"page": {"last": 3}}}}
    assert ask(world, "PUT", "/v1/docs/spiders/shop", plan).status == 201
    return world


def start(world: World, **changes: object) -> dict:
    event = {
        "crawlfleet": "start",
        "tenant": world.tenants["acme"],
        "biz": "docs",
        "spider": "shop",
        "values": {"zone": "north"},
        "id": "53dc4d37",
        **changes,
    }
    return world.call(names.SCHEDULER, event)


def jobs(world: World) -> list[dict]:
    return list(world.control["jobs"].find({"tenant": world.tenants["acme"]}))


def test_an_event_that_is_delivered_twice_is_one_job(kept):
    first = start(kept)
    again = start(kept)
    kept.end_environments()

    assert start(kept) == first == again
    assert len(jobs(kept)) == 1
    assert first["tasks"] == 3
    other = start(kept, id="another")
    assert other["job"] != first["job"]
    assert len(jobs(kept)) == 2


def test_a_job_keeps_its_plan_when_the_spider_is_put_anew(kept):
    first = start(kept)
    changed = {**PLAN, "start": {"urls": ["https://example.org/only"]}}
    assert ask(kept, "PUT", "/v1/docs/spiders/shop", changed).status == 201

    assert start(kept) == first
    assert start(kept, id="later", values={})["tasks"] == 1
    assert start(kept, id="later", version=1)["tasks"] == 3
    assert ask(kept, "DELETE", "/v1/docs/spiders/shop").status == 204
    refused = start(kept, id="after that", values={})
    assert "'shop'" in refused["refused"]
    # The version that a job names is still found, and nothing but that.
    assert ask(kept, "GET", "/v1/docs/spiders/shop", query={"version": "1"}).json["tasks"] == 3


@pytest.mark.parametrize("value", ["..", "."])
def test_a_value_that_leads_elsewhere_starts_nothing(kept, value):
    assert "zone" in start(kept, values={"zone": value})["refused"]
    assert jobs(kept) == []


@pytest.mark.parametrize(
    "value",
    ["../../etc", "@evil.example", "//evil.example/", "a b?c#d", "{page}", "%2e%2e", "\r\nHost: x"],
)
def test_a_value_from_outside_stays_within_its_place(kept, value):
    name = start(kept, values={"zone": value})["job"]

    nodes = next(parts for parts in kept.parts if "nodes" in vars(parts)).nodes
    job = MongoJobs(nodes).get(kept.tenants["acme"], "docs", name)
    url = url_at(job.start, 0)
    assert url.startswith("https://example.org/")
    assert url.endswith("/1")
    assert url.count("/") == 4
    assert not set("?#@{}\r\n ") & set(url)


def test_what_is_wrong_is_reported_once_and_found_by_whoever_looks(kept):
    start(kept, spider="nothing")
    start(kept, spider="nothing")
    kept.call(names.SCHEDULER, {})
    kept.end_environments()

    found = ask(kept, "GET", "/health", key=None, query={"deep": "1"}).json["deep"]
    assert found["tick"]["faults"]["starts"] == 1
    assert jobs(kept) == []


def test_a_stage_without_a_configuration_starts_nothing_and_says_so(kept):
    for parameter in kept.ssm.get_parameters_by_path(Path="/crawlfleet/test", Recursive=True)[
        "Parameters"
    ]:
        kept.ssm.delete_parameter(Name=parameter["Name"])
    kept.end_environments()

    assert "refused" in start(kept)


def test_a_store_that_takes_nothing_is_tried_again(kept):
    with kept.refusing("jobs"), pytest.raises(StoreUnavailableError):
        start(kept)

    assert start(kept)["tasks"] == 3
    assert len(jobs(kept)) == 1
