"""What is bound for a pool that is gone is given over to the usual workers (SPEC.md B12).

A pool that is taken out of the stage leaves tasks that nobody takes. The scheduler alone gives them
over, once nobody has known of the pool for longer than any worker lives: no configuration that it
has seen names it, and no worker of it was there. While functions of two versions run beside each
other one of them knows it, so nothing goes back and forth. The truth is changed first: whoever dies
then leaves pending requests of the usual lane, which recovery queues.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from crawlfleet.flows.recovery_ports import RecoveryPorts
from crawlfleet.model.biz import Biz, Tree
from crawlfleet.model.journal import JournalLine
from crawlfleet.model.lane import Lane, bound
from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.policy.rounds import from_elsewhere

#: Longer than a worker lives, and than a function of an earlier deployment runs.
GONE_AFTER: Final = timedelta(minutes=15)
#: Requests given over at once, and of one lane in one round.
CHUNK: Final = 1_000
MOST: Final = 20_000
#: With less time left no other lane is begun.
MARGIN_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RehomingPorts:
    """What it needs of the world; ``say`` is told what was given over, with its facts."""

    recovery: RecoveryPorts
    say: Callable[[str], None]


def rehome(
    ports: RehomingPorts, tree: Tree, by: str, now: datetime, time_left: Callable[[], float]
) -> int:
    """Note which pools there are, and give over what is bound for those that are gone; how many.

    A biz that cannot be served is reported through ``warn`` and stops no other; what there is no
    time for is done by a later tick.
    """
    world = ports.recovery
    workers = {pulse.card.pool for pulse in world.watch.pulses()}
    there = {*tree.further_pools, *workers} - {MAIN_POOL}
    world.pools.saw(there, now)
    seen = world.pools.known()
    given = 0
    for pool in sorted(seen.keys() - there):
        if now - seen[pool] < GONE_AFTER:
            continue
        left = False
        for usual in from_elsewhere(tree.lanes(), now):
            if time_left() < MARGIN_SECONDS:
                return given
            lane, biz = bound(usual, pool), tree.bizs[usual.tenant][usual.biz]
            try:
                if pool not in world.disowning.pools(lane, biz, {pool}, now):
                    continue
                left = True
                given += _give_over(ports, lane, biz, by, now, time_left)
            except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
                left = True
                world.warn(f"what {usual.path} has for pool {pool} could not be given over", error)
        if not left:
            world.pools.forget(pool, seen[pool])
    return given


def _give_over(
    ports: RehomingPorts,
    lane: Lane,
    biz: Biz,
    by: str,
    now: datetime,
    time_left: Callable[[], float],
) -> int:
    world, usual = ports.recovery, bound(lane, MAIN_POOL)
    why = f"nobody has known of pool {lane.pool} for {GONE_AFTER.seconds // 60} minutes"
    given = 0
    while given < MOST and time_left() >= MARGIN_SECONDS:
        count, entries = world.disowning.give_over(lane, biz, CHUNK, by, f"{why}: anyone's", now)
        if not count:
            _empty(ports, lane)
            break
        given += count
        world.queue.requeue(usual, entries)
    if given:
        line = JournalLine(at=now, by=by, kind="given-over", why=f"{why}: anyone's", count=given)
        world.journal.note(lane, line)
        ports.say(f"{given} requests of {lane.path} are anyone's now: {why}")
    return given


def _empty(ports: RehomingPorts, lane: Lane) -> None:
    """Drop what the index lists of a lane that has nothing; should its pool return it is filled."""
    depth = ports.recovery.queue.depth(lane)
    if depth.queued or depth.delayed:
        ports.recovery.filling.clear(lane, f"given-over.{uuid4().hex[:16]}")
