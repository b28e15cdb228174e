"""Similar work on the same worker (SPEC.md D3): connections that hosts see, with and without.

Several workers crawl polite hosts from one queue. With placement a host's requests go to the
worker whose host it is, which keeps its connection; without, to whoever comes first. The site
counts connections, each of which is a TLS handshake elsewhere, and closes those that are idle.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.request import urlopen

import msgspec
from msgspec.structs import replace

from benchmarks.bench import Bench, BenchError, Found, environment
from benchmarks.crawl import submit
from benchmarks.house import tree_of
from benchmarks.site_server import answer_of
from benchmarks.worker import ENV_UNPLACED
from benchmarks.workers import together
from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.policies import HostLimits

WORKERS: Final = 6
PER_SECOND: Final = 4.0
#: A connection that nobody uses for so long is closed by the site. It is Apache's default of 5 s at
#: one page a second, four times as fast, so that it does not take four times as long.
IDLE_SECONDS: Final = 5.0 / PER_SECOND
#: Asked for this, the site answers with how many connections and pages it has had so far.
COUNTS_PATH: Final = b"/.counts"
_PAGE: Final = answer_of(b"<html><title>a page</title><body>of a polite host</body></html>")


def run(bench: Bench) -> Found:
    """Measure both in turn; each round begins with empty stores and closed connections."""
    hosts, each = bench.scale.placement_hosts, bench.scale.placement_pages
    pages = hosts * each
    found: dict[str, list[dict[str, Any]]] = {"placed": [], "unplaced": []}
    with _site() as port:
        for number in range(bench.scale.placement_rounds):
            for how in sorted(found, reverse=number % 2 == 1):
                found[how].append(_crawl(bench, port, hosts, each, how == "unplaced"))
                bench.tick(f"placement, {how}")
    shares = {
        how: sorted(one["connections"] / pages for one in done)[len(done) // 2]
        for how, done in found.items()
    }
    seconds = {
        how: sorted(one["seconds"] for one in done)[len(done) // 2] for how, done in found.items()
    }
    return Found(
        figures={"placement_connections_ratio": shares["placed"] / shares["unplaced"]},
        details={"placement": found},
        notes=[
            (
                f"placement: of 100 pages {100 * shares['placed']:.0f} need a connection, without "
                f"it {100 * shares['unplaced']:.0f} ({WORKERS} workers, {hosts} hosts at "
                f"{PER_SECOND:g} pages a second); done after {seconds['placed']:.1f} s, without it "
                f"{seconds['unplaced']:.1f} s"
            )
        ],
    )


def _tree() -> Tree:
    tree = tree_of()
    hosts = HostLimits(per_second=PER_SECOND, adaptive=False)
    return replace(tree, stage=replace(tree.stage, hosts=hosts))


def _crawl(bench: Bench, port: int, hosts: int, each: int, unplaced: bool) -> dict[str, Any]:
    bench.addresses.clear()
    tree = _tree()
    urls = [
        f"http://127.0.1.{host + 1}:{port}/p{page}" for page in range(each) for host in range(hosts)
    ]
    submit(bench, tree, urls)
    variables = environment(
        bench.variables(
            BENCH_TREE=msgspec.json.encode(tree).decode(),
            **({ENV_UNPLACED: "yes"} if unplaced else {}),
        )
    )
    before = _counts(port)
    done = together(WORKERS, variables)
    after = _counts(port)
    pages = sum(one["pages"] for one in done)
    if pages != len(urls):
        raise BenchError(f"{WORKERS} workers did {pages} of {len(urls)} pages")
    return {
        "connections": after["connections"] - before["connections"] - 1,
        "pages": pages,
        "seconds": max(one["seconds"] for one in done),
        "cpu": sum(one["working_cpu"] for one in done),
    }


def _counts(port: int) -> dict[str, int]:
    with urlopen(f"http://127.0.1.1:{port}{COUNTS_PATH.decode()}", timeout=10) as answer:
        found: dict[str, int] = json.load(answer)
    return found


@contextmanager
def _site() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.placement"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        if server.stdout is None or not (line := server.stdout.readline()):
            raise BenchError("the site did not start")
        try:
            yield int(line)
        finally:
            if server.stdin is not None:
                server.stdin.close()
            server.wait(timeout=10)


class _Connection(asyncio.Protocol):
    """A connection of a client; every request gets the same page."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts
        self._transport: asyncio.Transport | None = None
        self._pending = b""
        self._closing: asyncio.TimerHandle | None = None

    def _rest(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
        if self._transport is not None:
            close = self._transport.close
            self._closing = asyncio.get_running_loop().call_later(IDLE_SECONDS, close)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            self._counts["connections"] += 1
            self._rest()

    def data_received(self, data: bytes) -> None:
        *heads, self._pending = (self._pending + data).split(b"\r\n\r\n")
        for head in heads:
            if self._transport is None:
                return
            if COUNTS_PATH in head:
                self._transport.write(answer_of(json.dumps(self._counts).encode()))
                continue
            self._counts["pages"] += 1
            self._transport.write(_PAGE)
        self._rest()


async def _serve() -> None:
    counts = {"connections": 0, "pages": 0}
    loop = asyncio.get_running_loop()
    # Every address of 127/8 is this machine's own: each is a host.
    server = await loop.create_server(lambda: _Connection(counts), "0.0.0.0", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve())
