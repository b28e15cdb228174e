"""A run says how far it is where no terminal shows dots."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.progress import EVERY_SECONDS, LEAST_SECONDS, Tally

#: Two tests that pass, one that fails after it has said something and measured something.
TESTS = """
import json

def test_one():
    pass

def test_two():
    pass

def test_three():
    print("before")
    print(json.dumps({"_aws": {"Timestamp": 1}, "requests": 7}))
    assert 1 == 2
"""

CONFTEST = """
from tests import progress
from tests.progress import pytest_runtest_makereport, pytest_sessionstart

progress.LEAST_SECONDS = 0.0
"""


@pytest.fixture(params=[(), ("-n", "1")], ids=["alone", "shared"])
def reported(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Run it without a terminal; return what it says."""
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "xdist",
            f"--rootdir={tmp_path}",
            *request.param,
            ".",
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            # Plugins take a second each to import, and two processes import them.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_run_reports_how_far_it_is_and_what_has_failed_and_why(reported):
    assert any(line.startswith("[ 33 %] 1 of 3 passed, 0 failed, 0:0") for line in reported)
    assert any(line.startswith("[ 67 %] 2 of 3 passed, 0 failed, 0:0") for line in reported)
    assert "FAILED test_some.py::test_three" in reported
    assert "before" in reported
    assert not any("_aws" in line and "json.dumps" not in line for line in reported)
    assert reported[-1].startswith("1 failed, 2 passed in ")


@pytest.fixture
def tally() -> Tally:
    return Tally(100.0, total=100)


def test_a_line_is_due_after_a_tenth_of_the_tests(tally):
    tally.ended = 9
    assert not tally.is_due(100.0 + LEAST_SECONDS)

    tally.ended = 10
    assert tally.is_due(100.0 + LEAST_SECONDS)


def test_lines_keep_a_distance(tally):
    tally.ended = 50

    assert not tally.is_due(100.0 + LEAST_SECONDS / 2)


def test_a_line_is_due_after_half_a_minute_in_which_no_test_has_ended(tally):
    assert not tally.is_due(99.0 + EVERY_SECONDS)
    assert tally.is_due(100.0 + EVERY_SECONDS)


def test_a_line_names_what_has_been_running_for_long(tally):
    tally.running = {"a": 100.0, "b": 190.0}
    tally.ended, tally.passed, tally.failed = 42, 41, {"c"}

    line = tally.line(200.0)

    assert line == ("[ 42 %] 41 of 100 passed, 1 failed, 1:40\n        still running after 1:40: a")
    assert not tally.is_due(200.0 + LEAST_SECONDS)


def report(when: str, outcome: str) -> pytest.TestReport:
    return pytest.TestReport("a", ("a", 1, "a"), {}, outcome, None, when)


def test_a_test_fails_once_whatever_of_it_fails(tally):
    assert tally.count(report("call", "failed"))
    assert not tally.count(report("teardown", "failed"))
    assert (tally.passed, len(tally.failed)) == (0, 1)


def test_a_test_has_passed_when_its_call_has(tally):
    for when in ("setup", "call", "teardown"):
        assert not tally.count(report(when, "passed"))

    assert (tally.passed, len(tally.failed)) == (1, 0)
