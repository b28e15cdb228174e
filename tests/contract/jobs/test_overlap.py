"""Jobs of a schedule that meet: in whatever order, its overlap policy holds (SPEC.md B1, C2)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest

from tests.contract.job_cases import a_job
from tests.contract.store_cases import NOW
from tests.kit.implementations import Backend, backend_over
from tests.kit.jobs import (
    Job,
    JobState,
    MongoJobReopening,
    MongoJobs,
    MongoOrphanedJobs,
)
from tests.kit.kernel import ConflictError, StoreUnavailableError
from tests.kit.mongo_nodes import NodesOnOneServer
from tests.kit.schedules import MongoSchedules, OutcomeKind, Overlap
from tests.kit.worlds.schedules import Clocked

HOUR = timedelta(hours=1)
EXPANDING, RUNNING = JobState.EXPANDING, JobState.RUNNING
CANCELLING, DONE = JobState.CANCELLING, JobState.DONE


class Place:
    """The jobs by all of their doors, and a biz with schedules that starts them."""

    def __init__(
        self,
        jobs: MongoJobs,
        reopening: MongoJobReopening,
        orphaned: MongoOrphanedJobs,
        schedules: MongoSchedules | None,
        control: NodesOnOneServer | None,
    ) -> None:
        self.jobs, self.reopening, self.orphaned, self.control = jobs, reopening, orphaned, control
        self.world = Clocked(schedules)
        self.world.jobs = jobs

    def states(self) -> dict[str, JobState]:
        asked: dict[str, Any] = {"states": (), "spider": None, "schedule": None, "after": None}
        found = self.jobs.of_biz("default", "docs", **asked, limit=1_000)
        return {job.name: job.state for job in found}

    def open(self) -> list[str]:
        return [name for name, state in self.states().items() if state is not DONE]

    def end(self, name: str) -> None:
        job = self.jobs.get("default", "docs", name)
        assert job is not None
        # By the time of day: what ended long ago MongoDB removes.
        assert self.jobs.end(job, DONE, {}, datetime.now(UTC))

    def run(self, key: str) -> Job | ConflictError:
        try:
            return self.world.run(key)
        except ConflictError as error:
            return error


backend = backend_over(MongoJobs, MongoJobReopening, MongoOrphanedJobs)


@pytest.fixture
def place(backend: Backend) -> Place:
    doors = backend[MongoJobs], backend[MongoJobReopening], backend[MongoOrphanedJobs]
    if backend.name == "memory":
        return Place(*doors, None, None)
    return Place(*doors, backend[MongoSchedules], backend.connection)


class AtOnce:
    """Jobs of a schedule are counted by all who are to meet, before any of them goes on."""

    def __init__(self, jobs: MongoJobs, number: int) -> None:
        self._jobs, self._all = jobs, Barrier(number)

    def count_open(self, tenant: str, biz: str, of: str | None = None) -> int:
        count = self._jobs.count_open(tenant, biz, of)
        if of is not None:
            self._all.wait(60)
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [done.result(60) for done in [pool.submit(call) for call in calls]]


# ---- a tick and runs by hand ---------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE])
def test_of_a_tick_and_two_runs_by_hand_that_counted_nothing_one_starts_its_job(
    place: Place, overlap: Overlap
) -> None:
    world = place.world
    world.put(overlap=overlap)
    world.now += HOUR
    world.jobs = AtOnce(place.jobs, 3)

    fires, *runs = at_once(world.tick, lambda: place.run("a"), lambda: place.run("b"))
    world.jobs = place.jobs

    [started] = place.open()
    assert list(place.states()) == [started]
    by_hand = [run.name for run in runs if isinstance(run, Job)]
    last = world.get().last_outcome
    assert last is not None
    if fires:
        assert (last.kind, last.job, by_hand) == (OutcomeKind.STARTED, started, [])
    else:
        skips = overlap is Overlap.SKIP
        assert last.kind is (OutcomeKind.SKIPPED if skips else OutcomeKind.WAITING)
        assert by_hand == [started]
    reported = [str(run) for run in runs if not isinstance(run, Job)] + [last.why] * (not fires)
    assert reported == [f"{started} has not ended"] * 2

    # What waits has its turn, and what was refused can be asked for again.
    place.end(started)
    world.now += timedelta(minutes=1)
    assert world.tick() == (overlap is Overlap.QUEUE and not fires)
    for name in place.open():
        place.end(name)
    assert isinstance(place.run("a"), Job)


def test_of_a_tick_and_two_runs_by_hand_that_replace_one_another_one_goes_on(place: Place) -> None:
    world = place.world
    world.put(overlap=Overlap.REPLACE)
    world.now += HOUR
    world.jobs = AtOnce(place.jobs, 3)

    fires, *runs = at_once(world.tick, lambda: place.run("a"), lambda: place.run("b"))

    assert fires == 1
    assert all(isinstance(run, Job) for run in runs)
    assert sorted(place.states().values()) == [CANCELLING, CANCELLING, EXPANDING]


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE])
def test_whoever_meets_as_chance_has_it_the_policy_holds(place: Place, overlap: Overlap) -> None:
    world = place.world
    world.put(overlap=overlap)
    for number in range(5):
        world.now += HOUR
        keys = [f"{number}{key}" for key in "abcd"]

        runs = at_once(
            world.tick, world.tick, *(lambda key=key: place.run(key) for key in (*keys, *keys))
        )[2:]

        states = place.states()
        going = [name for name, state in states.items() if state is EXPANDING]
        assert len(going) == 1
        started = {run.name for run in runs if isinstance(run, Job)}
        assert started <= states.keys()
        assert overlap is not Overlap.REPLACE or len(started) == len(keys)
        for name, state in states.items():
            if state is not DONE:
                place.end(name)
    assert world.warnings == []


# ---- the store -----------------------------------------------------------------------------------


def of_schedule(name: str, **changes: object) -> Job:
    return a_job("default", name, **({"schedule": "hourly"} | changes))


def test_a_job_is_kept_in_turn_until_as_many_are_open_as_may_be(place: Place) -> None:
    jobs = place.jobs
    first = jobs.create(of_schedule("first"))  # as an older version keeps them all
    for name, changes in (
        ("other", {"schedule": "daily"}),
        ("by-name", {"schedule": None}),
        ("biz", {"biz": "shop"}),
        ("done", {"state": DONE}),
    ):
        jobs.create(of_schedule(name, **changes))
    jobs.create(a_job("acme", "theirs", schedule="hourly"))

    second = jobs.create_limited(of_schedule("second"), 2)

    assert second == jobs.get("default", "docs", "second")
    assert second == of_schedule("second").as_created()
    assert jobs.create_limited(of_schedule("third"), 2) is None
    assert jobs.get("default", "docs", "third") is None
    assert jobs.create_limited(of_schedule("first", rule="other"), 1) == first, "it stands"
    assert jobs.create_limited(of_schedule("third"), 3) is not None


def test_many_at_once_are_as_many_as_may_be(place: Place) -> None:
    def keep(number: int) -> Job | None:
        return place.jobs.create_limited(of_schedule(f"n{number}"), 3)

    kept = at_once(*(lambda number=number: keep(number % 8) for number in range(16)))

    names = {job.name for job in kept if job is not None}
    assert (len(names), set(place.open())) == (3, names)


def test_one_name_at_once_is_kept_once_and_returned_to_all(place: Place) -> None:
    kept = at_once(*[lambda: place.jobs.create_limited(of_schedule("one"), 1)] * 6)

    assert kept == [of_schedule("one").as_created()] * 6


def test_in_the_same_step_the_others_are_cancelled_that_are_not_yet(place: Place) -> None:
    jobs = place.jobs
    for name in ("long", "new"):
        jobs.create(of_schedule(name, created_at=NOW + 9 * HOUR))  # of a clock that is ahead
    jobs.create(of_schedule("other", schedule="daily"))
    jobs.cancel("default", "docs", "long", NOW)

    assert jobs.create_limited(of_schedule("mine", created_at=NOW + HOUR), 3, instead=True)

    expected = {"long": CANCELLING, "new": CANCELLING, "other": EXPANDING, "mine": EXPANDING}
    assert place.states() == expected
    at = {job.name: (job.cancelled_at, job.sweep_at) for job in jobs.sweepable(9, NOW + HOUR)}
    assert at == {"long": (NOW, NOW), "new": (NOW + HOUR, NOW + HOUR)}
    assert jobs.create_limited(of_schedule("more"), 3, instead=True) is None, "three are open"


def test_a_fire_that_comes_after_a_later_one_cancels_nothing(place: Place) -> None:
    jobs = place.jobs
    assert jobs.create_limited(of_schedule("later", fire_at=NOW + HOUR), 9, instead=True)

    assert jobs.create_limited(of_schedule("late", fire_at=NOW), 9, instead=True) is None
    assert place.states() == {"later": EXPANDING}
    assert jobs.create_limited(of_schedule("by-hand"), 9, instead=True) is not None
    assert jobs.create_limited(of_schedule("late", fire_at=NOW), 9, instead=True) is not None
    assert place.states() == {"later": CANCELLING, "by-hand": CANCELLING, "late": EXPANDING}


def ended(place: Place, job: Job) -> None:
    place.end(job.name)


def unplaced(place: Place, job: Job) -> None:
    assert place.jobs.unplace(job, "none suits it", NOW)


def cancelled(place: Place, job: Job) -> None:
    standing = place.jobs.cancel(*job.key, NOW)
    assert standing is not None
    assert place.jobs.end(standing, JobState.CANCELLED, {}, NOW)


def orphaned(place: Place, job: Job) -> None:
    place.orphaned.end("default", "docs", NOW, NOW, 9)
    assert place.orphaned.end("default", "docs", NOW + HOUR, NOW + HOUR, 9) == 1


@pytest.mark.parametrize("ends", [ended, unplaced, cancelled, orphaned])
def test_however_a_job_has_ended_it_is_in_nobodys_way(
    place: Place, ends: Callable[[Place, Job], None]
) -> None:
    first = place.jobs.create_limited(of_schedule("first", state=JobState.PLACING), 1)
    assert first is not None
    assert place.jobs.create_limited(of_schedule("second"), 1) is None

    ends(place, first)

    assert place.jobs.create_limited(of_schedule("second"), 1) is not None


def test_a_job_whose_failed_tasks_are_retried_goes_on_beside_another_and_fires_wait_for_both(
    place: Place,
) -> None:
    """A retry may overlap a job that began since; a fire may not overlap either."""
    world = place.world
    world.put(overlap=Overlap.SKIP)
    world.now += HOUR
    world.tick()
    [first] = place.open()
    place.end(first)
    world.now += HOUR
    world.tick()
    [second] = place.open()

    again = place.reopening.reopen("default", "docs", first, world.now)

    assert again is not None
    assert set(place.open()) == {first, second}
    for name in (second, first):
        world.now += HOUR
        assert world.tick() == 0
        assert isinstance(place.run("by-hand"), ConflictError)
        place.end(name)
    world.now += HOUR
    assert world.tick() == 1


def test_jobs_of_a_schedule_that_became_one_that_runs_alone_are_in_its_way(place: Place) -> None:
    world = place.world
    world.put(overlap=Overlap.ALLOW)
    world.now += 2 * HOUR
    assert world.tick() == 2
    world.put(overlap=Overlap.QUEUE)

    world.now += HOUR
    assert world.tick() == 0
    place.end(place.open()[0])
    assert isinstance(place.run("by-hand"), ConflictError)
    world.put(overlap=Overlap.REPLACE)
    world.now += HOUR
    assert world.tick() >= 1
    assert list(place.states().values()).count(EXPANDING) == 1


# ---- a transaction that somebody has left --------------------------------------------------------


def test_a_schedule_whose_scheduler_died_in_a_transaction_goes_on_once_that_is_undone(
    mongo_connection: NodesOnOneServer,
) -> None:
    jobs = MongoJobs(mongo_connection, transaction_seconds=1.0)
    assert jobs.create_limited(of_schedule("first", schedule="daily"), 1)
    turns = mongo_connection.control("schedule_turns")
    with mongo_connection.client("home").start_session() as session:
        session.start_transaction()
        mine = {"_id": "default/docs/hourly"}
        turns.update_one(mine, {"$inc": {"jobs": 1}}, upsert=True, session=session)

        with pytest.raises(StoreUnavailableError):
            jobs.create_limited(of_schedule("second"), 1)
        assert jobs.get("default", "docs", "second") is None
        assert jobs.create_limited(of_schedule("third", schedule="weekly"), 1), "no other's"
        session.abort_transaction()

    assert jobs.create_limited(of_schedule("second"), 1) is not None


def test_what_schedules_have_started_in_turn_leaves_nothing_for_good(
    mongo_connection: NodesOnOneServer,
) -> None:
    MongoJobs(mongo_connection).create_limited(of_schedule("first"), 1)
    [turn] = mongo_connection.control("schedule_turns").find()
    indexes = mongo_connection.control("schedule_turns").index_information()

    assert turn == {"_id": "default/docs/hourly", "at": turn["at"], "jobs": 1}
    assert (indexes["ttl"]["key"], indexes["ttl"]["expireAfterSeconds"]) == ([("at", 1)], 86_400)
