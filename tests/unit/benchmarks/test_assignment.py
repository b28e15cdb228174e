"""The simulation of placement: the same scene for every policy, each job once, links respected."""

import pytest

from benchmarks.assignment import (
    POLICIES,
    SLOTS_PER_GB,
    TERMS,
    TRACES,
    Simulation,
    table,
    tuned,
)
from benchmarks.assignment_scene import a_scene

JOBS, WORKERS = 120, 12


def outcome(policy: str, trace: str = "bursts", seed: int = 1):
    return Simulation(a_scene(trace, JOBS, WORKERS, seed), policy, seed, TERMS).run()


@pytest.mark.parametrize("trace", TRACES)
def test_a_scene_is_the_same_of_a_seed_and_jobs_come_in_order(trace: str) -> None:
    one, other = a_scene(trace, JOBS, WORKERS, 1), a_scene(trace, JOBS, WORKERS, 1)

    times = [task.at for task in one.tasks]
    assert times == [task.at for task in other.tasks] == sorted(times)
    assert (len(times), len(one.machines)) == (JOBS, WORKERS)
    assert times != [task.at for task in a_scene(trace, JOBS, WORKERS, 2).tasks]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_job_ends_once_or_is_out_and_never_sooner_than_at_full_speed(policy: str) -> None:
    simulation = Simulation(a_scene("bursts", JOBS, WORKERS, 1), policy, 1, TERMS)
    found = simulation.run()

    ended = [task.number for task in simulation._ended]
    assert len(ended) == len(set(ended)) == JOBS - found.unplaced
    assert found.slowdown >= 0.99
    assert found == outcome(policy)


def test_bidding_places_no_job_on_a_way_that_it_does_not_want() -> None:
    assert outcome("bidding").misplaced == 0


@pytest.mark.parametrize("policy", POLICIES[1:])
def test_the_others_have_the_slots_that_suit_them_best(policy: str) -> None:
    def scene():
        return a_scene("bursts", JOBS, WORKERS, 1)

    tries = [Simulation(scene(), policy, 1, TERMS, slots).run() for slots in SLOTS_PER_GB]

    best = tuned(scene, policy, 1)
    assert best in tries
    assert best.mean == min(one.mean for one in tries if not one.unfinished)


def test_the_table_has_a_line_for_each_trace_and_policy() -> None:
    found = {("bursts", policy): [outcome(policy)] for policy in POLICIES}
    assert len(table(found, JOBS).splitlines()) == 2 + len(POLICIES)
