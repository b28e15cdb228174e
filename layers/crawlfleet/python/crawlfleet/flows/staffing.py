"""Keeping the wanted number of consumers running: the scheduler's half of scaling."""

from crawlfleet.model.biz import Tree
from crawlfleet.model.totals import Load
from crawlfleet.policy.scaling import wanted_consumers
from crawlfleet.ports import Clock, DataQueue, RequestQueue, Waker, Workers


def staff(
    queue: RequestQueue,
    data: DataQueue,
    workers: Workers,
    waker: Waker,
    tree: Tree,
    clock: Clock,
) -> int:
    """Start as many consumers as are missing; returns how many were started.

    Consumers end by themselves when there is nothing to do, so nothing is ever stopped from here.
    """
    lanes = tree.lanes()
    loads = queue.loads(lanes, clock())
    items = sum(data.waiting(lanes)) if lanes else 0
    wanted = wanted_consumers([*loads, Load(ready=items, leased=0)], tree.stage.fleet)
    missing = workers.reserve_wake(clock(), wanted)
    if missing:
        waker.wake(missing)
    return missing
