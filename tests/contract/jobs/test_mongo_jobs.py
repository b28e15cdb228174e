"""Tests that MongoDB keeps all counters of a job, or none of them (SPEC.md H1)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pymongo.collection import Collection

from tests.contract.job_cases import a_job
from tests.contract.store_cases import (
    NOW,
    Fleet,
    a_biz,
    a_generation,
    a_request,
    done_with,
    snowflakes,
)
from tests.kit.jobs import JobState, MongoJobs
from tests.kit.mongo import MongoNodes, MongoRequestStore
from tests.kit.mongo_nodes import nodes_at
from tests.kit.requests import Ledger
from tests.waiting import eventually

DAY = timedelta(days=1)
#: A job's ledger can be read for a month after its last request is gone.
LIFE = timedelta(days=7, seconds=300) + 30 * DAY


@pytest.fixture
def nodes(mongo_uri: str) -> Iterator[MongoNodes]:
    with nodes_at(mongo_uri) as made:
        yield made


@pytest.fixture
def fleet(nodes: MongoNodes, tenant: str) -> Fleet:
    one = a_generation(nodes=("east",), databases=("one",), shards=1)
    return Fleet(MongoRequestStore(nodes), tenant, a_biz(generations=(one,)))


def work(fleet: Fleet, number: int, worker: int = 7) -> None:
    """Submit requests of the job and work on them, each by itself, so in a slot by chance."""
    for an_id in snowflakes(number, worker=worker):
        request = a_request(fleet.queue_key, an_id, job="weekly")
        fleet.insert([request])
        fleet.settle([done_with(claim, {"n": 1}) for claim in fleet.claim([request])])


def counters(nodes: MongoNodes, fleet: Fleet) -> Collection:
    return nodes.database("east", fleet.queue_key.tenant, "one")["shop.requests_counts"]


def last_counted(nodes: MongoNodes, fleet: Fleet) -> list[datetime]:
    return [one["at"] for one in counters(nodes, fleet).find({"_id.k": "job"})]


def age(nodes: MongoNodes, fleet: Fleet, by: timedelta) -> None:
    """Make the job's counters older by ``by``."""
    counters(nodes, fleet).update_many({"_id.k": "job"}, {"$set": {"at": NOW - by}})


def let_mongodb_remove(nodes: MongoNodes) -> None:
    """Wait until its TTL monitor has come round."""

    def passes() -> int:
        status = nodes.client("east").get_database("admin").command("serverStatus")
        return int(status["metrics"]["ttl"]["passes"])

    first = passes()
    eventually(holds=lambda: passes() >= first + 2)


def test_a_job_that_goes_on_for_ever_keeps_all_of_its_ledger(
    nodes: MongoNodes, fleet: Fleet
) -> None:
    work(fleet, 20)
    age(nodes, fleet, LIFE + DAY)
    work(fleet, 1, worker=8)

    fleet.reconcile(datetime.now(UTC))
    let_mongodb_remove(nodes)

    assert fleet.audit(job="weekly") == Ledger(submitted=21, done=21)
    assert set(last_counted(nodes, fleet)) == {NOW}


def test_the_counters_of_an_old_job_go_all_at_once(nodes: MongoNodes, fleet: Fleet) -> None:
    work(fleet, 20)
    age(nodes, fleet, 3 * DAY)
    work(fleet, 2, worker=8)
    assert len(set(last_counted(nodes, fleet))) == 2

    # Most of it was last counted three days before the rest was.
    fleet.reconcile(NOW + LIFE - DAY)
    assert fleet.audit(job="weekly") == Ledger(submitted=22, done=22)

    fleet.reconcile(NOW + LIFE + DAY)
    assert last_counted(nodes, fleet) == []
    assert fleet.audit(job="weekly") == Ledger()
    assert fleet.audit() == Ledger(submitted=22, done=22)


def test_a_job_that_has_not_ended_keeps_its_counters_however_old(
    nodes: MongoNodes, fleet: Fleet
) -> None:
    jobs = MongoJobs(nodes)
    job = jobs.create(
        a_job(fleet.queue_key.tenant, "weekly", biz=fleet.queue_key.biz, state=JobState.RUNNING)
    )
    work(fleet, 3)
    age(nodes, fleet, LIFE + DAY)

    fleet.reconcile(NOW)
    assert fleet.audit(job="weekly") == Ledger(submitted=3, done=3)

    jobs.end(job, JobState.DONE, {}, NOW)
    fleet.reconcile(NOW + DAY)
    assert fleet.audit(job="weekly") == Ledger()
