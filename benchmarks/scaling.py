"""A burst with a plan on the local cloud: how many workers come, whether they are in time (H4).

The real thing but for AWS: the router takes the burst over HTTP, functions run in processes of
their own, the scheduler's clock ticks, the consumer's concurrency is changed through Lambda's API.
One worker would be late, as the site takes its time and a worker has few downloads at once here; so
many that two cores carry them all the same. The trace is one look a second from outside.
"""

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import boto3
import msgspec
import pymongo

from benchmarks.bench import Bench, BenchError, Found
from benchmarks.house import PAGE_RULE
from benchmarks.scaling_trace import LOOK_SECONDS, Patience, Point, Trace
from benchmarks.site import Site, running_site
from benchmarks.unfinished import states_of, unfinished
from crawlfleet.config.documents.biz import Biz, FleetLimits, Generation, Stage
from crawlfleet.config.documents.policies import HostLimits
from crawlfleet.config.publishing import write_tree
from crawlfleet.fleet.models import FLEET_POOL
from crawlfleet.fleet.redis.registry import RedisWorkers
from crawlfleet.fleet.redis.scheduler import RedisScalingTargets
from crawlfleet.kernel import names
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.ids import State
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.sdk import Client
from infra.fleet import FLEET
from infra.local.aws_server import REGION
from infra.local.cloud import LocalCloud
from infra.local.state import STAGE

BIZ: Final = "burst"
QUEUE_KEY: Final = QueueKey(names.DEFAULT_TENANT, BIZ, "main")
#: Downloads that a worker has under way, and how long each takes: 16 pages a second at most.
SLOTS: Final = 8
ANSWER_SECONDS: Final = 0.5
#: What the stage allows, and what the one host may be asked for: five workers' worth.
CEILING: Final = 8
PER_SECOND: Final = 80.0
#: The clock's period, but for plans so short that no minute fits into them.
TICK_SECONDS: Final = 60.0
TICKS_A_PLAN: Final = 10
#: When a run is given up (:class:`.Patience`): the latest as a multiple of its plan, and at least.
STUCK_SECONDS: Final = 150.0
LATEST: Final = 3.0
LATEST_SECONDS: Final = 400.0
HOME_SECONDS: Final = 120.0
#: Ticks of one clock that may fail one after the other: a cloud's comes again, too.
FAILURES: Final = 3
#: What MongoDB may take to answer a look.
LOOK_MS: Final = 10_000


def run(bench: Bench) -> Found:
    """Run a burst; fail where not all is done, or workers do not come and go."""
    requests, plan = bench.scale.burst_requests, bench.scale.burst_plan_seconds
    with (
        tempfile.TemporaryDirectory(prefix="crawlfleet-bench-") as folder,
        running_site(bench.scale.pages, ANSWER_SECONDS) as site,
        LocalCloud(Path(folder) / "cloud", consumers=CEILING, ticking=False, seed=False) as cloud,
    ):
        _configure(cloud, plan)
        trace = _Burst(cloud, site, requests, plan, bench.tick).run()
    if faults := trace.faults(CEILING):
        raise BenchError(f"scaling: {'; '.join(faults)}\n{trace.table()}")
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
                "points": [msgspec.to_builtins(point) for point in trace.thin()],
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
    ssm: Any = boto3.client(
        "ssm",
        endpoint_url=cloud.aws_endpoint_url,
        region_name=REGION,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    documents = {"stage": stage, f"bizs/{names.DEFAULT_TENANT}/{BIZ}": _biz(plan)}
    texts = {path: msgspec.json.encode(one).decode() for path, one in documents.items()}
    write_tree(ssm, STAGE, texts, delete=True)


def _biz(plan: float) -> Biz:
    generation = Generation(
        starts_at=datetime.now(UTC) - timedelta(days=1), nodes=("main",), databases=("docs",)
    )
    return Biz(generations=(generation,), rules={"page": PAGE_RULE}, planned_seconds=plan)


class _Burst:
    """Submit, tick and sample, each at its own interval."""

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
        self._mongo: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
            cloud.mongo_uri, timeoutMS=LOOK_MS, tz_aware=True
        )
        self._submitted = self._reported = 0
        self._began = 0.0
        self._queue = RedisQueue(self._redis)
        self._workers, self._targets = RedisWorkers(self._redis), RedisScalingTargets(self._redis)
        self._ended, self._left = "it was over", ""
        self.points: list[Point] = []

    def run(self) -> Trace:
        """Run all of it, within a bounded time."""
        with self._redis, self._mongo, ThreadPoolExecutor(2) as pool:
            self._began = time.monotonic()
            parts = [pool.submit(self._submit), pool.submit(self._clocks)]
            try:
                self._look_on(parts)
            finally:
                self._over.set()
            for part in parts:
                part.result()
        return Trace(
            requests=len(self._urls),
            plan=self._plan,
            points=tuple(self.points),
            ended=self._ended,
            left=self._left,
        )

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
        failures: Counter[str] = Counter()
        while not self._over.wait(period):
            for clock in FLEET.clocks:
                answer = self._cloud.fire(clock.name)
                failures[clock.name] = failures[clock.name] + 1 if answer["failed"] else 0
                if failures[clock.name] >= FAILURES:
                    raise BenchError(f"{clock.name} failed {FAILURES} times: {answer['answer']}")

    def _look_on(self, parts: list["Future[None]"]) -> None:
        """Until all is done and nobody is left, or nothing gets on."""
        patience = Patience(
            requests=len(self._urls),
            stuck_seconds=STUCK_SECONDS,
            latest_seconds=max(LATEST_SECONDS, LATEST * self._plan),
            home_seconds=HOME_SECONDS,
        )
        while True:
            for part in parts:
                if part.done():
                    part.result()
            at = time.monotonic() - self._began
            if (seen := self._look(at)) is not None:
                point, busy = seen
                self.points.append(point)
                self._announce(point)
                patience.sees(point)
                if point.done >= len(self._urls) and not point.workers and not busy:
                    self._check()
                    return
            if patience.is_out(at):
                still = at - patience.moved_at
                self._ended = f"given up after {at:.0f} s, {still:.0f} s without progress"
                self._left = self._unfinished()
                return
            time.sleep(max(0.0, LOOK_SECONDS - (time.monotonic() - self._began - at)))

    def _look(self, at: float) -> tuple[Point, int] | None:
        """Sample the state, and how many environments are busy; None where a part is silent.

        MongoDB says what is done: Redis may not know of it until leases end.
        """
        now, submitted = datetime.now(UTC), self._submitted
        found = self._cloud.status()["functions"][names.function_name(STAGE, names.CONSUMER)]
        try:
            standing = self._targets.read(FLEET_POOL).target
            here = [name for name in self._workers.live(now) if not name.startswith("wake:")]
            rate = self._queue.rates(QUEUE_KEY, now)[1].per_5s
            done = states_of(self._mongo, QUEUE_KEY, _biz(self._plan))[State.DONE]
        except (StoreUnavailableError, pymongo.errors.PyMongoError):
            return None
        point = Point(
            at=round(at, 1),
            submitted=max(submitted, done),
            done=done,
            workers=len(here),
            needed=standing.needed,
            kept=standing.kept,
            limit=found["limit"],
            rate=rate,
        )
        return point, found["busy"]

    def _check(self) -> None:
        """The product says so, too."""
        with Client(self._cloud.api_url, self._cloud.api_key) as client:
            states = client.stats(BIZ).states
        if states.get("done") != len(self._urls):
            raise BenchError(f"scaling: of {len(self._urls)} requests the states are {states}")

    def _unfinished(self) -> str:
        """List where everything is, when a run is given up."""
        cloud = self._cloud
        functions = cloud.status()["functions"]
        busy = ", ".join(f"{name} {found['busy']}" for name, found in functions.items())
        reported = unfinished(cloud.mongo_uri, cloud.redis_url, QUEUE_KEY, _biz(self._plan))
        return f"environments at work: {busy}\n{reported}"

    def _announce(self, point: Point) -> None:
        tenths = 10 * point.done // len(self._urls)
        while self._reported < min(tenths, STEPS):
            self._reported += 1
            self._tick(f"scaling, {point.workers} workers")


#: Seconds between two lines of progress.
STEPS: Final = 10
