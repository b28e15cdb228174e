"""What a worker needs of the world."""

from collections.abc import Callable
from dataclasses import dataclass

from crawlfleet.config.lookup import ConfigCentre
from crawlfleet.crawling.fetching.models import Fetcher
from crawlfleet.crawling.frontier.dispatch import SeedingPorts
from crawlfleet.crawling.politeness.models import Hosts, RobotsCache
from crawlfleet.crawling.records.pipeline import DrainPorts
from crawlfleet.crawling.records.ports import Coverages, Validator
from crawlfleet.crawling.recrawl.service import Visits
from crawlfleet.fleet.ports import Workers
from crawlfleet.fleet.recovery.ports import ReaperPorts, RecoveryPorts
from crawlfleet.fleet.scaling import CapacityPorts
from crawlfleet.jobs.background import AdvancingPorts
from crawlfleet.jobs.bidding.auction import AwardingPorts
from crawlfleet.jobs.bidding.bidder import BidderPorts
from crawlfleet.jobs.cancellation import CancellingPorts
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.time import PAUSES, STEADY, Clock, Pauses, SteadyTime
from crawlfleet.requests.ports import Executors, Extractor, RequestStore, RuleStore
from crawlfleet.requests.queue.ports import LeaseBook, RequestQueue
from crawlfleet.worker.usage_meter import RunPorts


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPorts:
    """The parts that a worker works on.

    ``remaining`` is the Lambda's time left, in seconds; ``jitter`` gives a number from 0 to 1;
    ``pool`` is the worker's. Its waits go by
    ``steady``, and are as long as ``pauses`` says.
    """

    config: ConfigCentre
    queue: RequestQueue
    store: RequestStore
    rules: RuleStore
    workers: Workers
    book: LeaseBook
    targets: CapacityPorts
    reaper: ReaperPorts
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
    applying: BidderPorts
    awarding: AwardingPorts
    clock: Clock
    remaining: Callable[[], float]
    jitter: Callable[[], float]
    pool: str = MAIN_POOL
    pauses: Pauses = PAUSES
    steady: SteadyTime = STEADY
