"""How the whole run is shared among processes."""

import subprocess
import sys
from pathlib import Path

from tests.order import LONGEST

ROOT = Path(__file__).parents[2]


def test_files_that_take_long_are_there():
    assert [name for name in LONGEST if not (ROOT / name).is_file()] == []


def test_the_makefile_leaves_the_order_of_files_to_us():
    """By itself xdist begins with the files of most tests, and ends with long ones of one."""
    [call] = [line for line in (ROOT / "Makefile").read_text().splitlines() if "loadfile" in line]

    assert "--no-loadscope-reorder" in call.split()


def test_the_longest_files_are_begun_first():
    named = ["tests/unit/test_order.py", LONGEST[-1], LONGEST[-2]]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", *named],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    files = [line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line]
    assert list(dict.fromkeys(files)) == [LONGEST[-2], LONGEST[-1], "tests/unit/test_order.py"]
