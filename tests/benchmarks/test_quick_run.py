import json
import os
import subprocess
import sys

import pytest

from benchmarks.figures import FIGURES, KEYS


@pytest.mark.long(part="benchmarks")
def test_every_benchmark_runs_from_start_to_finish_without_the_peers(tmp_path, pytestconfig):
    """The sides check one another: the same pages, the same links, every request queued."""
    root = pytestconfig.rootpath
    ours = {"REDIS_URL", "MONGODB_URI", "PEERS_PYTHON"}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment["PYTHONPATH"] = os.pathsep.join([str(root / "layers/crawlfleet/python"), str(root)])

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--out", str(tmp_path)],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "quick.json").read_text())
    with_peers_only = {figure.key for figure in FIGURES if figure.needs_peers}
    assert tuple(found) == KEYS
    assert {key for key, value in found.items() if value is None} == with_peers_only
    # Counts of what must never be, on any machine; the worst of the others may be nothing at all.
    never = {figure.key for figure in FIGURES if figure.most == 0}
    assert {key: found[key] for key in never} == dict.fromkeys(never, 0)
    may_be_nothing = never | {"chaos_refetched_ratio", "assignment_killed_vs_best"}
    may_be_nothing |= {"quota_overshoot_ratio", "quota_undershoot_ratio"}
    measured = found.keys() - with_peers_only
    assert {key: found[key] for key in measured if found[key] < 0} == {}
    assert {key: found[key] for key in measured - may_be_nothing if found[key] == 0} == {}
    # Counted, not timed, but for the time that they are counted in.
    bounded = {"fleet_bytes_per_worker", "fleet_calls_growth", "fleet_home_per_s"}
    assert all(one.reached(found[one.key]) for one in FIGURES if one.key in bounded), found
    # Of few workers one share each is more than a hundredth of the quota.
    details = json.loads((tmp_path / "quick-details.json").read_text())
    quotas = details["quotas"].values()
    assert all(one["overshoot"] <= one["allowed"] for one in quotas), details["quotas"]
    assert "functions.router.handler" in (tmp_path / "imports_router.txt").read_text()
