"""A burst with a plan on the local cloud: how many workers come, whether they are in time (H4).

The real thing but for AWS: the router takes the burst over HTTP, functions run in processes of
their own, the scheduler's clock ticks, the consumer's concurrency is changed through Lambda's API.
One worker would be late, as the site takes its time and a worker has few downloads at once here; so
many that two cores carry them all the same. The trace is one look a second from outside.
"""

import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import boto3
import msgspec

from benchmarks.bench import Bench, BenchError, Found
from benchmarks.house import PAGE_RULE
from benchmarks.site import Site, running_site
from crawlfleet import names
from crawlfleet.adapters.redis_queue.connection import RedisConnection
from crawlfleet.adapters.redis_queue.outlook import RedisOutlook
from crawlfleet.adapters.redis_queue.queue import RedisQueue
from crawlfleet.adapters.redis_queue.staffing import RedisStaffing
from crawlfleet.adapters.redis_queue.workers import RedisWorkers
from crawlfleet.adapters.ssm_writer import write_tree
from crawlfleet.model.biz import Biz, FleetLimits, Generation, Stage
from crawlfleet.model.lane import Lane
from crawlfleet.model.politeness import HostLimits
from crawlfleet.model.staff import FLEET_POOL
from crawlfleet.sdk import Client
from infra.fleet import FLEET
from infra.local.aws_server import REGION
from infra.local.cloud import LocalCloud
from infra.local.state import STAGE

BIZ: Final = "burst"
LANE: Final = Lane(names.DEFAULT_TENANT, BIZ, "main")
#: Downloads that a worker has under way, and how long each takes: 16 pages a second at most.
SLOTS: Final = 8
ANSWER_SECONDS: Final = 0.5
#: What the stage allows, and what the one host may be asked for: five workers' worth.
CEILING: Final = 8
PER_SECOND: Final = 80.0
#: The clock's period, but for plans so short that no minute fits into them.
TICK_SECONDS: Final = 60.0
TICKS_A_PLAN: Final = 10
#: What a run may take, as a multiple of its plan; and to send the workers home after that.
LATEST: Final = 1.5
HOME_SECONDS: Final = 60.0
#: Points of the trace that are kept.
POINTS: Final = 300
_LOOK_SECONDS: Final = 1.0
_RATE_SECONDS: Final = 5.0


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One look: seconds since the burst began, what is still to be done, and who does it."""

    at: float
    submitted: int
    done: int
    workers: int
    needed: int
    kept: int
    limit: int
    rate: float = 0.0

    @property
    def backlog(self) -> int:
        """Accepted and not done."""
        return max(0, self.submitted - self.done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What was seen of a burst of so many with such a plan."""

    requests: int
    plan: float
    points: tuple[Point, ...]

    @property
    def seconds(self) -> float:
        """Until the last one was done."""
        return next(point.at for point in self.points if point.done >= self.requests)

    @property
    def peak(self) -> int:
        """Most workers at once."""
        return max(point.workers for point in self.points)

    @property
    def home_seconds(self) -> float:
        """From the last page to the last worker's end."""
        last = max((point.at for point in self.points if point.workers), default=0.0)
        return max(0.0, last - self.seconds) + _LOOK_SECONDS

    def faults(self) -> list[str]:
        """What is not as it must be; whether it was in time is a figure's to say."""
        found = []
        if self.points[-1].done != self.requests:
            return [f"{self.points[-1].done} of {self.requests} requests were done"]
        if self.peak < 2:
            found.append("no second worker came")
        if self.points[-1].workers:
            found.append(f"{self.points[-1].workers} workers are still there")
        if any(point.workers > CEILING for point in self.points):
            found.append("there were more workers than the stage may have")
        return found


def run(bench: Bench) -> Found:
    """One burst; the run fails where not all is done, or workers do not come and go."""
    requests, plan = bench.scale.burst_requests, bench.scale.burst_plan_seconds
    with (
        tempfile.TemporaryDirectory(prefix="crawlfleet-bench-") as folder,
        running_site(bench.scale.pages, ANSWER_SECONDS) as site,
        LocalCloud(Path(folder) / "cloud", consumers=CEILING, ticking=False, seed=False) as cloud,
    ):
        _configure(cloud, plan)
        trace = _Burst(cloud, site, requests, plan, bench.tick).run()
    if faults := trace.faults():
        raise BenchError(f"scaling: {'; '.join(faults)}\n{_table(trace)}")
    alone = requests * ANSWER_SECONDS / SLOTS
    said = (
        f"scaling: {requests:,} requests with a plan of {plan:,.0f} s, which one worker would take "
        f"{alone:,.0f} s for, were done after {trace.seconds:,.0f} s by {trace.peak} workers at "
        f"most; the last one left {trace.home_seconds:,.0f} s later"
    )
    return Found(
        figures={
            "scaling_of_plan": trace.seconds / plan,
            "scaling_workers": trace.peak,
            "scaling_home_s": trace.home_seconds,
        },
        details={
            "scaling, a burst": {
                "requests": requests,
                "plan": plan,
                "points": [msgspec.to_builtins(point) for point in _thin(trace.points)],
            }
        },
        notes=[said],
    )


def _configure(cloud: LocalCloud, plan: float) -> None:
    stage = Stage(
        allow_private_addresses=True,
        hosts=HostLimits(per_second=PER_SECOND, concurrency=1_000),
        fleet=FleetLimits(
            max_consumers=CEILING,
            concurrency=SLOTS,
            batch=50,
            quiet_seconds=min(90.0, plan / 4),
        ),
    )
    generation = Generation(
        starts_at=datetime.now(UTC) - timedelta(days=1), nodes=("main",), databases=("docs",)
    )
    biz = Biz(generations=(generation,), rules={"page": PAGE_RULE}, planned_seconds=plan)
    ssm: Any = boto3.client(
        "ssm",
        endpoint_url=cloud.aws_endpoint_url,
        region_name=REGION,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    documents = {"stage": stage, f"bizs/{names.DEFAULT_TENANT}/{BIZ}": biz}
    texts = {path: msgspec.json.encode(one).decode() for path, one in documents.items()}
    write_tree(ssm, STAGE, texts, delete=True)


class _Burst:
    """Submits, ticks and looks, each at its own pace."""

    def __init__(
        self,
        cloud: LocalCloud,
        site: Site,
        requests: int,
        plan: float,
        tick: Callable[[str], None],
    ) -> None:
        self._cloud = cloud
        self._urls = site.urls(requests)
        self._plan = plan
        self._tick = tick
        self._over = threading.Event()
        self._redis = RedisConnection(cloud.redis_url)
        self._submitted = self._told = 0
        self._began = 0.0
        self.points: list[Point] = []

    def run(self) -> Trace:
        """All of it, within a bounded time."""
        with self._redis, ThreadPoolExecutor(2) as pool:
            self._began = time.monotonic()
            parts = [pool.submit(self._submit), pool.submit(self._clocks)]
            try:
                self._look_on(parts)
            finally:
                self._over.set()
            for part in parts:
                part.result()
        return Trace(requests=len(self._urls), plan=self._plan, points=tuple(self.points))

    def _submit(self) -> None:
        with Client(self._cloud.api_url, self._cloud.api_key) as client:
            for first in range(0, len(self._urls), 1_000):
                part = self._urls[first : first + 1_000]
                entries = [{"url": url, "rule": "page"} for url in part]
                answers = client.submit(BIZ, entries)
                refused = [answer for answer in answers if answer.id is None]
                if refused:
                    raise BenchError(f"{len(refused)} of {len(part)} requests were refused")
                self._submitted += len(part)

    def _clocks(self) -> None:
        period = min(TICK_SECONDS, self._plan / TICKS_A_PLAN)
        while not self._over.wait(period):
            for clock in FLEET.clocks:
                answer = self._cloud.fire(clock.name)
                if answer["failed"]:
                    raise BenchError(f"{clock.name} failed: {answer['answer']}")

    def _look_on(self, parts: list["Future[None]"]) -> None:
        outlook, queue = RedisOutlook(self._redis), RedisQueue(self._redis)
        workers, staffing = RedisWorkers(self._redis), RedisStaffing(self._redis)
        consumer = names.function_name(STAGE, names.CONSUMER)
        latest, home = LATEST * self._plan, float("inf")
        while True:
            for part in parts:
                if part.done():
                    part.result()
            at, now = time.monotonic() - self._began, datetime.now(UTC)
            # Workers know of the last pages when they have stored them.
            (work,) = outlook.works([LANE], now, timedelta(days=1), 0)
            submitted = self._submitted
            standing = staffing.read(FLEET_POOL).staff
            found = self._cloud.status()["functions"][consumer]
            here = [name for name in workers.live(now) if not name.startswith("wake:")]
            point = Point(
                at=round(at, 1),
                submitted=submitted,
                done=max(0, submitted - work.backlog),
                workers=len(here),
                needed=standing.needed,
                kept=standing.kept,
                limit=found["limit"],
                rate=queue.rates(LANE, now)[1].per_5s,
            )
            self.points.append(point)
            self._tell(point)
            if point.done >= len(self._urls):
                home = min(home, at + HOME_SECONDS)
                if not here and not found["busy"]:
                    self._check()
                    return
            if at > latest or at > home:
                return
            time.sleep(max(0.0, _LOOK_SECONDS - (time.monotonic() - self._began - at)))

    def _check(self) -> None:
        """The truth has them all as done, which the index alone does not tell."""
        with Client(self._cloud.api_url, self._cloud.api_key) as client:
            states = client.stats(BIZ).states
        if states.get("done") != len(self._urls):
            raise BenchError(f"scaling: of {len(self._urls)} requests the states are {states}")

    def _tell(self, point: Point) -> None:
        tenths = 10 * point.done // len(self._urls)
        while self._told < min(tenths, STEPS):
            self._told += 1
            self._tick(f"scaling, {point.workers} workers")


#: How often a run tells that it has got on.
STEPS: Final = 10


def _thin(points: tuple[Point, ...]) -> list[Point]:
    step = max(1, -(-len(points) // POINTS))
    return [*points[:-1:step], points[-1]]


def _table(trace: Trace) -> str:
    lines = ["seconds backlog workers needed kept limit rate"]
    lines += [
        f"{p.at:7.0f} {p.backlog:7} {p.workers:7} {p.needed:6} {p.kept:4} {p.limit:5} {p.rate:4.0f}"
        for p in _thin(trace.points)[:: max(1, min(len(trace.points), POINTS) // 40)]
    ]
    return "\n".join(lines)
