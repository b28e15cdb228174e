"""What a worker tells beside outcomes: phases, field coverage, what it saw of hosts, runs.

How much of itself a worker uses, and what it gets done with that (fleet.autoscaler).

What counts is what is done for good: a request that is put aside, or tried again later, costs the
time it took and is no page less to deal with.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from crawlfleet.crawling.politeness.client import PolitenessClient, Waiting
from crawlfleet.fleet.autoscaler import capacity
from crawlfleet.fleet.models import Throughput, WorkReport
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Threaded
from crawlfleet.requests.models import Coverage
from crawlfleet.requests.outcomes import Dead, Done, Outcome
from crawlfleet.worker.parsing import Phases, Reading
from crawlfleet.worker.ports import WorkPorts
from crawlfleet.worker.usage_meter import RunMeter

#: How often it is looked whether what runs take is to be read, or told.
METER_SECONDS: Final = 0.5


class Account:
    """Keeps the shared account of one worker. Used from the event loop only; never fails.

    Args:
        ports: Where it is written.
        phases: How long what took.
        reading: What was found of fields.
        courtesy: What was seen of hosts.
        meter: What jobs' runs have taken.
        report: The worker's own.
        threaded: Calls a part without stopping the event loop.
        safely: Calls something whose failure must not stop the work.
    """

    def __init__(
        self,
        ports: WorkPorts,
        phases: Phases,
        reading: Reading,
        politeness: PolitenessClient,
        meter: RunMeter,
        report: WorkReport,
        threaded: Threaded,
        safely: Callable[..., None],
    ) -> None:
        self._ports = ports
        self._phases = phases
        self._reading = reading
        self._politeness = politeness
        self._meter = meter
        self._report = report
        self._threaded = threaded
        self._safely = safely

    async def write(self) -> None:
        """Add the phases of every lane to the shared account."""
        phases = self._phases.take()
        await self._threaded(self._add_phases, phases)
        await self._threaded(self._add_coverage, self._reading.take_coverage())
        for seconds in phases.values():
            for phase, value in seconds.items():
                self._report.phases[phase] = self._report.phases.get(phase, 0.0) + value

    async def report_hosts(self, *, last: bool = False) -> None:
        """Tell the fleet what was seen of hosts; what it does not hear is told the next time.

        The last time there is no next one: permits end by themselves then, and what is lost of a
        back-off the site will say to whoever comes next.
        """
        reports = self._politeness.take_reports(last=last)
        try:
            unreported = await self._threaded(self._politeness.report, reports)
        except Exception as error:  # noqa: BLE001  whatever it is, the work goes on
            warn("what was seen of hosts could not be told yet", error)
            unreported = reports
        self._politeness.keep(unreported)

    async def meter(self) -> None:
        """Read what runs take, and tell it, for ever.

        Not the keeper's: where the home node is slow to answer leases are renewed all the same.
        """
        while True:
            await asyncio.sleep(METER_SECONDS)
            await self.report_runs()

    async def report_runs(self, *, last: bool = False) -> None:
        """Tell what jobs have taken here; what could not be told is told the next time."""
        self._meter.tick()
        parts = self._meter.take(last=last)
        if not parts:
            return
        try:
            now = self._ports.clock()
            await self._threaded(self._ports.runs.demands.add_run, parts, now)
        except Exception as error:  # noqa: BLE001  whatever it is, the work goes on
            warn("what runs have taken could not be told yet", error)
            self._meter.keep(parts)

    def _add_phases(self, phases: Mapping[QueueKey, Mapping[str, float]]) -> None:
        for queue_key, seconds in phases.items():
            self._safely(self._ports.queue.add_phases, queue_key, dict(seconds))

    def _add_coverage(self, counted: Mapping[tuple[QueueKey, str, str], Coverage]) -> None:
        for (queue_key, rule, version), coverage in counted.items():
            self._safely(self._ports.coverages.add, queue_key, rule, version, coverage)


#: A look at less than this says little: it is added to the next one.
LEAST_SECONDS: Final = 3.0
#: So many pages are one at least: fewer are chance.
LEAST_PAGES: Final = 3
#: What a lane has shown in so long without showing enough is forgotten: it is not of now.
LONGEST_SECONDS: Final = 60.0
#: Lanes that are told of at once, and of which account is kept.
QUEUES: Final = 50


class ThroughputMeter:
    """Counts what a worker's runners do. Used from its event loop.

    Args:
        runners: How many there are.
        steady: Seconds since some moment, on a clock that nobody sets.
    """

    def __init__(self, runners: int, steady: Callable[[], float] = time.perf_counter) -> None:
        self._runners = runners
        self._steady = steady
        #: Of all lanes together, from the first moment on.
        self._whole = _Account(steady(), 0.0)
        self._told = _Account(steady(), 0.0)
        self._queues: dict[str, _Account] = {}

    async def timed(
        self, queue_key: QueueKey, attempt: Awaitable[Outcome | Waiting]
    ) -> Outcome | Waiting:
        """Make the attempt, and count it."""
        self.began(queue_key)
        is_final = False
        try:
            end = await attempt
            is_final = isinstance(end, Done | Dead)
            return end
        finally:
            self.ended(queue_key, is_final=is_final)

    def began(self, queue_key: QueueKey) -> None:
        """A runner has begun with a request."""
        now = self._steady()
        self._whole.run(now, 1)
        account = self._queues.get(queue_key.path)
        if account is None and (len(self._queues) < QUEUES or self._forget_one()):
            account = self._queues[queue_key.path] = _Account(now, self._whole.spent)
        if account is not None:
            account.run(now, 1)

    def ended(self, queue_key: QueueKey, *, is_final: bool) -> None:
        """A runner is free again; whether the request is dealt with for good."""
        now = self._steady()
        for account in (self._whole, self._queues.get(queue_key.path)):
            # One that had begun before there was room for its lane is not in the account.
            if account is not None and account.running:
                account.run(now, -1)
                account.ended += is_final

    def throughput(self) -> Throughput | None:
        """What this worker can do in a second, by what it did since this was last told.

        None while that is nothing to go by.
        """
        now = self._steady()
        self._whole.run(now, 0)
        whole, told = self._whole, self._told
        passed, spent = now - told.since, whole.spent - told.spent
        if passed < LEAST_SECONDS or whole.ended - told.ended < LEAST_PAGES:
            return None
        found = capacity((whole.ended - told.ended) / passed, spent / (passed * self._runners))
        self._told = _Account(now, 0.0)
        self._told.spent, self._told.ended = whole.spent, whole.ended
        return found

    def throughputs(self) -> dict[str, Throughput]:
        """What it could do in a second of a lane alone, by ``tenant/biz``, if that is known."""
        now = self._steady()
        self._whole.run(now, 0)
        found: dict[str, Throughput] = {}
        for queue_key, account in list(self._queues.items()):
            account.run(now, 0)
            passed = now - account.since
            if passed < LEAST_SECONDS or (account.ended < LEAST_PAGES and passed < LONGEST_SECONDS):
                continue
            spent = self._whole.spent - account.all_before
            if account.ended >= LEAST_PAGES and account.spent > 0:
                # With all of the time that any had, this one would have done so many.
                alone = account.ended / passed * spent / account.spent
                throughput = capacity(alone, spent / (passed * self._runners))
                found |= {} if throughput is None else {queue_key: throughput}
            del self._queues[queue_key]
            if account.running:
                self._queues[queue_key] = _Account(now, self._whole.spent, account.running)
        return found

    def _forget_one(self) -> bool:
        """Make room for a lane, where one of which nothing runs has shown too little till now."""
        idle = next((queue_key for queue_key, one in self._queues.items() if not one.running), None)
        return idle is not None and self._queues.pop(idle) is not None


class _Account:
    """What runners do, of one lane or of all.

    Attributes:
        since: When the account was opened.
        all_before: What all runners had spent by then.
        running: How many run.
        spent: Seconds that runners have spent.
        ended: Requests that were dealt with for good.
    """

    __slots__ = ("_at", "all_before", "ended", "running", "since", "spent")

    def __init__(self, now: float, all_before: float, running: int = 0) -> None:
        self._at = self.since = now
        self.all_before = all_before
        self.running = running
        self.spent = 0.0
        self.ended = 0

    def run(self, now: float, more: int) -> None:
        """So many more run from now on."""
        self.spent += self.running * (now - self._at)
        self._at = now
        self.running += more
