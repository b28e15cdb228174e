"""The contracts of JobReopening and JobStates: what is done runs again; states, and no more."""

from datetime import UTC, datetime

import pytest

from tests.kit.implementations import fixture_over
from tests.kit.jobs import (
    Job,
    JobState,
    MongoJobReopening,
    MongoJobs,
)
from tests.kit.spiders import Start

NOW = datetime.now(UTC).replace(microsecond=0)


both = fixture_over(MongoJobs, MongoJobReopening, MongoJobs)


def a_job(tenant: str, **changes: object) -> Job:
    facts: dict = {
        "tenant": tenant,
        "biz": "docs",
        "name": "june",
        "state": JobState.RUNNING,
        "rule": "page",
        "rule_version": "v",
        "start": Start(urls=("https://a.example/",)),
        "size": 1,
        "created_at": NOW,
        "by": "api",
    }
    return Job(**(facts | changes))


def test_what_is_done_runs_again_and_ends_again(both, tenant):
    jobs, reopening, _ = both
    job = jobs.create(a_job(tenant))
    assert jobs.end(job, JobState.DONE, {"dead": 1}, NOW)
    assert jobs.count_open(tenant, "docs") == 0

    again = reopening.reopen(tenant, "docs", "june", NOW)

    assert (again.state, again.ended_at, again.counts) == (JobState.RUNNING, None, {})
    assert again == jobs.get(tenant, "docs", "june")
    assert jobs.count_open(tenant, "docs") == 1
    mine = [one for one in jobs.watched(1_000) if one.tenant == tenant]
    assert [one.name for one in mine] == ["june"]
    assert jobs.end(again, JobState.DONE, {"done": 1}, NOW)
    assert jobs.get(tenant, "docs", "june").counts == {"done": 1}


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.CANCELLING, JobState.CANCELLED])
def test_what_is_not_done_stays_as_it_is(both, tenant, state):
    jobs, reopening, _ = both
    job = jobs.create(a_job(tenant, state=state))

    assert reopening.reopen(tenant, "docs", "june", NOW) == job
    assert jobs.get(tenant, "docs", "june") == job


def test_of_another_tenant_or_biz_nothing_is_reopened(both, tenant):
    jobs, reopening, _ = both
    job = jobs.create(a_job(tenant, state=JobState.DONE))

    assert reopening.reopen(f"{tenant}-other", "docs", "june", NOW) is None
    assert reopening.reopen(tenant, "shop", "june", NOW) is None
    assert jobs.get(tenant, "docs", "june") == job


def test_the_states_of_some_jobs_are_reported_and_nobody_elses(both, tenant):
    jobs, _, states = both
    jobs.create(a_job(tenant))
    jobs.create(a_job(tenant, name="may", state=JobState.CANCELLED))
    jobs.create(a_job(f"{tenant}-other", name="april"))

    found = states.states(tenant, "docs", {"june", "may", "april"})

    assert found == {"june": JobState.RUNNING, "may": JobState.CANCELLED}
    assert states.states(tenant, "docs", set()) == {}
    assert states.states(tenant, "shop", {"june"}) == {}


def test_cancelled_jobs_are_reported_and_whether_their_tasks_are_still_swept(both, tenant):
    jobs, _, states = both
    for state in JobState:
        jobs.create(a_job(tenant, name=state.value, state=state))

    found = states.cancelled(tenant, "docs", {state.value for state in JobState} | {"none"})

    assert found == {"cancelling": False, "cancelled": True}


@pytest.mark.parametrize("state", [JobState.EXPANDING, JobState.RUNNING])
def test_who_read_the_ledger_before_a_retry_does_not_end_the_job(both, tenant, state):
    jobs, reopening, _ = both
    job = jobs.create(a_job(tenant, state=state))

    begun = reopening.begin_retry(tenant, "docs", "june")

    assert begun == jobs.get(tenant, "docs", "june")
    assert begun.retries == 1
    assert jobs.end(job, JobState.DONE, {}, NOW) is False
    assert jobs.end(begun, JobState.DONE, {}, NOW) is True
    assert reopening.begin_retry(tenant, "docs", "june").retries == 2


@pytest.mark.parametrize("state", [JobState.CANCELLING, JobState.CANCELLED, JobState.UNPLACED])
def test_what_was_cancelled_is_not_retried(both, tenant, state):
    jobs, reopening, _ = both
    job = jobs.create(a_job(tenant, state=state))

    assert reopening.begin_retry(tenant, "docs", "june") == job
    assert reopening.begin_retry(tenant, "docs", "never") is None


def test_what_was_left_is_kept_with_the_look_and_forgotten_by_the_next(both, tenant):
    jobs, _, _ = both
    job = jobs.create(a_job(tenant))

    jobs.reschedule(job, NOW, None, NOW, 7)
    assert jobs.get(tenant, "docs", "june").left == 7
    jobs.reschedule(job, NOW, "away")
    assert jobs.get(tenant, "docs", "june").left is None
