"""Jobs in MongoDB: their life, their indexes, and what it cannot hold or read."""

import pytest

from tests.contract.job_cases import (
    DONE,
    EXPANDING,
    PATTERN,
    RUNNING,
    SECOND,
    a_job,
    expanded,
    names,
)
from tests.contract.store_cases import NOW
from tests.kit.jobs import MongoJobs
from tests.kit.kernel import StoreUnavailableError
from tests.kit.mongo import UnstorableError
from tests.kit.mongo_nodes import NodesOnOneServer, nodes_at
from tests.kit.requests import JOB_LIFE
from tests.kit.spiders import Start


def test_mongodb_removes_what_has_ended_and_nothing_that_is_open(
    mongo_connection: NodesOnOneServer, tenant: str
) -> None:
    jobs = MongoJobs(mongo_connection)
    jobs.create(a_job(tenant))
    running = expanded(jobs, jobs.create(a_job(tenant, "ended")), 2_500)
    jobs.end(running, DONE, {}, NOW)

    collection = mongo_connection.control("jobs")
    indexes = collection.index_information()
    assert indexes["ttl"]["key"] == [("ended_at", 1)]
    assert indexes["ttl"]["expireAfterSeconds"] == JOB_LIFE.total_seconds()
    assert [one["name"] for one in collection.find({"ended_at": {"$exists": True}})] == ["ended"]


def test_lists_are_read_through_their_indexes_and_hold_no_urls(
    mongo_connection: NodesOnOneServer, tenant: str
) -> None:
    jobs = MongoJobs(mongo_connection)
    for number in range(30):
        state = (EXPANDING, RUNNING, DONE)[number % 3]
        jobs.create(a_job(tenant, f"j{number}", state=state))
    collection = mongo_connection.control("jobs")

    def examined(match: dict, hint: str) -> int:
        plan = collection.find(match).hint(hint).explain()
        return plan["executionStats"]["totalDocsExamined"]

    assert examined({"making": True, "tenant": tenant}, "making") == 10
    assert examined({"watched": True, "tenant": tenant}, "watched") == 10
    assert len(jobs.expandable(100)) == len(jobs.watched(100)) == 10


def test_a_job_that_mongodb_cannot_hold_is_refused_in_words(mongo_uri: str, tenant: str) -> None:
    urls = tuple(f"https://site.example/{n:04}/".ljust(8_000, "\N{SNAKE}") for n in range(1_000))
    with nodes_at(mongo_uri) as nodes, pytest.raises(UnstorableError):
        MongoJobs(nodes).create(a_job(tenant, start=Start(urls=urls)))


def test_a_node_that_is_away_is_said_to_be(tenant: str) -> None:
    with nodes_at("mongodb://127.0.0.1:9/?directConnection=false") as nodes:
        jobs = MongoJobs(nodes)
        with pytest.raises(StoreUnavailableError):
            jobs.create(a_job(tenant, start=PATTERN))
        with pytest.raises(StoreUnavailableError):
            jobs.expandable(1)


def test_a_job_that_cannot_be_read_hinders_none_and_is_put_off(
    mongo_connection: NodesOnOneServer, tenant: str
) -> None:
    jobs = MongoJobs(mongo_connection)
    for name in ("a-odd", "june"):
        jobs.create(a_job(tenant, name=name))
    odd = {"_id": f"{tenant}/docs/a-odd"}
    mongo_connection.control("jobs").update_one(odd, {"$set": {"state": "of_the_next_release"}})

    assert jobs.expandable(1, NOW + SECOND) == []
    assert names(jobs.expandable(1, NOW + SECOND)) == ["june"]
    assert names(jobs.expandable(9)) == ["june"]
