"""What a worker tells beside outcomes: phases, field coverage, what it saw of hosts, runs."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from crawlfleet.flows.courtesy import Courtesy
from crawlfleet.flows.passages import Threaded
from crawlfleet.flows.phases import Phases
from crawlfleet.flows.reading import Reading
from crawlfleet.flows.run_meter import RunMeter
from crawlfleet.flows.work_ports import WorkPorts
from crawlfleet.model.harvest import Coverage
from crawlfleet.model.lane import Lane
from crawlfleet.model.worker import WorkReport

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
        courtesy: Courtesy,
        meter: RunMeter,
        report: WorkReport,
        threaded: Threaded,
        safely: Callable[..., None],
    ) -> None:
        self._ports = ports
        self._phases = phases
        self._reading = reading
        self._courtesy = courtesy
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

    async def tell_hosts(self, *, last: bool = False) -> None:
        """Tell the fleet what was seen of hosts; what it does not hear is told the next time.

        The last time there is no next one: permits end by themselves then, and what is lost of a
        back-off the site will say to whoever comes next.
        """
        reports = self._courtesy.take_reports(last=last)
        try:
            untold = await self._threaded(self._courtesy.report, reports)
        except Exception as error:  # noqa: BLE001  whatever it is, the work goes on
            self._ports.warn("what was seen of hosts could not be told yet", error)
            untold = reports
        self._courtesy.keep(untold)

    async def meter(self) -> None:
        """Read what runs take, and tell it, for ever.

        Not the keeper's: where the home node is slow to answer leases are renewed all the same.
        """
        while True:
            await asyncio.sleep(METER_SECONDS)
            await self.tell_runs()

    async def tell_runs(self, *, last: bool = False) -> None:
        """Tell what jobs have taken here; what could not be told is told the next time."""
        self._meter.tick()
        parts = self._meter.take(last=last)
        if not parts:
            return
        try:
            now = self._ports.clock()
            await self._threaded(self._ports.runs.demands.add_run, parts, now)
        except Exception as error:  # noqa: BLE001  whatever it is, the work goes on
            self._ports.warn("what runs have taken could not be told yet", error)
            self._meter.keep(parts)

    def _add_phases(self, phases: Mapping[Lane, Mapping[str, float]]) -> None:
        for lane, seconds in phases.items():
            self._safely(self._ports.queue.add_phases, lane, dict(seconds))

    def _add_coverage(self, counted: Mapping[tuple[Lane, str, str], Coverage]) -> None:
        for (lane, rule, version), coverage in counted.items():
            self._safely(self._ports.coverages.add, lane, rule, version, coverage)
