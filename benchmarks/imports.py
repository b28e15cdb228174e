"""Importing each handler in a fresh interpreter: what a cold start pays before its first line.

In CPU time, because the machine has other work. ``python -m infra.bundle`` measures the same over
exactly what is deployed, where the runtime's Python is at hand; this is this environment's.
"""

import os
import statistics
import subprocess
import sys
from typing import Final

from benchmarks.bench import ROOT, Bench, Found
from benchmarks.figures import FUNCTIONS

#: Drivers import them where they are installed, and the layers do not have them.
_NOT_IN_THE_LAYERS: Final = ("cryptography", "OpenSSL")
_BARE: Final = "".join(f"sys.modules[{name!r}] = None; " for name in _NOT_IN_THE_LAYERS)
_PROGRAM: Final = """
import sys, time
{bare}
started = time.process_time()
import functions.{name}.handler
print((time.process_time() - started) * 1000)
"""


def run(bench: Bench) -> Found:
    """Take the median; functions take turns. Python's own list of imports is kept beside it."""
    for name in FUNCTIONS:
        _python(
            "-c", _PROGRAM.format(name=name, bare=_BARE)
        )  # writes byte code where there is none yet
    times: dict[str, list[float]] = {name: [] for name in FUNCTIONS}
    for _ in range(bench.scale.import_runs):
        for name in FUNCTIONS:
            times[name].append(float(_python("-c", _PROGRAM.format(name=name, bare=_BARE)).stdout))
        bench.tick("imports")
    bench.out.mkdir(parents=True, exist_ok=True)
    for name in FUNCTIONS:
        program = _PROGRAM.format(name=name, bare=_BARE)
        listed = _python("-X", "importtime", "-c", program).stderr
        (bench.out / f"imports_{name}.txt").write_text(slowest_first(listed), encoding="utf-8")
    return Found(
        figures={f"import_ms_{name}": statistics.median(found) for name, found in times.items()},
        details={"imports, CPU milliseconds": times},
    )


def slowest_first(listed: str) -> str:
    """``-X importtime`` in order of the time that modules took with all that they import.

    >>> print(slowest_first("import time: self [us] | cumulative | imported package\\n"
    ...     "import time: 5 | 5 | a\\nimport time: 3 | 90 | b\\n"), end="")
           self    cumulative  module (microseconds)
              3            90  b
              5             5  a
    """
    rows = []
    for line in listed.splitlines():
        own, _, rest = line.removeprefix("import time:").partition("|")
        together, _, name = rest.partition("|")
        if own.strip().isdigit():
            rows.append((int(together), int(own), name.strip()))
    lines = [f"{own:>11}  {together:>12}  {name}\n" for together, own, name in sorted(rows)[::-1]]
    return f"{'self':>11}  {'cumulative':>12}  module (microseconds)\n" + "".join(lines)


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "layers/crawlfleet/python"), str(ROOT)])
    # The region is what Lambda's environment has; without one boto3 would look for a file.
    environment = {**os.environ, "PYTHONPATH": path, "AWS_DEFAULT_REGION": "eu-central-1"}
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
