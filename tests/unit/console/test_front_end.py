"""The pure parts of the console's front end, by node's own test runner."""

import subprocess
import sys
from pathlib import Path

CONSOLE = Path(__file__).parents[3] / "console"
#: The Node of the environment, whatever else the machine has.
NODE = str(Path(sys.executable).parent / "node")


def test_formats_and_addresses_do_what_their_tests_say():
    tests = sorted((CONSOLE / "tests").glob("*.test.mjs"))
    done = subprocess.run(
        [NODE, "--test", *map(str, tests)], capture_output=True, text=True, check=False, timeout=60
    )

    assert tests
    assert done.returncode == 0, done.stdout + done.stderr
