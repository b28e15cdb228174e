"""The monitor: one sample of everything, its metrics, and incidents with their notifications."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from crawlfleet.apps.context import Parts
from crawlfleet.apps.health import health_of, is_health_check
from crawlfleet.config.documents.biz import Stage, Tree
from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.config.documents.stage import MonitorLimits
from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.crawling.records.redis import RedisCoverages, RedisDataQueue
from crawlfleet.fleet.models import PoolState
from crawlfleet.fleet.quotas.mongo import MongoCeilings
from crawlfleet.fleet.quotas.redis import RedisQuotaLedgers
from crawlfleet.fleet.quotas.service import QuotaLedgers
from crawlfleet.fleet.recovery.orphans import count_orphaned, queues_by_tenant
from crawlfleet.fleet.redis.registry import RedisFailureDetector, RedisProxyPools
from crawlfleet.fleet.redis.scheduler import RedisBizs, RedisTicks, decided
from crawlfleet.kernel import names
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.metrics import MetricSink, SparingMetrics
from crawlfleet.kernel.settings import Need, Settings
from crawlfleet.monitoring.emf import EmfMetrics
from crawlfleet.monitoring.incidents.capacity_checks import MOST_FIRES
from crawlfleet.monitoring.incidents.detectors import hosts_to_watch
from crawlfleet.monitoring.incidents.kinds import Kind
from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook
from crawlfleet.monitoring.incidents.service import IncidentMonitor
from crawlfleet.monitoring.incidents.sns import SnsNotifier
from crawlfleet.monitoring.metrics import Emitter
from crawlfleet.monitoring.models import (
    FailedFire,
    ReceiverSample,
    Sample,
    StreamSample,
    StreamsSample,
    UnplacedJob,
    Unread,
)
from crawlfleet.monitoring.sampler import Sampler
from crawlfleet.monitoring.store_health import PartHealth
from crawlfleet.requests.queue.redis.stats import RedisOverview
from crawlfleet.requests.queue.stats import NodeHealth

if TYPE_CHECKING:
    from crawlfleet.jobs.mongo.store import MongoJobs

#: Before there has ever been a right configuration: the defaults' thresholds, and nobody's bizs.
_NOTHING = Tree(revision="", stage=Stage(), tenants={}, bizs={})


def incident_monitor(parts: Parts, metrics: MetricSink) -> IncidentMonitor:
    """Make what follows the incidents in this environment."""
    settings = parts.settings
    return IncidentMonitor(
        book=MongoIncidentBook(parts.nodes),
        notifier=SnsNotifier(
            settings.people_topic,
            settings.machines_topic,
            settings.phones_topic,
            connect=parts.outside.client,
        ),
        metrics=metrics,
        clock=parts.now,
        stage=settings.stage,
        by=f"monitor-{uuid4().hex[:12]}",
    )


#: A job that no worker suited is listed for so long; so many at most, and as many that wait.
UNPLACED_FOR: Final = timedelta(minutes=15)
MOST_UNPLACED: Final = 200
#: Silent feeds, and receivers that fail, of one sample: those that are so for longest.
MOST_STREAMS: Final = 200
_NOT_SAID: Final = "nobody has looked after it yet"


def configuration(parts: Parts) -> tuple[Tree | None, str | None]:
    """Return the configuration in force, if there is one, and why the newest is not."""
    try:
        tree = parts.config.current()
    except CrawlfleetError as error:
        warn("there is no configuration", error)
        return None, str(error)
    return tree, refusal(parts)


def refusal(parts: Parts) -> str | None:
    """Say why the newest configuration is not in force; None where it is."""
    refused = parts.config.refused
    if refused is None:
        return None
    return "; ".join(str(problem) for problem in refused.problems)


def sampler_over(parts: Parts) -> Sampler:
    """Open the sampler of this environment."""
    bizs, data = RedisBizs(parts.redis), RedisDataQueue(parts.redis)

    def orphaned(tree: Tree, _: datetime) -> tuple[int, int]:
        gone = sorted(bizs.gone(queues_by_tenant(tree)))
        return count_orphaned(gone, data, parts.queue, tree.further_pools)

    return Sampler(
        queue=parts.queue,
        overview=RedisOverview(parts.redis),
        store=parts.store,
        ledgers=parts.ledgers,
        workers=parts.workers,
        detector=RedisFailureDetector(parts.redis),
        hosts=RedisHosts(parts.redis),
        health=PartHealth(parts.redis, parts.nodes, lambda: parts.config.current().stage.nodes),
        decided=lambda: decided(parts.targets),
        orphaned=orphaned,
        ticked=RedisTicks(parts.redis).last,
        pools=lambda: pool_states(parts),
        unplaced=lambda now, terms: unplaced_jobs(_jobs(parts), now, terms),
        coverages=RedisCoverages(parts.redis).by_hour,
        proxies=RedisProxyPools(parts.redis).states,
        quotas=partial(
            QuotaLedgers(RedisQuotaLedgers(parts.redis), MongoCeilings(parts.nodes)).used_up,
            jobs=lambda *of: _jobs(parts).quota_terms_of_open(*of),
        ),
        fires=partial(failed_fires, parts),
        streams=partial(streams_sample, parts),
    )


def _jobs(parts: Parts) -> "MongoJobs":
    """Open the store of jobs, imported where a stage has bidding, or a job a quota used up."""
    from crawlfleet.jobs.mongo.store import MongoJobs

    return MongoJobs(parts.nodes)


def unplaced_jobs(jobs: "MongoJobs", now: datetime, terms: BiddingTerms) -> list[UnplacedJob]:
    """List jobs given up of late as no worker suits them, and those that wait for too long.

    Raises:
        StoreUnavailableError: the home node does not answer.
    """
    given_up = jobs.unplaced(now - UNPLACED_FOR, MOST_UNPLACED)
    waiting = jobs.waiting(now - timedelta(seconds=terms.patience_seconds), MOST_UNPLACED)
    return [
        *(
            UnplacedJob(tenant=job.tenant, biz=job.biz, job=job.name, why=job.trouble or "")
            for job in given_up
        ),
        *(
            UnplacedJob(
                tenant=job.tenant,
                biz=job.biz,
                job=job.name,
                why=job.trouble or _NOT_SAID,
                since=job.created_at,
            )
            for job in waiting
        ),
    ]


def failed_fires(parts: Parts) -> tuple[FailedFire, ...]:
    """List the last fires of schedules that have failed.

    Raises:
        StoreUnavailableError: the home node does not answer.
    """
    from crawlfleet.jobs.schedules.mongo import MongoSchedules

    return tuple(
        FailedFire(
            tenant=one.tenant,
            biz=one.biz,
            schedule=one.name,
            fire_at=one.last_outcome.fire_at,
            why=one.last_outcome.why,
        )
        for one in MongoSchedules(parts.nodes).failing(MOST_FIRES)
        if one.last_outcome is not None
    )


def streams_sample(parts: Parts, tree: Tree, now: datetime) -> StreamsSample:
    """Sample the channels of the stage that are read, silent feeds, and receivers that fail.

    Raises:
        StoreUnavailableError: the home node does not answer.
    """
    from crawlfleet.streams.delivery.mongo.waiting import MongoWaiting
    from crawlfleet.streams.feeds.mongo import MongoFeeds
    from crawlfleet.streams.reading.mongo import MongoReaders
    from crawlfleet.streams.reading.status import together
    from crawlfleet.streams.silence import silent_at

    channels = MongoReaders(parts.nodes).of(sorted(tree.stage.streams.channels))
    seen = {name: together(statuses, now) for name, statuses in channels.items()}
    return StreamsSample(
        sources=tuple(
            StreamSample(
                name=name,
                item_at=one.last_item_at,
                silent_at=silent_at(one.gaps),
                lag_p95_seconds=one.lag_p95_seconds,
                refused=one.refused,
                last_fault=one.last_fault,
            )
            for name, one in seen.items()
            if one.connections or one.refused
        ),
        silent_feeds=MongoFeeds(parts.nodes).silent(now, MOST_STREAMS),
        receivers=tuple(
            ReceiverSample(
                tenant=one.tenant, target=one.target, failing_since=one.since, error=one.error
            )
            for one in MongoWaiting(parts.nodes).failing(MOST_STREAMS)
        ),
    )


def pool_states(parts: Parts) -> list[PoolState]:
    """Return the states of the pools beside the usual one."""
    return [
        PoolState(
            pool=pool,
            present=len(parts.workers_of(pool.name).live()),
            target=decided(parts.targets, pool.name),
        )
        for pool in parts.settings.pools
    ]


class Monitor:
    """Samples everything, look by look."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        metrics = SparingMetrics(EmfMetrics(parts.settings.stage))
        self._emitter = Emitter(metrics)
        self._incidents = incident_monitor(parts, metrics)

    @cached_property
    def _sampler(self) -> Sampler:
        return sampler_over(self._parts)

    def answer(self, event: object) -> dict[str, object]:
        """Look at everything once, or answer a health check."""
        if is_health_check(event):
            return health_of(names.MONITOR, self._parts, Kind)
        return self.look()

    def look(self) -> dict[str, object]:
        """Emit one round; returns the parts that are not well, with their reasons."""
        tree, refused = configuration(self._parts)
        try:
            sampler = self._sampler
        except CrawlfleetError as error:
            seen = self._blind(error, refused)
        else:
            seen = sampler.sample(
                tree,
                self._parts.now(),
                config_refused=refused,
                watched=hosts_to_watch(self._incidents.incidents.values()),
                before=self._incidents.before,
            )
        self._emitter.emit(seen, MonitorLimits() if tree is None else tree.stage.monitor)
        self._incidents.update(seen, _NOTHING if tree is None else tree)
        return self._reported(seen)

    def _blind(self, error: CrawlfleetError, refused: str | None) -> Sample:
        """Make the sample of one without so much as the address or password of Redis."""
        warn("nothing could be looked at", error)
        return Sample(
            at=self._parts.now(),
            parts=(NodeHealth(part="redis", name="redis", up=False, error=str(error)),),
            config_refused=refused,
            unread=(Unread(what="everything", why=str(error)),),
        )

    def _reported(self, seen: Sample) -> dict[str, object]:
        unwell = {f"{look.part}:{look.name}": look.error for look in seen.parts if look.error}
        if unwell:
            self._parts.log.warning("parts are not well", extra={"unwell": unwell})
        missing = {f"{look.part}:{look.name}": look.missing for look in seen.parts if look.missing}
        if missing:
            self._parts.log.info("some figures are missing", extra={"missing": missing})
        return {"unwell": unwell, "unread": [one.what for one in seen.unread]}


@lru_cache(maxsize=1)
def monitor(open_parts: Callable[..., Parts] = Parts) -> Monitor:
    """Open the monitor of this environment."""
    settings = Settings.from_environment(needs=(Need.REDIS, Need.NODES))
    return Monitor(open_parts(settings, "monitor"))
