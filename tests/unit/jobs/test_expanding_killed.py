"""An expander may die anywhere and meet another: each task of a job is made once."""

from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.jobs import JobState
from tests.kit.kernel import StoreUnavailableError
from tests.kit.worlds.crashes import Kill, KilledError, Trouble
from tests.kit.worlds.jobs import (
    assert_exact,
    begin,
    job_of,
    run,
    tasks,
)
from tests.kit.worlds.memory import DOCS, World

in_fours = partial(run, batch=4)


@examples(1.5)
@given(
    at=st.integers(1, 60),
    what=st.sampled_from(["dies before", "dies after", "away", "unanswered", "another meanwhile"]),
    size=st.sampled_from([1, 4, 9, 12]),
    minutes=st.sampled_from([0, 10, 600]),
)
def test_whoever_dies_wherever_the_job_has_its_tasks_once(at, what, size, minutes):
    world = World()
    begin(world, size)
    trouble = Kill(at, what, lambda: in_fours(world) and None)
    ports = {name: trouble.around(getattr(world, name)) for name in PORTS}
    with suppress(KilledError, StoreUnavailableError):
        in_fours(world, jobs=trouble.around(world.jobs), **ports)
    before = {one.body.url: one.id for one in tasks(world)}

    world.now += timedelta(minutes=minutes)
    in_fours(world, rounds=3)

    assert before.items() <= {one.body.url: one.id for one in tasks(world)}.items()
    assert_exact(world)
    assert job_of(world).state is JobState.RUNNING
    world.advancing().end_jobs(world.tree, world.clock, lambda: 60.0)
    assert job_of(world).trouble is None


#: What an expander calls, beside the jobs.
PORTS = ("ids", "store", "queue", "rules", "intake", "workers")


def test_a_batch_that_stood_for_an_hour_keeps_its_ids_and_its_time(world):
    begin(world, 9)
    with pytest.raises(KilledError):
        in_fours(world, store=Kill(1, "dies before", lambda: None).around(world.store))
    standing = job_of(world).batch
    world.now += timedelta(hours=1)

    in_fours(world)

    first = [one for one in tasks(world) if one.id in standing.ids]
    assert len(first) == 4
    assert {one.queued_at for one in first} == {standing.queued_at}
    assert_exact(world)


def test_what_may_have_been_done_and_gone_is_not_made_again(world):
    begin(world, 4)
    # The second call is the one that queues; the first announces it.
    died = Kill(2, "dies after", lambda: None)
    with pytest.raises(KilledError):
        in_fours(world, queue=died.around(world.queue))
    kept = world.store.state.of(DOCS).requests
    assert len(kept) == 4
    for gone in list(kept)[:3]:
        del kept[gone]
    world.now += timedelta(seconds=world.biz.ttl_seconds)

    in_fours(world)

    job = job_of(world)
    assert len(tasks(world)) == 1
    assert (job.state, job.refused) == (JobState.RUNNING, 3)
    assert "ttl_seconds" in job.refusals[0]


def test_another_expander_between_two_steps_does_no_harm(world):
    """Both open, store and close the same batches, in turns."""
    begin(world, 10)
    other = Trouble(0, "", lambda: None)

    class Both:
        def __getattr__(self, name):
            def call(*arguments, **named):
                answer = getattr(world.jobs, name)(*arguments, **named)
                if name in {"open_batch", "close_batch"} and other.at == 0:
                    other.at = 1
                    in_fours(world, time_left=iter([1.0, 1.0, 1.0, 1.0, *[0.0] * 99]).__next__)
                    other.at = 0
                return answer

            return call

    in_fours(world, jobs=Both())

    assert_exact(world)


def test_what_was_stored_before_counts_as_stored(world):
    begin(world, 4)
    with pytest.raises(KilledError):
        run(world, queue=Kill(1, "dies after", lambda: None).around(world.queue))

    assert run(world).tasks == 4
