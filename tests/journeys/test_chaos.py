"""Everything at once: 20,000 requests while whatever the fleet stands on is killed (SPEC.md A5-A9).

The seed is another one each time; what fails says how to see it again.
"""

from pathlib import Path
from random import SystemRandom

from benchmarks.chaos.runs import Plan, run, servers

REQUESTS = 20_000
HARMS = 60


def test_nothing_is_lost_doubled_or_wasted_whatever_is_killed(log: Path):
    seed = SystemRandom().randrange(10**6)
    plan = Plan(requests=REQUESTS, harms=HARMS, seed=seed)
    with servers() as used:
        report = run(plan, used, log=log)

    assert not report.problems, report.told()
    assert report.done == REQUESTS
    assert report.killed >= HARMS // 4, f"hardly anything was killed: {report}"
    assert sum(report.harms.values()) == HARMS
