"""Reassign removed pools (SPEC.md B12), and report orphaned queues (SPEC.md B9).

A pool that is taken out of the stage leaves tasks that nobody takes. The scheduler alone reassigns
them to the usual workers, once the pool was unknown for longer than any worker lives: no
configuration that it has seen names it, and no worker of it was there. While functions of two
versions run beside each other one of them knows it, so nothing goes back and forth. MongoDB is
changed first: a scheduler that dies then leaves pending requests of the usual queue, which recovery
queues.

A queue is orphaned where its biz is not in the configuration: Scrapy processes put items in by the
name of a biz, and a biz may be removed while something is queued for it. Nothing of that is
dropped: when there is a biz of that name again its work goes on.
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
from crawlfleet.kernel.fairness import in_turns
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.metrics import Metric, MetricSink
from crawlfleet.kernel.queue_key import MAIN_POOL, QueueKey, bound
from crawlfleet.kernel.time import TimeLeft
from crawlfleet.requests.models import JournalLine
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.queue.stats import together

#: Longer than a worker lives, and than a function of an earlier deployment runs.
GONE_AFTER: Final = timedelta(minutes=15)
#: Requests reassigned at once, and of one queue in one round.
CHUNK: Final = 1_000
MOST: Final = 20_000
#: With less time left no other queue is begun.
MARGIN_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedPools:
    """Reassign what is bound for removed pools; ``say`` logs how many requests were."""

    recovery: Recovery
    say: Callable[[str], None]

    def reassign(self, tree: Tree, by: str, now: datetime, time_left: TimeLeft) -> int:
        """Note the pools there are, and reassign requests of removed ones; return how many.

        A biz that fails is warned of and stops no other; a later tick does the rest.
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
            for usual in in_turns(tree.queues(), now):
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
        self, queue_key: QueueKey, biz: Biz, by: str, now: datetime, time_left: TimeLeft
    ) -> int:
        world, usual = self.recovery, bound(queue_key, MAIN_POOL)
        why = f"nobody has known of pool {queue_key.pool} for {GONE_AFTER.seconds // 60} minutes"
        given, reason = 0, f"{why}: anyone's"
        while given < MOST and time_left() >= MARGIN_SECONDS:
            count, entries = world.revocation.give_over(queue_key, biz, CHUNK, by, reason, now)
            if not count:
                self._empty(queue_key)
                break
            given += count
            world.queue.requeue(usual, entries)
        if given:
            line = JournalLine(at=now, by=by, kind="given-over", why=reason, count=given)
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
    """Publish the bizs that there are, and report what waits for others."""

    bizs: RedisBizs
    data: RedisDataQueue
    queue: RedisQueue
    metrics: MetricSink
    say: Callable[[str], None]

    def announce(self, tree: Tree, now: datetime) -> int:
        """Publish the bizs; return how many items and requests wait for others."""
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
    """Count the items and requests that wait in orphaned queues, as far as possible.

    Raises StoreUnavailableError (nothing is found, and nobody can say it of all of them).
    """
    waiting, away = _waiting_in(gone, data, queue, pools)
    if away and not waiting:
        said = f"of {away} of {len(gone)} bizs that there are not nobody can say what waits"
        raise StoreUnavailableError("redis", said)
    return sums(waiting)


def _waiting_in(
    gone: Sequence[QueueKey], data: RedisDataQueue, queue: RedisQueue, pools: Sequence[str]
) -> tuple[dict[QueueKey, tuple[int, int]], int]:
    """Count what waits in orphaned queues, by queue, and how many of these are unavailable."""
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
    """Sum the items and the requests that wait.

    >>> sums({QueueKey("acme", "gone", "main"): (2, 3), QueueKey("acme", "old", "main"): (1, 0)})
    (3, 3)
    """
    items = sum(count for count, _ in waiting.values())
    return items, sum(count for _, count in waiting.values())


def queues_by_tenant(tree: Tree) -> dict[str, list[QueueKey]]:
    """List all queues by tenant, those of bizs whose document is wrong among them."""
    queues: dict[str, list[QueueKey]] = {tenant: [] for tenant in (*tree.tenants, *tree.bizs)}
    for queue_key in tree.queues():
        queues[queue_key.tenant].append(queue_key)
    for tenant, biz in sorted(tree.refused):
        queues.setdefault(tenant, []).append(QueueKey(tenant, biz, _QUEUE))
    return queues
