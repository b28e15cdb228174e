import json
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks.bench import BenchError, ask, peer
from benchmarks.imports import slowest_first
from benchmarks.scale import FULL, QUICK
from benchmarks.usage import report


def test_without_peers_a_full_run_says_what_to_do(monkeypatch, capsys):
    monkeypatch.delenv("PEERS_PYTHON", raising=False)
    monkeypatch.setattr(sys, "argv", ["benchmarks"])

    status = program.main()

    said = " ".join(capsys.readouterr().err.split())
    assert status == 2
    assert "make bench" in said
    assert "PEERS_PYTHON" in said


@pytest.mark.parametrize("name", ["REDIS_URL", "MONGODB_URI"])
def test_a_server_that_somebody_named_is_not_emptied_unasked(monkeypatch, capsys, name):
    monkeypatch.setenv(name, "server://of.somebody")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick"])

    status = program.main()

    said = " ".join(capsys.readouterr().err.split())
    assert status == 2
    assert name in said
    assert "BENCH_MAY_EMPTY=yes" in said


def test_an_interpreter_that_is_not_there_is_no_interpreter(monkeypatch, tmp_path):
    monkeypatch.setenv("PEERS_PYTHON", str(tmp_path / "python"))

    assert program.peers_python() is None


def test_a_benchmark_that_does_not_exist_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "everything"])

    with pytest.raises(SystemExit, match="2"):
        program.main()

    assert "ingest" in capsys.readouterr().err


def test_the_smoke_run_is_smaller_in_everything():
    for name in FULL.__slots__:
        assert getattr(QUICK, name) < getattr(FULL, name), name


def test_every_benchmark_knows_its_steps():
    for name in program.BENCHMARKS:
        assert program.steps(name, FULL, with_peers=True) >= 1
    assert program.steps("crawl", FULL, with_peers=True) == 12
    assert program.steps("ingest", FULL, with_peers=False) == 15


def test_the_floor_runs_on_our_own_interpreter():
    peers = Path("/peers/python")

    assert peer(peers, "floor_crawl.py")[0] == sys.executable
    assert peer(peers, "crawlee_crawl.py")[0] == "/peers/python"


def test_the_last_line_of_a_side_is_its_answer():
    assert ask([sys.executable, "-c", "print('noise'); print('{\"pages\": 3}')"], {}) == {
        "pages": 3
    }


def test_a_side_that_fails_is_quoted():
    with pytest.raises(BenchError, match="no such luck"):
        ask([sys.executable, "-c", "raise SystemExit('no such luck')"], {})


def test_a_side_reports_its_own_cpu_seconds():
    found = json.loads(report(pages=7, seconds=1.5))

    assert (found["pages"], found["seconds"]) == (7, 1.5)
    assert 0 < found["cpu"] < 10_000


def test_imports_are_listed_with_the_slowest_first():
    listed = "import time: self [us] | cumulative | imported package\n"
    listed += "import time:       200 |        250 |   inner\nimport time: 5 | 900 | outer\n"

    lines = slowest_first(listed).splitlines()

    assert [line.split()[-1] for line in lines[1:]] == ["outer", "inner"]


def test_every_benchmark_that_is_named_runs_however_they_are_named(monkeypatch):
    chosen = []

    def run(names, *_):
        chosen.extend(names)
        raise program.BenchError("seen")

    monkeypatch.setattr(program, "_run", run)
    argv = ["benchmarks", "--quick", "--only", "crawl", "--only", "ingest", "lookup"]
    monkeypatch.setattr(sys, "argv", argv)

    assert program.main() == 3
    assert chosen == ["crawl", "ingest", "lookup"]
