"""The work of a submission (SPEC.md A7): lease, claim, fetch, extract, store, finish.

A request's life here, step by step, in coroutines around one set of requests in flight::

    1 feed       lease a batch and claim it (worker.leases); let go what is of a cancelled job, and
                 hand the rest to the dispatcher
    2 dispatch   learn the rules of its site, get a slot at its host (worker.dispatcher)
    3 run        when its slot has come: reserve it under its quotas (fleet.quotas.spending), renew
                 the lease if it is in doubt (worker.ownership), download, read (worker.attempt);
                 one outcome a request, or a reason to wait
    4 settle     store records and outcomes in batches, then finish, delay or drop the leases
                 (worker.settler); report to the fleet how hosts did (worker.telemetry)

Beside them run the renewal of leases, the watch for cancelled jobs, the telemetry, the tasks that a
worker does for the fleet (worker.background), and a heartbeat in a thread of its own.

It runs until there has been nothing to do for a while, it is one too many, or the Lambda's time is
nearly out; then it hands back its requests. Whatever it fails to write, its leases end and another
worker does it again. An exception that nobody foresaw costs the request it concerns, never the
coroutine.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Final

from crawlfleet.crawling.politeness.client import Waiting
from crawlfleet.crawling.politeness.hop_guard import HopGuards
from crawlfleet.fleet.models import WorkReport
from crawlfleet.kernel.log import warn
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.outcomes import Outcome
from crawlfleet.worker.attempt import Attempts
from crawlfleet.worker.background import BackgroundTasks, early_seconds
from crawlfleet.worker.dispatcher import CancellationWatcher, Dispatcher
from crawlfleet.worker.heartbeat import Heartbeat
from crawlfleet.worker.leases import NOTHING, Leases
from crawlfleet.worker.ownership import Ownership
from crawlfleet.worker.session import GIVE_UP, Session, WorkerServices
from crawlfleet.worker.settler import Settler
from crawlfleet.worker.shares import is_full
from crawlfleet.worker.telemetry import Telemetry

#: Where a look at an empty queue takes long the pause after it is so many times as long.
PATIENCE: Final = 10
#: What a request's timeline says of the worker that stopped because of this.
WHY_HANDED_BACK: Final = {
    "time": "the worker's time is up",
    "surplus": "its worker is one too many",
    "cut off": "its worker is cut off from Redis",
}


class Worker:
    """A consumer invocation. Make it, await :meth:`run` once, read the report."""

    def __init__(self, services: WorkerServices, worker: str) -> None:
        self._services = services
        self._pauses, self._steady = services.pauses, services.steady
        self._runners: set[asyncio.Task[None]] = set()
        #: How many runners there are to be; those too many end after their page.
        self.employed = 0
        session = self._session = Session(services, worker)
        self._report = session.report
        self._in_flight = session.in_flight
        self._hop_guards = HopGuards(
            services.config,
            services.hosts,
            services.robots,
            services.fetcher,
            services.clock,
            worker,
            session.threaded,
            services.pauses.slot,
            services.steady,
            first=session.shares.first,
            share=session.shares.share,
            parse=session.parsed,
        )
        self._telemetry = Telemetry(session, self._hop_guards.client)
        self._leases = Leases(session, self._hop_guards)
        self._dispatcher = Dispatcher(session, self._hop_guards, self._leases)
        heartbeat = Heartbeat(session, self._hop_guards.scheduler)
        self._ownership = Ownership(session, heartbeat)
        self._cancellations = CancellationWatcher(session, self._leases, self._telemetry)
        self._attempts = Attempts(session, self._hop_guards, self._ownership, self._telemetry)
        self._settler = Settler(session, self._leases, self._telemetry)
        self._background = BackgroundTasks(
            session, heartbeat, self._leases.affinity, self._telemetry.throughput
        )

    async def run(self) -> WorkReport:
        """Work until idle or nearly out of time; returns what was done."""
        session, started = self._session, self._steady.now()
        heartbeat = self._ownership.heartbeat
        await session.threaded(heartbeat.start)
        self._employ()
        others = [
            asyncio.create_task(self._follow()),
            asyncio.create_task(self._settler.run()),
            asyncio.create_task(self._renew()),
            asyncio.create_task(self._cancellations.run()),
            asyncio.create_task(self._telemetry.run()),
            asyncio.create_task(session.spending.run()),
            *self._background.start(),
        ]
        try:
            why = self._report.stopped_because = await self._feed()
            others[0].cancel()
            await self._drain(WHY_HANDED_BACK.get(why, why))
        finally:
            self._background.stop()
            tasks = *self._runners, *others, *self._dispatcher.tasks
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._background.bidder.close()
            await self._dispatcher.close()
            await session.spending.close()
            await self._settler.settle(self._in_flight.outcomes())
            await self._dispatcher.hand_back(self._in_flight.all(), "handed back: the worker ends")
            await self._telemetry.report_hosts(last=True)
            await self._telemetry.write()
            await self._telemetry.report_usage(last=True)
            await session.call(self._background.close)
            await session.threaded(heartbeat.stop)
            await session.call(self._services.workers.leave, session.worker)
            await session.call(self._services.scaling.succeed, self._services.clock, self._report)
            session.close()
        self._report.seconds = self._steady.now() - started
        return self._report

    # ---- 1 feed --------------------------------------------------------------------------------

    async def _feed(self) -> str:
        """Keep the runners busy; returns why no more is leased."""
        heartbeat, session = self._ownership.heartbeat, self._session
        early = early_seconds(session.worker, self._services.remaining())
        idle_since: float | None = None
        look_at = 0.0
        while session.time_left() > early:
            if self._background.is_surplus:
                return "surplus"
            limits = session.limits
            waiting = self._hop_guards.scheduler.waiting()
            full = is_full(self._in_flight.by_tenant(), waiting, limits)
            if full and not (self._has_tenants and self._steady.now() >= look_at):
                await self._steady.sleep(self._pauses.poll / 10)
                continue
            if heartbeat.is_cut_off and not self._in_flight:
                return "cut off"
            looked, least = self._steady.now(), self._background.look_seconds
            try:
                # One that cannot be heard is taken for dead sooner or later: it begins nothing.
                is_cut_off = heartbeat.is_cut_off
                take = self._leases.take
                taken = NOTHING if is_cut_off else await session.threaded(take, waiting)
            except Exception as error:  # noqa: BLE001  one queue's fault must not stop the others
                warn("no requests could be leased", error)
                await self._steady.sleep(self._pauses.trouble)
                continue
            self._dispatcher.begin(await self._cancellations.kept(taken.leased))
            if self._in_flight.ended:
                self._settler.wake()
            if full and not taken.entries:
                # Of those that have their part nothing is leased; of others there is nothing.
                look_at = self._steady.now() + self._pauses.poll
                continue
            if taken.entries:
                idle_since = None
                continue
            if self._in_flight:
                idle_since = None
            elif idle_since is None:
                idle_since = self._steady.now()
            elif self._steady.now() - idle_since >= session.limits.idle_seconds:
                if self._background.is_kept or self._background.bidder.stays:
                    least = max(least, self._pauses.kept)
                elif await self._background.may_leave():
                    return "idle"
                else:
                    idle_since = None
            # A look costs by the queues: a large fleet must not keep Redis busy with looking.
            patience = PATIENCE * (self._steady.now() - looked)
            await self._steady.sleep(max(least, min(patience, self._pauses.trouble)))
        return "time"

    @property
    def _has_tenants(self) -> bool:
        """Tell whether others than those that fill this worker may have work."""
        return len(self._services.config.current().bizs) > 1

    # ---- 3 run ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Take requests whose slots have come, until there are none to come."""
        scheduler = self._hop_guards.scheduler
        while (leased := await scheduler.ready.get()) is not None:
            try:
                if self._in_flight.start(leased):
                    attempt = self._session.spending.within(leased, partial(self._attempt, leased))
                    end = await self._session.stopper.run(leased, attempt)
                    if end is None:
                        self._in_flight.drop(leased)  # its job was cancelled, or it is another's
                    elif isinstance(end, Waiting):
                        await self._dispatcher.defer(leased, end)
                    else:
                        self._in_flight.end(leased, end)
                        self._settler.wake()
            finally:
                scheduler.end(leased)

    def _attempt(self, leased: LeasedRequest) -> Awaitable[Outcome | Waiting]:
        attempt = self._attempts.attempt(leased)
        job = leased.claim.request.job
        return self._telemetry.measured(leased.queue_key, job, attempt, leased.bill)

    async def _follow(self) -> None:
        """Look for a newer configuration each second; its limits are in force from then on."""
        try:
            while True:
                await self._session.call(self._services.config.follow)
                self._employ()
                await self._steady.sleep(self._pauses.follow)
        finally:
            self._services.config.unfollow()

    def _employ(self) -> None:
        """Have as many runners as the configuration wants."""
        wanted = self._session.limits.concurrency
        self._runners |= {asyncio.create_task(self._run()) for _ in range(wanted - self.employed)}
        for one in [one for one in self._runners if one.done()]:
            self._runners.discard(one)
        self._hop_guards.scheduler.retire(self.employed - wanted)
        self._hop_guards.scheduler.ready.runners = wanted
        self.employed = self._telemetry.throughput.runners = wanted
        self._session.shares.runners = wanted

    async def _renew(self) -> None:
        """Renew leases, hand back what a cut-off worker must not keep, write the telemetry."""
        written_at = self._steady.now()
        while True:
            await self._steady.sleep(self._pauses.renew)
            # A worker that was taken to be dead, or lost with Redis, looks at once what is left.
            await self._ownership.renew()
            if self._ownership.heartbeat.is_cut_off:
                # Others may have taken this worker for dead. What runs is finished, and stored if
                # it is still ours; the rest is not ours to keep. It registers anew by beating.
                why = "handed back: its worker is cut off from Redis"
                await self._dispatcher.hand_back(self._in_flight.waiting(), why)
            if self._steady.now() - written_at >= self._pauses.account:
                written_at = self._steady.now()
                await self._telemetry.write()
                # The settler does this too, but not while nothing ends.
                await self._telemetry.report_hosts()

    async def _drain(self, why: str) -> None:
        """Hand back what has not begun, let downloads end and be stored while there is time."""
        remaining, give_up = self._services.remaining, GIVE_UP.total_seconds()
        await self._dispatcher.hand_back(self._in_flight.waiting(), f"handed back: {why}")
        self._hop_guards.scheduler.close(self.employed)
        left = remaining() - give_up
        if left > 0:
            await asyncio.wait(self._runners, timeout=left)
        # What a store that is away does not get from this worker another one downloads again.
        while self._in_flight.ended and remaining() > give_up:
            await self._steady.sleep(self._pauses.poll)
