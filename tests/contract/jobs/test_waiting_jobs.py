"""Jobs that wait too long for a worker, over both implementations: reports and their cost."""

from datetime import timedelta

from tests.contract.job_cases import a_job
from tests.contract.store_cases import NOW
from tests.kit.implementations import fixture_over
from tests.kit.jobs import JobState, MongoJobs
from tests.kit.mongo_nodes import NodesOnOneServer

SECOND = timedelta(seconds=1)


jobs = fixture_over(MongoJobs)


def waits(jobs: MongoJobs, tenant: str, name: str, seconds: float) -> None:
    came = NOW - timedelta(seconds=seconds)
    jobs.create(a_job(tenant, name, state=JobState.PLACING, created_at=came))


def test_jobs_that_came_by_then_and_wait_still_are_found_oldest_first(
    jobs: MongoJobs, tenant: str
) -> None:
    for name, seconds in (("c", 60), ("a", 61), ("b", 90), ("new", 59)):
        waits(jobs, tenant, name, seconds)
    jobs.create(a_job(tenant, "runs", state=JobState.RUNNING, created_at=NOW - 99 * SECOND))
    # When each is to be looked at next is no matter.
    jobs.reschedule(
        jobs.get(tenant, "docs", "b"), NOW, "no worker has looked at it yet", NOW + SECOND
    )

    found = jobs.waiting(NOW - 60 * SECOND, 9)

    assert [job.name for job in found] == ["b", "a", "c"]
    assert found[0].trouble == "no worker has looked at it yet"
    assert [job.name for job in jobs.waiting(NOW - 60 * SECOND, 2)] == ["b", "a"]
    assert jobs.waiting(NOW - 60 * SECOND, 0) == jobs.waiting(NOW - 99 * SECOND, 9) == []
    assert jobs.place(found[0], None, None, None, NOW)
    assert jobs.unplace(found[1], "no worker suits it", NOW)
    assert [job.name for job in jobs.waiting(NOW, 9)] == ["c", "new"]


def test_a_tenant_whose_jobs_are_many_hides_those_of_no_other(jobs: MongoJobs, tenant: str) -> None:
    for n in range(9):
        waits(jobs, f"{tenant}a", f"j{n}", 900 + n)
    waits(jobs, f"{tenant}b", "only", 61)

    found = [(job.tenant[-1], job.name) for job in jobs.waiting(NOW, 3)]

    assert found == [("a", "j8"), ("b", "only"), ("a", "j7")]


def test_what_has_ended_or_came_later_is_not_read(
    mongo_connection: NodesOnOneServer, tenant: str
) -> None:
    jobs = MongoJobs(mongo_connection)
    for n in range(30):
        state = (JobState.PLACING, JobState.RUNNING, JobState.DONE)[n % 3]
        jobs.create(a_job(tenant, f"j{n}", state=state, created_at=NOW + n * SECOND))
    match = {"placing": True, "tenant": tenant, "created_at": {"$lte": NOW + 14 * SECOND}}
    plan = mongo_connection.control("jobs").find(match).hint("waiting").explain()["executionStats"]

    assert len(jobs.waiting(NOW + 14 * SECOND, 99)) == plan["totalDocsExamined"] == 5


def test_one_that_cannot_be_read_hinders_none_and_stays_as_it_is(
    mongo_connection: NodesOnOneServer, tenant: str
) -> None:
    jobs = MongoJobs(mongo_connection)
    waits(jobs, tenant, "june", 61)
    mongo_connection.control("jobs").insert_one(
        {"_id": f"{tenant}/docs/odd", "tenant": tenant, "placing": True, "created_at": NOW}
    )

    assert [job.name for job in jobs.waiting(NOW, 9)] == ["june"]

    odd = mongo_connection.control("jobs").find_one({"_id": f"{tenant}/docs/odd"})
    assert odd["created_at"].timestamp() == NOW.timestamp()
