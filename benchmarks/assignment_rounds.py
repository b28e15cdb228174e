"""Every policy on every trace: how long jobs take and what is wasted, beside the best other policy.

Each is played by benchmarks/assignment.py. A ratio is beside whichever of the other policies is
best at just that with the same jobs; the median over seeds, and of three traces the worst.
"""

import math
import os
import statistics
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from typing import Final, TypeAlias

import msgspec

from benchmarks.assignment import BIDDING, SLOTS_PER_GB, TERMS, Simulation
from benchmarks.assignment_policies import OTHERS
from benchmarks.assignment_scene import Outcome, Scene, a_scene
from benchmarks.bench import Bench, Found
from benchmarks.figures import ratio as rounds_ratio

WORKERS: Final = 100
TRACES: Final = ("steady", "bursts", "day")
POLICIES: Final = (BIDDING, *OTHERS)
#: A try that has killed so many workers for each job kills them faster than they end jobs.
KILLED_EACH: Final = 1.0
#: What is below these is as good as nothing, and counts as so much in ratios: a thousandth of what
#: all jobs need, one worker.
LEAST: Final = {"waste": 0.001, "killed": 1.0}
#: Moments of a curve of those that wait.
MOMENTS: Final = 48
_COLUMNS: Final = (
    "makespan",
    "mean",
    "p95",
    "slowdown",
    "waste",
    "thrown_away",
    "free",
    "killed",
    "misplaced",
    "unplaced",
    "unfinished",
)

_Outcomes: TypeAlias = Mapping[tuple[str, str], Sequence[Outcome]]


def title_of(trace: str) -> str:
    """Get the title of the rounds of a trace among a run's details."""
    return f"assignment, seconds from arrival to end, {trace}"


def waiting_of(trace: str) -> str:
    """Get the title of the curves of waiting jobs among a run's details."""
    return f"assignment, jobs that wait for a worker, {trace}"


def run(bench: Bench) -> Found:
    """Every policy on every trace, seed by seed; a table, ratios to the best of the others."""
    jobs, seeds = bench.scale.assignment_jobs, range(1, bench.scale.assignment_seeds + 1)
    asked = [(t, p, jobs, seed) for t in TRACES for p in POLICIES for seed in seeds]
    found: dict[tuple[str, str], list[Outcome]] = {}
    with ProcessPoolExecutor(min(4, _processors())) as pool:
        for (trace, policy, _, _), outcome in zip(asked, pool.map(one_run, asked), strict=True):
            found.setdefault((trace, policy), []).append(outcome)
            bench.tick(f"assignment, {trace}, {policy}")
    details: dict[str, object] = {
        title_of(trace): {
            policy: [round(one.mean, 3) for one in found[trace, policy]] for policy in POLICIES
        }
        for trace in TRACES
    }
    details |= {waiting_of(trace): waiting(found, trace) for trace in TRACES}
    details["assignment, all figures"] = {
        f"{trace}, {policy}": [msgspec.to_builtins(one) for one in outcomes]
        for (trace, policy), outcomes in found.items()
    }
    return Found(figures=figures(found), details=details, notes=[table(found, jobs)])


def one_run(asked: tuple[str, str, int, int]) -> Outcome:
    """Trace, policy, jobs, seed: in a process of its own, as nothing is shared."""
    trace, policy, jobs, seed = asked
    if policy == BIDDING:
        return Simulation(a_scene(trace, jobs, WORKERS, seed), policy, seed, TERMS).run()
    return tuned(lambda: a_scene(trace, jobs, WORKERS, seed), policy, seed)


def tuned(scene: Callable[[], Scene], policy: str, seed: int) -> Outcome:
    """A policy as it suits these jobs best: with the fewest undone, then by the mean of them.

    What is sure to be worse than the best one before it is not played to its end.
    """
    best: Outcome | None = None
    for killed_last in (False, True):
        for slots in SLOTS_PER_GB:
            stage = scene()
            trial = Simulation(stage, policy, seed, TERMS, slots, killed_last=killed_last)
            mean = math.inf if best is None or best.unfinished else best.mean
            found = trial.run(mean, KILLED_EACH * len(stage.tasks))
            best = found if best is None else min(best, found, key=_worth)
    assert best is not None
    return best


def _worth(outcome: Outcome) -> tuple[int, float]:
    return outcome.unfinished, outcome.mean


def figures(found: _Outcomes) -> dict[str, float]:
    """Bidding beside the best of the others; and what it left undone, of all runs together."""
    ratios = {
        f"assignment_{name}_vs_best": max(ratio(found, trace, name) for trace in TRACES)
        for name in ("mean", "p95", "makespan", "waste", "killed")
    }
    undone = sum(one.unfinished + one.unplaced for trace in TRACES for one in found[trace, BIDDING])
    return ratios | {"assignment_unfinished": float(undone)}


def ratio(found: _Outcomes, trace: str, name: str) -> float:
    """Bidding beside whichever of the others is best at this with the same jobs: the median."""
    least = LEAST.get(name, 0.0)
    others = zip(*(found[trace, policy] for policy in OTHERS), strict=True)
    best = [max(min(float(getattr(one, name)) for one in seed), least) for seed in others]
    ours = [float(getattr(one, name)) for one in found[trace, BIDDING]]
    return rounds_ratio(ours, best)


def median_of(outcomes: Sequence[Outcome], name: str) -> float:
    """Over the seeds."""
    return statistics.median(float(getattr(one, name)) for one in outcomes)


def waiting(found: _Outcomes, trace: str) -> dict[str, list[tuple[float, float]]]:
    """Count the jobs that wait, until none does: the median over the seeds, by policy."""
    last = max(
        statistics.median(_waits_until(one.waiting) for one in found[trace, policy])
        for policy in POLICIES
    )
    moments = [round(last * number / MOMENTS, 1) for number in range(MOMENTS + 1)]
    return {
        policy: [
            (moment, statistics.median(_waiting_at(one.waiting, moment) for one in outcomes))
            for moment in moments
        ]
        for policy, outcomes in ((policy, found[trace, policy]) for policy in POLICIES)
    }


def _waits_until(noted: Sequence[Sequence[float]]) -> float:
    """Get when no job waits any more, as far as that was noted."""
    ends = (later for (_, many), (later, _) in pairwise(noted) if many)
    return max(ends, default=noted[-1][0])


def _waiting_at(noted: Sequence[Sequence[float]], moment: float) -> float:
    place = bisect_right([at for at, _ in noted], moment)
    return noted[place - 1][1] if place else 0.0


def table(found: _Outcomes, jobs: int) -> str:
    """Medians over the seeds, a line for each trace and policy."""
    lines = [f"assignment: {jobs:,} jobs on {WORKERS} workers, medians over seeds"]
    lines.append(f"{'trace':8}{'policy':14}" + "".join(f"{name:>12}" for name in _COLUMNS))
    for (trace, policy), outcomes in found.items():
        values = (median_of(outcomes, name) for name in _COLUMNS)
        cells = "".join(f"{value:>12.3g}" if value < 10 else f"{value:>12,.0f}" for value in values)
        lines.append(f"{trace:8}{policy:14}{cells}")
    return "\n".join(lines)


def _processors() -> int:
    """Count the processors that this process may use, where the system reports it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
