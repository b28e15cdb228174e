"""A run: submissions, a fleet, and harm at random, until everything is done; then the audit."""

import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from aws_lambda_powertools.shared.constants import METRICS_DISABLED_ENV
from msgspec.structs import replace

from benchmarks.chaos.audit import MOST_REPEATED, Audit, audit
from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.hands import Hands
from benchmarks.chaos.harm import Harm
from benchmarks.chaos.house import ChaosParts, World, tree_of
from benchmarks.chaos.kinds import MEANING, Kind, mixture
from benchmarks.chaos.scrapy_crawl import REQUESTS_A_PAGE, ScrapyCrawl
from benchmarks.chaos.site import Site, running_site
from benchmarks.chaos.stored import StoredRequests
from benchmarks.chaos.submitter import Submitter
from benchmarks.chaos.ticks import Ticks
from crawlfleet.config.documents.biz import FleetLimits
from crawlfleet.crawling.records.redis import RedisDataQueue
from infra.local.mongo_server import MongoServer
from infra.local.redis_server import RedisServer

_LOOK_SECONDS: Final = 0.2
#: Without a request done for so long a run is over, and has failed.
STUCK_SECONDS: Final = 120.0
#: What takes from Redis what it had.
_LOSSES: Final = frozenset({Kind.REDIS_EMPTY, Kind.REDIS_FLUSH, Kind.REDIS_ROLLBACK})
#: How long consumers may take to end when all is done, and queues to be empty.
END_SECONDS: Final = 60.0
#: Of pages downloaded again without a reason, so many are listed with all that happened to them.
_REPORTED_LIVES: Final = 40
#: Harm is done until so much of the work is done; the rest shows that all of it is got over.
HARMFUL_PART: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a run; ``seed`` decides which harm hits which worker, and in which order."""

    requests: int
    harms: int
    seed: int
    kinds: tuple[Kind, ...] = tuple(Kind)
    consumers: int = 4
    lease_seconds: float = 20.0
    #: Past what the detector waits for, and past the lease.
    freezes: tuple[float, float] = (8.0, 22.0)
    pause_seconds: float = 0.02
    tick_seconds: float = 2.0
    #: Downloads of one consumer at once.
    concurrency: int = 32
    #: How many requests may be open at once; a tenth of all, and 500 at least, if not given.
    window: int | None = None

    def again(self) -> str:
        """Get the command that repeats it."""
        kinds = "" if self.kinds == tuple(Kind) else f' KINDS="{" ".join(self.kinds)}"'
        return f"make chaos SEED={self.seed} REQUESTS={self.requests} HARMS={self.harms}{kinds}"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a run."""

    seed: int
    again: str
    requests: int
    done: int
    lost: int
    stored_twice: int
    repeated: int
    repeated_in_hand: int
    refetched_ratio: float
    #: From the start on, and from the moment on at which the last harm had been done.
    seconds: float
    recovered_seconds: float
    harms: dict[str, int]
    killed: int
    died_at: dict[str, int]
    invocations: int
    batches_repeated: int
    #: Pages of the Scrapy crawl, each of which gave an item, and its processes.
    scrapy_pages: int
    scrapy_processes: int
    ticks: dict[str, int]
    problems: tuple[str, ...]

    def reported(self) -> str:
        """The problems, and how to see them again."""
        return "\n".join([*self.problems, f"repeat it with: {self.again}"])


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers that runs use, one after another."""

    redis: RedisServer
    mongo: MongoServer
    site: Site


@contextmanager
def servers() -> Iterator[Servers]:
    """A Redis, a MongoDB of three members, a site: the run's own, as they will be killed."""
    with (
        RedisServer(own=True) as redis_server,
        MongoServer(members=3, cache_gb=0.25) as mongo_server,
        running_site() as site,
    ):
        yield Servers(redis_server, mongo_server, site)


def world_of(servers: Servers, limits: FleetLimits) -> World:
    """A world for one run: a tenant that no other run has."""
    tenant = f"c{uuid.uuid4().hex[:10]}"
    return World(redis=servers.redis.url, mongo=servers.mongo.uri, tree=tree_of(tenant, limits))


def _keeping_nobody(world: World) -> World:
    """The same world to those who would stay in it with nothing to do."""
    stage = world.tree.stage
    fleet = replace(stage.fleet, min_consumers=0)
    return replace(world, tree=replace(world.tree, stage=replace(stage, fleet=fleet)))


def run(
    plan: Plan,
    servers: Servers,
    *,
    progress: Callable[[int, str], None] = lambda _, __: None,
    log: Path | None = None,
    before_audit: Callable[[StoredRequests], None] = lambda _: None,
) -> Report:
    """Do one run. ``progress`` gets what is done and the latest harm, ``log`` every line.

    ``before_audit`` is for who wants to see that the audit finds what is wrong.
    """
    limits = FleetLimits(
        # The run keeps so many alive: none of them is one too many.
        min_consumers=plan.consumers,
        max_consumers=plan.consumers,
        requests_per_consumer=500,
        concurrency=plan.concurrency,
        batch=50,
        lease_seconds=plan.lease_seconds,
        idle_seconds=1.0,
    )
    world = world_of(servers, limits)
    servers.site.pause(plan.pause_seconds)
    with ExitStack() as stack:
        stack.enter_context(_without_metrics())
        one = _Run(plan, servers, world, stack, progress, log, before_audit)
        try:
            return one.do()
        finally:
            one.stored.drop()


@contextmanager
def _without_metrics() -> Iterator[None]:
    """Keep the schedulers' metrics, lines on standard output, out of a run's own lines."""
    before = os.environ.get(METRICS_DISABLED_ENV)
    os.environ[METRICS_DISABLED_ENV] = "true"
    try:
        yield
    finally:
        del os.environ[METRICS_DISABLED_ENV]
        if before is not None:
            os.environ[METRICS_DISABLED_ENV] = before


class _Run:
    def __init__(
        self,
        plan: Plan,
        servers: Servers,
        world: World,
        stack: ExitStack,
        progress: Callable[[int, str], None],
        log: Path | None,
        before_audit: Callable[[StoredRequests], None],
    ) -> None:
        self._plan = plan
        self._progress = progress
        self._log = log
        self._before_audit = before_audit
        self._dice = Random(plan.seed)
        self._done = 0
        self._last_batch = False
        self._harmed = time.monotonic()
        self._harms: Counter[str] = Counter()
        self._coming = mixture(plan.kinds, plan.harms, self._dice)
        self.stored = stack.enter_context(StoredRequests(world))
        self._parts = ChaosParts(world, "audit")
        stack.callback(self._parts.close)
        self._fleet = Fleet(
            # The fleet keeps them: each goes when it has nothing to do, and another comes.
            _keeping_nobody(world),
            size=plan.consumers,
            most=plan.consumers + 2,
            on_loss=self._note,
            announce=self._announce,
            log=log,
        )
        self._submitter = Submitter(
            world,
            servers.site,
            plan.requests,
            window=plan.window or max(500, plan.requests // 10),
            done=lambda: self._done,
            dice=Random(plan.seed),
            wake=self._fleet.wake,
            announce=self._announce,
            last=lambda: self._last_batch,
        )
        self._hands = Hands(self.stored, lambda: servers.site.hits(world.tenant))
        self._ticks = Ticks(world, plan.tick_seconds, self._fleet.wake, self._announce)
        self._harm = Harm(
            redis=servers.redis,
            mongo=servers.mongo,
            fleet=self._fleet,
            ticks=self._ticks,
            dice=self._dice,
            freezes=plan.freezes,
            announce=self._announce,
        )
        site = servers.site.url(f"{world.tenant}-scrapy", 0).removesuffix("/0")
        # It is there for what Redis loses; a run of other harms does without.
        loses = not _LOSSES.isdisjoint(plan.kinds)
        crawl = ScrapyCrawl(world, site, loses * plan.requests // REQUESTS_A_PAGE, log)
        self._crawl = stack.enter_context(crawl)
        self._items = RedisDataQueue(self._parts.redis)
        stack.callback(self._hands.close)
        stack.enter_context(self._fleet)
        stack.callback(self._ticks.stop)
        stack.callback(self._submitter.stop)
        stack.callback(self._harm.close)

    def do(self) -> Report:
        started = time.monotonic()
        self._submitter.start()
        self._ticks.start()
        self._fleet.report_throughput()
        problems = self._until_all_is_done()
        recovered = time.monotonic() - self._harmed
        self._harm.close()
        problems += self._until_all_is_crawled()
        problems += self._until_all_is_quiet()
        self._ticks.stop()
        self._submitter.stop()
        submitter = self._submitter
        self._before_audit(self.stored)
        found = audit(self.stored, self._parts, submitter)
        return self._report(found, problems, time.monotonic() - started, recovered)

    def _until_all_is_done(self) -> list[str]:
        """Do harm as the work gets on, so that a slow machine has no more of it than a fast one."""
        plan, coming, submitter = self._plan, self._coming, self._submitter
        due = [plan.requests * HARMFUL_PART * (n + 0.5) / plan.harms for n in range(plan.harms)]
        moved = time.monotonic()
        while self._done < plan.requests:
            done = self.stored.done()
            self._crawl.keep()
            if done > self._done:
                moved = time.monotonic()
            self._done = done
            if submitter.error is not None:
                raise submitter.error
            if time.monotonic() - moved > STUCK_SECONDS:
                return [f"stuck: {done} of {plan.requests} done"]
            # Where harm takes long, or there is little to do, all may be done before harm is due.
            out_of_work = submitter.waits and done >= len(submitter.accepted)
            # Who is to die at a step gets there before the next one is to, while there is work.
            waits = not out_of_work and self._fleet.somebody_is_armed()
            self._last_batch = not coming and not waits
            waits &= bool(coming) and coming[0].step is not None
            is_due = bool(coming) and done >= due[len(due) - len(coming)]
            if coming and (out_of_work or (is_due and not waits)):
                kind = coming.pop(0)
                self._harms[kind] += 1
                self._progress(done, kind)
                self._announce(f"at {done}: {kind}: {MEANING[kind]}")
                if kind is Kind.KILL:
                    # What befalls consumers befalls the Scrapy process, too.
                    self._crawl.kill()
                self._harm.do(kind)
                self._harmed = moved = time.monotonic()
            else:
                self._progress(done, "")
                time.sleep(_LOOK_SECONDS)
        return []

    def _until_all_is_crawled(self) -> list[str]:
        """Consumers go on until each item of the Scrapy crawl is a record."""
        least, end = self._crawl.pages, time.monotonic() + STUCK_SECONDS
        while missing := self._crawl.missing(self.stored.items):
            if len(missing) < least:
                least, end = len(missing), time.monotonic() + STUCK_SECONDS
            if time.monotonic() > end:
                some = ", ".join(missing[:_REPORTED_LIVES])
                return [f"items of the Scrapy crawl lost: {len(missing)}: {some}"]
            self._crawl.keep()
            time.sleep(_LOOK_SECONDS)
        return []

    def _until_all_is_quiet(self) -> list[str]:
        """Consumers go on until the queue has forgotten what is done; then they end."""
        end = time.monotonic() + END_SECONDS
        queue_key = self._parts.world.queue_key
        while time.monotonic() < end:
            depth = self._parts.queue.depth(queue_key)
            items = self._items.waiting([queue_key])
            if not (depth.queued or depth.leased or depth.delayed or any(items)):
                break
            time.sleep(_LOOK_SECONDS)
        if not self._fleet.dismiss(END_SECONDS):
            return [f"consumers did not end: {self._fleet.living()}"]
        return []

    def _report(
        self, found: Audit, problems: list[str], seconds: float, recovered: float
    ) -> Report:
        plan, submitter, repeats = self._plan, self._submitter, self._hands.repeats()
        ratio = repeats.needless_count / plan.requests
        if len(submitter.accepted) < plan.requests:
            problems.append(f"accepted: {len(submitter.accepted)} of {plan.requests}")
        problems += submitter.problems
        if self._fleet.failed:
            problems.append(f"consumers that ended with an error: {self._fleet.failed}")
        if ratio > MOST_REPEATED:
            problems.append(
                f"downloaded again without a reason: {repeats.needless_count} of {plan.requests} "
                f"({ratio:.2%} beside those in the hands of the killed)"
            )
        for page, count in list(repeats.needless.items())[:_REPORTED_LIVES]:
            life = self.stored.life_of(page)
            self._announce(f"page {page} was downloaded {count} times beyond: {life}")
        return Report(
            seed=plan.seed,
            again=plan.again(),
            requests=plan.requests,
            done=self._done,
            lost=found.lost,
            stored_twice=found.stored_twice,
            repeated=repeats.all,
            repeated_in_hand=repeats.all - repeats.needless_count,
            refetched_ratio=ratio,
            seconds=round(seconds, 1),
            recovered_seconds=round(recovered, 1),
            harms=dict(self._harms),
            killed=self._fleet.killed,
            died_at={str(step): count for step, count in self._fleet.died_at.items()},
            invocations=self._fleet.started,
            batches_repeated=submitter.repeated,
            scrapy_pages=self._crawl.pages,
            scrapy_processes=self._crawl.started,
            ticks={"ticks": self._ticks.ticks, **self._ticks.sums},
            problems=(*problems, *found.problems),
        )

    def _note(self, worker: str) -> None:
        self._hands.note(worker)

    def _announce(self, message: str) -> None:
        if self._log is not None:
            with self._log.open("a") as log:
                log.write(f"{time.strftime('%H:%M:%S')} {message}\n")
