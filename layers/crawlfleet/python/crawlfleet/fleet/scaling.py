"""Scaling (SPEC.md A12, H4, C1): forecast, decide, act; of each pool by itself.

Each tick scales all pools, and an alarm does at once; several may at the same moment.
Whatever cannot be read leaves everything as it is: nothing is started blindly.

Workers have their part in it. Capacity that dies is not to wait for the next tick: whoever reaps a
worker, or ends because its time is up, starts those that the standing target wants and that are
missing, of its own pool and of the one that the dead were of. Whoever returns leases at its end
sees that somebody is there for them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final, Protocol

from msgspec.structs import replace

from crawlfleet.config.documents.biz import FleetLimits, Tree
from crawlfleet.config.lookup import limits_of, served_queues
from crawlfleet.fleet import autoscaler as capacity
from crawlfleet.fleet import models
from crawlfleet.fleet.autoscaler import decide, reserved
from crawlfleet.fleet.forecast import Forecast
from crawlfleet.fleet.redis.registry import RedisWorkers
from crawlfleet.fleet.redis.scheduler import RedisScalingTargets
from crawlfleet.kernel.errors import LimitRefusedError, StoreError, StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.time import Clock
from crawlfleet.requests.submission.waking import Waker

#: Numbers tried at most where the account lacks the wanted concurrency: so many find the most that
#: it has, of any that a stage may want.
PROBES: Final = 12


class ConcurrencyLimit(Protocol):
    """Concurrency of the workers' function, which is Lambda's or a stand-in's.

    The stage may be given ``ceiling`` at most; ``current`` invocations may run at once, None where
    there is no limit. Of a ``change`` that the account has not to give there is a
    LimitRefusedError: what was allowed still is.
    """

    @property
    def ceiling(self) -> int: ...  # noqa: D102
    def current(self) -> int | None: ...  # noqa: D102
    def change(self, count: int) -> None: ...  # noqa: D102


def allow(limit: ConcurrencyLimit, wanted: int) -> int | None:
    """Allow so many invocations; return how many may run then, None where that is not known.

    Where the account lacks so many it is as many as it has, and never fewer than before; where
    Lambda does not answer it is what it was.
    """
    current = None
    try:
        current = limit.current()
        if current != wanted:
            limit.change(wanted)
    except LimitRefusedError as error:
        given = _raised(limit, current or 0, wanted)
        warn(f"the account has not the concurrency for {wanted:,} workers but for {given:,}", error)
        return given or None
    except StoreError as error:
        warn("the workers' concurrency could not be changed", error)
        return current
    return wanted


def _raised(limit: ConcurrencyLimit, given: int, refused: int) -> int:
    """Allow the most that the account gives: ``given`` or more, fewer than ``refused``."""
    # Mostly there is no more than there was last time: then this is the only try. Where there was
    # no limit, it must not become 1, for however short a time.
    tried = given + 1 if given else refused // 2
    for _ in range(PROBES):
        if not given < tried < refused:
            break
        try:
            limit.change(tried)
        except LimitRefusedError:
            refused = tried
        except StoreError:
            break
        else:
            given = tried
        tried = (given + refused) // 2
    return given


#: Deciders at the same moment, at most; one that loses reads what the other has decided.
TRIES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledPool:
    """Registry, starter and concurrency of a pool's workers."""

    workers: RedisWorkers
    waker: Waker
    limit: ConcurrencyLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """Outcome of scaling a pool.

    ``limit`` is the concurrency that is allowed now, None where that is not known; ``live`` workers
    were there before ``started`` were started.
    """

    target: models.ScalingTarget
    backlog: int
    live: int
    started: int
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Scale the pools: forecast, set targets, allow concurrency, start workers.

    ``workers``, ``waker`` and ``limit`` are the usual pool's, ``pools`` are the others.
    """

    forecast: Forecast
    targets: RedisScalingTargets
    workers: RedisWorkers
    waker: Waker
    limit: ConcurrencyLimit
    pools: Mapping[str, ScaledPool] = field(default_factory=dict)

    def of(self, pool: str) -> ScaledPool:
        """Return what a pool is scaled through."""
        if pool == MAIN_POOL:
            return ScaledPool(workers=self.workers, waker=self.waker, limit=self.limit)
        return self.pools[pool]

    def scale_all(self, tree: Tree, clock: Clock) -> dict[str, Scaled]:
        """Scale each pool to its target; the usual one comes first.

        A pool that fails is warned of, and the others are scaled all the same.

        Raises:
            StoreError: nothing was decided of the usual pool (:meth:`scale`); others were tried.
        """
        found: dict[str, Scaled] = {}
        failed: Exception | None = None
        for pool in (MAIN_POOL, *self.pools):
            try:
                found[pool] = self.scale(tree, clock, pool)
            except Exception as error:  # noqa: BLE001  one pool's fault is not the others'
                if pool == MAIN_POOL:
                    failed = error
                else:
                    warn(f"the pool {pool} could not be scaled", error)
        if failed is not None:
            raise failed
        return found

    def scale(self, tree: Tree, clock: Clock, pool: str = MAIN_POOL) -> Scaled:
        """Scale a pool to its target.

        Raises:
            StoreError: a part did not answer, so that nothing was decided and nobody was started.
        """
        one, name = self.of(pool), models.target_name(pool)
        queues = served_queues(tree, pool)
        throughputs = self.targets.throughputs(name)
        is_main = pool == MAIN_POOL
        demand = self.forecast.demand(tree, clock(), throughputs, queues, with_items=is_main)
        live = len(one.workers.live(clock()))
        kept = self._kept(tree, pool, throughputs, demand)
        target = self._decided(tree, pool, demand, live, kept)
        target, limit = self._allowed(pool, target)
        started = start_missing(one.workers, one.waker, target.startable, clock)
        backlog = demand.backlog
        return Scaled(target=target, backlog=backlog, live=live, started=started, limit=limit)

    def _kept(
        self, tree: Tree, pool: str, throughputs: Mapping[str, float], demand: models.Demand
    ) -> capacity.Capacity:
        """Compute what stated needs keep available; without any, nothing is read."""
        stated = dict(capacity.stated_by(tree))
        if not any(needs.pool == pool for needs in stated.values()):
            return capacity.Capacity()
        at_work = demand.at_work | self._lately(tree, stated)
        idle = self.targets.idle(list(stated), capacity.active(tree, at_work))
        throughput = self.targets.read(models.target_name(pool)).throughput
        most = min(limits_of(tree.stage, pool).max_consumers, self.of(pool).limit.ceiling)
        return capacity.pool_capacity(
            tree, pool, most, throughputs=throughputs, throughput=throughput, idle_seconds=idle
        )

    def _lately(self, tree: Tree, stated: Collection[str]) -> frozenset[str]:
        """Name the bizs with stated needs of which anything was submitted or processed lately.

        What is done within seconds is in no queue when a tick comes. The counts are a biz's, not a
        queue's, whichever pool has done it.
        """
        named = {*stated}
        queues = [one for one in tree.queues() if {one.path, one.tenant} & named]
        counts = self.forecast.overview.counts(queues) if queues else ()
        return frozenset(
            queue_key.path
            for queue_key, counted in zip(queues, counts, strict=True)
            # Of an unavailable queue nothing is known, which is no reason to release workers.
            if counted is None or any(counted)
        )

    def _decided(
        self, tree: Tree, pool: str, demand: models.Demand, live: int, kept: capacity.Capacity
    ) -> models.ScalingTarget:
        """Set a target, on top of whatever others have set meanwhile."""
        name, ceiling = models.target_name(pool), self.of(pool).limit.ceiling
        limits = _limits(tree, pool, kept)
        for _ in range(TRIES):
            standing = self.targets.read(name)
            target = decide(standing, demand, limits, live=live, ceiling=ceiling)
            target = replace(target, floor=kept.floor, stated=kept.stated)
            if self.targets.settle(name, standing, target):
                return target
        # Others decide all the time, about the same demand.
        return self.targets.read(name).target

    def _allowed(
        self, pool: str, target: models.ScalingTarget
    ) -> tuple[models.ScalingTarget, int | None]:
        """Reserve concurrency for the target; return the target followed, and the concurrency.

        A caller that was delayed since its decision would follow an older target. So the standing
        one is read again and followed. The concurrency is noted with it, by which workers are
        started: more calls than are allowed would be refused.
        """
        name, pool_limit = models.target_name(pool), self.of(pool).limit
        limit = None
        for _ in range(TRIES):
            reservation = reserved(target, pool_limit.ceiling)
            limit = allow(pool_limit, reservation)
            standing = self.targets.read(name)
            if not models.is_fresh(standing):
                # Redis has lost it. The next tick decides anew.
                break
            target = standing.target
            if reserved(target, pool_limit.ceiling) != reservation:
                continue
            noted = target if limit is None else replace(target, allowed=limit)
            if noted == target or self.targets.settle(name, standing, noted):
                return noted, limit
        return target if limit is None else replace(target, allowed=limit), limit


def _limits(tree: Tree, pool: str, kept: capacity.Capacity) -> FleetLimits:
    """Raise the pool's least number of workers to what stated needs keep."""
    limits = limits_of(tree.stage, pool)
    return replace(limits, min_consumers=max(limits.min_consumers, kept.floor))


#: Workers that are reserved and started at once: a reservation counts for some seconds only.
AT_ONCE: Final = 40

_NONE: Final[Mapping[str, models.Throughput]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolScaling:
    """Scale the pool of a worker between two ticks, by its standing target.

    ``pool`` is its own, and so are ``workers`` and ``waker``; ``elsewhere`` are those of others.
    """

    targets: RedisScalingTargets
    workers: RedisWorkers
    waker: Waker
    pool: str = MAIN_POOL
    elsewhere: "Mapping[str, PoolScaling]" = field(default_factory=dict)

    def replace_missing(self, clock: Clock) -> int:
        """Start the workers that the standing target misses; return how many.

        Never more than are needed, nor than there is concurrency for: those calls would be refused.
        A target that is out of date is not followed: the next tick makes a new one.
        """
        try:
            standing = self.targets.read(models.target_name(self.pool))
            if not models.is_fresh(standing):
                return 0
            wanted = standing.target.startable
            return start_missing(self.workers, self.waker, wanted, clock)
        except StoreUnavailableError as error:
            warn("missing workers could not be started; the next tick starts them", error)
            return 0

    def succeed(self, clock: Clock, report: models.WorkReport) -> int:
        """Start a successor of a worker that has ended and deregistered; return how many start.

        One whose time was up is replaced. Leases that it returned need a worker as well: others may
        have left in that moment, as they had nothing to do while this one held them.
        """
        started = self.replace_missing(clock) if report.stopped_because == "time" else 0
        if report.handed_back and not started:
            started = start_missing(self.workers, self.waker, 1, clock)
        return started

    def replace_dead(self, pools: Iterable[str], clock: Clock) -> int:
        """Replace dead workers of these pools, and missing ones of the own pool in any case.

        Pools that are not known here wait for the tick.
        """
        started = self.replace_missing(clock)
        for pool in sorted({*pools} - {self.pool}):
            other = self.elsewhere.get(pool)
            try:
                started += other.replace_missing(clock) if other is not None else 0
            except Exception as error:  # noqa: BLE001  one pool's fault is not the others'
                warn(f"missing workers of the pool {pool} could not be started", error)
        return started

    def report_throughput(
        self,
        worker: str,
        throughput: models.Throughput | None,
        now: datetime,
        throughputs: Mapping[str, models.Throughput] = _NONE,
    ) -> models.ThroughputReply | None:
        """Report the worker's throughput, at all and by ``tenant/biz``; return the reply.

        None without an answer of Redis: then nobody leaves.
        """
        try:
            return self.targets.report_throughput(
                models.target_name(self.pool), worker, throughput, now, throughputs
            )
        except StoreUnavailableError as error:
            warn("whether this worker is still wanted is not known", error)
            return None


def start_missing(workers: RedisWorkers, waker: Waker, wanted: int, clock: Clock) -> int:
    """Start those of ``wanted`` workers that are missing; return how many.

    Some are reserved and started before the next are, so that however many there are no reservation
    ends before its worker can be there. Raises StoreUnavailableError (Redis did not answer).
    """
    started = 0
    while started < wanted:
        missing = workers.reserve_wake(clock(), wanted, AT_ONCE)
        if not missing:
            break
        try:
            waker.wake(missing)
        except StoreUnavailableError as error:
            # Some may have been started. The reservations of the others end in some seconds.
            warn("workers could not be started; the next tick starts them", error)
            break
        started += missing
    return started
