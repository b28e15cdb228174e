"""The site in a process of its own, and what it is asked beside its pages."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.chaos.pages import path_of
from infra.local.parts import LOOPBACK, PartError, python_environment


@dataclass(frozen=True, slots=True)
class Site:
    """A running site."""

    port: int

    def url(self, run: str, number: int) -> str:
        """The address of a page."""
        return f"http://{LOOPBACK}:{self.port}{path_of(run, number)}"

    def hits(self, run: str) -> dict[int, int]:
        """Get how often each page of a run was asked for."""
        return {int(number): count for number, count in self._ask(f"/hits/{run}").items()}

    def pause(self, seconds: float) -> None:
        """Set the delay of the site's answers."""
        self._ask(f"/pause/{int(seconds * 1000)}")

    def _ask(self, path: str) -> dict[str, int]:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}{path}", timeout=30) as answer:
            found: dict[str, int] = json.load(answer)
            return found


@contextmanager
def running_site() -> Iterator[Site]:
    """Serve until the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.chaos.site_server"],
        env=python_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        if server.stdout is None or not (line := server.stdout.readline()):
            raise PartError("the site did not start")
        try:
            yield Site(int(line))
        finally:
            if server.stdin is not None:
                server.stdin.close()
            server.wait(timeout=10)
