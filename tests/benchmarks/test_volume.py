import json
import os
import subprocess
import sys

import pytest

REQUESTS = 3_000


@pytest.mark.long(part="benchmarks")
def test_thousands_are_submitted_looked_up_lost_from_redis_drained_and_expired(
    tmp_path, pytestconfig
):
    """The short form of `make volume`: all of its phases, on servers of its own."""
    root = pytestconfig.rootpath
    out, folder = tmp_path / "out", tmp_path / "folder"
    folder.mkdir()
    # Named servers are never filled: nobody answers there.
    environment = {**os.environ, "REDIS_URL": "redis://127.0.0.1:1", "MONGODB_URI": "mongodb://::"}
    environment["PYTHONPATH"] = os.pathsep.join([str(root / "layers/crawlfleet/python"), str(root)])

    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.volume", "--requests", str(REQUESTS)),
            *("--cache-gb", "0.25", "--hosts", "50", "--lose-redis"),
            *("--folder", str(folder), "--out", str(out)),
        ],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((out / "volume.json").read_text())
    assert found["problems"] == []
    assert [phase["name"] for phase in found["phases"]] == ["submit", "drain", "expire"]
    assert {look["phase"] for look in found["looks"]} >= {"full", "drained", "expire"}
    assert max(look["submitted"] for look in found["looks"]) == REQUESTS
    assert found["looks"][-1]["left"] == 0
    assert found["looked_for"] == REQUESTS
    figures = found["figures"]
    assert figures["redis_bytes_per_request"] > 40
    assert figures["refilled_per_s"] > 0
    assert 0 < figures["lookup_full_p50_ms"] <= figures["lookup_full_p99_ms"]
    assert f"One hour holds {figures['one_hour_holds'] / 1e6:,.1f} million requests" in done.stdout
    assert (out / "volume.md").read_text().count("```mermaid") == 3
    assert list(folder.iterdir()) == [], "the servers' files are gone"


def test_a_run_that_the_disk_does_not_hold_is_refused_before_anything_is_started(
    tmp_path, pytestconfig
):
    done = subprocess.run(
        [*(sys.executable, "-m", "benchmarks.volume", "--requests", "10_000_000_000_000")],
        cwd=pytestconfig.rootpath,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 3
    assert "GB of the disk" in done.stderr
