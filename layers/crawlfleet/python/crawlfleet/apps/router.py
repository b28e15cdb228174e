"""The router: the REST API over the parts of its environment."""

from functools import cached_property
from typing import TYPE_CHECKING

# Used by the first submission, and imported with the handler: a Lambda has a whole processor then.
import crawlfleet.requests.mongo.store
import crawlfleet.requests.submission.mongo
import crawlfleet.requests.submission.redis  # noqa: F401  for their effect
from crawlfleet.apps.context import Parts
from crawlfleet.apps.platform import PlatformServices
from crawlfleet.config.in_force import SsmConfig
from crawlfleet.requests.submission.service import Submissions
from crawlfleet.requests.submission.tracking import Tracking

if TYPE_CHECKING:
    from crawlfleet.config.versions.mongo import MongoVersions
    from crawlfleet.crawling.frontier.dispatch import SeedDispatcher
    from crawlfleet.crawling.records.redis import RedisCoverages
    from crawlfleet.crawling.recrawl.mongo import MongoVisits
    from crawlfleet.crawling.trials.remote import TrialService
    from crawlfleet.fleet.quotas.service import QuotaLedgers
    from crawlfleet.fleet.redis.registry import RedisFailureDetector, RedisProxyPools
    from crawlfleet.jobs.cancellation import JobCancellation
    from crawlfleet.jobs.mongo.lists import MongoJobReopening
    from crawlfleet.jobs.schedules.service import ScheduleService
    from crawlfleet.jobs.service import JobService
    from crawlfleet.jobs.spiders.service import SpiderService
    from crawlfleet.jobs.submitted import SubmittedJobs
    from crawlfleet.jobs.usage import RunUsage
    from crawlfleet.monitoring.explain.service import RequestExplainer
    from crawlfleet.monitoring.explain.urls import UrlExplainer
    from crawlfleet.monitoring.shares import TenantShares
    from crawlfleet.requests.dead_letters.service import DeadLetters
    from crawlfleet.requests.queue.redis.crawls import RedisCrawlLedgers
    from crawlfleet.requests.submission.transitions import Transitions
    from crawlfleet.streams.delivery.dead_letters import StreamDeadLetters
    from crawlfleet.streams.delivery.explaining import ItemExplainer
    from crawlfleet.streams.delivery.mongo.conversations import MongoConversations
    from crawlfleet.streams.feeds.callbacks import HubCallbacks
    from crawlfleet.streams.reading.seen import SeenSources
    from crawlfleet.streams.subscriptions.service import SubscriptionService
    from crawlfleet.tenancy.configuration import Configuration
    from crawlfleet.tenancy.removal import Removals
    from crawlfleet.tenancy.service import Tenants


class RouterContext(PlatformServices):
    """api.routing.Context: services of the real parts, imported and opened at first use."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.settings = parts.settings
        self.now = parts.now

    @cached_property
    def config(self) -> SsmConfig:
        """Return the config centre."""
        return self.parts.config

    @cached_property
    def submission(self) -> Submissions:
        """The service that submits requests."""
        from crawlfleet.apps.submissions import open_submissions

        return open_submissions(self.parts)

    @cached_property
    def tracking(self) -> Tracking:
        """The service that follows requests and reads their records."""
        parts = self.parts
        return Tracking(store=parts.store, ledgers=parts.ledgers, queue=parts.queue)

    @cached_property
    def transitions(self) -> "Transitions":
        """The service that changes requests to their biz's own states."""
        from crawlfleet.requests.submission.transitions import Transitions

        parts = self.parts
        return Transitions(
            store=parts.store, queue=parts.queue, workers=parts.workers, waker=parts.waker
        )

    @cached_property
    def explaining(self) -> "RequestExplainer":
        """The service that explains requests."""
        from crawlfleet.monitoring.explain.limits import QuotaExplainer
        from crawlfleet.monitoring.explain.service import RequestExplainer
        from crawlfleet.requests.mongo.ledger import MongoJournal

        parts = self.parts
        return RequestExplainer(
            store=parts.store,
            queue=parts.queue,
            journal=MongoJournal(parts.nodes),
            detector=self.detector,
            shares=self.shares,
            quotas=QuotaExplainer(self.quotas, self.jobs.starter.jobs.quota_terms),
        )

    @cached_property
    def explaining_urls(self) -> "UrlExplainer":
        """The service that explains URLs."""
        from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
        from crawlfleet.monitoring.explain.urls import UrlExplainer

        return UrlExplainer(
            requests=self.explaining,
            seeds=self.seeds,
            visits=self.visits,
            robots=RedisRobotsCache(self.parts.redis),
            hosts=RedisHosts(self.parts.redis),
        )

    @cached_property
    def dead_letters(self) -> "DeadLetters":
        """The dead-letter service."""
        from crawlfleet.requests.dead_letters.mongo import MongoDeadLetters
        from crawlfleet.requests.dead_letters.service import DeadLetters
        from crawlfleet.requests.mongo.ledger import MongoJournal

        parts = self.parts
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

        return open_seed_dispatcher(self.parts, self.submission)

    @cached_property
    def visits(self) -> "MongoVisits":
        """The store of page visits."""
        from crawlfleet.crawling.recrawl.mongo import MongoVisits

        return MongoVisits(self.parts.nodes)

    @cached_property
    def coverage(self) -> "RedisCoverages":
        """The store of the rules' coverage."""
        from crawlfleet.crawling.records.redis import RedisCoverages

        return RedisCoverages(self.parts.redis)

    @property
    def trials(self) -> "TrialService":
        """The service that tries rules."""
        from crawlfleet.apps.trying import open_trials

        return open_trials(self.parts)

    @cached_property
    def schedules(self) -> "ScheduleService":
        """The schedule service."""
        from crawlfleet.jobs.schedules.mongo import MongoSchedules
        from crawlfleet.jobs.schedules.service import ScheduleService
        from crawlfleet.jobs.spiders.mongo import MongoSpiders

        nodes = self.parts.nodes
        return ScheduleService(schedules=MongoSchedules(nodes), spiders=MongoSpiders(nodes))

    @cached_property
    def spiders(self) -> "SpiderService":
        """The spider service."""
        from crawlfleet.jobs.mongo.store import MongoJobs
        from crawlfleet.jobs.schedules.mongo import MongoSchedules
        from crawlfleet.jobs.spiders.mongo import MongoSpiders
        from crawlfleet.jobs.spiders.service import SpiderService

        nodes = self.parts.nodes
        return SpiderService(
            spiders=MongoSpiders(nodes), schedules=MongoSchedules(nodes), jobs=MongoJobs(nodes)
        )

    @cached_property
    def subscriptions(self) -> "SubscriptionService":
        """The service that keeps subscriptions to streams."""
        from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions
        from crawlfleet.streams.subscriptions.service import SubscriptionService

        return SubscriptionService(subscriptions=MongoSubscriptions(self.parts.nodes))

    @cached_property
    def undelivered(self) -> "StreamDeadLetters":
        """The dead letters of subscriptions."""
        from crawlfleet.streams.delivery.dead_letters import dead_letters_over

        return dead_letters_over(self.parts.nodes)

    @cached_property
    def conversations(self) -> "MongoConversations":
        """The conversations of items."""
        from crawlfleet.streams.delivery.mongo.conversations import MongoConversations

        return MongoConversations(self.parts.nodes)

    @cached_property
    def explaining_items(self) -> "ItemExplainer":
        """The service that explains items of streams."""
        from crawlfleet.streams.delivery.explaining import explainer_over

        return explainer_over(self.parts.nodes)

    @cached_property
    def sources(self) -> "SeenSources":
        """The sources of streams, as they are read."""
        from crawlfleet.streams.reading.seen import sources_over

        return sources_over(self.parts.nodes)

    @cached_property
    def hubs(self) -> "HubCallbacks":
        """The callbacks of hubs of feeds."""
        from crawlfleet.streams.feeds.callbacks import callbacks_over

        return callbacks_over(self.parts.nodes, self.now)

    @cached_property
    def quotas(self) -> "QuotaLedgers":
        """The ledgers of quotas."""
        from crawlfleet.apps.rounds import open_quotas

        return open_quotas(self.parts)

    @cached_property
    def jobs(self) -> "JobService":
        """The job service."""
        from crawlfleet.jobs.bidding.redis import RedisBoard
        from crawlfleet.jobs.costs.mongo import MongoHistories
        from crawlfleet.jobs.mongo.store import MongoJobs
        from crawlfleet.jobs.service import JobService, JobStarter
        from crawlfleet.jobs.spiders.mongo import MongoSpiders

        parts = self.parts
        return JobService(
            starter=JobStarter(
                jobs=MongoJobs(parts.nodes),
                spiders=MongoSpiders(parts.nodes),
                rules=self.submission.rules,
                board=RedisBoard(parts.redis),
                histories=MongoHistories(parts.nodes),
            ),
            submitted=self.submitted,
            ledgers=parts.ledgers,
            workers=parts.workers,
            waker=parts.waker,
        )

    @cached_property
    def submitted(self) -> "SubmittedJobs":
        """The jobs of what is submitted under a name."""
        from crawlfleet.crawling.frontier.mongo.store import MongoSeeds
        from crawlfleet.jobs.mongo.store import MongoJobs
        from crawlfleet.jobs.submitted import SubmittedJobs

        nodes = self.parts.nodes
        return SubmittedJobs(
            jobs=MongoJobs(nodes),
            seeds=MongoSeeds(nodes),
            store=self.parts.store,
            ledgers=self.parts.ledgers,
        )

    @cached_property
    def cancelling(self) -> "JobCancellation":
        """The service that cancels jobs."""
        from crawlfleet.apps.rounds import open_cancellation

        return open_cancellation(self.parts)

    @cached_property
    def reopening(self) -> "MongoJobReopening":
        """The reopening of jobs that have ended, in MongoDB."""
        from crawlfleet.jobs.mongo.lists import MongoJobReopening

        return MongoJobReopening(self.parts.nodes)

    @cached_property
    def usage(self) -> "RunUsage":
        """The usage service, which answers what runs took."""
        from crawlfleet.jobs.mongo.store import MongoJobs
        from crawlfleet.jobs.mongo.usage import MongoDemands
        from crawlfleet.jobs.usage import RunUsage

        nodes = self.parts.nodes
        return RunUsage(demands=MongoDemands(nodes), jobs=MongoJobs(nodes))

    @cached_property
    def detector(self) -> "RedisFailureDetector":
        """The failure detector, for the statuses of workers."""
        from crawlfleet.fleet.redis.registry import RedisFailureDetector

        return RedisFailureDetector(self.parts.redis)

    @cached_property
    def shares(self) -> "TenantShares":
        """The view of tenants' shares."""
        from crawlfleet.monitoring.shares import TenantShares

        return TenantShares(
            detector=self.detector,
            queue=self.parts.queue,
            sizes=self.submission.ceilings.sizes,
        )

    @cached_property
    def tenants(self) -> "Tenants":
        """The service that manages tenants."""
        from crawlfleet.apps.tenants import open_tenants

        return open_tenants(self.parts, self.detector)

    @cached_property
    def removals(self) -> "Removals":
        """The service that removes tenants."""
        from crawlfleet.apps.tenants import open_removals

        return open_removals(self.parts, self.tenants)

    @cached_property
    def versions(self) -> "MongoVersions":
        """The versions of the configuration."""
        from crawlfleet.config.versions.mongo import MongoVersions

        return MongoVersions(self.parts.nodes)

    @cached_property
    def configuration(self) -> "Configuration":
        """The service that changes the configuration."""
        from crawlfleet.apps.tenants import open_configuration

        return open_configuration(self.parts, self.tenants, self.versions)

    @cached_property
    def proxies(self) -> "RedisProxyPools":
        """The pools of proxies, as their workers know them."""
        from crawlfleet.fleet.redis.registry import RedisProxyPools

        return RedisProxyPools(self.parts.redis)

    @cached_property
    def crawls(self) -> "RedisCrawlLedgers":
        """The ledgers of Scrapy crawls."""
        from crawlfleet.requests.queue.redis.crawls import RedisCrawlLedgers

        return RedisCrawlLedgers(self.parts.redis)
