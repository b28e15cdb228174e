"""The router: the REST API over the parts of its environment."""

import time
from collections.abc import Callable
from functools import cached_property, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from aws_lambda_powertools import Logger

# Used by the first submission, and imported with the handler: a Lambda has a whole processor then.
import crawlfleet.requests.mongo.store
import crawlfleet.requests.submission.mongo
import crawlfleet.requests.submission.redis  # noqa: F401  for their effect
from crawlfleet.api.app import RestApi
from crawlfleet.apps.context import Parts
from crawlfleet.config.lookup import ConfigCentre
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.settings import Need, Settings
from crawlfleet.monitoring.models import Vitals
from crawlfleet.requests.submission.service import Submissions, Tracking

if TYPE_CHECKING:
    from crawlfleet.crawling.frontier.dispatch import SeedDispatcher
    from crawlfleet.crawling.records.redis import RedisCoverages
    from crawlfleet.crawling.recrawl.mongo import MongoVisits
    from crawlfleet.crawling.trials.remote import Trials
    from crawlfleet.fleet.models import Ticked, WorkersSample
    from crawlfleet.fleet.redis.registry import RedisFailureDetector
    from crawlfleet.jobs.cancellation import JobCancellation
    from crawlfleet.jobs.mongo.lists import MongoJobReopening
    from crawlfleet.jobs.schedules.service import ScheduleService
    from crawlfleet.jobs.service import JobService
    from crawlfleet.jobs.spiders.service import SpiderService
    from crawlfleet.jobs.usage import RunUsage
    from crawlfleet.monitoring.explain.service import ExplainingPorts
    from crawlfleet.monitoring.explain.urls import UrlPorts
    from crawlfleet.monitoring.fleet_view import AtWork, HostsOfBizs
    from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook
    from crawlfleet.monitoring.sampler import Sampler
    from crawlfleet.requests.dead_letters.service import DeadLetters


T = TypeVar("T")

#: Anybody may ask for vitals: they are found at most once in so many seconds.
VITALS_SECONDS: Final = 10.0

#: Any tenant may ask for hosts, and what workers say of them is read of all tenants' at once.
AT_WORK_SECONDS: Final = 5.0


class Remembered(Generic[T]):
    """A value that is costly to find, found at most once in so many seconds; no failure is kept.

    ``clock`` is the wall clock: the monotonic one may stand still while a Lambda is frozen.
    """

    def __init__(
        self, find: Callable[[], T], seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._find = find
        self._seconds = seconds
        self._clock = clock
        self._found: tuple[float, T] | None = None
        self._lock = Lock()

    def __call__(self) -> T:
        """Return the value as it was found, at most ``seconds`` ago."""
        with self._lock:
            if self._found is None or not 0 <= self._clock() - self._found[0] < self._seconds:
                self._found = None
                found = self._find()
                self._found = self._clock(), found
            return self._found[1]


class Platform:
    """The platform as the router sees it; what it needs is imported with the first question."""

    def __init__(self, parts: Parts) -> None:
        from crawlfleet.monitoring.store_health import PartHealth

        self._parts = parts
        self._health = PartHealth(
            parts.redis, parts.nodes, lambda: parts.config.current().stage.nodes
        )
        self.vitals = Remembered(self._find_vitals, VITALS_SECONDS, self._seconds)
        self.at_work = Remembered(self._find_at_work, AT_WORK_SECONDS, self._seconds)

    def _seconds(self) -> float:
        return self._parts.now().timestamp()

    def health(self) -> dict[str, str]:
        """Check the parts that the router needs; the configuration first, as it names the nodes."""
        try:
            self._parts.config.current()
        except CrawlfleetError as error:
            warn("there is no configuration", error)
            return {"config": "cannot be read"}
        return {"config": "ok", **self._health.answers()}

    def _find_vitals(self) -> Vitals:
        from crawlfleet import __version__
        from crawlfleet.config.validation import digest_of

        parts, states = self._parts, self.health()
        revision, digest, refused, workers = "", "", True, None
        if states["config"] == "ok":
            tree = parts.config.current()
            revision, digest = tree.revision, digest_of(tree)
            refused = parts.config.refused is not None
            workers = self._headcount()
        ticked = self._ticked()
        return Vitals(
            at=parts.now(),
            version=__version__,
            stage=parts.settings.stage,
            revision=revision,
            config_digest=digest,
            config_refused=refused,
            parts=states,
            workers=workers,
            ticked=ticked,
        )

    def _headcount(self) -> "WorkersSample | None":
        from crawlfleet.fleet.models import PoolState
        from crawlfleet.fleet.redis.registry import RedisFailureDetector
        from crawlfleet.fleet.status import headcount

        parts = self._parts
        try:
            heartbeats, present = (
                RedisFailureDetector(parts.redis).heartbeats(),
                len(parts.workers.live()),
            )
            pools = [
                PoolState(pool=pool, present=len(parts.workers_of(pool.name).live()))
                for pool in parts.settings.pools
            ]
        except CrawlfleetError as error:
            warn("the workers could not be counted", error)
            return None
        limits = parts.config.current().stage.detector
        return headcount(heartbeats, limits, present=present, pools=pools)

    def _ticked(self) -> "Ticked | None":
        from crawlfleet.fleet.redis.scheduler import RedisTicks

        try:
            return RedisTicks(self._parts.redis).last()
        except CrawlfleetError as error:
            warn("the scheduler's latest tick could not be read", error)
            return None

    def _find_at_work(self) -> "AtWork":
        from crawlfleet.fleet.redis.registry import RedisFailureDetector
        from crawlfleet.monitoring.fleet_view import at_work

        return at_work(RedisFailureDetector(self._parts.redis).heartbeats())


class RouterContext:
    """api.routing.Context: services of the real parts, imported and opened at first use."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.settings = parts.settings
        self.now = parts.now

    @cached_property
    def config(self) -> ConfigCentre:
        """Return the config centre."""
        return self._parts.config

    def refusal(self) -> str | None:
        """Say why the newest configuration is not in force; None where it is."""
        from crawlfleet.apps.monitor import refusal

        return refusal(self._parts)

    def health(self) -> dict[str, str]:
        """Check the parts that the router needs, each ``ok`` or what is wrong with it."""
        return self._platform.health()

    def vitals(self) -> Vitals:
        """Find how the platform is and what it runs; it may be some seconds old."""
        return self._platform.vitals()

    @cached_property
    def _platform(self) -> Platform:

        return Platform(self._parts)

    @cached_property
    def submission(self) -> Submissions:
        """The service that submits requests."""
        from crawlfleet.apps.submissions import open_submissions

        return open_submissions(self._parts)

    @cached_property
    def tracking(self) -> Tracking:
        """The service that follows requests and reads their records."""
        parts = self._parts
        return Tracking(store=parts.store, ledgers=parts.ledgers, queue=parts.queue)

    @cached_property
    def explaining(self) -> "ExplainingPorts":
        """The ports that explaining a request needs."""
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
        """The ports that explaining a URL needs."""
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
        """The dead-letter service."""
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
    def seeds(self) -> "SeedDispatcher":
        """The frontier's seed dispatcher."""
        from crawlfleet.apps.rounds import open_seed_dispatcher

        return open_seed_dispatcher(self._parts, self.submission)

    @cached_property
    def visits(self) -> "MongoVisits":
        """The store of page visits."""
        from crawlfleet.crawling.recrawl.mongo import MongoVisits

        return MongoVisits(self._parts.nodes)

    @cached_property
    def coverage(self) -> "RedisCoverages":
        """The store of the rules' coverage."""
        from crawlfleet.crawling.records.redis import RedisCoverages

        return RedisCoverages(self._parts.redis)

    @property
    def trials(self) -> "Trials":
        """The service that tries rules."""
        return self._parts.trials

    @cached_property
    def schedules(self) -> "ScheduleService":
        """The schedule service."""
        from crawlfleet.jobs.schedules.mongo import MongoSchedules
        from crawlfleet.jobs.schedules.service import ScheduleService
        from crawlfleet.jobs.spiders.mongo import MongoSpiders

        nodes = self._parts.nodes
        return ScheduleService(schedules=MongoSchedules(nodes), spiders=MongoSpiders(nodes))

    @cached_property
    def spiders(self) -> "SpiderService":
        """The spider service."""
        from crawlfleet.jobs.mongo.store import MongoJobs
        from crawlfleet.jobs.schedules.mongo import MongoSchedules
        from crawlfleet.jobs.spiders.mongo import MongoSpiders
        from crawlfleet.jobs.spiders.service import SpiderService

        nodes = self._parts.nodes
        return SpiderService(
            spiders=MongoSpiders(nodes), schedules=MongoSchedules(nodes), jobs=MongoJobs(nodes)
        )

    @cached_property
    def jobs(self) -> "JobService":
        """The job service."""
        from crawlfleet.jobs.bidding.redis import RedisBoard
        from crawlfleet.jobs.mongo.store import MongoJobs
        from crawlfleet.jobs.service import JobService, JobStarter
        from crawlfleet.jobs.spiders.mongo import MongoSpiders

        parts = self._parts
        return JobService(
            starter=JobStarter(
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
    def cancelling(self) -> "JobCancellation":
        """The service that cancels jobs."""
        from crawlfleet.apps.rounds import open_cancellation

        return open_cancellation(self._parts)

    @cached_property
    def reopening(self) -> "MongoJobReopening":
        """The reopening of jobs that have ended, in MongoDB."""
        from crawlfleet.jobs.mongo.lists import MongoJobReopening

        return MongoJobReopening(self._parts.nodes)

    @cached_property
    def usage(self) -> "RunUsage":
        """The usage service, which answers what runs took."""
        from crawlfleet.apps.rounds import open_run_usage

        return open_run_usage(self._parts)

    @cached_property
    def detector(self) -> "RedisFailureDetector":
        """The failure detector, for the statuses of workers."""
        from crawlfleet.fleet.redis.registry import RedisFailureDetector

        return RedisFailureDetector(self._parts.redis)

    @cached_property
    def hosts(self) -> "HostsOfBizs":
        """The view of a biz's hosts."""
        from crawlfleet.crawling.politeness.redis import RedisHosts
        from crawlfleet.monitoring.fleet_view import HostsOfBizs
        from crawlfleet.requests.queue.redis.stats import RedisOverview

        redis = self._parts.redis
        return HostsOfBizs(
            at_work=self._platform.at_work, overview=RedisOverview(redis), hosts=RedisHosts(redis)
        )

    @cached_property
    def sampling(self) -> "Sampler":
        """The sampler of the whole fleet."""
        from crawlfleet.apps.monitor import sampler_over

        return sampler_over(self._parts)

    @cached_property
    def incidents(self) -> "MongoIncidentBook":
        """The store of incidents."""
        from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook

        return MongoIncidentBook(self._parts.nodes)


@lru_cache(maxsize=1)
def router(open_parts: Callable[..., Parts] = Parts) -> RestApi:
    """Open the API of this environment."""
    log = Logger(service="router")

    def context() -> RouterContext:
        needs = (Need.REDIS, Need.NODES, Need.CONSUMER, Need.ID_ISSUER)
        return RouterContext(open_parts(Settings.from_environment(needs=needs), "router"))

    return RestApi(context, lambda error: log.error("a call failed", exc_info=error))
