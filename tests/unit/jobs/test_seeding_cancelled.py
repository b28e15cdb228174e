"""Seeds from the pages of a cancelled job become none of its tasks."""

from datetime import timedelta

import pytest

from tests.fakes.jobs import MemoryJobs
from tests.kit.frontier import SeedState
from tests.kit.jobs import Job, JobState
from tests.kit.kernel import StoreUnavailableError
from tests.kit.requests import State
from tests.kit.spiders import Start
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.frontier import SeedWorld, a_spec
from tests.kit.worlds.memory import DOCS


@pytest.fixture
def world() -> SeedWorld:
    made = SeedWorld()
    made.jobs = MemoryJobs()
    for name in ("june", "july"):
        job = Job(
            tenant="default",
            biz="docs",
            name=name,
            state=JobState.RUNNING,
            rule="page",
            rule_version="v",
            start=Start(urls=("https://example.org/",)),
            size=1,
            created_at=made.now,
            by="api",
        )
        made.jobs.create(job)
    return made


def dispatch(world: SeedWorld, **changes: object) -> int:
    return world.dispatch(**({"jobs": world.jobs} | changes))


def end(world: SeedWorld) -> None:
    """June is cancelled, and its ledger has nothing open."""
    job = world.jobs.cancel("default", "docs", "june", world.now)
    world.jobs.end(job, JobState.CANCELLED, {}, world.now)


@pytest.mark.parametrize("ended", [False, True])
def test_seeds_of_a_cancelled_job_fail_and_others_become_requests(world, ended):
    world.add(a_spec(1, job="june"), a_spec(2, job="july"), a_spec(3), a_spec(4, job="x"))
    world.jobs.cancel("default", "docs", "june", world.now)
    if ended:
        end(world)

    assert dispatch(world) == 3

    assert {one.request.job for one in world.requests()} == {"july", "x", None}
    [failed] = world.kept(SeedState.FAILED)
    assert "june was cancelled" in failed.why


def test_what_was_stored_while_its_job_ended_is_cancelled_too(world):
    world.add(a_spec(1, job="june"), a_spec(2, job="july"))

    class Late:
        """June ends between the two looks."""

        def cancelled(self, *args):
            found = world.jobs.cancelled(*args)
            end(world)
            return found

    dispatch(world, jobs=Late())

    found = {one.request.job: one.state for one in world.requests()}
    assert found == {"june": State.CANCELLED, "july": State.PENDING}
    assert world.ledgers.audit(DOCS, world.biz, world.now, "june").open == 0


def test_seeds_are_taken_up_again_when_nobody_could_say_how_their_jobs_are(world):
    world.add(a_spec(1, job="june"))
    away = Failing(world.jobs, cancelled=1)

    with pytest.raises(StoreUnavailableError):
        dispatch(world, jobs=away)
    assert world.requests() == []

    world.now += timedelta(seconds=1)
    world.recheck(jobs=away)
    assert [one.request.job for one in world.requests()] == ["june"]
