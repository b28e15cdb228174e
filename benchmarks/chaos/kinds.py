"""The kinds of harm, and in which mixture a run has them."""

from collections.abc import Mapping
from enum import StrEnum
from random import Random
from typing import Final

from benchmarks.chaos.steps import Step


class Kind(StrEnum):
    """The kind of a fault that is injected into the fleet or its servers."""

    KILL = "kill"
    AFTER_LEASE = "after-lease"
    AFTER_CLAIM = "after-claim"
    AFTER_FETCH = "after-fetch"
    BEFORE_STORE = "before-store"
    AFTER_STORE = "after-store"
    BEFORE_FINISH = "before-finish"
    FREEZE_BRIEFLY = "freeze-briefly"
    FREEZE = "freeze"
    REDIS_EMPTY = "redis-empty"
    REDIS_FLUSH = "redis-flush"
    REDIS_ROLLBACK = "redis-rollback"
    REDIS_FULL = "redis-full"
    MONGO = "mongo"
    TWO_TICKS = "two-ticks"
    TWIN = "twin"
    LATE = "late"
    CLOCK_AHEAD = "clock-ahead"
    CLOCK_BEHIND = "clock-behind"

    @property
    def step(self) -> Step | None:
        """The step at which this one kills, if it is one of those."""
        return Step(self.value) if self.value in set(Step) else None


#: What each kind does, for people.
MEANING: Final[Mapping[Kind, str]] = {
    Kind.KILL: "kill -9 of a consumer, at any instant",
    Kind.AFTER_LEASE: "a consumer dies after its lease, before its claim",
    Kind.AFTER_CLAIM: "a consumer dies after its claim, before a page is asked for",
    Kind.AFTER_FETCH: "a consumer dies with pages fetched and not stored",
    Kind.BEFORE_STORE: "a consumer dies when it is about to store",
    Kind.AFTER_STORE: "a consumer dies when it has stored, before Redis knows",
    Kind.BEFORE_FINISH: "a consumer dies when it is about to finish its leases",
    Kind.FREEZE_BRIEFLY: "SIGSTOP for a moment: a slow worker keeps its work",
    Kind.FREEZE: "SIGSTOP past detector and lease, then SIGCONT",
    Kind.REDIS_EMPTY: "Redis: kill -9, and started again empty",
    Kind.REDIS_FLUSH: "Redis: FLUSHALL",
    Kind.REDIS_ROLLBACK: "Redis: kill -9, and started again from an old snapshot",
    Kind.REDIS_FULL: "Redis: full for some seconds, and nothing is evicted",
    Kind.MONGO: "MongoDB: kill -9 of the primary; it comes back after the election",
    Kind.TWO_TICKS: "two schedulers tick at once",
    Kind.TWIN: "an invocation that runs twice at once, under one id",
    Kind.LATE: "an invocation of an earlier worker's id, delivered late",
    Kind.CLOCK_AHEAD: "a consumer's clock steps ahead by minutes",
    Kind.CLOCK_BEHIND: "a consumer's clock steps back by minutes",
}

#: The share of each kind in a mixed run. Servers take seconds to come back, consumers do not.
WEIGHTS: Final[Mapping[Kind, int]] = {
    Kind.KILL: 12,
    **dict.fromkeys((kind for kind in Kind if kind.step), 3),
    Kind.FREEZE_BRIEFLY: 2,
    Kind.FREEZE: 2,
    Kind.REDIS_EMPTY: 2,
    Kind.REDIS_FLUSH: 2,
    Kind.REDIS_ROLLBACK: 2,
    Kind.REDIS_FULL: 2,
    Kind.MONGO: 2,
    Kind.TWO_TICKS: 3,
    Kind.TWIN: 3,
    Kind.LATE: 2,
    Kind.CLOCK_AHEAD: 1,
    Kind.CLOCK_BEHIND: 1,
}


def mixture(kinds: tuple[Kind, ...], count: int, dice: Random) -> list[Kind]:
    """``count`` harms of these kinds by their weights, in random order, none twice before all once.

    >>> sorted(mixture((Kind.KILL, Kind.MONGO), 4, Random(1)))
    [<Kind.KILL: 'kill'>, <Kind.KILL: 'kill'>, <Kind.KILL: 'kill'>, <Kind.MONGO: 'mongo'>]
    """
    once = dice.sample(kinds, min(count, len(kinds)))
    more = dice.choices(kinds, [WEIGHTS[kind] for kind in kinds], k=count - len(once))
    dice.shuffle(chosen := [*once, *more])
    return chosen
