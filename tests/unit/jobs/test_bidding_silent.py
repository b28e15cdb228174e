"""Jobs that wait for pools from which nobody hears; and rounds of awards that meet."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.apps import unplaced_jobs
from tests.kit.bidding import EVERY
from tests.kit.config import PoolLimits
from tests.kit.fleet import Remaining
from tests.kit.incidents import Kind, evaluate
from tests.kit.jobs import JobState
from tests.kit.worlds.bidding import GB, TERMS, Fleet
from tests.kit.worlds.monitoring import sample

PATIENCE = TERMS.patience_seconds


@pytest.fixture
def fleet():
    return Fleet()


def looked_until(fleet, *workers, seconds):
    """Have workers look and awards be made, a wait at a time; how often a job was lowered."""
    lowered = 0
    for _ in range(int(seconds // 31) + 1):
        fleet.look(*workers)
        lowered += fleet.pass_time(31).lowered
    return lowered


def test_a_pool_that_the_stage_names_and_nobody_has_deployed_is_not_waited_for(fleet):
    fleet.learn(10.5 * GB)
    tree = fleet.world.tree
    misspelt = replace(tree.stage, pools={"lrage": PoolLimits()})
    fleet.world.tree = replace(tree, stage=misspelt)
    fleet.start()
    worker = fleet.worker("w1")

    fleet.look(worker)
    assert fleet.pass_time(31).lowered == 1

    assert "lrage" not in fleet.job().trouble


def test_a_pool_that_cannot_start_is_waited_for_no_longer_than_the_stage_has_patience(fleet):
    fleet.pools("far")
    fleet.learn(100 * GB)
    fleet.start()
    worker = fleet.worker("w1")

    assert looked_until(fleet, worker, seconds=PATIENCE - 31) == 0
    of_main, of_far = fleet.job().trouble.split("; ")
    assert "main: at 100 %" in of_main
    assert "8.0 GB left, 100.0 GB" in of_main
    assert "worker of far" in of_far
    lowered = looked_until(fleet, worker, seconds=40 * 60)

    assert (lowered, fleet.job().state) == (6, JobState.UNPLACED)
    wanted, of_main, of_far = fleet.job().trouble.split("; ")
    assert "memory 100.0 GB" in wanted
    assert "main: " in of_main
    assert "worker of far" in of_far


def test_a_pool_whose_only_worker_was_busy_and_vanished_keeps_no_job_for_ever(fleet):
    fleet.pools("far")
    fleet.learn(10 * GB)
    fleet.start()
    far, main = fleet.worker("f1", "far", memory=20 * GB), fleet.worker("w1")
    fleet.readings["f1"].left = Remaining(memory=1 * GB)
    looked_until(fleet, far, main, seconds=300)
    assert fleet.standing.listing.lowered == 0

    assert looked_until(fleet, main, seconds=PATIENCE - 60) == 0
    looked_until(fleet, main, seconds=600)

    # As long after it was last heard of as the stage has patience the other pool decides.
    assert (fleet.job().state, fleet.job().worker) == (JobState.EXPANDING, "w1")
    assert fleet.job().lowered == 2


def test_after_an_outage_the_first_pool_to_look_does_not_decide_alone(fleet):
    fleet.pools("far")
    fleet.learn(10.5 * GB)
    fleet.start()
    fleet.pass_time(2 * PATIENCE)
    small, far = fleet.worker("w1"), fleet.worker("f1", "far", memory=20 * GB)

    assert looked_until(fleet, small, seconds=60) == 0
    fleet.look(far)
    fleet.pass_time(2)
    fleet.look(far)

    assert (fleet.job().state, fleet.job().worker) == (JobState.EXPANDING, "f1")
    assert fleet.job().lowered == 0


def test_where_no_pool_looks_a_job_stays_in_line_and_is_reported(fleet):
    fleet.pools("far")
    job = fleet.start()

    assert looked_until(fleet, seconds=PATIENCE - 60) == 0
    assert found(fleet) == []
    looked_until(fleet, seconds=3 * PATIENCE)

    assert (fleet.job().state, fleet.job().lowered) == (JobState.PLACING, 0)
    [finding] = found(fleet)
    assert (finding.kind, str(finding.place)) == (Kind.JOB_UNPLACED, "biz default/docs")
    assert "june" in finding.said
    assert f"{job.created_at:%Y-%m-%d %H:%M} UTC" in finding.said
    worker = fleet.worker("w1")
    fleet.look(worker)
    fleet.pass_time(2)
    fleet.look(worker)
    assert fleet.job().state is JobState.EXPANDING
    assert found(fleet) == []


def found(fleet):
    """Return the monitor's findings of unplaced jobs."""
    world = fleet.world
    seen = sample(world, unplaced=lambda now, terms: unplaced_jobs(world.jobs, now, terms))
    every = evaluate(seen, None, world.tree).findings
    return [finding for finding in every if finding.kind is Kind.JOB_UNPLACED]


def test_of_two_rounds_that_follow_at_once_the_second_is_nobodys(fleet):
    fleet.start()
    fleet.look(fleet.worker("w1"))
    fleet.world.now += timedelta(seconds=2)

    first, second = fleet.award("w0"), fleet.award("w1")

    assert (first.mine, first.awarded) == (True, 1)
    assert (second.mine, second.awarded) == (False, 0)
    fleet.world.now += EVERY
    assert fleet.award("w1").mine


def test_a_round_in_the_middle_of_anothers_is_nobodys(fleet):
    fleet.start()
    fleet.look(fleet.worker("w1"))
    fleet.world.now += timedelta(seconds=2)
    board, others = fleet.world.board, []

    class Slow:
        def __getattr__(self, name):
            if name == "due_windows":
                # However long it takes: the turn is held.
                fleet.world.now += 3 * EVERY
                others.append(fleet.award("w1"))
            return getattr(board, name)

    assert fleet.award("w0", board=Slow()).awarded == 1

    assert [one.mine for one in others] == [False]
