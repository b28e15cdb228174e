"""Jobs go on (SPEC.md C3, C5): tasks are made of them, and those that have ended end.

Every worker and the scheduler may do a round; a turn keeps it to one at a time, which spares work
and decides nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.config.documents.biz import Tree
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.jobs import completion as losing
from crawlfleet.jobs.completion import EndingPorts, end_jobs
from crawlfleet.jobs.expansion import ExpandingPorts, expand
from crawlfleet.jobs.ports import OrphanedJobs
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.log import warn

#: The turn's name, how often it comes round, and after what a holder that vanished loses it.
LOCK: Final = "expanding"
EVERY: Final = timedelta(milliseconds=500)
TERM: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvancingPorts:
    """What a round needs of the world."""

    expanding: ExpandingPorts
    ending: EndingPorts
    lost: OrphanedJobs
    detector: RedisFailureDetector


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """What a round did; ``mine`` is False when it was another's turn."""

    mine: bool = True
    batches: int = 0
    tasks: int = 0
    ended: int = 0


def advance(
    ports: AdvancingPorts,
    tree: Tree,
    by: str,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
) -> Advanced:
    """A round, if it is the caller's turn; ``by`` is who does it.

    Ends are looked at first, in half of the time at most: making tasks may take all there is.
    Without Redis nobody knows whose turn it is, and what is made is not queued: the round is left
    out.

    Raises:
        StoreUnavailableError: the home node, which keeps the jobs, does not answer.
    """
    if not _acquire_lock(ports, by):
        return Advanced(mine=False)
    half = time_left() / 2
    try:
        ended = end_jobs(ports.ending, tree, clock, lambda: time_left() - half)
        if _acquire_lock(ports, by, losing.LOCK, losing.EVERY, losing.TERM):
            try:
                ended += losing.end_orphaned_jobs(ports.lost, tree, clock(), time_left)
            finally:
                _release_lock(ports, by, losing.LOCK)
        made = expand(ports.expanding, tree, clock, time_left)
    finally:
        _release_lock(ports, by)
    return Advanced(batches=made.batches, tasks=made.tasks, ended=ended)


def can_advance(ports: AdvancingPorts, now: datetime) -> bool:
    """Whether there is a job that tasks can be made of now."""
    return bool(ports.expanding.jobs.expandable(1, now))


def _acquire_lock(
    ports: AdvancingPorts,
    by: str,
    turn: str = LOCK,
    every: timedelta = EVERY,
    term: timedelta = TERM,
) -> bool:
    try:
        return ports.detector.acquire_lock(turn, by, every, term)
    except StoreUnavailableError as error:
        warn("whose turn it is to make tasks is not known", error)
        return False


def _release_lock(ports: AdvancingPorts, by: str, turn: str = LOCK) -> None:
    try:
        ports.detector.release_lock(turn, by)
    except StoreUnavailableError as error:
        warn("the turn to make tasks could not be given back", error)
