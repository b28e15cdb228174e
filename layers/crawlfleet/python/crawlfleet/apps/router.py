"""The router: the REST API over the parts of its environment."""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger

from crawlfleet.api.app import RestApi
from crawlfleet.apps.context import Parts
from crawlfleet.apps.submissions import submission_ports
from crawlfleet.config.lookup import ConfigCentre
from crawlfleet.kernel.settings import Need, Settings
from crawlfleet.monitoring.models import Vitals
from crawlfleet.requests.submission.service import Submissions, Tracking

if TYPE_CHECKING:
    from crawlfleet.apps.vitals import Platform
    from crawlfleet.crawling.frontier.dispatch import SeedingPorts
    from crawlfleet.crawling.records.coverage import CoveragePorts
    from crawlfleet.crawling.recrawl.service import Visits
    from crawlfleet.crawling.trials.remote import TryingPorts
    from crawlfleet.fleet.ports import FailureDetector
    from crawlfleet.jobs.cancellation import CancellingPorts
    from crawlfleet.jobs.ports import DemandStore, JobReopening
    from crawlfleet.jobs.schedules.service import PlanningPorts
    from crawlfleet.jobs.service import JobPorts
    from crawlfleet.jobs.spiders.service import SpiderPorts
    from crawlfleet.monitoring.explain.service import ExplainingPorts
    from crawlfleet.monitoring.explain.urls import UrlPorts
    from crawlfleet.monitoring.fleet_view import HostPorts
    from crawlfleet.monitoring.incidents.service import IncidentBook
    from crawlfleet.monitoring.sampler import SamplingPorts
    from crawlfleet.requests.dead_letters.service import DeadLetters


class RouterContext:
    """api.context.Context: ports of the real parts, imported and opened at the first call for them.

    Args:
        parts: The parts of the world.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.settings = parts.settings
        self.now = parts.now

    @cached_property
    def config(self) -> ConfigCentre:
        """The config centre."""
        return self._parts.config

    def refusal(self) -> str | None:
        """Say why the newest configuration is not in force; None where it is."""
        from crawlfleet.apps.monitor import refusal

        return refusal(self._parts)

    def health(self) -> dict[str, str]:
        """Look at the parts that the router needs, each ``ok`` or what is wrong with it."""
        return self._platform.health()

    def vitals(self) -> Vitals:
        """Find how the platform is and what it runs; it may be some seconds old."""
        return self._platform.vitals()

    @cached_property
    def _platform(self) -> "Platform":
        from crawlfleet.apps.vitals import Platform

        return Platform(self._parts)

    @cached_property
    def submission(self) -> Submissions:
        """For submitting requests."""
        return submission_ports(self._parts)

    @cached_property
    def tracking(self) -> Tracking:
        """For following requests and reading records."""
        parts = self._parts
        return Tracking(store=parts.store, ledgers=parts.ledgers, queue=parts.queue)

    @cached_property
    def explaining(self) -> "ExplainingPorts":
        """For explaining requests."""
        from crawlfleet.monitoring.explain.service import ExplainingPorts
        from crawlfleet.requests.mongo.ledger import MongoJournal

        parts = self._parts
        return ExplainingPorts(
            store=parts.store,
            queue=parts.queue,
            journal=MongoJournal(parts.nodes),
            detector=self.detector,
        )

    @cached_property
    def explaining_urls(self) -> "UrlPorts":
        """For explaining URLs."""
        from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
        from crawlfleet.monitoring.explain.urls import UrlPorts

        return UrlPorts(
            requests=self.explaining,
            seeds=self.seeds,
            visits=self.visits,
            robots=RedisRobotsCache(self._parts.redis),
            hosts=RedisHosts(self._parts.redis),
        )

    @cached_property
    def dead_letters(self) -> "DeadLetters":
        """For dead letters."""
        from crawlfleet.requests.dead_letters.mongo import MongoDeadLetters
        from crawlfleet.requests.dead_letters.service import DeadLetters
        from crawlfleet.requests.mongo.ledger import MongoJournal

        parts = self._parts
        return DeadLetters(
            dead_letters=MongoDeadLetters(parts.nodes),
            store=parts.store,
            queue=parts.queue,
            workers=parts.workers,
            waker=parts.waker,
            rules=self.submission.rules,
            journal=MongoJournal(parts.nodes),
        )

    @cached_property
    def seeds(self) -> "SeedingPorts":
        """For seeds."""
        from crawlfleet.apps.rounds import seeding_ports

        return seeding_ports(self._parts, self.submission)

    @cached_property
    def visits(self) -> "Visits":
        """For what is known of pages."""
        from crawlfleet.crawling.recrawl.mongo import MongoVisits

        return MongoVisits(self._parts.nodes)

    @cached_property
    def coverage(self) -> "CoveragePorts":
        """For the coverage of rules."""
        from crawlfleet.crawling.records.coverage import CoveragePorts
        from crawlfleet.crawling.records.redis import RedisCoverages

        return CoveragePorts(coverages=RedisCoverages(self._parts.redis))

    @cached_property
    def trials(self) -> "TryingPorts":
        """For trying rules."""
        from crawlfleet.crawling.trials.remote import TryingPorts

        return TryingPorts(trials=self._parts.trials)

    @cached_property
    def schedules(self) -> "PlanningPorts":
        """For schedules."""
        from crawlfleet.jobs.schedules.mongo import MongoSchedules
        from crawlfleet.jobs.schedules.service import PlanningPorts
        from crawlfleet.jobs.spiders.mongo import MongoSpiders

        nodes = self._parts.nodes
        return PlanningPorts(schedules=MongoSchedules(nodes), spiders=MongoSpiders(nodes))

    @cached_property
    def spiders(self) -> "SpiderPorts":
        """For spiders."""
        from crawlfleet.jobs.mongo.store import MongoJobs
        from crawlfleet.jobs.schedules.mongo import MongoSchedules
        from crawlfleet.jobs.spiders.mongo import MongoSpiders
        from crawlfleet.jobs.spiders.service import SpiderPorts

        nodes = self._parts.nodes
        return SpiderPorts(
            spiders=MongoSpiders(nodes), schedules=MongoSchedules(nodes), jobs=MongoJobs(nodes)
        )

    @cached_property
    def jobs(self) -> "JobPorts":
        """For jobs."""
        from crawlfleet.jobs.bidding.redis import RedisBoard
        from crawlfleet.jobs.mongo.store import MongoJobs
        from crawlfleet.jobs.service import JobPorts
        from crawlfleet.jobs.spiders.mongo import MongoSpiders
        from crawlfleet.jobs.starting import StartingPorts

        parts = self._parts
        return JobPorts(
            starting=StartingPorts(
                jobs=MongoJobs(parts.nodes),
                spiders=MongoSpiders(parts.nodes),
                rules=self.submission.rules,
                board=RedisBoard(parts.redis),
            ),
            ledgers=parts.ledgers,
            workers=parts.workers,
            waker=parts.waker,
        )

    @cached_property
    def cancelling(self) -> "CancellingPorts":
        """For cancelling jobs."""
        from crawlfleet.apps.rounds import cancelling_ports

        return cancelling_ports(self._parts)

    @cached_property
    def reopening(self) -> "JobReopening":
        """For retrying jobs that have ended."""
        from crawlfleet.jobs.mongo.reopening import MongoJobReopening

        return MongoJobReopening(self._parts.nodes)

    @cached_property
    def demands(self) -> "DemandStore":
        """For what runs took."""
        from crawlfleet.jobs.mongo.usage import MongoDemands

        return MongoDemands(self._parts.nodes)

    @cached_property
    def detector(self) -> "FailureDetector":
        """For the statuses of workers."""
        from crawlfleet.fleet.redis.registry import RedisFailureDetector

        return RedisFailureDetector(self._parts.redis)

    @cached_property
    def hosts(self) -> "HostPorts":
        """For the hosts of a biz."""
        from crawlfleet.crawling.politeness.redis import RedisHosts
        from crawlfleet.monitoring.fleet_view import HostPorts
        from crawlfleet.requests.queue.redis.stats import RedisOverview

        redis = self._parts.redis
        return HostPorts(
            at_work=self._platform.at_work, overview=RedisOverview(redis), hosts=RedisHosts(redis)
        )

    @cached_property
    def sampling(self) -> "SamplingPorts":
        """For the sample of the whole fleet."""
        from crawlfleet.apps.monitor import sampling_ports

        return sampling_ports(self._parts)

    @cached_property
    def incidents(self) -> "IncidentBook":
        """For incidents."""
        from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook

        return MongoIncidentBook(self._parts.nodes)


@lru_cache(maxsize=1)
def router(open_parts: Callable[..., Parts] = Parts) -> RestApi:
    """The API of this environment."""
    log = Logger(service="router")

    def context() -> RouterContext:
        needs = (Need.REDIS, Need.NODES, Need.CONSUMER, Need.ID_ISSUER)
        return RouterContext(open_parts(Settings.from_environment(needs=needs), "router"))

    return RestApi(context, lambda error: log.error("a call failed", exc_info=error))
