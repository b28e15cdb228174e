"""The platform as the router sees it: its parts' health, its vitals, where its workers are."""

import time
from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from crawlfleet.apps.context import Parts
from crawlfleet.apps.health import part_states
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.log import warn
from crawlfleet.monitoring.models import Vitals

if TYPE_CHECKING:
    from crawlfleet.fleet.models import Ticked, WorkersSample
    from crawlfleet.jobs.costs.mongo import MongoCosts
    from crawlfleet.monitoring.fleet_view import AtWork, HostsOfBizs
    from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook
    from crawlfleet.monitoring.overview import Glance, Glancing
    from crawlfleet.monitoring.sampler import Sampler

T = TypeVar("T")

#: Anybody may ask for vitals: they are found at most once in so many seconds.
VITALS_SECONDS: Final = 10.0

#: Any tenant may ask for hosts, and what workers say of them is read of all tenants' at once.
AT_WORK_SECONDS: Final = 5.0

#: Viewers of the overview share one that is so many seconds old at most.
GLANCE_SECONDS: Final = 2.0


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
        self._parts = parts
        self.vitals = Remembered(self._find_vitals, VITALS_SECONDS, self._seconds)
        self.at_work = Remembered(self._find_at_work, AT_WORK_SECONDS, self._seconds)

    def _seconds(self) -> float:
        return self._parts.now().timestamp()

    def health(self) -> dict[str, str]:
        """Check the parts that the router needs."""
        return part_states(self._parts)

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


class PlatformServices:
    """The services of the router about the platform: health, what runs, the fleet as people see it.

    Args:
        parts: The environment's.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def refusal(self) -> str | None:
        """Say why the newest configuration is not in force; None where it is."""
        from crawlfleet.apps.monitor import refusal

        return refusal(self.parts)

    def health(self) -> dict[str, str]:
        """Check the parts that the router needs, each ``ok`` or what is wrong with it."""
        return self._platform.health()

    def vitals(self) -> Vitals:
        """Find how the platform is and what it runs; it may be some seconds old."""
        return self._platform.vitals()

    def glance(self) -> "Glance":
        """Glance at the fleet; it may be some seconds old, and all viewers share it."""
        return self._glance()

    @cached_property
    def _platform(self) -> Platform:
        return Platform(self.parts)

    @cached_property
    def _glance(self) -> "Remembered[Glance]":
        parts, glancing = self.parts, self._glancing

        def glance() -> "Glance":
            return glancing.glance(parts.config.current(), parts.now(), self.refusal())

        return Remembered(glance, GLANCE_SECONDS, lambda: parts.now().timestamp())

    @cached_property
    def _glancing(self) -> "Glancing":
        from crawlfleet.monitoring.overview import Glancing

        return Glancing(sampler=self.sampling, incidents=self.incidents, costs=self.costs)

    @cached_property
    def costs(self) -> "MongoCosts":
        """The days of bizs: what their work took."""
        from crawlfleet.jobs.costs.mongo import MongoCosts

        return MongoCosts(self.parts.nodes)

    @cached_property
    def hosts(self) -> "HostsOfBizs":
        """The view of a biz's hosts."""
        from crawlfleet.crawling.politeness.redis import RedisHosts
        from crawlfleet.monitoring.fleet_view import HostsOfBizs
        from crawlfleet.requests.queue.redis.stats import RedisOverview

        redis = self.parts.redis
        return HostsOfBizs(
            at_work=self._platform.at_work, overview=RedisOverview(redis), hosts=RedisHosts(redis)
        )

    @cached_property
    def sampling(self) -> "Sampler":
        """The sampler of the whole fleet."""
        from crawlfleet.apps.monitor import sampler_over

        return sampler_over(self.parts)

    @cached_property
    def incidents(self) -> "MongoIncidentBook":
        """The store of incidents."""
        from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook

        return MongoIncidentBook(self.parts.nodes)
