"""Two workers beside one: the same requests, and what there is that holds them up.

Workers and servers share the machine. So beside the rates stands what each part used of the cores:
where these are used up, a second worker can only take what the first one and the servers left. That
is so on a site that answers at once. On one that is as far away as sites are, a worker waits for
its downloads, cores are to spare, and what a second one adds is what the system lets it.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pymongo
import redis

from benchmarks.bench import Addresses, Bench, BenchError, Found, answer_in, environment
from benchmarks.crawl import submit
from benchmarks.figures import ratio
from benchmarks.house import tree_of
from benchmarks.site import Site, running_site
from benchmarks.worker import READY
from crawlfleet.config.documents.biz import FetchLimits, FleetLimits

#: From this part of its time on a core is used up.
USED_UP: Final = 0.9
#: How long a crawl may take.
SECONDS: Final = 600
#: From a request to its answer on a site that is far away, in seconds.
FAR: Final = 0.25
#: Connections of a worker to the site: as many as it may have downloads at all. There is one site
#: here, where a crawl has many.
PER_HOST: Final = FleetLimits().concurrency


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A crawl: its number of workers, its duration, and the CPU seconds of each part."""

    workers: int
    pages: int
    seconds: float
    cpu: dict[str, float]

    @property
    def rate(self) -> float:
        """Pages a second."""
        return self.pages / self.seconds

    @property
    def cores(self) -> dict[str, float]:
        """Get how many cores each part kept busy."""
        return {part: spent / self.seconds for part, spent in self.cpu.items()}


def run(bench: Bench) -> Found:
    """Measure one and two in turn, on a far site and on one that answers at once."""
    far = _compared(bench, FAR, bench.scale.worker_requests // 2)
    near = _compared(bench, 0.0, bench.scale.worker_requests)
    return Found(
        figures={
            "two_worker_speedup": far.speedup,
            "two_worker_speedup_saturated": near.speedup,
            "two_worker_efficiency": near.per_cpu[2] / near.per_cpu[1],
        },
        details={
            "pages per second by number of workers": {**far.rates(), **near.rates()},
            "workers": {where.name: where.details() for where in (far, near)},
            "two workers are held up by": {where.name: where.limit for where in (far, near)},
        },
        notes=[far.reported(), near.reported()],
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """The crawls on one kind of site, by the number of workers: one and two."""

    delay: float
    rounds: Mapping[int, list[Round]]

    @property
    def name(self) -> str:
        """Name the kind of site."""
        return f"a site {self.delay * 1000:.0f} ms away" if self.delay else "a site at once"

    @property
    def speedup(self) -> float:
        """The rate of two by the rate of one, the median of the rounds."""
        return ratio(*([one.rate for one in self.rounds[workers]] for workers in (2, 1)))

    @property
    def per_cpu(self) -> dict[int, float]:
        """Pages a CPU second of the workers, by how many there were."""
        return {
            workers: statistics.median(one.pages / one.cpu["workers"] for one in done)
            for workers, done in self.rounds.items()
        }

    @property
    def _typical(self) -> Round:
        return sorted(self.rounds[2], key=lambda one: one.rate)[len(self.rounds[2]) // 2]

    @property
    def limit(self) -> str:
        """Name what held two workers up."""
        return limit_of(self._typical.cores, os.cpu_count() or 1, workers=2)

    def rates(self) -> dict[str, list[float]]:
        """Pages a second of every round."""
        return {
            f"{workers} worker{'s' * (workers - 1)}, {self.name}": [one.rate for one in done]
            for workers, done in self.rounds.items()
        }

    def details(self) -> dict[str, Any]:
        """Every round."""
        return {
            str(workers): [
                {"pages": one.pages, "seconds": one.seconds, "cpu": one.cpu} for one in done
            ]
            for workers, done in self.rounds.items()
        }

    def reported(self) -> str:
        """A line for people."""
        used = ", ".join(f"{part} {share:.2f}" for part, share in self._typical.cores.items())
        return (
            f"two workers, {self.name}: cores kept busy: {used}; held up by {self.limit}; a "
            f"worker's CPU second gave {self.per_cpu[1]:,.0f} pages alone and "
            f"{self.per_cpu[2]:,.0f} beside another"
        )


def _compared(bench: Bench, delay: float, requests: int) -> Compared:
    rounds: dict[int, list[Round]] = {1: [], 2: []}
    with running_site(bench.scale.pages, delay) as site:
        urls = site.urls(requests)
        for number in range(bench.scale.crawl_rounds):
            for workers in (1, 2) if number % 2 == 0 else (2, 1):
                rounds[workers].append(_crawl(bench, site, urls, workers))
                bench.tick(f"{workers} worker{'s' * (workers - 1)}")
    return Compared(delay, rounds)


def limit_of(cores: Mapping[str, float], available: int, *, workers: int) -> str:
    """Name what a crawl used up, by how many cores each part kept busy.

    >>> used = {"workers": 1.4, "site": 0.2, "mongodb": 0.3, "redis": 0.05, "others": 0.0}
    >>> limit_of(used, 2, workers=2)
    'the 2 cores, 98% busy: 28% with the servers, 0% with what else runs on the machine'
    """
    whole = sum(cores.values())
    for part in ("site", "redis"):  # each of them runs on one core
        if cores[part] >= USED_UP:
            return f"the {part}, which has one core"
    if whole >= USED_UP * available:
        servers = sum(cores[part] for part in ("site", "mongodb", "redis"))
        return (
            f"the {available} cores, {whole / available:.0%} busy: {servers / available:.0%} with "
            f"the servers, {cores['others'] / available:.0%} with what else runs on the machine"
        )
    if cores["workers"] >= USED_UP * workers:
        return "the workers, which have one core each"
    return "nothing that is used up: they wait for answers"


def _crawl(bench: Bench, site: Site, urls: list[str], workers: int) -> Round:
    bench.addresses.clear()
    tree = tree_of(fetch=FetchLimits(per_host=PER_HOST))
    submit(bench, tree, urls)
    variables = environment(bench.variables(BENCH_TREE=msgspec.json.encode(tree).decode()))
    before, machine, started = servers_cpu(bench.addresses, site), machine_cpu(), time.monotonic()
    done = together(workers, variables)
    passed, spent = time.monotonic() - started, machine_cpu() - machine
    after = servers_cpu(bench.addresses, site)
    servers = {part: after[part] - before[part] for part in after}
    ours = sum(one["cpu"] for one in done) + sum(servers.values())
    seconds = max(one["seconds"] for one in done)
    pages = sum(one["pages"] for one in done)
    if pages != len(urls):
        raise BenchError(f"{workers} workers did {pages} of {len(urls)} pages")
    return Round(
        workers=workers,
        pages=pages,
        seconds=seconds,
        cpu={
            "workers": sum(one["working_cpu"] for one in done),
            **servers,
            # Workers take a while to start: of all that time, the part in which they worked.
            "others": max(0.0, spent - ours) * seconds / passed,
        },
    )


def together(
    workers: int, variables: Mapping[str, str], begun: Callable[[], None] = lambda: None
) -> list[dict[str, Any]]:
    """Run workers that begin at the same moment, each in a process of its own; their answers.

    Once they have been told to begin ``begun`` is called.
    """
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.worker", f"bench-{number}"],
                    env=dict(variables),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(workers)
        ]
        for one in running:
            stack.callback(one.kill)
        for one in running:
            if one.stdout is None or one.stdout.readline().strip() != READY:
                raise BenchError(f"a worker did not start:\n{one.communicate()[1][-2_000:]}")
        for one in running:
            if one.stdin is not None:
                one.stdin.write("\n")
                one.stdin.flush()
        begun()
        reported = [one.communicate(timeout=SECONDS) for one in running]
    return [answer_in(out, err, "a worker") for out, err in reported]


def servers_cpu(addresses: Addresses, site: Site) -> dict[str, float]:
    """The CPU seconds that each server has used since it was started."""
    with redis.Redis.from_url(addresses.redis) as client:
        used = client.info("cpu")
    with pymongo.MongoClient[dict[str, Any]](addresses.mongo) as mongo:
        extra = mongo.admin.command("serverStatus")["extra_info"]
    return {
        "site": site.cpu_seconds(),
        "mongodb": (extra["user_time_us"] + extra["system_time_us"]) / 1e6,
        "redis": float(used["used_cpu_user"]) + float(used["used_cpu_sys"]),
    }


def machine_cpu() -> float:
    """The CPU seconds that the machine has used, and what its host took of it; 0 if unknown."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq, steal, *_ = map(
        int, stat.read_text().split("\n", 1)[0].split()[1:]
    )
    ticks = user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")
