"""Troubles that keep a job from being made are told."""

from functools import partial

import pytest
from msgspec.structs import replace

from tests.kit.jobs import JobState
from tests.kit.kernel import BacklogFullError, IdsError, StoreError, StoreUnavailableError
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.jobs import (
    assert_exact,
    begin,
    job_of,
    run,
    tasks,
)
from tests.kit.worlds.memory import DOCS, OTHER, make_biz, make_tree

in_fours = partial(run, batch=4)


def test_a_biz_that_is_gone_is_waited_for(world):
    begin(world)
    tree = world.tree
    world.tree = replace(tree, bizs={"default": {}, "acme": {}})

    run(world)

    assert "no biz called 'docs'" in job_of(world).trouble
    assert job_of(world).state is JobState.EXPANDING
    world.tree = tree
    run(world, rounds=2)
    assert_exact(world)


def test_a_biz_without_a_valid_document_is_waited_for(world):
    begin(world)
    world.tree = replace(world.tree, bizs={}, refused=frozenset({("default", "docs")}))

    run(world)

    assert "no valid document" in job_of(world).trouble


def test_a_rule_that_is_gone_is_waited_for(world):
    begin(world)
    tree = world.tree
    world.tree = make_tree(make_biz(rules={"other": world.biz.rules["page"]}))

    run(world)

    assert "no rule called 'page'" in job_of(world).trouble
    world.tree = tree
    run(world, rounds=2)
    assert_exact(world)


def test_a_node_that_is_away_keeps_the_batch_open_and_waits_longer_and_longer(world):
    begin(world, 6)
    begin(world, 6, "theirs", tenant="acme")
    away = Failing(world.store, insert=4)

    waits = []
    for _ in range(2):
        in_fours(world, store=away)
        waits.append((job_of(world).due_at - world.now).total_seconds())
        world.now = job_of(world).due_at

    assert waits == [2.0, 4.0]
    in_fours(world, rounds=3)
    assert_exact(world)
    assert_exact(world, "theirs", OTHER)
    assert any("default/docs/june" in one for one in world.warnings)


def test_a_part_of_the_nodes_that_is_away_refuses_its_own_alone(world):
    """The others are stored, and those are stored later under the ids they were to have."""
    begin(world, 4)

    class Half:
        def insert(self, queue_key, biz, requests, repeatable=frozenset()):
            inserted = world.store.insert(queue_key, biz, requests[:2], repeatable)
            refused = {one.id: StoreUnavailableError("east", "10.0.0.7") for one in requests[2:]}
            return replace(inserted, refused=refused)

        def __getattr__(self, name):
            return getattr(world.store, name)

    in_fours(world, store=Half())

    job = job_of(world)
    assert len(tasks(world)) == 2
    assert job.batch is not None
    assert "does not answer" in job.trouble
    in_fours(world, rounds=2)
    assert_exact(world)
    assert {one.id for one in tasks(world)} == set(job.batch.ids)


def test_what_can_never_be_stored_is_refused_alone(world):
    begin(world, 4)

    class Picky:
        def insert(self, queue_key, biz, requests, repeatable=frozenset()):
            if any(one.body.url.endswith("/3") for one in requests):
                raise StoreError("mongodb cannot hold it")
            return world.store.insert(queue_key, biz, requests, repeatable)

        def __getattr__(self, name):
            return getattr(world.store, name)

    in_fours(world, store=Picky())

    job = job_of(world)
    assert (job.state, job.refused) == (JobState.RUNNING, 1)
    [refusal] = job.refusals
    assert refusal.startswith("https://example.org/3: ")
    assert len(tasks(world)) == 3


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (IdsError("none"), "its tasks cannot be made now (IdsError); it is tried again"),
        (OverflowError("odd"), "its tasks cannot be made, for a reason that nobody foresaw"),
    ],
)
def test_no_fault_of_one_job_stops_another(world, error, said):
    begin(world)
    begin(world, 3, "theirs", tenant="acme")

    class Odd:
        def take(self, queue_key, kind, count):
            if queue_key == DOCS:
                raise error
            return world.ids.take(queue_key, kind, count)

    run(world, ids=Odd())

    assert job_of(world).trouble.startswith(said)
    assert_exact(world, "theirs", OTHER)


def test_a_full_redis_is_waited_for(world):
    begin(world)

    class Full:
        def admit(self, *_):
            raise BacklogFullError("Redis is full", retry_after_seconds=30.0)

    run(world, intake=Full())

    assert job_of(world).trouble == "Redis is full"


def test_while_redis_is_away_tasks_are_stored_for_recovery_to_queue(world):
    begin(world, 10)

    run(world, queue=Failing(world.queue, enqueue=1, rates=1))

    assert_exact(world)
    assert world.queue.depth(DOCS).queued == 0


def test_a_home_node_that_is_away_ends_the_round(world):
    begin(world)

    with pytest.raises(StoreUnavailableError):
        run(world, jobs=Failing(world.jobs, expandable=1))


def test_a_job_that_vanishes_is_let_go(world):
    job = begin(world)

    class Late:
        def __init__(self):
            self.due = [job]

        def expandable(self, limit, now):
            return self.due

        def get(self, *key):
            self.due = []

        def reschedule(self, *seen):
            """Note nothing: the job is gone."""

    assert run(world, jobs=Late()).batches == 0
