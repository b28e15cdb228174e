"""Cancelling jobs: small ones at once, large ones in rounds, whatever is stored meanwhile."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.jobs import (
    Job,
    JobState,
    TaskBatch,
    cancelling,
    is_over,
)
from tests.kit.kernel import ConflictError, NotFoundError, StoreUnavailableError
from tests.kit.requests import Ledger, Submission
from tests.kit.spiders import Start
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import DOCS, World

KEY = ("default", "docs", "june")


def a_job(world: World, count: int = 3, **changes: object) -> Job:
    facts: dict = {
        "tenant": "default",
        "biz": "docs",
        "name": "june",
        "state": JobState.RUNNING,
        "rule": "page",
        "rule_version": "v",
        "start": Start(pattern="https://a.example/{n}"),
        "size": count,
        "created_at": world.now,
        "by": "api",
        "expanded": count,
    }
    job = world.jobs.create(Job(**(facts | changes)))
    store(world, count)
    return job


def store(world: World, count: int) -> None:
    pages = [Submission(url=f"https://a.example/{n}", job="june") for n in range(count)]
    if pages:
        world.submission().submit(world.tree, "default", "docs", pages, world.now)


def cancel(world: World, **changes: object) -> Job:
    return world.cancelling(**changes).cancel(world.tree, KEY, "api:default", world.clock)


def a_round(world: World, seconds: float = 60.0, **changes: object) -> int:
    world.now += timedelta(seconds=20)
    ports = world.cancelling(**changes)
    return ports.run_round(world.detector, world.tree, "w", world.now, lambda: seconds)


def state(world: World) -> JobState:
    return world.jobs.get(*KEY).state


def ledger(world: World) -> tuple[int, ...]:
    found = world.ledgers.audit(DOCS, world.biz, world.now, "june")
    assert found.difference == 0
    return found.submitted, found.open, found.cancelled


def test_a_small_job_ends_at_once_and_its_workers_hear_of_it(world):
    a_job(world)

    job = cancel(world)

    assert (job.state, job.ended_at) == (JobState.CANCELLED, world.now)
    assert job.counts == {"done": 0, "dead": 0, "cancelled": 3, "expired": 0, "refused": 0}
    assert ledger(world) == (3, 0, 3)
    assert world.cancellations.announced().jobs == [KEY]


def test_cancelling_again_gives_the_same_answer(world):
    a_job(world)
    first = cancel(world)
    world.now += timedelta(minutes=1)

    assert cancel(world) == first


@pytest.mark.parametrize("ended", [JobState.DONE, JobState.UNPLACED])
def test_what_has_ended_by_itself_is_not_cancelled(world, ended):
    a_job(world, 0, state=ended)

    with pytest.raises(ConflictError, match=ended.value):
        cancel(world)
    assert state(world) is ended


def test_of_no_job_nothing_is_cancelled(world):
    store(world, 2)  # clients submit under that name, which makes no job

    with pytest.raises(NotFoundError, match="june"):
        cancel(world)
    assert ledger(world) == (2, 2, 0)


def test_a_large_job_is_swept_in_rounds(world):
    small = {"batch": 2, "call_seconds": -1.0}
    a_job(world, 7)

    assert cancel(world, **small).state is JobState.CANCELLING
    assert ledger(world) == (7, 5, 2)
    assert a_round(world, seconds=0.0, **small) == 0
    assert ledger(world) == (7, 5, 2)

    assert a_round(world, **small) == 1
    assert (state(world), ledger(world)) == (JobState.CANCELLED, (7, 0, 7))


def test_a_job_does_not_end_while_a_batch_of_its_tasks_is_being_stored(world):
    job = a_job(world, 2, state=JobState.EXPANDING, size=1_000)
    batch = TaskBatch(first=2, ids=(71, 72, 73), queued_at=world.now)
    job = world.jobs.open_batch(job, batch)

    assert cancel(world).state is JobState.CANCELLING
    assert ledger(world) == (2, 0, 2)
    store(world, 3)  # whoever had the batch stores it now
    assert a_round(world) == 0
    assert ledger(world) == (5, 0, 5)

    store(world, 1)
    world.jobs.close_batch(job, batch, world.now)
    assert a_round(world) == 1
    assert (state(world), ledger(world)) == (JobState.CANCELLED, (6, 0, 6))


def test_a_batch_stored_between_sweep_and_ledger_keeps_the_job_from_its_end(world):
    a_job(world)

    class Late:
        """A ledger that is asked when something has just been stored."""

        def __init__(self):
            self.left = 1

        def totals(self, *args):
            if self.left:
                self.left = 0
                store(world, 2)
            return world.ledgers.totals(*args)

    assert cancel(world, ledgers=Late()).state is JobState.CANCELLING
    assert a_round(world) == 1
    assert ledger(world) == (5, 0, 5)


def test_one_caller_at_a_time_goes_on_with_them(world):
    a_job(world)
    world.jobs.cancel(*KEY, world.now)
    assert world.detector.acquire_lock(
        cancelling.LOCK, "another", cancelling.EVERY, timedelta(minutes=5)
    )

    assert a_round(world) == 0
    assert state(world) is JobState.CANCELLING


def test_without_redis_jobs_are_cancelled_all_the_same(world):
    a_job(world)

    assert cancel(world, cancellations=Broken()).state is JobState.CANCELLED
    assert any("announce" in warning for warning in world.warnings)


def test_a_store_that_is_away_leaves_the_job_to_later_rounds_with_its_trouble(world):
    a_job(world)
    away = Failing(world.store, cancel_job=1)

    job = cancel(world, store=away)

    assert job.state is JobState.CANCELLING
    assert "cannot be cancelled" in job.trouble
    assert a_round(world) == 1
    assert world.jobs.get(*KEY).trouble is None


def test_a_job_without_its_biz_says_so_and_delays_no_other(world):
    a_job(world)
    world.jobs.cancel(*KEY, world.now)
    gone = world.jobs.create(
        replace(world.jobs.get(*KEY), name="old", biz="gone", state=JobState.RUNNING)
    )
    world.jobs.cancel(*gone.key, world.now)

    assert a_round(world) == 1
    assert "gone" in world.jobs.get(*gone.key).trouble


def test_a_job_whose_biz_has_gone_can_be_cancelled(world):
    a_job(world)
    tree, world.tree = world.tree, replace(world.tree, bizs={})

    job = cancel(world)

    assert job.state is JobState.CANCELLING
    assert "no biz" in job.trouble
    world.tree = tree
    world.now += timedelta(minutes=1)
    assert a_round(world) == 1
    assert world.jobs.get(*KEY).state is JobState.CANCELLED


def test_a_ledger_below_nothing_is_over(world):
    a_job(world)
    job = world.jobs.cancel(*KEY, world.now)

    assert is_over(job, Ledger(submitted=1, done=2)) is True
    assert is_over(job, Ledger(submitted=2, done=1)) is False


def test_trouble_that_cannot_be_stored_is_logged(world):
    a_job(world)
    jobs = Failing(world.jobs, swept=1)

    assert cancel(world, jobs=jobs, store=Broken()).state is JobState.CANCELLING
    assert any("trouble" in warning for warning in world.warnings)


def test_a_job_that_is_gone_meanwhile_is_left(world):
    a_job(world)
    job = world.jobs.cancel(*KEY, world.now)

    class Gone:
        def cancel(self, *_):
            return job

        def get(self, *_):
            return None

    assert cancel(world, jobs=Gone()) == job


def test_an_unavailable_home_node_is_reported(world):
    with pytest.raises(StoreUnavailableError):
        cancel(world, jobs=Broken())


# ---- several jobs ------------------------------------------------------------------------------


def cancelled_job(world: World, name: str) -> Job:
    job = world.jobs.create(replace(world.jobs.get(*KEY), name=name))
    return world.jobs.cancel(*job.key, world.now)


class Sweeps:
    """A store whose sweeps take a second each, and of one job never end."""

    def __init__(self, world: World, endless: str) -> None:
        self.world, self.endless, self.swept = world, endless, []
        self.left = 60.0

    def cancel_job(self, queue_key, biz, name, most, by, now) -> int:
        self.left -= 1.0
        self.swept.append(name)
        if name == self.endless:
            return most
        return self.world.store.cancel_job(queue_key, biz, name, most, by, now)


class Announced:
    def __init__(self) -> None:
        self.calls: list[set[str]] = []

    def announce(self, jobs) -> None:
        self.calls.append({name for _, _, name in jobs})


def test_a_large_job_leaves_time_for_others_and_all_are_announced_meanwhile(world):
    a_job(world)
    cancelled_job(world, "a-large")
    cancelled_job(world, "small")
    resting = cancelled_job(world, "resting")
    world.jobs.swept(resting, world.now, world.now + timedelta(minutes=5), "away")
    sweeps, announced = Sweeps(world, "a-large"), Announced()
    ports = world.cancelling(store=sweeps, cancellations=announced)

    world.now += timedelta(seconds=20)
    sweeps.left = 20.0
    ended = ports.run_round(world.detector, world.tree, "w", world.now, lambda: sweeps.left)

    assert ended == 1
    assert sweeps.swept[:3] == ["a-large", "a-large", "small"]
    assert len(sweeps.swept) == 20
    assert len(announced.calls) >= 3
    assert all(call == {"a-large", "small", "resting"} for call in announced.calls)


def test_what_was_swept_in_a_round_that_was_too_short_is_behind_others_in_the_next(world):
    a_job(world)
    cancelled_job(world, "a-large")
    cancelled_job(world, "small")
    sweeps = Sweeps(world, "a-large")
    for _ in range(2):
        world.now += timedelta(seconds=20)
        sweeps.left = 2.0
        ports = world.cancelling(store=sweeps)
        ports.run_round(world.detector, world.tree, "w", world.now, lambda: sweeps.left)

    assert sweeps.swept[:3] == ["a-large", "a-large", "small"]


def test_a_job_of_which_nobody_foresaw_the_fault_stops_no_others_cancelling(world):
    a_job(world)
    cancelled_job(world, "a-poisoned")
    world.jobs.cancel(*KEY, world.now)

    class Poisoned:
        def cancel_job(self, queue_key, biz, name, *rest):
            if name == "a-poisoned":
                raise KeyError("secret of the house")
            return world.store.cancel_job(queue_key, biz, name, *rest)

    assert a_round(world, store=Poisoned()) == 1
    assert state(world) is JobState.CANCELLED
    poisoned = world.jobs.get("default", "docs", "a-poisoned")
    assert "nobody foresaw" in poisoned.trouble
    assert "secret" not in poisoned.trouble
    assert poisoned.sweep_at > world.now


def test_a_biz_whose_document_is_wrong_says_so(world):
    a_job(world)
    world.jobs.cancel(*KEY, world.now)
    world.tree = replace(world.tree, bizs={}, refused=frozenset({("default", "docs")}))

    assert a_round(world) == 0
    assert "cannot be cancelled" in world.jobs.get(*KEY).trouble


def test_a_batch_that_cannot_be_stored_does_not_put_off_the_sweep(world):
    job = a_job(world, 2, state=JobState.EXPANDING, size=1_000)
    batch = TaskBatch(first=2, ids=(71, 72, 73), queued_at=world.now)
    job = world.jobs.open_batch(job, batch)
    ports = world.expanding(store=Broken())

    cancelled = world.jobs.cancel(*KEY, world.now)
    # Whoever began before the job was cancelled fails afterwards.
    world.jobs.reschedule(job, world.now, "away", world.now + timedelta(minutes=5))
    assert world.jobs.get(*KEY).due_at == cancelled.due_at
    ports.expand(world.tree, world.clock, lambda: 60.0)

    assert world.jobs.get(*KEY).due_at > world.now
    assert world.jobs.sweepable(9, world.now) != []
    store(world, 1)
    a_round(world)
    assert ledger(world)[1] == 0
