"""What a worker tells beside outcomes: phases, field coverage, what it saw of hosts."""

from collections.abc import Callable, Mapping

from crawlfleet.flows.courtesy import Courtesy
from crawlfleet.flows.passages import Threaded
from crawlfleet.flows.phases import Phases
from crawlfleet.flows.reading import Reading
from crawlfleet.flows.work_ports import WorkPorts
from crawlfleet.model.harvest import Coverage
from crawlfleet.model.lane import Lane
from crawlfleet.model.worker import WorkReport


class Account:
    """Keeps the shared account of one worker. Used from the event loop only; never fails.

    Args:
        ports: Where it is written.
        phases: How long what took.
        reading: What was found of fields.
        courtesy: What was seen of hosts.
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
        report: WorkReport,
        threaded: Threaded,
        safely: Callable[..., None],
    ) -> None:
        self._ports = ports
        self._phases = phases
        self._reading = reading
        self._courtesy = courtesy
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

    def _add_phases(self, phases: Mapping[Lane, Mapping[str, float]]) -> None:
        for lane, seconds in phases.items():
            self._safely(self._ports.queue.add_phases, lane, dict(seconds))

    def _add_coverage(self, counted: Mapping[tuple[Lane, str, str], Coverage]) -> None:
        for (lane, rule, version), coverage in counted.items():
            self._safely(self._ports.coverages.add, lane, rule, version, coverage)
