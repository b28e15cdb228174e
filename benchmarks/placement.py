"""Similar work on the same worker (SPEC.md D3): connections that hosts see, with and without.

Several workers crawl polite hosts from one queue. With placement a host's requests go to the
worker whose host it is, which keeps its connection; without, to whoever comes first. The site
counts connections, each of which is a TLS handshake elsewhere, and closes those that are idle.
The fleet is at work when the pages come: workers know of each other, as they do for all but the
first seconds of a quarter of an hour.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from urllib.request import urlopen

import msgspec
from msgspec.structs import replace

from benchmarks.bench import Bench, BenchError, Found, environment
from benchmarks.crawl import submit
from benchmarks.figures import ratios, spread
from benchmarks.house import BenchParts, tree_of
from benchmarks.site_server import answer_of
from benchmarks.worker import ENV_UNPLACED
from benchmarks.workers import together
from crawlfleet.apps.context import now
from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.policies import HostLimits
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.time import Pauses

WORKERS: Final = 6
PER_SECOND: Final = 4.0
#: A connection that nobody uses for so long is closed by the site. It is Apache's default of 5 s at
#: one page a second, four times as fast, so that it does not take four times as long.
IDLE_SECONDS: Final = 5.0 / PER_SECOND
#: Workers wait for their first page for so long, and for one another.
START_SECONDS: Final = 12.0
#: Asked for this, the site answers with how many connections and pages it has had so far.
COUNTS_PATH: Final = b"/.counts"
_PAGE: Final = answer_of(b"<html><title>a page</title><body>of a polite host</body></html>")


def run(bench: Bench) -> Found:
    """Measure both in turn; each round begins with empty stores and closed connections."""
    hosts, each = bench.scale.placement_hosts, bench.scale.placement_pages
    pages = hosts * each
    found: dict[str, list[dict[str, Any]]] = {"placed": [], "unplaced": []}
    with polite_site() as port:
        for number in range(bench.scale.placement_rounds):
            for how in sorted(found, reverse=number % 2 == 1):
                found[how].append(_crawl(bench, port, hosts, each, how == "unplaced"))
                bench.tick(f"placement, {how}")
    shares = {how: [one["connections"] / pages for one in done] for how, done in found.items()}
    seconds = {
        how: sorted(one["seconds"] for one in done)[len(done) // 2] for how, done in found.items()
    }
    rounds = ratios(shares["placed"], shares["unplaced"])
    placed, unplaced = (
        f"{100 * statistics.median(shares[how]):.0f} ({spread([100 * one for one in shares[how]])})"
        for how in ("placed", "unplaced")
    )
    return Found(
        figures={"placement_connections_ratio": statistics.median(rounds)},
        rounds={"placement_connections_ratio": rounds},
        details={"placement": found},
        notes=[
            (
                f"placement: of 100 pages {placed} need a connection, without it {unplaced} "
                f"({WORKERS} workers, {hosts} hosts at {PER_SECOND:g} pages a second); done after "
                f"{seconds['placed']:.1f} s, without it {seconds['unplaced']:.1f} s"
            )
        ],
    )


def _tree() -> Tree:
    tree = tree_of()
    hosts = HostLimits(per_second=PER_SECOND, adaptive=False)
    fleet = replace(tree.stage.fleet, idle_seconds=START_SECONDS)
    return replace(tree, stage=replace(tree.stage, hosts=hosts, fleet=fleet))


def _crawl(bench: Bench, port: int, hosts: int, each: int, unplaced: bool) -> dict[str, Any]:
    bench.addresses.clear()
    tree = _tree()
    urls = [
        f"http://127.0.1.{host + 1}:{port}/p{page}" for page in range(each) for host in range(hosts)
    ]
    variables = environment(
        bench.variables(
            BENCH_TREE=msgspec.json.encode(tree).decode(),
            **({ENV_UNPLACED: "yes"} if unplaced else {}),
        )
    )
    before = _counts(port)
    done = together(WORKERS, variables, partial(_offer, bench, tree, urls))
    after = _counts(port)
    pages = sum(one["pages"] for one in done)
    if pages != len(urls):
        raise BenchError(f"{WORKERS} workers did {pages} of {len(urls)} pages")
    return {
        "connections": int(after["connections"] - before["connections"]) - 1,
        "pages": pages,
        "seconds": after["last"] - after["first"],
        "cpu": sum(one["working_cpu"] for one in done),
    }


def _offer(bench: Bench, tree: Tree, urls: list[str]) -> None:
    """Offer the pages, once all workers have learnt of each other."""
    parts = BenchParts(bench.addresses, tree, "consumer")
    try:
        until = time.monotonic() + START_SECONDS
        while len(parts.workers_of(MAIN_POOL).staying(now())) < WORKERS:
            if time.monotonic() > until:
                raise BenchError(f"{WORKERS} workers did not begin")
            time.sleep(0.05)
        time.sleep(Pauses().report_throughput + 1.0)
    finally:
        parts.redis.close()
    submit(bench, tree, urls)


def _counts(port: int) -> dict[str, float]:
    """Get the site's counts, and when the first and the last page of a crawl were asked for."""
    with urlopen(f"http://127.0.1.1:{port}{COUNTS_PATH.decode()}", timeout=10) as answer:
        found: dict[str, float] = json.load(answer)
    return found


@contextmanager
def polite_site() -> Iterator[int]:
    """Serve one small page under every path of every host, at the port that is yielded."""
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

    def __init__(self, counts: dict[str, float]) -> None:
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
                self._counts["first"] = 0.0
                continue
            self._counts["last"] = time.monotonic()
            self._counts["first"] = self._counts["first"] or self._counts["last"]
            self._transport.write(_PAGE)
        self._rest()


async def _serve() -> None:
    counts = {"connections": 0.0, "first": 0.0, "last": 0.0}
    loop = asyncio.get_running_loop()
    # Every address of 127/8 is this machine's own: each is a host.
    server = await loop.create_server(lambda: _Connection(counts), "0.0.0.0", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve())
