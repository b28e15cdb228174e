"""The router's calls about seeds: each is a flow, given the configuration in force and the time.

The router's calls about the platform itself: health, the fleet, hosts.

The router's calls about spiders: each is a flow, given the configuration in force.
"""

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from crawlfleet import __version__
from crawlfleet.apps.context import Parts
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.frontier.models import Offer, Offered, Seed, SeedsMeant, SeedTotals
from crawlfleet.fleet.models import PoolState, WorkersSample
from crawlfleet.jobs.spiders.models import ConfiguredSpider, KeptSpider, SpiderPlan
from crawlfleet.kernel.errors import CrawlfleetError, InvalidRequestError
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.monitoring.models import HostSample, Sample, Vitals
from crawlfleet.monitoring.store_health import PartHealth
from crawlfleet.requests.submission.service import SubmissionPorts

if TYPE_CHECKING:
    from crawlfleet.crawling.frontier.dispatch import SeedingPorts
    from crawlfleet.crawling.frontier.service import SeedsChanged
    from crawlfleet.fleet.models import Ticked
    from crawlfleet.jobs.spiders.service import SpiderPorts
    from crawlfleet.monitoring.fleet_view import AtWork, HostPorts
    from crawlfleet.monitoring.sampler import SamplingPorts


# What few calls are about is imported by them: canonical forms and time zones cost a cold start.


class RouterSeeds:
    """api.operations_jobs.SeedOperations.

    Args:
        parts: The parts of the world.
        submission: What makes requests of seeds.
    """

    def __init__(self, parts: Parts, submission: SubmissionPorts) -> None:
        self._parts = parts
        self._submission = submission

    @cached_property
    def _seeding(self) -> "SeedingPorts":
        from crawlfleet.apps.submissions import seeding_ports

        return seeding_ports(self._parts, self._submission)

    def offer_seeds(
        self, tenant: str, biz: str, offers: Sequence[Offer | InvalidRequestError]
    ) -> list[Offered | InvalidRequestError]:
        """crawling.frontier.service; what is accepted begins at once, as far as there is room."""
        from crawlfleet.crawling.frontier.dispatch import hand_out
        from crawlfleet.crawling.frontier.service import offer_seeds

        tree = self._parts.config.current()
        answers = offer_seeds(self._seeding, tree, tenant, biz, offers, self._parts.now())
        accepted = sum(isinstance(one, Offered) and one.accepted for one in answers)
        if accepted:
            lane, found = biz_of(tree, tenant, biz)
            try:
                hand_out(self._seeding, tree, lane, found, self._parts.now(), most=accepted)
            except CrawlfleetError as error:
                self._parts.warn("seeds are stored, and handed out by the next tick", error)
        return answers

    def list_seeds(
        self, tenant: str, biz: str, meant: SeedsMeant, *, cursor: str | None, limit: int
    ) -> Listing[Seed]:
        """crawling.frontier.service."""
        from crawlfleet.crawling.frontier.service import list_seeds

        tree = self._parts.config.current()
        return list_seeds(self._seeding, tree, tenant, biz, meant, cursor=cursor, limit=limit)

    def seed_totals(self, tenant: str, biz: str) -> list[SeedTotals]:
        """crawling.frontier.service."""
        from crawlfleet.crawling.frontier.service import seed_totals

        return seed_totals(
            self._seeding, self._parts.config.current(), tenant, biz, self._parts.now()
        )

    def release_seed(self, tenant: str, biz: str, seed: str) -> Seed:
        """crawling.frontier.service."""
        from crawlfleet.crawling.frontier.service import release_seed

        tree, by = self._parts.config.current(), f"api:{tenant}"
        return release_seed(self._seeding, tree, tenant, biz, seed, by, self._parts.now())

    def release_seeds(self, tenant: str, biz: str, seeds: Sequence[str]) -> "SeedsChanged":
        """crawling.frontier.service."""
        from crawlfleet.crawling.frontier.service import release_seeds

        tree, by = self._parts.config.current(), f"api:{tenant}"
        return release_seeds(self._seeding, tree, tenant, biz, seeds, by, self._parts.now())

    def release_those(
        self, tenant: str, biz: str, meant: SeedsMeant, *, cursor: str | None, limit: int
    ) -> "SeedsChanged":
        """crawling.frontier.service."""
        from crawlfleet.crawling.frontier.service import release_those

        tree, by = self._parts.config.current(), f"api:{tenant}"
        return release_those(
            self._seeding,
            tree,
            tenant,
            biz,
            meant,
            by,
            self._parts.now(),
            cursor=cursor,
            limit=limit,
        )

    def forget_seed(self, tenant: str, biz: str, seed: str) -> None:
        """crawling.frontier.service."""
        from crawlfleet.crawling.frontier.service import forget_seed

        forget_seed(self._seeding, self._parts.config.current(), tenant, biz, seed)

    def forget_seeds(self, tenant: str, biz: str, seeds: Sequence[str]) -> "SeedsChanged":
        """crawling.frontier.service."""
        from crawlfleet.crawling.frontier.service import forget_seeds

        return forget_seeds(self._seeding, self._parts.config.current(), tenant, biz, seeds)

    def forget_those(
        self, tenant: str, biz: str, meant: SeedsMeant, *, cursor: str | None, limit: int
    ) -> "SeedsChanged":
        """crawling.frontier.service."""
        from crawlfleet.crawling.frontier.service import forget_those

        tree = self._parts.config.current()
        return forget_those(self._seeding, tree, tenant, biz, meant, cursor=cursor, limit=limit)


T = TypeVar("T")

#: Anybody may ask for vitals: they are found at most once in so many seconds.
VITALS_SECONDS: Final = 10.0
#: Any tenant may ask for hosts, and what workers say of them is read of all tenants' at once.
AT_WORK_SECONDS: Final = 5.0


class Remembered(Generic[T]):
    """What is costly to find, and found at most once in so many seconds. What fails is not kept.

    Args:
        find: Finds it.
        seconds: How long it is good for.
        clock: The wall clock: the monotonic one may stand still while a Lambda is frozen.
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
        """As it was found some seconds ago at most."""
        with self._lock:
            if self._found is None or not 0 <= self._clock() - self._found[0] < self._seconds:
                self._found = None
                found = self._find()
                self._found = self._clock(), found
            return self._found[1]


class RouterFleet:
    """api.operations.Operations, as far as the platform is concerned.

    What few calls are about is imported by them.

    Args:
        parts: The parts of the world.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._health = PartHealth(
            parts.redis, parts.nodes, lambda: parts.config.current().stage.nodes
        )
        self._vitals = Remembered(self._find_vitals, VITALS_SECONDS, self._seconds)
        self._at_work = Remembered(self._find_at_work, AT_WORK_SECONDS, self._seconds)

    def _seconds(self) -> float:
        return self._parts.now().timestamp()

    def health(self) -> dict[str, str]:
        """The parts the router needs; the configuration comes first, as it names the nodes."""
        try:
            self._parts.config.current()
        except CrawlfleetError as error:
            self._parts.warn("there is no configuration", error)
            return {"config": "cannot be read"}
        return {"config": "ok", **self._health.answers()}

    def vitals(self) -> Vitals:
        """How the platform is and what it runs, as it was found some seconds ago at most."""
        return self._vitals()

    def _find_vitals(self) -> Vitals:
        parts, states = self._parts, self.health()
        revision, digest, refused, workers = "", "", True, None
        if states["config"] == "ok":
            from crawlfleet.config.validation import digest_of

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

    def _headcount(self) -> WorkersSample | None:
        from crawlfleet.fleet.redis.registry import RedisWatch
        from crawlfleet.fleet.status import headcount

        parts = self._parts
        try:
            pulses, present = RedisWatch(parts.redis).pulses(), len(parts.workers.live())
            pools = [
                PoolState(pool=pool, present=len(parts.workers_of(pool.name).live()))
                for pool in parts.settings.pools
            ]
        except CrawlfleetError as error:
            parts.warn("the workers could not be counted", error)
            return None
        limits = parts.config.current().stage.detector
        return headcount(pulses, limits, present=present, pools=pools)

    def _ticked(self) -> "Ticked | None":
        from crawlfleet.fleet.redis.staffing import RedisTicks

        try:
            return RedisTicks(self._parts.redis).last()
        except CrawlfleetError as error:
            self._parts.warn("the scheduler's latest tick could not be read", error)
            return None

    @cached_property
    def _sampling(self) -> "SamplingPorts":
        from crawlfleet.apps.monitor import sampling_ports

        return sampling_ports(self._parts)

    def fleet(self, tenant: str) -> Sample:
        """monitoring.fleet_view."""
        from crawlfleet.apps.monitor import refusal
        from crawlfleet.monitoring.fleet_view import oversee

        tree = self._parts.config.current()
        return oversee(self._sampling, tree, tenant, self._parts.now(), refusal(self._parts))

    @cached_property
    def _host_ports(self) -> "HostPorts":
        from crawlfleet.crawling.politeness.redis.hosts import RedisHosts
        from crawlfleet.monitoring.fleet_view import HostPorts
        from crawlfleet.requests.queue.redis.stats import RedisOverview

        redis = self._parts.redis
        return HostPorts(
            at_work=self._at_work, overview=RedisOverview(redis), hosts=RedisHosts(redis)
        )

    def _find_at_work(self) -> "AtWork":
        from crawlfleet.fleet.redis.registry import RedisWatch
        from crawlfleet.monitoring.fleet_view import at_work

        return at_work(RedisWatch(self._parts.redis).pulses())

    def hosts(self, tenant: str, biz: str) -> list[HostSample]:
        """monitoring.fleet_view."""
        from crawlfleet.monitoring.fleet_view import hosts_of

        return hosts_of(self._host_ports, self._parts.config.current(), tenant, biz)


class RouterSpiders:
    """api.operations_jobs.SpiderOperations."""

    _parts: Parts

    @cached_property
    def _keeping(self) -> "SpiderPorts":
        from crawlfleet.jobs.mongo.store import MongoJobs
        from crawlfleet.jobs.schedules.mongo import MongoSchedules
        from crawlfleet.jobs.spiders.mongo import MongoSpiders
        from crawlfleet.jobs.spiders.service import SpiderPorts

        nodes = self._parts.nodes
        return SpiderPorts(
            spiders=MongoSpiders(nodes), schedules=MongoSchedules(nodes), jobs=MongoJobs(nodes)
        )

    def put_spider(
        self, tenant: str, biz: str, name: str, plan: SpiderPlan
    ) -> tuple[KeptSpider, bool]:
        """jobs.spiders.service."""
        from crawlfleet.jobs.spiders.service import put_spider

        tree = self._parts.config.current()
        others = getattr(self._parts.settings, "pools", ())
        pools = {MAIN_POOL, *(pool.name for pool in others)}
        return put_spider(self._keeping, tree, tenant, biz, name, plan, pools, self._parts.now())

    def get_spider(
        self, tenant: str, biz: str, name: str, version: int | None
    ) -> KeptSpider | ConfiguredSpider:
        """jobs.spiders.service."""
        from crawlfleet.jobs.spiders.service import get_spider

        tree = self._parts.config.current()
        return get_spider(self._keeping, tree, tenant, biz, name, version)

    def list_spiders(
        self, tenant: str, biz: str, *, cursor: str | None, limit: int
    ) -> Listing[KeptSpider | ConfiguredSpider]:
        """jobs.spiders.service."""
        from crawlfleet.jobs.spiders.service import list_spiders

        tree = self._parts.config.current()
        return list_spiders(self._keeping, tree, tenant, biz, cursor=cursor, limit=limit)

    def list_spider_versions(self, tenant: str, biz: str, name: str) -> list[KeptSpider]:
        """jobs.spiders.service."""
        from crawlfleet.jobs.spiders.service import list_versions

        return list_versions(self._keeping, self._parts.config.current(), tenant, biz, name)

    def delete_spider(self, tenant: str, biz: str, name: str) -> None:
        """jobs.spiders.service."""
        from crawlfleet.jobs.spiders.service import delete_spider

        delete_spider(
            self._keeping, self._parts.config.current(), tenant, biz, name, self._parts.now()
        )
