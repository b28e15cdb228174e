"""What waits for bizs that there are not (SPEC.md B9): nobody takes it, so somebody must say so.

Scrapy processes put items in by the name of a biz, and a biz may be taken out of the configuration
while something is queued for it. Nothing of that is dropped: when there is a biz of that name
again its work goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from crawlfleet import metric_names
from crawlfleet.errors import StoreUnavailableError
from crawlfleet.model.biz import Tree
from crawlfleet.model.lane import Lane, bound
from crawlfleet.model.metric import Metric
from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.model.totals import together
from crawlfleet.ports import Bizs, DataQueue, MetricSink, RequestQueue

#: Bizs that are named in one warning; what waits is counted of all.
_NAMED: Final = 20
#: The queue of a biz that was never configured rightly: the default of its document.
_QUEUE: Final = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayPorts:
    """What looking for strays needs of the world."""

    bizs: Bizs
    data: DataQueue
    queue: RequestQueue
    metrics: MetricSink
    say: Callable[[str], None]


def tell_bizs(ports: StrayPorts, tree: Tree, now: datetime) -> int:
    """Tell which bizs there are; returns how many items and requests wait for others."""
    gone = sorted(ports.bizs.tell(lanes_by_tenant(tree)))
    waiting, away = _waiting_in(gone, ports.data, ports.queue, tree.further_pools)
    stray_items, stray_requests = sums(waiting)
    if waiting or not away:
        metrics = [
            Metric(metric_names.STRAY_ITEMS, stray_items),
            Metric(metric_names.STRAY_REQUESTS, stray_requests),
        ]
        ports.metrics.put(metrics, {}, now)
    if waiting:
        named = "; ".join(
            f"{lane.tenant}/{lane.biz}: {count} items, {requests} requests"
            for lane, (count, requests) in list(waiting.items())[:_NAMED]
        )
        ports.say(
            f"what waits for bizs that are not in the configuration is done by nobody: {named}; "
            "push a biz of that name, or start what puts it in with another CRAWLFLEET_BIZ"
        )
    return stray_items + stray_requests


def count_strays(
    gone: Sequence[Lane], data: DataQueue, queue: RequestQueue, pools: Sequence[str] = ()
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
    gone: Sequence[Lane], data: DataQueue, queue: RequestQueue, pools: Sequence[str]
) -> tuple[dict[Lane, tuple[int, int]], int]:
    """What waits in lanes that there are not, by lane; and how many of these are away."""
    items = data.waiting(gone)
    every = [bound(lane, pool) for lane in gone for pool in (MAIN_POOL, *pools)]
    each = iter(queue.depths(every) if every else [])
    depths = [together([next(each) for _ in range(1 + len(pools))]) for _ in gone]
    waiting = {
        lane: (count, depth.queued + depth.leased + depth.delayed)
        for lane, count, depth in zip(gone, items, depths, strict=True)
    }
    away = sum(depth.away for depth in depths)
    return {lane: counts for lane, counts in waiting.items() if any(counts)}, away


def sums(waiting: Mapping[Lane, tuple[int, int]]) -> tuple[int, int]:
    """All items and all requests that wait.

    >>> sums({Lane("acme", "gone", "main"): (2, 3), Lane("acme", "old", "main"): (1, 0)})
    (3, 3)
    """
    items = sum(count for count, _ in waiting.values())
    return items, sum(count for _, count in waiting.values())


def lanes_by_tenant(tree: Tree) -> dict[str, list[Lane]]:
    """All lanes by tenant. What waits for a biz whose document is wrong waits for its mending."""
    lanes: dict[str, list[Lane]] = {tenant: [] for tenant in (*tree.tenants, *tree.bizs)}
    for lane in tree.lanes():
        lanes[lane.tenant].append(lane)
    for tenant, biz in sorted(tree.refused):
        lanes.setdefault(tenant, []).append(Lane(tenant, biz, _QUEUE))
    return lanes
