"""The phases of a run: filled, looked at while full, drained, checked, expired."""

import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.bench import BenchError
from benchmarks.house import BIZ, QUEUE_KEY, TENANT
from benchmarks.lookup import look_up
from benchmarks.routing import Router
from benchmarks.volume import checks, full
from benchmarks.volume.checks import Fingerprint
from benchmarks.volume.children import Children
from benchmarks.volume.meters import Look, Meters, Used
from benchmarks.volume.plan import Plan, Task
from crawlfleet.apps.context import now
from crawlfleet.config.documents.biz import Tree
from infra.local.mongo_server import MongoServer
from infra.local.redis_server import RedisServer

#: Look-ups at each look while workers drain.
_LOOKUPS_A_LOOK: Final = 10
#: How old a request has to be to be removed in the last phase, and how often MongoDB looks.
_TTL_SECONDS: Final = 1
_TTL_LOOK_SECONDS: Final = 1


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one phase: seconds, and CPU seconds of each part."""

    name: str
    requests: int
    seconds: float
    cpu: dict[str, float]

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds

    @property
    def cores(self) -> dict[str, float]:
        """Get how many cores each part kept busy."""
        return {part: spent / self.seconds for part, spent in self.cpu.items()}


class Result(msgspec.Struct, kw_only=True):
    """The result of a run; ``problems`` is empty where nothing was lost."""

    plan: Plan
    phases: list[Phase] = []
    looks: list[Look] = []
    full_lookups: dict[str, float] = {}
    draining_lookups: dict[str, float] = {}
    operations: dict[str, float] = {}
    refill_seconds: float | None = None
    submitters: list[dict[str, Any]] = []
    workers: list[dict[str, Any]] = []
    sizes_full: dict[str, int] = {}
    sizes_done: dict[str, int] = {}
    peak_disk_bytes: int = 0
    looked_for: int = 0
    refused: int = 0
    problems: list[str] = []

    def phase(self, name: str) -> Phase:
        """The phase of that name."""
        return next(phase for phase in self.phases if phase.name == name)


#: Called with a phase and how much of it is done.
Progress = Callable[[str, int, int], None]


def room_for(plan: Plan, folder: Path) -> None:
    """See that the disk and the memory hold it.

    Raises:
        BenchError: they do not; says how much it takes.
    """
    free = shutil.disk_usage(folder).free
    if free < plan.disk_bytes:
        raise BenchError(
            f"{plan.requests:,} requests take up to {plan.disk_bytes / 1e9:.1f} GB of the disk, "
            f"and {free / 1e9:.1f} GB are free: ask for fewer, or name another --folder"
        )
    memory = _free_memory()
    if memory is not None and memory < plan.memory_bytes:
        raise BenchError(
            f"{plan.requests:,} requests take up to {plan.memory_bytes / 1e9:.1f} GB of memory, "
            f"and {memory / 1e9:.1f} GB are free: ask for fewer, or for a smaller --cache-gb"
        )


def _free_memory(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def run(plan: Plan, folder: Path, progress: Progress) -> Result:
    """Run a plan in an empty folder, on servers of its own.

    Raises:
        BenchError: it could not be done, or took too long.
    """
    room_for(plan, folder)
    with ExitStack() as stack:
        data = folder / "mongo"
        redis_server = stack.enter_context(RedisServer(own=True))
        mongo_server = stack.enter_context(
            MongoServer(
                data,
                cache_gb=plan.cache_gb,
                own=True,
                log_dir=folder,
                parameters={"ttlMonitorSleepSecs": _TTL_LOOK_SECONDS},
            )
        )
        task = Task(plan=plan, redis=redis_server.url, mongo=mongo_server.uri)
        router = Router(task.addresses, plan.tree())
        stack.callback(router.close)
        meters = Meters(task, data, router)
        stack.callback(meters.close)
        return _Run(task, folder, router, meters, progress).do()


class _Run:
    def __init__(
        self, task: Task, folder: Path, router: Router, meters: Meters, progress: Progress
    ) -> None:
        self._task = task
        self._plan = task.plan
        self._folder = folder
        self._router = router
        self._meters = meters
        self._progress = progress
        self._end = time.monotonic() + self._plan.seconds
        self._found = Result(plan=self._plan)
        self._accepted = Fingerprint()
        self._sample: list[str] = []

    def do(self) -> Result:
        # As the scheduler does within a minute of a biz's first submission: a queue that was never
        # made sure of is filled from MongoDB, whatever it holds.
        full.recover_once(self._router)
        self._fill()
        self._look_while_full()
        self._drain()
        self._check()
        if self._plan.expire:
            self._expire()
        self._found.looks = self._meters.looks
        self._found.peak_disk_bytes = max(look.disk_bytes for look in self._meters.looks)
        return self._found

    @contextmanager
    def _phase(self, name: str) -> Iterator[dict[str, float]]:
        """Measure a phase; what is put into the dictionary is CPU of others than the servers.

        ``seconds`` in it replaces the phase's own: processes take a while to start.
        """
        own: dict[str, float] = {}
        before, mine = self._meters.used(), _own_cpu()
        yield own
        after = self._meters.used()
        seconds = own.pop("seconds", after.at - before.at)
        self._found.phases.append(
            Phase(
                name=name,
                requests=self._plan.requests,
                seconds=seconds,
                cpu=_shares(before, after, own, _own_cpu() - mine, seconds),
            )
        )

    def _fill(self) -> None:
        with (
            self._phase("submit") as cpu,
            Children(
                "benchmarks.volume.submitter", self._plan.submitters, self._task, self._folder
            ) as submitters,
        ):
            self._watch(submitters, "submit", lambda look: look.submitted)
            answers = submitters.answers()
            cpu["submitters"] = sum(answer["working_cpu"] for answer in answers)
            cpu["seconds"] = max(answer["seconds"] for answer in answers)
        for answer in answers:
            more = answer.pop("more")
            self._accepted.merge(msgspec.convert(more["fingerprint"], Fingerprint))
            self._sample += more["sample"]
            self._found.refused += int(answer["refused"])
        self._found.submitters = answers
        self._progress("submit", self._accepted.count, self._plan.requests)
        if self._accepted.count != self._plan.requests:
            raise BenchError(f"{self._accepted.count} of {self._plan.requests} were accepted")

    def _watch(
        self,
        children: Children,
        phase: str,
        done: Callable[[Look], int],
        beside: Callable[[], None] = lambda: None,
    ) -> None:
        """Look until the children have ended."""
        looked = float("-inf")
        while children.running:
            if time.monotonic() - looked >= self._plan.look_seconds:
                looked = time.monotonic()
                self._progress(phase, done(self._meters.look(phase)), self._plan.requests)
                beside()
            self._mind_the_time(phase)
            time.sleep(0.05)

    def _mind_the_time(self, phase: str) -> None:
        if time.monotonic() > self._end:
            raise BenchError(f"given up after {self._plan.seconds:,.0f} s, while in {phase!r}")

    def _look_while_full(self) -> None:
        self._meters.look("full")
        found = self._found
        found.sizes_full = self._meters.sizes()
        found.full_lookups = full.latencies(self._router, self._sample, self._plan.lookups)
        found.operations = full.operations(self._router, self._sample)
        ledger = checks.audit_of(self._router)
        if ledger.difference or ledger.pending != self._plan.requests:
            found.problems.append(f"while full the ledger is {ledger}")
        if self._plan.lose_redis:
            found.refill_seconds = full.refill(
                self._router,
                self._plan.requests,
                lambda queued: self._progress("refill", queued, self._plan.requests),
            )

    def _drain(self) -> None:
        times: list[float] = []

        def look_some_up() -> None:
            spread = max(1, len(self._sample) // _LOOKUPS_A_LOOK)
            some = self._sample[len(times) % spread :: spread][:_LOOKUPS_A_LOOK]
            times.extend(look_up(self._router, an_id) * 1_000 for an_id in some)

        with (
            self._phase("drain") as cpu,
            Children(
                "benchmarks.volume.worker", self._plan.workers, self._task, self._folder
            ) as workers,
        ):
            self._watch(workers, "drain", lambda look: look.done, look_some_up)
            answers = workers.answers()
            cpu["workers"] = sum(answer["working_cpu"] for answer in answers)
            # They end when there has been nothing to do for a while: that is not work.
            idle = self._router.parts.config.current().stage.fleet.idle_seconds
            cpu["seconds"] = max(answer["seconds"] for answer in answers) - idle
        self._found.workers = answers
        self._found.draining_lookups = full.percentiles(times)
        self._found.sizes_done = self._meters.sizes()
        self._progress("drain", self._meters.look("drained").done, self._plan.requests)

    def _check(self) -> None:
        found, total = self._found, len(self._sample)
        found.problems += checks.problems_of_queue(self._router)
        found.problems += checks.problems_of_ledger(
            checks.audit_of(self._router), self._accepted.count
        )
        found.problems += checks.problems_of_ids(self._meters.mongo, self._accepted)
        for at, an_id in enumerate(self._sample, 1):
            found.problems += checks.problems_of_one(self._router, an_id)
            if at == total or at % 500 == 0:
                self._progress("check", at, total)
                self._mind_the_time("check")
        found.looked_for = total

    def _expire(self) -> None:
        """Have everything removed by MongoDB's TTL, as it is in the end; the ledger remembers."""
        tree = self._aged_tree()
        with self._phase("expire"):
            biz = tree.bizs[TENANT][BIZ]
            self._router.parts.store.expire(QUEUE_KEY, biz, now())
            while (look := self._meters.look("expire")).left:
                self._progress("expire", self._plan.requests - look.left, self._plan.requests)
                self._mind_the_time("expire")
                time.sleep(self._plan.look_seconds)
        self._progress("expire", self._plan.requests, self._plan.requests)
        ledger = self._router.parts.ledgers.audit(QUEUE_KEY, biz, now())
        self._found.problems += checks.problems_of_ledger(ledger, self._accepted.count)
        records = checks.collections(self._meters.mongo, "records")
        kept = sum(one.estimated_document_count() for one in records)
        if kept != self._accepted.count:
            self._found.problems.append(f"{kept} of {self._accepted.count} records are kept")

    def _aged_tree(self) -> Tree:
        tree = self._plan.tree()
        biz = msgspec.structs.replace(
            tree.bizs[TENANT][BIZ], ttl_seconds=_TTL_SECONDS, expiry_grace_seconds=0
        )
        return msgspec.structs.replace(tree, bizs={TENANT: {BIZ: biz}})


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _shares(
    before: Used, after: Used, own: dict[str, float], mine: float, seconds: float
) -> dict[str, float]:
    """CPU seconds by part; of what else ran, the part of the time in which the work was done."""
    passed = after.at - before.at
    servers = {"mongodb": after.mongodb - before.mongodb, "redis": after.redis - before.redis}
    ours = sum(own.values()) + sum(servers.values()) + mine
    others = max(0.0, after.machine - before.machine - ours)
    part = min(1.0, seconds / passed)
    return {**own, **servers, "measuring": mine * part, "others": others * part}
