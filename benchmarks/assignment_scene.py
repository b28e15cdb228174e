"""The scene of benchmarks/assignment.py: workers, links, jobs, and the outcome."""

import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from crawlfleet.fleet.models import Remaining
from crawlfleet.jobs.bidding.models import Note
from crawlfleet.jobs.models import Usage
from crawlfleet.jobs.spiders.models import LinkNeeds

REGIONS: Final = 4
SITES: Final = 24
SPIDERS: Final = 60
#: Of a job, to its site.
CONNECTIONS: Final = 16
#: Jobs a second that come on average, over the whole of a trace.
JOBS_PER_SECOND: Final = 8.0
MB: Final = 1_000_000.0


class Link(msgspec.Struct, frozen=True):
    """A region's way to a site: seconds to the first byte, bytes a second of one job."""

    seconds: float
    speed: float


class Spider(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a spider's runs, about: ``seconds`` at full speed, ``requests`` in that."""

    name: str
    site: int
    memory: float
    cpu: float
    bandwidth: float
    seconds: float
    requests: int
    link: LinkNeeds


@dataclass(slots=True, eq=False)
class Task:
    """A job on its way. ``left`` is seconds at full speed that are still to be done."""

    number: int
    spider: Spider
    at: float
    memory: float
    cpu: float
    bandwidth: float
    left: float
    full: float
    times: int = 0
    waits_since: float = 0.0
    notes: dict[str, Note] = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0
    rate: float = 0.0
    placements: int = 0


@dataclass(slots=True, eq=False)
class Machine:
    """A worker."""

    name: str
    region: int
    memory: float
    cpu: float
    bandwidth: float
    tasks: list[Task] = field(default_factory=list)
    moved_at: float = 0.0
    version: int = 0
    down_until: float = 0.0
    won: deque[tuple[float, Usage]] = field(default_factory=deque)
    #: What it has left, until when and as of which version that holds; and which jobs it has
    #: declined on that, each with what was known of it.
    left: Remaining = field(default_factory=Remaining)
    left_until: float = -1.0
    left_version: int = -1
    declined: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: Jobs at once, whatever they take.
    slots: int = 1

    def fullness(self) -> float:
        """Get the used part of the resource that it has least of."""
        memory, cpu, bandwidth = (
            sum(task.memory for task in self.tasks) / self.memory,
            sum(task.cpu for task in self.tasks) / self.cpu,
            sum(task.bandwidth for task in self.tasks) / self.bandwidth,
        )
        return max(memory, cpu, bandwidth)


class Due(msgspec.Struct, frozen=True):
    """A worker's first job is done, unless its jobs are others by then."""

    machine: Machine
    version: int


@dataclass(slots=True, kw_only=True)
class Scene:
    """The workers, the links, the jobs with their times: the same for every policy."""

    machines: list[Machine]
    links: list[list[Link]]
    tasks: list[Task]

    def rates(self, machine: Machine) -> Iterator[tuple[Task, float]]:
        """Get how fast each of a worker's jobs advances, over its full speed."""
        cpu = sum(task.cpu for task in machine.tasks)
        bandwidth = sum(task.bandwidth for task in machine.tasks)
        by_cpu = min(1.0, machine.cpu / cpu) if cpu else 1.0
        by_network = min(1.0, machine.bandwidth / bandwidth) if bandwidth else 1.0
        for task in machine.tasks:
            link = self.links[machine.region][task.spider.site]
            by_link = min(1.0, link.speed / task.bandwidth)
            spider = task.spider
            waits = spider.requests * link.seconds / CONNECTIONS / spider.seconds
            yield task, min(by_cpu, by_network, by_link, 1.0 / max(1.0, waits))


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one run of a policy.

    Attributes:
        makespan: Seconds from the first arrival to the last end.
        mean: Seconds from a job's arrival to its end; ``p95`` of one in twenty it is longer.
        waste: Memory over time that was held and not needed, or free and wanted, over what all jobs
            need of it (benchmarks/assignment_waste.py); ``free`` is the latter alone, and
            ``thrown_away`` is of the former what lost progress had taken.
        slowdown: Seconds on workers over seconds at full speed.
        killed: Workers that ran out of memory.
        misplaced: Jobs whose way to the site was not what they need.
        unplaced: Jobs that nobody applied for until they were out.
        unfinished: Jobs that had not ended LATEST_SECONDS after the last one came.
        waiting: At some moments, seconds and how many jobs waited for a worker.
    """

    makespan: float
    mean: float
    p95: float
    waste: float
    thrown_away: float
    free: float
    slowdown: float
    killed: int
    misplaced: int
    unplaced: int
    unfinished: int = 0
    waiting: list[list[float]] = []


def a_scene(trace: str, jobs: int, workers: int, seed: int) -> Scene:
    """Made up, and always the same of a seed."""
    rng = random.Random(f"{trace}/{seed}")
    sizes = [(512, 0.9), (1024, 1.8), (2048, 3.6), (4096, 7.2)]
    machines = []
    for number in range(workers):
        memory, cpu = rng.choices(sizes, weights=(3, 4, 2, 1))[0]
        # One network in four is behind a slow way out.
        network = rng.choice((60.0, 60.0, 60.0, 8.0))
        machines.append(
            Machine(
                f"w{number:03}",
                number % REGIONS,
                memory * MB,
                cpu * rng.uniform(0.8, 1.2),
                network * MB * rng.uniform(0.7, 1.3),
            )
        )
    links = [
        [
            Link(0.02 * math.exp(rng.uniform(0, 3.6)), 0.3 * MB * math.exp(rng.uniform(0, 3.5)))
            for _ in range(SITES)
        ]
        for _ in range(REGIONS)
    ]
    spiders = [_a_spider(rng, number, links) for number in range(SPIDERS)]
    weights = [1 / (1 + number) ** 0.7 for number in range(SPIDERS)]  # few run often
    tasks = []
    for number, at in enumerate(_arrivals(trace, jobs, jobs / JOBS_PER_SECOND, rng)):
        spider = rng.choices(spiders, weights)[0]
        scale = rng.lognormvariate(0, 0.25)
        seconds = spider.seconds * rng.lognormvariate(0, 0.5)
        tasks.append(
            Task(
                number,
                spider,
                at,
                spider.memory * rng.lognormvariate(0, 0.15),
                spider.cpu * scale,
                spider.bandwidth * scale,
                seconds,
                seconds,
            )
        )
    return Scene(machines=machines, links=links, tasks=tasks)


def _a_spider(rng: random.Random, number: int, links: Sequence[Sequence[Link]]) -> Spider:
    site = rng.randrange(SITES)
    seconds = 20 * rng.lognormvariate(0, 0.6)
    needs = LinkNeeds()
    if rng.random() < 0.3:  # one in three is only of use on a quick way, which some regions have
        best = min(row[site].seconds for row in links)
        needs = LinkNeeds(seconds_below=max(0.1, 2.5 * best))
    return Spider(
        name=f"s{number:02}",
        site=site,
        memory=150 * MB * rng.lognormvariate(0, 0.7),
        cpu=0.5 * rng.lognormvariate(0, 0.7),
        bandwidth=0.6 * MB * rng.lognormvariate(0, 0.9),
        seconds=seconds,
        requests=int(seconds * rng.uniform(5, 40)),
        link=needs,
    )


def _arrivals(trace: str, jobs: int, span: float, rng: random.Random) -> list[float]:
    """Draw when jobs come: evenly; in bursts; along a day with a heavy tail of batches."""
    if trace == "steady":
        return sorted(rng.uniform(0, span) for _ in range(jobs))
    if trace == "bursts":
        starts = [rng.uniform(0, 0.9 * span) for _ in range(max(4, jobs // 500))]
        calm = [rng.uniform(0, span) for _ in range(jobs // 3)]
        loud = [rng.choice(starts) + rng.expovariate(1 / 10) for _ in range(jobs - len(calm))]
        return sorted(calm + loud)
    found: list[float] = []
    while len(found) < jobs:
        at = rng.uniform(0, span)
        if rng.random() < 0.55 + 0.45 * math.sin(2 * math.pi * at / span - math.pi / 2):
            # Schedules start many jobs at once, some of them very many.
            batch = min(jobs // 20, int(rng.paretovariate(1.3)))
            found += [at + rng.uniform(0, 2) for _ in range(max(1, batch))]
    return sorted(found[:jobs])
