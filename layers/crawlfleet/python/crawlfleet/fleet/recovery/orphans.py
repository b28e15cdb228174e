"""What is bound for a pool that is gone is given over to the usual workers (SPEC.md B12).

A pool that is taken out of the stage leaves tasks that nobody takes. The scheduler alone gives them
over, once nobody has known of the pool for longer than any worker lives: no configuration that it
has seen names it, and no worker of it was there. While functions of two versions run beside each
other one of them knows it, so nothing goes back and forth. The truth is changed first: whoever dies
then leaves pending requests of the usual lane, which recovery queues.

What waits for bizs that there are not (SPEC.md B9): nobody takes it, so somebody must say so.

Scrapy processes put items in by the name of a biz, and a biz may be taken out of the configuration
while something is queued for it. Nothing of that is dropped: when there is a biz of that name
again its work goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.crawling.records.redis import RedisDataQueue
from crawlfleet.fleet.recovery.service import Recovery
from crawlfleet.fleet.redis.scheduler import RedisBizs
from crawlfleet.kernel import metric_names
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.fairness import rotated
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.metrics import Metric, MetricSink
from crawlfleet.kernel.queue_key import MAIN_POOL, QueueKey, bound
from crawlfleet.requests.models import JournalLine
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.queue.stats import together

#: Longer than a worker lives, and than a function of an earlier deployment runs.
GONE_AFTER: Final = timedelta(minutes=15)
#: Requests given over at once, and of one lane in one round.
CHUNK: Final = 1_000
MOST: Final = 20_000
#: With less time left no other lane is begun.
MARGIN_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedPools:
    """What it needs of the world; ``say`` is told what was given over, with its facts."""

    recovery: Recovery
    say: Callable[[str], None]

    def reassign(self, tree: Tree, by: str, now: datetime, time_left: Callable[[], float]) -> int:
        """Note the pools there are, and reassign requests of removed ones; return how many.

        A biz that cannot be served is warned of and stops no other; what there is no
        time for is done by a later tick.
        """
        world = self.recovery
        workers = {beats.worker_status.pool for beats in world.detector.heartbeats()}
        there = {*tree.further_pools, *workers} - {MAIN_POOL}
        world.pools.saw(there, now)
        seen = world.pools.known()
        given = 0
        for pool in sorted(seen.keys() - there):
            if now - seen[pool] < GONE_AFTER:
                continue
            left = False
            for usual in rotated(tree.queues(), now):
                if time_left() < MARGIN_SECONDS:
                    return given
                queue_key, biz = bound(usual, pool), tree.bizs[usual.tenant][usual.biz]
                try:
                    if pool not in world.revocation.pools(queue_key, biz, {pool}, now):
                        continue
                    left = True
                    given += self._give_over(queue_key, biz, by, now, time_left)
                except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
                    left = True
                    warn(f"what {usual.path} has for pool {pool} could not be given over", error)
            if not left:
                world.pools.forget(pool, seen[pool])
        return given

    def _give_over(
        self,
        queue_key: QueueKey,
        biz: Biz,
        by: str,
        now: datetime,
        time_left: Callable[[], float],
    ) -> int:
        world, usual = self.recovery, bound(queue_key, MAIN_POOL)
        why = f"nobody has known of pool {queue_key.pool} for {GONE_AFTER.seconds // 60} minutes"
        given = 0
        while given < MOST and time_left() >= MARGIN_SECONDS:
            count, entries = world.revocation.give_over(
                queue_key, biz, CHUNK, by, f"{why}: anyone's", now
            )
            if not count:
                self._empty(queue_key)
                break
            given += count
            world.queue.requeue(usual, entries)
        if given:
            line = JournalLine(
                at=now, by=by, kind="given-over", why=f"{why}: anyone's", count=given
            )
            world.journal.note(queue_key, line)
            self.say(f"{given} requests of {queue_key.path} are anyone's now: {why}")
        return given

    def _empty(self, queue_key: QueueKey) -> None:
        """Drop the entries of a queue without requests; should its pool return, it is rebuilt."""
        depth = self.recovery.queue.depth(queue_key)
        if depth.queued or depth.delayed:
            self.recovery.rebuild.clear(queue_key, f"given-over.{uuid4().hex[:16]}")


#: Bizs that are named in one warning; what waits is counted of all.
_NAMED: Final = 20
#: The queue of a biz that was never configured rightly: the default of its document.
_QUEUE: Final = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanedQueues:
    """What looking for strays needs of the world."""

    bizs: RedisBizs
    data: RedisDataQueue
    queue: RedisQueue
    metrics: MetricSink
    say: Callable[[str], None]

    def announce(self, tree: Tree, now: datetime) -> int:
        """Tell which bizs there are; returns how many items and requests wait for others."""
        gone = sorted(self.bizs.report(queues_by_tenant(tree)))
        waiting, away = _waiting_in(gone, self.data, self.queue, tree.further_pools)
        stray_items, stray_requests = sums(waiting)
        if waiting or not away:
            metrics = [
                Metric(metric_names.STRAY_ITEMS, stray_items),
                Metric(metric_names.STRAY_REQUESTS, stray_requests),
            ]
            self.metrics.put(metrics, {}, now)
        if waiting:
            named = "; ".join(
                f"{queue_key.tenant}/{queue_key.biz}: {count} items, {requests} requests"
                for queue_key, (count, requests) in list(waiting.items())[:_NAMED]
            )
            self.say(
                "what waits for bizs that are not in the configuration is done by nobody: "
                f"{named}; push a biz of that name, or start what puts it in with another "
                "CRAWLFLEET_BIZ"
            )
        return stray_items + stray_requests


def count_orphaned(
    gone: Sequence[QueueKey], data: RedisDataQueue, queue: RedisQueue, pools: Sequence[str] = ()
) -> tuple[int, int]:
    """Items and requests that wait in lanes that there are not, as far as they can be counted.

    Raises:
        StoreUnavailableError: nothing is found, and nobody can say it of all of them.
    """
    waiting, away = _waiting_in(gone, data, queue, pools)
    if away and not waiting:
        said = f"of {away} of {len(gone)} bizs that there are not nobody can say what waits"
        raise StoreUnavailableError("redis", said)
    return sums(waiting)


def _waiting_in(
    gone: Sequence[QueueKey], data: RedisDataQueue, queue: RedisQueue, pools: Sequence[str]
) -> tuple[dict[QueueKey, tuple[int, int]], int]:
    """What waits in lanes that there are not, by lane; and how many of these are away."""
    items = data.waiting(gone)
    every = [bound(queue_key, pool) for queue_key in gone for pool in (MAIN_POOL, *pools)]
    each = iter(queue.depths(every) if every else [])
    depths = [together([next(each) for _ in range(1 + len(pools))]) for _ in gone]
    waiting = {
        queue_key: (count, depth.queued + depth.leased + depth.delayed)
        for queue_key, count, depth in zip(gone, items, depths, strict=True)
    }
    away = sum(depth.away for depth in depths)
    return {queue_key: counts for queue_key, counts in waiting.items() if any(counts)}, away


def sums(waiting: Mapping[QueueKey, tuple[int, int]]) -> tuple[int, int]:
    """All items and all requests that wait.

    >>> sums({QueueKey("acme", "gone", "main"): (2, 3), QueueKey("acme", "old", "main"): (1, 0)})
    (3, 3)
    """
    items = sum(count for count, _ in waiting.values())
    return items, sum(count for _, count in waiting.values())


def queues_by_tenant(tree: Tree) -> dict[str, list[QueueKey]]:
    """All lanes by tenant. What waits for a biz whose document is wrong waits for its mending."""
    queues: dict[str, list[QueueKey]] = {tenant: [] for tenant in (*tree.tenants, *tree.bizs)}
    for queue_key in tree.queues():
        queues[queue_key.tenant].append(queue_key)
    for tenant, biz in sorted(tree.refused):
        queues.setdefault(tenant, []).append(QueueKey(tenant, biz, _QUEUE))
    return queues
