"""Keeping the wanted number of consumers running: the scheduler's half of scaling."""

from crawlfleet.model.biz import Tree
from crawlfleet.policy.scaling import wanted_consumers
from crawlfleet.ports import Clock, RequestQueue, Waker, Workers


def staff(queue: RequestQueue, workers: Workers, waker: Waker, tree: Tree, clock: Clock) -> int:
    """Start as many consumers as are missing; returns how many were started.

    Consumers end by themselves when there is nothing to do, so nothing is ever stopped from here.
    """
    loads = queue.loads(tree.lanes(), clock())
    missing = workers.reserve_wake(clock(), wanted_consumers(loads, tree.stage.fleet))
    if missing:
        waker.wake(missing)
    return missing
