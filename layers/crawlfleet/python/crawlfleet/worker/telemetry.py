"""Telemetry of a worker: phases, field coverage, hosts, usage of jobs, throughput.

Throughput counts what is done for good (fleet.autoscaler): a request that is deferred, or tried
again later, costs the time it took and is no page less to deal with.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from crawlfleet.crawling.politeness.client import PolitenessClient, Waiting
from crawlfleet.fleet.autoscaler import capacity
from crawlfleet.fleet.models import Throughput
from crawlfleet.fleet.prices import Measured, cost_of, prices_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.leased import Bill
from crawlfleet.requests.models import Coverage
from crawlfleet.requests.outcomes import Dead, Done, Outcome
from crawlfleet.worker.session import CoverageKey, Session, safely
from crawlfleet.worker.usage_meter import UsageMeter

#: Between two looks whether usage is to be read, or reported.
USAGE_SECONDS: Final = 0.5


class Telemetry:
    """The figures of one worker. Used from the event loop only; never fails."""

    def __init__(self, session: Session, politeness: PolitenessClient) -> None:
        services = self._services = session.services
        self._session = session
        self._politeness = politeness
        self.usage = UsageMeter(
            services.readings,
            session.worker,
            services.clock,
            services.idle,
            gb=services.memory_gb,
            priced=self._priced,
        )
        self.throughput = ThroughputMeter(session.limits.concurrency)

    def _priced(self, figures: Measured) -> float:
        """Return what was measured in US dollars, at the stage's prices of now."""
        return cost_of(figures, prices_of(self._services.config.current().stage.prices)).usd

    def measured(
        self,
        queue_key: QueueKey,
        job: str | None,
        attempt: Awaitable[Outcome | Waiting],
        bill: Bill | None = None,
    ) -> Awaitable[Outcome | Waiting]:
        """Return the attempt with its usage, its throughput and its tenant's share measured."""
        during = self.usage.during(queue_key, job, attempt, bill)
        return self._shared(queue_key.tenant, self.throughput.timed(queue_key, during))

    async def _shared(
        self, tenant: str, attempt: Awaitable[Outcome | Waiting]
    ) -> Outcome | Waiting:
        shares, started = self._session.shares, self._services.steady.now()
        shares.began(tenant)
        try:
            return await attempt
        finally:
            shares.ended(tenant, self._services.steady.now() - started)

    async def write(self) -> None:
        """Add the phases and the coverage of every queue to the shared account."""
        account, report = self._session.account, self._session.report
        phases = account.take_phases()
        await self._session.threaded(self._write, phases, account.take_coverage())
        for seconds in phases.values():
            for phase, value in seconds.items():
                report.phases[phase] = report.phases.get(phase, 0.0) + value

    def _write(
        self,
        phases: Mapping[QueueKey, Mapping[str, float]],
        coverage: Mapping[CoverageKey, Coverage],
    ) -> None:
        for queue_key, seconds in phases.items():
            safely(self._services.queue.add_phases, queue_key, dict(seconds))
        for (queue_key, rule, version), counted in coverage.items():
            safely(self._services.coverages.add, queue_key, rule, version, counted)

    async def report_hosts(self, *, last: bool = False) -> None:
        """Report to the fleet how hosts did; what does not arrive is reported the next time.

        The last time there is no next one: permits end by themselves then, and what is lost of a
        back-off the site will say to whoever comes next.
        """
        reports = self._politeness.take_reports(last=last)
        try:
            unreported = await self._session.threaded(self._politeness.report, reports)
        except Exception as error:  # noqa: BLE001  whatever it is, the work goes on
            warn("how hosts did could not be reported yet", error)
            unreported = reports
        self._politeness.keep(unreported)

    async def run(self) -> None:
        """Read the usage of jobs, and report it, for ever.

        Beside the renewal of leases: that goes on where the home node is slow to answer.
        """
        while True:
            await asyncio.sleep(USAGE_SECONDS)
            await self.report_usage()

    async def report_usage(self, *, last: bool = False) -> None:
        """Report what jobs have used here; what does not arrive is reported the next time."""
        self.usage.tick()
        parts = self.usage.take(last=last)
        if not parts:
            return
        try:
            now = self._services.clock()
            await self._session.threaded(self._services.demands.add_run, parts, now)
        except Exception as error:  # noqa: BLE001  whatever it is, the work goes on
            warn("the usage of jobs could not be reported yet", error)
            self.usage.keep(parts)


#: A shorter time says little: it is added to the next one.
LEAST_SECONDS: Final = 3.0
#: So many pages are one at least: fewer are chance.
LEAST_PAGES: Final = 3
#: What a queue has shown in so long without showing enough is forgotten: it is not of now.
LONGEST_SECONDS: Final = 60.0
#: Queues that are reported at once, and of which account is kept.
QUEUES: Final = 50


class ThroughputMeter:
    """Counts what a worker's runners do. Used from its event loop."""

    def __init__(self, runners: int, steady: Callable[[], float] = time.perf_counter) -> None:
        #: How many there are; the worker changes it as its configuration does.
        self.runners = runners
        self._steady = steady
        #: Of all queues together, from the first moment on.
        self._whole = _Account(steady(), 0.0)
        self._reported = _Account(steady(), 0.0)
        self._queues: dict[str, _Account] = {}

    async def timed(
        self, queue_key: QueueKey, attempt: Awaitable[Outcome | Waiting]
    ) -> Outcome | Waiting:
        """Make the attempt and count it."""
        self.began(queue_key)
        is_final = False
        try:
            end = await attempt
            is_final = isinstance(end, Done | Dead)
            return end
        finally:
            self.ended(queue_key, is_final=is_final)

    def began(self, queue_key: QueueKey) -> None:
        """Note that a runner has begun with a request."""
        now = self._steady()
        self._whole.run(now, 1)
        account = self._queues.get(queue_key.path)
        if account is None and (len(self._queues) < QUEUES or self._forget_one()):
            account = self._queues[queue_key.path] = _Account(now, self._whole.spent)
        if account is not None:
            account.run(now, 1)

    def ended(self, queue_key: QueueKey, *, is_final: bool) -> None:
        """Note that a runner is free again, and whether the request is dealt with for good."""
        now = self._steady()
        for account in (self._whole, self._queues.get(queue_key.path)):
            # One that had begun before there was room for its queue is not in the account.
            if account is not None and account.running:
                account.run(now, -1)
                account.ended += is_final

    def throughput(self) -> Throughput | None:
        """Return what this worker can do in a second, by what it did since the last report.

        None while that is nothing to go by.
        """
        now = self._steady()
        self._whole.run(now, 0)
        whole, reported = self._whole, self._reported
        passed, spent = now - reported.since, whole.spent - reported.spent
        if passed < LEAST_SECONDS or whole.ended - reported.ended < LEAST_PAGES:
            return None
        found = capacity((whole.ended - reported.ended) / passed, spent / (passed * self.runners))
        self._reported = _Account(now, 0.0)
        self._reported.spent, self._reported.ended = whole.spent, whole.ended
        return found

    def throughputs(self) -> dict[str, Throughput]:
        """Return what it could do in a second of each queue alone, by ``tenant/biz``, if known."""
        now = self._steady()
        self._whole.run(now, 0)
        found: dict[str, Throughput] = {}
        for path, account in list(self._queues.items()):
            account.run(now, 0)
            passed = now - account.since
            if passed < LEAST_SECONDS or (account.ended < LEAST_PAGES and passed < LONGEST_SECONDS):
                continue
            spent = self._whole.spent - account.all_before
            if account.ended >= LEAST_PAGES and account.spent > 0:
                # With all of the time that any had, this one would have done so many.
                alone = account.ended / passed * spent / account.spent
                throughput = capacity(alone, spent / (passed * self.runners))
                found |= {} if throughput is None else {path: throughput}
            del self._queues[path]
            if account.running:
                self._queues[path] = _Account(now, self._whole.spent, account.running)
        return found

    def _forget_one(self) -> bool:
        """Make room for a queue, where one of which nothing runs has shown too little till now."""
        idle = next((path for path, one in self._queues.items() if not one.running), None)
        return idle is not None and self._queues.pop(idle) is not None


class _Account:
    """The work of runners, of one queue or of all, since the account was opened.

    ``all_before`` is what all runners had spent by then; ``spent`` are seconds, ``ended`` requests
    that were dealt with for good.
    """

    __slots__ = ("_at", "all_before", "ended", "running", "since", "spent")

    def __init__(self, now: float, all_before: float, running: int = 0) -> None:
        self._at = self.since = now
        self.all_before = all_before
        self.running = running
        self.spent = 0.0
        self.ended = 0

    def run(self, now: float, more: int) -> None:
        """Note that so many more run from now on."""
        self.spent += self.running * (now - self._at)
        self._at = now
        self.running += more
