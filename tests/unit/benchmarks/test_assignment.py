"""The simulation of placement: the same scene for every policy, each job once, links respected."""

import math

import msgspec
import pytest

from benchmarks.assignment import LOST_PART, SLOTS_PER_GB, TERMS, Simulation
from benchmarks.assignment_policies import OTHERS
from benchmarks.assignment_rounds import (
    LEAST,
    POLICIES,
    TRACES,
    figures,
    ratio,
    table,
    tuned,
    waiting,
    waiting_of,
)
from benchmarks.assignment_scene import SITES, Link, Outcome, Scene, a_scene
from benchmarks.assignment_waste import Waste
from benchmarks.charts import WAITING, charts
from benchmarks.figures import KEYS
from tests.kit.spiders import LinkNeeds

JOBS, WORKERS = 120, 12


def outcome(policy: str, trace: str = "bursts", seed: int = 1, mean: float = math.inf):
    return Simulation(a_scene(trace, JOBS, WORKERS, seed), policy, seed, TERMS).run(mean)


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

    ended = [task.number for task in simulation.ended]
    assert len(ended) == len(set(ended)) == JOBS - found.unplaced
    assert found.slowdown >= 0.99
    assert found == outcome(policy)


def test_bidding_places_no_job_on_a_way_that_it_does_not_want() -> None:
    assert outcome("bidding").misplaced == 0


@pytest.mark.parametrize("policy", OTHERS)
def test_the_others_have_the_slots_that_suit_them_best(policy: str) -> None:
    def scene():
        return a_scene("bursts", JOBS, WORKERS, 1)

    tries = [
        Simulation(scene(), policy, 1, TERMS, slots, killed_last=last).run()
        for slots in SLOTS_PER_GB
        for last in (False, True)
    ]

    best = tuned(scene, policy, 1)
    assert best in tries
    assert best.mean == min(one.mean for one in tries if not one.unfinished)


def test_a_try_is_given_up_when_it_is_sure_to_be_worse_and_not_before() -> None:
    whole = outcome("random")

    assert outcome("random", mean=whole.mean * 1.001) == whole
    cut = outcome("random", mean=whole.mean * 0.999)
    assert cut.unfinished > 0


def test_a_try_that_kills_too_many_workers_is_given_up() -> None:
    scene = a_scene("bursts", JOBS, WORKERS, 1)
    found = Simulation(scene, "random", 1, TERMS, 5).run(most_killed=2)

    assert found.killed == 3
    assert found.unfinished > 0


def test_what_a_killed_worker_had_under_way_is_wasted_and_no_more_than_that() -> None:
    scene = a_scene("bursts", JOBS, WORKERS, 1)
    found = Simulation(scene, "random", 1, TERMS, 4).run()

    needed = sum(task.full * task.memory for task in scene.tasks)
    begun_again = sum((task.placements - 1) * task.full * task.memory for task in scene.tasks)
    assert found.killed > 0
    assert 0 < found.thrown_away <= LOST_PART * begun_again / needed
    assert found.thrown_away + found.free < found.waste


def a_quiet_scene(jobs: int) -> Scene:
    """Workers and ways that hold up nobody."""
    scene = a_scene("steady", jobs, WORKERS, 1)
    for machine in scene.machines:
        machine.memory = machine.cpu = machine.bandwidth = 1e12
    scene.links = [[Link(0.0, 1e12)] * SITES for _ in scene.links]
    return scene


@pytest.mark.parametrize("policy", OTHERS)
def test_jobs_at_full_speed_of_which_none_waits_waste_nothing(policy: str) -> None:
    found = Simulation(a_quiet_scene(40), policy, 1, TERMS, 1).run()

    assert (found.killed, found.thrown_away, found.free) == (0, 0.0, 0.0)
    assert found.waste == pytest.approx(0.0, abs=1e-9)
    assert found.slowdown == pytest.approx(1.0)
    assert all(many == 0 for _, many in found.waiting)


def test_a_job_that_is_slowed_down_wastes_what_it_holds_for_longer() -> None:
    scene = a_quiet_scene(40)
    for row in scene.links:
        row[:] = [Link(0.0, task.bandwidth / 2) for task in scene.tasks[:1]] * SITES
    for task in scene.tasks:
        task.bandwidth = scene.tasks[0].bandwidth  # each has half of what it wants

    found = Simulation(scene, "random", 1, TERMS, 1).run()

    assert found.slowdown == pytest.approx(2.0)
    assert found.waste == pytest.approx(1.0)


def test_memory_that_is_free_while_jobs_wait_is_wasted_where_they_could_run() -> None:
    scene = a_scene("bursts", 3, 2, 1)
    one, other = scene.machines
    first, second, third = scene.tasks
    for machine in (one, other):
        machine.memory, machine.cpu, machine.bandwidth = 1_000.0, 10.0, 10.0
    for task, memory in ((first, 700.0), (second, 600.0), (third, 300.0)):
        task.memory, task.cpu, task.bandwidth, task.rate = memory, 1.0, 1.0, 1.0
        task.spider = msgspec.structs.replace(task.spider, link=LinkNeeds())
    waste = Waste(scene)
    assert waste.usable([]) == 0
    assert waste.usable([first, second, third]) == 1_600  # the third has the rest of the first's

    one.tasks.append(first)
    assert waste.usable([second, third]) == 900
    other.cpu = 0.5
    assert waste.usable([second, third]) == 300
    near = LinkNeeds(seconds_below=scene.links[one.region][third.spider.site].seconds)
    third.spider = msgspec.structs.replace(third.spider, link=near)
    assert waste.usable([second, third]) == 0


# ---- what is made of it ---------------------------------------------------------------------


def an_outcome(**changed: float) -> Outcome:
    usual = dict.fromkeys(Outcome.__struct_fields__, 1.0)
    return Outcome(**{**usual, "waiting": [[0.0, 0.0]], "unplaced": 0, "unfinished": 0, **changed})


def test_a_ratio_is_beside_the_best_other_policy_at_just_that_with_the_same_jobs() -> None:
    found = {
        ("day", policy): [an_outcome(mean=mean, p95=p95) for mean, p95 in seeds]
        for policy, seeds in {
            "bidding": [(10.0, 40.0), (20.0, 40.0), (900.0, 40.0)],
            "least-loaded": [(40.0, 50.0), (99.0, 99.0), (900.0, 99.0)],
            "round-robin": [(50.0, 20.0), (99.0, 99.0), (450.0, 20.0)],
            "random": [(60.0, 60.0), (25.0, 20.0), (900.0, 99.0)],
        }.items()
    }
    assert ratio(found, "day", "mean") == 0.8  # of 0.25, 0.8 and 2
    assert ratio(found, "day", "p95") == 2.0


def test_what_is_as_good_as_nothing_does_not_make_a_ratio_endless() -> None:
    found = {("day", policy): [an_outcome(waste=0.0, killed=0)] for policy in OTHERS}
    found["day", "bidding"] = [an_outcome(waste=0.002, killed=3)]

    assert ratio(found, "day", "waste") == 0.002 / LEAST["waste"]
    assert ratio(found, "day", "killed") == 3


def test_whatever_bidding_leaves_undone_in_any_run_is_counted() -> None:
    found = {(trace, policy): [an_outcome()] * 3 for trace in TRACES for policy in POLICIES}
    assert figures(found)["assignment_unfinished"] == 0

    found["steady", "bidding"] = [an_outcome(), an_outcome(unplaced=2), an_outcome(unfinished=3)]
    reported = figures(found)
    assert reported["assignment_unfinished"] == 5
    assert reported.keys() == {key for key in KEYS if key.startswith("assignment_")}


def test_a_curve_of_those_that_wait_is_the_median_of_the_seeds_and_is_drawn() -> None:
    found = {("day", policy): [an_outcome()] for policy in POLICIES}
    found["day", "bidding"] = [
        an_outcome(waiting=[[10.0, many], [48.0, 0.0], [90.0, 0.0]]) for many in (2.0, 8.0, 100.0)
    ]

    curve = dict(waiting(found, "day")["bidding"])
    assert (curve[9.0], curve[10.0], curve[47.0], curve[48.0]) == (0.0, 8.0, 8.0, 0.0)
    assert max(curve) == 48.0  # nobody waits from then on
    (chart,) = charts({waiting_of("day"): waiting(found, "day")})
    assert all(policy in chart for policy in POLICIES)
    assert tuple(waiting_of(trace) for trace in TRACES) == WAITING


def test_the_table_has_a_line_for_each_trace_and_policy() -> None:
    found = {("bursts", policy): [outcome(policy)] for policy in POLICIES}
    assert len(table(found, JOBS).splitlines()) == 2 + len(POLICIES)
