"""Break the product in one place after the other, and see which tests notice.

    python -m tests.breaks [--only NAME ...] [--tests PATH ...] [--all-tests] [--list]

The tracked files, as they are now, are copied to a temporary folder; each break is applied there by
itself, and its own tests run on it until the first one fails. Where none does, ``--all-tests`` has
the whole suite look. A test that fails on the whole product as well has found nothing.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.breaks.catalogue import ROOT, Break, breaks

#: What the tests of one break may take, and the whole suite: a test that hangs has noticed, too.
NARROW_SECONDS: Final = 300.0
WHOLE_SECONDS: Final = 3_600.0
_CODE: Final = "layers/crawlfleet/python"
#: A line of pytest's summary; a line of a captured log has more blanks behind its level.
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
#: pytest's exit codes that say something of the product.
_PASSED, _TESTS_FAILED, _INTERRUPTED = 0, 1, 2


class Found(NamedTuple):
    """The result of one break: the test that noticed it, None where none did, and the seconds."""

    by: str | None
    seconds: float


class Workshop:
    """A copy of the product in which things are broken; its tests start servers of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        code = os.pathsep.join((str(folder / _CODE), str(folder)))
        self._environment = {**os.environ, "PYTHONPATH": code}

    @contextmanager
    def broken(self, one: Break) -> Iterator[None]:
        """Apply a break, and mend it at the end."""
        path = self._folder / one.file
        text = path.read_text(encoding="utf-8")
        path.write_text(one.applied(text), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")

    def paths(self, one: Break) -> list[str]:
        """Find the tests of a break."""
        return one.paths(self._folder)

    def first_failure(self, tests: Sequence[str], seconds: float) -> str | None:
        """Run tests until one fails; None where all pass."""
        failed = self.failures(tests, seconds, "-x")
        return failed[0] if failed else None

    def failures(self, tests: Sequence[str], seconds: float, *options: str) -> list[str]:
        """Run tests; those that fail.

        Raises:
            RuntimeError: pytest could not run them.
        """
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE"]
        process = subprocess.Popen(
            [*command, "--tb=short", *options, *tests],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return [f"a test that does not end in {seconds:.0f} s"]
        finally:
            if process.poll() is None:  # its servers end themselves with it (infra.local.guard)
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        if process.returncode == _PASSED:
            return []
        found = _FAILED.findall(said)
        if process.returncode not in (_TESTS_FAILED, _INTERRUPTED) or not found:
            raise RuntimeError(f"pytest ended with {process.returncode}:\n{said[-4_000:]}")
        return found


@contextmanager
def workshop() -> Iterator[Workshop]:
    """Copy the product."""
    with tempfile.TemporaryDirectory(prefix="crawlfleet-breaks-") as name:
        folder = Path(name)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        )
        for file in filter(None, listed.stdout.split("\0")):
            if (ROOT / file).is_file():  # one that is deleted and not yet committed is not
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, folder / file)
        yield Workshop(folder)


def examine(shop: Workshop, one: Break, tests: Sequence[str], *, whole: bool) -> Found:
    """Break the product in one place, and find the test that notices."""
    began = time.monotonic()
    with shop.broken(one):
        seconds = WHOLE_SECONDS if tests else NARROW_SECONDS
        by = shop.first_failure(tests or shop.paths(one), seconds)
        if by is None and whole:
            by = shop.first_failure(("-n", "2", "--dist", "loadfile"), WHOLE_SECONDS)
    return Found(by, time.monotonic() - began)


def main() -> int:
    """Examine the breaks that are asked for; the exit code is 1 where one is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.breaks", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these breaks alone")
    parser.add_argument("--tests", nargs="+", default=(), metavar="PATH", help="instead of theirs")
    parser.add_argument("--all-tests", action="store_true", help="then the whole suite")
    parser.add_argument("--list", action="store_true", help="print the list and run nothing")
    asked = parser.parse_args()
    chosen = [one for one in breaks() if not asked.only or one.name in asked.only]
    if missing := set(asked.only or ()) - {one.name for one in chosen}:
        parser.error(f"there is no break called {', '.join(sorted(missing))}")
    if asked.list:
        print("\n".join(f"{one.capability:12} {one.name}: {one.why}" for one in chosen))
        return 0
    # Whoever ends us by SIGTERM ends the tests, too, and leaves no copy behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    results: dict[str, Found] = {}
    with workshop() as shop:
        for one in chosen:
            found = examine(shop, one, asked.tests, whole=asked.all_tests)
            results[one.name] = found
            said = "NOT FOUND" if found.by is None else f"found by {found.by}"
            print(f"{found.seconds:5.0f} s  {one.name}: {said}", flush=True)
        named = sorted({found.by for found in results.values() if found.by and "::" in found.by})
        sick = shop.failures(named, WHOLE_SECONDS) if named else []
    for name in sick:
        print(f"fails on the whole product as well, so has found nothing: {name}")
    count = sum(found.by is not None and found.by not in sick for found in results.values())
    print(f"found {count} of {len(results)}")
    return int(count < len(results))


if __name__ == "__main__":
    sys.exit(main())
