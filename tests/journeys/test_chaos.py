"""All harms at once: requests while whatever the fleet depends on is killed (SPEC.md A5-A9).

The seed is another one each time; what fails says how to see it again.
"""

from pathlib import Path

import pytest

from benchmarks.chaos.runs import Plan, run, servers


@pytest.mark.parametrize(
    ("requests", "harms"),
    [
        pytest.param(4_000, 12, marks=pytest.mark.early, id="some"),
        pytest.param(20_000, 60, marks=pytest.mark.long(part="chaos"), id="many"),
    ],
)
def test_nothing_is_lost_doubled_or_wasted_whatever_is_killed(
    requests: int, harms: int, seed: int, log: Path, progress
):
    plan = Plan(requests=requests, harms=harms, seed=seed)
    with servers() as used:
        report = run(plan, used, log=log, progress=progress)

    assert not report.problems, report.reported()
    assert report.done == requests
    assert report.killed >= harms // 4, f"hardly anything was killed: {report}"
    # Beside the fleet Scrapy crawls, whose requests and items Redis loses as often.
    assert report.scrapy_pages == requests // 8
    assert sum(report.harms.values()) == harms
