"""The scheduler: due schedules, recovery, staffing, each on its own."""

from collections.abc import Callable
from functools import lru_cache

from crawlfleet.adapters.mongo.schedules import MongoSchedules
from crawlfleet.errors import CrawlfleetError
from crawlfleet.flows.recovery import RecoveryPorts, recover
from crawlfleet.flows.scheduling import run_due
from crawlfleet.flows.staffing import staff
from crawlfleet.settings import Need, Settings
from crawlfleet.wiring.parts import Parts, now
from crawlfleet.wiring.submissions import submission_ports


class Scheduler:
    """One tick's work."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._submission = submission_ports(parts)
        self._schedules = MongoSchedules(parts.nodes)
        self._recovery = RecoveryPorts(store=parts.store, queue=parts.queue, warn=parts.warn)

    def tick(self, time_left: Callable[[], float]) -> dict[str, int]:
        """Do all three; one that fails does not keep the others from running.

        ``time_left`` is in seconds. Consumers come last, because the others make work for them.
        """
        parts, tree = self._parts, self._parts.config.current()
        done: dict[str, int] = {}
        try:
            fires, requests = run_due(self._submission, self._schedules, tree, now(), time_left)
            done |= {"fires": fires, "requests": requests}
        except Exception as error:  # noqa: BLE001  recovery and staffing must go on
            parts.warn("schedules could not be run", error)
        recovered = recover(self._recovery, tree, now(), time_left)
        done |= {"requeued": recovered.requeued, "expired": recovered.expired}
        try:
            started = staff(parts.queue, parts.workers, parts.waker, tree, now)
            done["started"] = started
        except CrawlfleetError as error:
            parts.warn("consumers could not be started", error)
        parts.log.info("ticked", extra=done)
        return done


@lru_cache(maxsize=1)
def scheduler() -> Scheduler:
    """The scheduler of this environment."""
    needs = (Need.REDIS, Need.NODES, Need.CONSUMER, Need.ID_ISSUER)
    return Scheduler(Parts(Settings.from_environment(needs=needs), "scheduler"))
