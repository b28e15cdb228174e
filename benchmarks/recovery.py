"""Measure recoveries after kills, and what chaos costs.

Half of the workers are killed at once on a slow site; then all of them, the scheduler, and both, on
the real clock with cold starts; then a run of chaos on the same servers. They are the benchmark's
own, as they are killed too.
"""

import statistics
from random import SystemRandom

from benchmarks.bench import Bench, BenchError, Found
from benchmarks.chaos.halving import halve
from benchmarks.chaos.losing import lose
from benchmarks.chaos.runs import Plan, run, servers
from crawlfleet.kernel import names
from infra.fleet import FLEET


def period_seconds() -> float:
    """The longest time between two events of the scheduler.

    >>> from benchmarks.scale import FULL
    >>> period_seconds() == FULL.loss_period_seconds
    True
    """
    clock = next(one for one in FLEET.clocks if one.function == names.SCHEDULER)
    return max(clock.again_seconds, clock.every_seconds - clock.again_seconds)


def run_recovery(bench: Bench) -> Found:
    """Measure all three."""
    scale = bench.scale
    with servers() as used:
        rounds = halve(used, scale.halvings, lambda reported: bench.tick(f"recovery {reported}"))
        losses = [
            lose(used, bench.tick, every_seconds=scale.loss_period_seconds)
            for _ in range(scale.losses)
        ]
        plan = Plan(
            requests=scale.chaos_requests,
            harms=scale.chaos_harms,
            kinds=scale.chaos_kinds,
            seed=SystemRandom().randrange(10**6),
        )
        report = run(plan, used)
        bench.tick("chaos")
    if report.done < plan.requests:
        raise BenchError(f"chaos did not come to its end: {report.reported()}")
    leases = [one.leases_seconds for one in rounds]
    everything = [one.all_seconds for one in rounds]
    return Found(
        figures={
            "recovery_leases_s": statistics.median(leases),
            "recovery_leases_worst_s": max(leases),
            "recovery_all_s": statistics.median(everything),
            "recovery_all_worst_s": max(everything),
            "recovery_total_s": max(one.worst for one in losses),
            "recovery_consumers_s": max(one.consumers for one in losses),
            "recovery_scheduler_s": max(one.scheduler for one in losses),
            "recovery_everything_s": max(one.everything for one in losses),
            "chaos_lost": report.lost,
            "chaos_stored_twice": report.stored_twice,
            "chaos_refetched_ratio": report.refetched_ratio,
        },
        details={
            "recovery, requests outstanding": [
                {"held": one.held, "series": one.series} for one in rounds
            ],
            "recovery_leases_s": leases,
            "recovery_all_s": everything,
            "chaos": {
                "seed": report.seed,
                "requests": report.requests,
                "seconds": report.seconds,
                "harms": report.harms,
                "killed": report.killed,
                "invocations": report.invocations,
                "repeated": report.repeated,
                "repeated_in_hand": report.repeated_in_hand,
                "problems": list(report.problems),
            },
        },
    )
