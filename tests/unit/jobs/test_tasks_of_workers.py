"""Jobs and the fleet: workers make tasks, stay for them, and are wanted for them."""

from datetime import timedelta

import pytest

from tests.kit.fleet import needed_workers
from tests.kit.jobs import LOCK, TERM, JobState
from tests.kit.requests import Page
from tests.kit.worlds import worker as worlds
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.jobs import assert_exact, begin, job_of
from tests.kit.worlds.memory import DOCS, World, make_tree

URLS = [f"https://example.org/{n}" for n in range(1, 121)]
PAGES = {url: Page(url=url, status=200, headers={}, body=b"a title") for url in URLS}


@pytest.fixture
def world() -> World:
    made = World(tree=make_tree(idle_seconds=0.05, concurrency=8, batch=50))
    made.pace(advance=0.01)
    return made


def work(world: World, **changes: object) -> str:
    report = worlds.work(world, dict(PAGES), "w1", **changes)
    assert report.tasks == 0 or report.done > 0
    return report.stopped_because


def test_a_worker_makes_tasks_works_them_off_and_leaves(world):
    begin(world, 120)

    assert work(world) == "idle"

    assert_exact(world)
    ledger = world.ledgers.audit(DOCS, world.biz, world.now, "june")
    assert (ledger.submitted, ledger.open) == (120, 0)


def test_a_worker_stays_for_tasks_that_are_yet_to_be_made(world):
    """Another worker has the lock to make them, and dies; this one takes over."""
    begin(world, 5)
    world.detector.acquire_lock(LOCK, "other", timedelta(), TERM)
    looks = []

    class Jobs:
        def expandable(self, limit, now=None):
            looks.append(limit)
            if len(looks) == 3:
                world.now += TERM
            return world.jobs.expandable(limit, now)

        def __getattr__(self, name):
            return getattr(world.jobs, name)

    advancing = world.advancing(jobs=Jobs(), expansion=world.expanding(jobs=Jobs()))

    assert work(world, advancing=advancing) == "idle"
    assert_exact(world)


def test_a_job_in_trouble_keeps_no_worker(world):
    begin(world, 5)
    world.jobs.reschedule(job_of(world), world.now, "away", world.now + timedelta(seconds=30))

    assert work(world) == "idle"
    assert job_of(world).expanded == 0


def test_a_worker_stays_for_a_job_that_goes_on_soon(world):
    """As where its biz was added a moment ago, and the worker has not heard of it yet."""
    begin(world, 5)
    world.jobs.reschedule(job_of(world), world.now, "unknown", world.now + timedelta(seconds=5))

    class Jobs:
        """Jobs at which every look takes a second."""

        def expandable(self, limit, now=None):
            world.now += timedelta(seconds=1)
            return world.jobs.expandable(limit, now)

        def __getattr__(self, name):
            return getattr(world.jobs, name)

    advancing = world.advancing(jobs=Jobs(), expansion=world.expanding(jobs=Jobs()))

    assert work(world, advancing=advancing) == "idle"
    assert_exact(world)
    assert job_of(world).expanded == 5


def test_a_worker_may_leave_where_nobody_knows_of_jobs(world):
    begin(world, 5)
    jobs = Failing(world.jobs, expandable=99)
    away = world.advancing(jobs=jobs, expansion=world.expanding(jobs=jobs))

    assert work(world, advancing=away) == "idle"
    assert job_of(world).state is JobState.EXPANDING


def test_tasks_yet_to_be_made_ask_for_a_worker(world):
    limits = world.tree.stage.fleet

    def needed() -> int:
        return needed_workers(world.ahead().demand(world.tree, world.now), 1.0, limits, 9)

    assert needed() == 0
    begin(world, 100_000)
    assert needed() == 1
    world.jobs.reschedule(job_of(world), world.now, "away", world.now + timedelta(seconds=30))
    assert needed() == 0


def test_a_home_node_that_is_away_hides_no_other_demand(world):
    found = world.ahead(jobs=Failing(world.jobs, expandable=1)).demand(world.tree, world.now)

    assert found.queues == ()
    [warning] = world.warnings
    assert "expandable: no answer" in warning
