"""What a worker needs of the world."""

from collections.abc import Callable
from dataclasses import dataclass

from crawlfleet.flows.advancing import AdvancingPorts
from crawlfleet.flows.applying import ApplyingPorts
from crawlfleet.flows.awarding import AwardingPorts
from crawlfleet.flows.cancelling import CancellingPorts
from crawlfleet.flows.pauses import PAUSES, STEADY, Pauses, SteadyTime
from crawlfleet.flows.processing import DrainPorts
from crawlfleet.flows.recovery_ports import RecoveryPorts, WatchPorts
from crawlfleet.flows.run_meter import RunPorts
from crawlfleet.flows.seeding import SeedingPorts
from crawlfleet.flows.staffing import StaffingPorts
from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.ports import (
    Clock,
    ConfigCentre,
    Coverages,
    Executors,
    Extractor,
    Fetcher,
    Hosts,
    LeaseBook,
    RequestQueue,
    RequestStore,
    RobotsCache,
    RuleStore,
    Validator,
    Visits,
    Workers,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPorts:
    """The parts that a worker works on.

    ``remaining`` is the Lambda's time left, in seconds; ``jitter`` gives a number from 0 to 1;
    ``warn`` is told what is wrong but not fatal. ``pool`` is the worker's. Its waits go by
    ``steady``, and are as long as ``pauses`` says.
    """

    config: ConfigCentre
    queue: RequestQueue
    store: RequestStore
    rules: RuleStore
    workers: Workers
    book: LeaseBook
    staffing: StaffingPorts
    watching: WatchPorts
    recovery: RecoveryPorts
    hosts: Hosts
    robots: RobotsCache
    fetcher: Fetcher
    extractor: Extractor
    executors: Executors
    validator: Validator
    coverages: Coverages
    visits: Visits
    seeding: SeedingPorts
    draining: DrainPorts
    cancelling: CancellingPorts
    advancing: AdvancingPorts
    runs: RunPorts
    applying: ApplyingPorts
    awarding: AwardingPorts
    clock: Clock
    remaining: Callable[[], float]
    jitter: Callable[[], float]
    warn: Callable[[str, Exception], None]
    pool: str = MAIN_POOL
    pauses: Pauses = PAUSES
    steady: SteadyTime = STEADY
