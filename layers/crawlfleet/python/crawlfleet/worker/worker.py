"""The work of a submission (SPEC.md A7): lease, claim, fetch, extract, store, finish.

One worker is seven kinds of coroutines around one set of held requests::

    feeder    leases batches, claims them in the store, gets each its turn at its host
    runners   take what has its turn, download, extract; one outcome a request
    settler   stores records and outcomes in batches, then finishes, delays or drops the leases;
              tells the fleet what was seen of hosts (worker.settler, worker.telemetry)
    keeper    renews leases (worker.heartbeat), gives back what a detached worker must not keep
    heeder    lets go what is held of jobs that are being cancelled (worker.cancellation)
    chores    look whether other workers died, recover what is lost, award and expand jobs, hand out
              seeds, store items of the data queue, each in its own rounds (worker.background)
    applying  applies for jobs that wait for a worker, where the stage has that
    (jobs.bidding.bidder)

and a heart that beats in a thread of its own.

It runs until there has been nothing to do for a while, it is one too many, or the Lambda's time is
nearly out; then it hands back what it holds. Whatever it fails to write, its leases end and another
worker does it again. An exception that nobody foresaw costs the request it concerns, never the
coroutine.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Final, ParamSpec, TypeVar

from crawlfleet.config.documents.biz import FleetLimits
from crawlfleet.crawling.frontier.worker import FrontierClient
from crawlfleet.crawling.politeness.client import PolitenessClient, Waiting
from crawlfleet.crawling.politeness.hop_guard import HopGuards
from crawlfleet.crawling.politeness.local_scheduler import LocalScheduler
from crawlfleet.crawling.politeness.robots import RobotsBook
from crawlfleet.fleet.failure_detector import worth_a_look
from crawlfleet.fleet.models import WorkerStatus, WorkReport
from crawlfleet.fleet.scaling import succeed
from crawlfleet.jobs.bidding.bidder import Bidder
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.leased import NOTHING, InFlight, LeasedRequest
from crawlfleet.worker.affinity import Placing
from crawlfleet.worker.attempt import Attempts
from crawlfleet.worker.background import BackgroundTasks
from crawlfleet.worker.cancellation import CancellationWatcher, Stopper
from crawlfleet.worker.dispatcher import Beginning
from crawlfleet.worker.heartbeat import Heartbeat, Ownership
from crawlfleet.worker.in_flight import WHY_HANDED_BACK, GivingBack
from crawlfleet.worker.leases import Leasing
from crawlfleet.worker.lifecycle import Leaving, early_seconds
from crawlfleet.worker.parsing import Pace, Phases, Reading
from crawlfleet.worker.ports import WorkPorts
from crawlfleet.worker.settler import SETTLED_QUEUES, Settler
from crawlfleet.worker.telemetry import Account, ThroughputMeter
from crawlfleet.worker.usage_meter import RunMeter

#: With this much of the Lambda's time left no more is leased and waiting work is handed back.
HAND_BACK: Final = timedelta(seconds=25)
#: With this much left downloads that still run, and stores that are away, are given up.
GIVE_UP: Final = timedelta(seconds=10)
#: Where a look at an empty queue takes long the pause after it is so many times as long.
PATIENCE: Final = 10
#: Hosts that a worker names with each beat, so that others may go on there if it dies.
STATUS_HOSTS: Final = 200

#: Calls of the parts that run at once beside: lease and claim, renew, account, watch, recover,
#: sow, drain, advance, muster, heed, cancel, tell of runs, award, apply.
THREADS: Final = SETTLED_QUEUES + 14

P = ParamSpec("P")
R = TypeVar("R")


class Worker:
    """One consumer invocation. Make it, await :meth:`run` once, read the report."""

    def __init__(self, ports: WorkPorts, worker: str) -> None:
        self._ports = ports
        self._pauses, self._steady = ports.pauses, ports.steady
        self._id = worker
        stage = ports.config.current().stage
        self._limits: FleetLimits = stage.fleet
        self._detached_seconds = stage.detector.detached_seconds
        self._report = WorkReport(worker=worker)
        self._phases = Phases()
        self._throughput_meter = ThroughputMeter(self._limits.concurrency)
        self._in_flight = InFlight()
        self._scheduler = LocalScheduler(ports.steady)
        self._robots = RobotsBook(
            ports.fetcher,
            ports.robots,
            ports.clock,
            self._threaded,
            self._wait_for_slot,
            lambda: ports.config.current().stage.user_agent,
        )
        self._politeness = PolitenessClient(
            ports.hosts,
            ports.config,
            self._robots,
            self._scheduler,
            worker,
            ports.clock,
            ports.steady,
        )
        self._frontier = FrontierClient(ports.seeding, ports.clock, ports.steady)
        self._placing = Placing(ports.targets, worker, ports.config)
        self._leasing = Leasing(
            ports,
            worker,
            self._limits,
            self._report,
            self._phases,
            self._politeness,
            self._robots,
            self._frontier,
            self._placing,
        )
        doubt_seconds = worth_a_look(stage.detector).total_seconds()  # silent for less, it lives
        self._heartbeat = Heartbeat(
            ports.workers,
            worker,
            clock=ports.clock,
            seconds=stage.detector.beat_seconds,
            doubt_seconds=doubt_seconds,
            worker_status=self._worker_status,
            steady=ports.steady,
        )
        self._stopper = Stopper()
        self._ownership = Ownership(
            self._heartbeat,
            self._leasing,
            self._in_flight,
            self._report,
            self._threaded,
            doubt_seconds,
            self._stopper.stop,
            ports.pauses.owned,
            ports.steady,
        )
        self._cancellations = CancellationWatcher(
            ports.cancelling.cancellations,
            self._in_flight,
            self._stopper,
            self._leasing,
            self._report,
            self._threaded,
            ports.pauses.cancellations,
            ports.steady,
        )
        self._meter = RunMeter(ports.runs.readings, worker, ports.clock, ports.runs.idle)
        pace = Pace(self._in_flight, self._phases, ports.pauses.spell)
        self._reading = Reading(ports, pace, self._threaded)
        self._hop_guards = HopGuards(
            ports.config,
            self._politeness,
            self._robots,
            self._threaded,
            ports.pauses.turn,
            ports.steady,
        )
        self._attempts = Attempts(
            ports,
            self._report,
            self._phases,
            self._hop_guards,
            self._politeness,
            self._reading,
            self._ownership.still,
            self._meter.arrived,
        )
        self._account = Account(
            ports,
            self._phases,
            self._reading,
            self._politeness,
            self._meter,
            self._report,
            self._threaded,
            self._safely,
        )
        self._settler = Settler(
            self._in_flight,
            self._leasing,
            self._phases,
            self._report,
            self._limits,
            self._threaded,
            self._account.report_hosts,
            ports.pauses,
        )
        self._background = BackgroundTasks(
            ports,
            worker,
            self._frontier,
            self._report,
            lambda: ports.remaining() - HAND_BACK.total_seconds(),
        )
        self._applying = Bidder(
            ports.applying,
            ports.pool,
            worker,
            self._threaded,
            lambda: ports.remaining() - HAND_BACK.total_seconds(),
        )
        self._giving_back = GivingBack(self._in_flight, self._leasing, self._report, self._threaded)
        self._leaving = Leaving(ports, worker, self._heartbeat, self._background, self._threaded)
        self._beginning = Beginning(
            self._in_flight, self._scheduler, self._robots, self._leasing, self._threaded
        )
        # Not the loop's own pool: name look-ups wait there, and a slow name server must not keep
        # leases from being renewed.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="parts")
        self._started_ms = to_ms(ports.clock())
        self._hand_back_at = HAND_BACK.total_seconds()

    async def run(self) -> WorkReport:
        """Work until idle or nearly out of time; returns what was done."""
        started = self._steady.now()
        self._hand_back_at += early_seconds(self._id, self._ports.remaining())
        await self._threaded(self._heartbeat.start)
        runners = [asyncio.create_task(self._runner()) for _ in range(self._limits.concurrency)]
        settler = asyncio.create_task(self._settler.run())
        others = [
            asyncio.create_task(self._keeper()),
            asyncio.create_task(self._cancellations.run(self._account.report_hosts)),
            *(asyncio.create_task(self._repeatedly(*one)) for one in self._background.rounds()),
            asyncio.create_task(self._applying.run()),
            asyncio.create_task(self._throughput_reply()),
            asyncio.create_task(self._account.meter()),
        ]
        try:
            why = self._report.stopped_because = await self._feeder()
            await self._drain(runners, WHY_HANDED_BACK.get(why, why))
        finally:
            self._background.stop()
            tasks = (*runners, *others, *self._beginning.tasks, settler)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._applying.close()
            await self._robots.close()
            await self._settler.settle(list(self._in_flight.outcomes()))
            await self._giving_back.hand_back(self._in_flight.all(), "handed back: the worker ends")
            await self._account.report_hosts(last=True)
            await self._account.write()
            await self._account.report_runs(last=True)
            await self._call(self._background.end)
            await self._threaded(self._heartbeat.stop)
            await self._call(self._ports.workers.leave, self._id)
            await self._call(succeed, self._ports.targets, self._ports.clock, self._report)
            self._threads.shutdown(wait=False)
        self._report.seconds = self._steady.now() - started
        return self._report

    # ---- feeder --------------------------------------------------------------------------------

    async def _feeder(self) -> str:
        """Keep the runners busy; returns why no more is taken."""
        idle_since: float | None = None
        while self._ports.remaining() > self._hand_back_at:
            if self._background.is_surplus:
                return "surplus"
            if self._scheduler.waiting >= self._limits.batch or self._in_flight.full(self._limits):
                await self._steady.sleep(self._pauses.poll / 10)
                continue
            if self._is_cut_off and not self._in_flight:
                return "cut off"
            looked, least = self._steady.now(), self._pauses.poll
            try:
                # One that cannot be heard is taken for dead sooner or later: it begins nothing.
                taken = NOTHING if self._is_cut_off else await self._threaded(self._leasing.take)
            except Exception as error:  # noqa: BLE001  one lane's fault must not stop the others
                warn("no work could be leased", error)
                await self._steady.sleep(self._pauses.trouble)
                continue
            self._beginning.begin(await self._cancellations.kept(taken.held))
            if taken.entries:
                idle_since = None
                continue
            if self._in_flight:
                idle_since = None
            elif idle_since is None:
                idle_since = self._steady.now()
            elif self._steady.now() - idle_since >= self._limits.idle_seconds:
                if self._leaving.is_kept or self._applying.stays:
                    least = self._pauses.kept
                elif await self._leaving.may_leave():
                    return "idle"
                else:
                    idle_since = None
            # A look costs by the lanes: a large fleet must not keep Redis busy with looking.
            patience = PATIENCE * (self._steady.now() - looked)
            await self._steady.sleep(max(least, min(patience, self._pauses.trouble)))
        return "time"

    # ---- runners -------------------------------------------------------------------------------

    async def _runner(self) -> None:
        while (held := await self._scheduler.ready.get()) is not None:
            try:
                if self._in_flight.start(held):
                    metered = self._meter.during(
                        held.queue_key, held.claim.request.job, self._attempts.attempt(held)
                    )
                    attempt = self._throughput_meter.timed(held.queue_key, metered)
                    end = await self._stopper.run(held, attempt)
                    if end is None:
                        self._in_flight.drop(held)  # its job was cancelled, or it is another's
                    elif isinstance(end, Waiting):
                        await self._giving_back.put_aside(held, end)
                    else:
                        self._in_flight.end(held, end)
                        self._settler.more()
            finally:
                self._scheduler.end(held)

    # ---- keeper --------------------------------------------------------------------------------

    async def _keeper(self) -> None:
        renew_every = self._limits.lease_seconds / 3
        accounted = self._steady.now()
        while True:
            await self._steady.sleep(self._pauses.renew)
            # A worker that was taken to be dead, or lost with Redis, looks at once what is left.
            await self._ownership.renew(renew_every)
            if self._is_cut_off:
                # Others may have taken this worker for dead. What runs is finished, and stored if
                # it is still ours; the rest is not ours to keep. It registers anew by beating.
                why = "handed back: its worker is cut off from Redis"
                await self._giving_back.hand_back(self._in_flight.waiting(), why)
            if self._steady.now() - accounted >= self._pauses.account:
                accounted = self._steady.now()
                await self._account.write()
                # The settler does this too, but not while nothing ends.
                await self._account.report_hosts()

    @property
    def _is_cut_off(self) -> bool:
        return self._heartbeat.detached_seconds >= self._detached_seconds

    def _worker_status(self) -> WorkerStatus:
        """What this worker says of itself; called by the heart's thread."""
        return WorkerStatus(
            started_ms=self._started_ms,
            held=self._in_flight.per_queue(),
            done=self._report.done,
            failed=self._report.dead,
            pool=self._ports.pool,
            hosts=self._scheduler.hosts(STATUS_HOSTS),
        )

    # ---- watcher -------------------------------------------------------------------------------

    async def _repeatedly(self, seconds: float, look: Callable[[], object]) -> None:
        while True:
            await self._steady.sleep(seconds)
            await self._call(look)

    async def _throughput_reply(self) -> None:
        while True:
            await self._call(self._placing.look, self._ports.clock())
            await self._steady.sleep(self._pauses.report_throughput)
            await self._call(
                self._background.report_throughput,
                self._throughput_meter.throughput(),
                self._throughput_meter.throughputs(),
            )

    # ---- the end -------------------------------------------------------------------------------

    async def _drain(self, runners: Sequence[asyncio.Task[None]], why: str) -> None:
        """Hand back what has not begun, let downloads end and be stored while there is time."""
        await self._giving_back.hand_back(self._in_flight.waiting(), f"handed back: {why}")
        self._scheduler.close(len(runners))
        left = self._ports.remaining() - GIVE_UP.total_seconds()
        if left > 0:
            await asyncio.wait(runners, timeout=left)
        # What a store that is away does not get from this worker another one downloads again.
        while self._in_flight.ended and self._ports.remaining() > GIVE_UP.total_seconds():
            await self._steady.sleep(self._pauses.poll)

    async def _wait_for_slot(self, held: LeasedRequest, host: str, *, led: bool) -> None:
        await self._hop_guards.wait_for_robots_slot(held, host, led=led)

    # ---- small -----------------------------------------------------------------------------------

    async def _threaded(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a part without stopping the downloads."""
        call = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def _call(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call something whose failure must not stop the work."""
        await self._threaded(lambda: self._safely(function, *args, **kwargs))

    def _safely(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  that is what this is for
            warn("a part did not answer", error)
