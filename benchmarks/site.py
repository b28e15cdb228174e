"""The site that is crawled: its pages, its server in a process of its own, and how fast that is."""

import asyncio
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from benchmarks.bench import ROOT, BenchError
from benchmarks.site_server import CPU_PATH
from infra.local.parts import LOOPBACK

#: Connections of the measurement.
_CLIENTS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A running site."""

    port: int
    names: tuple[str, ...]
    mean_bytes: float

    def urls(self, count: int) -> list[str]:
        """Make so many different addresses of its pages."""
        return distinct(f"http://{LOOPBACK}:{self.port}/", self.names, count)

    def pages_per_second(self, count: int) -> float:
        """Measure how fast it answers a client that does nothing with the answers."""
        return asyncio.run(_rate(self.port, self.names, count))

    def cpu_seconds(self) -> float:
        """Get the CPU seconds that its server has used since it was started."""
        with urlopen(f"http://{LOOPBACK}:{self.port}{CPU_PATH.decode()}", timeout=10) as answer:
            return float(answer.read())


def distinct(base: str, names: tuple[str, ...], count: int) -> list[str]:
    """Addresses that differ in their query where there are more than pages.

    >>> distinct("http://a/", ("x.html", "y.html"), 3)
    ['http://a/x.html?v=0', 'http://a/y.html?v=0', 'http://a/x.html?v=1']
    """
    return [f"{base}{names[i % len(names)]}?v={i // len(names)}" for i in range(count)]


@contextmanager
def running_site(pages: int, delay: float = 0.0) -> Iterator[Site]:
    """Write the pages unless this Python has written them before, and serve them.

    Args:
        pages: How many there are.
        delay: Seconds from a request to its answer.
    """
    folder = Path(tempfile.gettempdir()) / (
        f"crawlfleet-bench-site-{os.getuid()}-{platform.python_version()}-{pages}"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(prefix="crawlfleet-bench-") as scratch:
            subprocess.run(
                [sys.executable, "-m", "benchmarks.site_pages", scratch, str(pages)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                check=True,
            )
            _keep(Path(scratch), folder)
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.site_server", str(folder), str(delay)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with server:
        if server.stdout is None or not (line := server.stdout.readline()):
            raise BenchError("the site did not start")
        files = sorted(folder.glob("*.html"))
        sizes = [file.stat().st_size for file in files]
        try:
            yield Site(
                port=int(line),
                names=tuple(file.name for file in files),
                mean_bytes=sum(sizes) / len(sizes),
            )
        finally:
            if server.stdin is not None:
                server.stdin.close()
            server.wait(timeout=10)


def _keep(scratch: Path, folder: Path) -> None:
    """Make the pages appear all at once, so that half a site is never taken for one."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".crawlfleet-") as beside:
        whole = Path(beside) / "site"
        whole.mkdir()
        for page in scratch.glob("*.html"):
            (whole / page.name).write_bytes(page.read_bytes())
        try:
            whole.rename(folder)
        except OSError:  # another run was quicker
            return


async def _rate(port: int, names: tuple[str, ...], count: int) -> float:
    asked = iter(range(count))

    async def client() -> None:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        for number in asked:
            name = names[number % len(names)]
            writer.write(f"GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.rpartition(b"Content-Length: ")[2]))
        writer.close()
        await writer.wait_closed()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(_CLIENTS)))
    return count / (time.perf_counter() - started)
