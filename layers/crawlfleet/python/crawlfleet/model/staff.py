"""How many workers there are to be (SPEC.md A12, H4): what lies ahead of them, what was decided."""

import math
from typing import Final

import msgspec

from crawlfleet.model.pool import MAIN_POOL

#: What decisions on the usual pool are kept under, of which there was one before there were others.
FLEET_POOL: Final = "fleet"


def staffed_as(pool: str) -> str:
    """What decisions on a pool are kept under.

    >>> staffed_as("main"), staffed_as("large")
    ('fleet', 'large')
    """
    return FLEET_POOL if pool == MAIN_POOL else pool


class LaneWork(msgspec.Struct, frozen=True, kw_only=True):
    """What lies ahead of the workers in a lane, seen in one moment.

    Attributes:
        queued: Entries of the queue and of leases that have ended; their hosts are not known.
        leased: Entries that workers hold.
        due: Retries that are due soon.
        parked: Entries that wait for their hosts, however long that takes.
        hosts: How many hosts these are.
        hosts_due: How many of the hosts are looked at again soon.
        sample: Some of the hosts, the soonest due first, each with how many entries wait for it.
        oldest_ts: Nothing that is queued or parked was submitted before; None where nothing is.
    """

    queued: int = 0
    leased: int = 0
    due: int = 0
    parked: int = 0
    hosts: int = 0
    hosts_due: int = 0
    sample: tuple[tuple[str, int], ...] = ()
    oldest_ts: int | None = None

    @property
    def backlog(self) -> int:
        """All of it."""
        return self.queued + self.leased + self.due + self.parked

    @property
    def can_go_on(self) -> bool:
        """Whether somebody could do something of it now or soon."""
        return bool(self.queued or self.leased or self.due or self.hosts_due)


class LaneDemand(msgspec.Struct, frozen=True, kw_only=True):
    """What a lane asks of the workers.

    Attributes:
        backlog: Requests to be dealt with; 0 where nothing can go on.
        seconds_left: Until its plan ends, below 0 when it has; None where it has no plan.
        polite_per_second: What its hosts may be asked for; infinite where nothing is known that
            would hold it up.
        pace: Requests of it that a worker can deal with in a second; None where none has shown it.
        leased: Requests of it that workers hold.
        drained: Requests of it that were dealt with in a second lately; None where nobody looked.
    """

    backlog: int
    seconds_left: float | None = None
    polite_per_second: float = math.inf
    pace: float | None = None
    leased: int = 0
    drained: float | None = None


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What all lanes ask of a pool.

    Lanes share hosts, so ``polite_per_second`` may be less than all theirs together. ``at_work``
    names the bizs of which anything is queued, held or waits, as ``tenant/biz``.
    """

    lanes: tuple[LaneDemand, ...] = ()
    polite_per_second: float = math.inf
    at_work: frozenset[str] = frozenset()

    @property
    def backlog(self) -> int:
        """Requests to be dealt with."""
        return sum(lane.backlog for lane in self.lanes)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has shown to be able to do.

    Attributes:
        pace: Requests in a second.
        is_least: Whether that is only the least, as the worker had little to do.
    """

    pace: float
    is_least: bool = False


class Mustered(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is told that has said what it can do.

    Attributes:
        leaves: Whether it is one too many, and is to leave.
        others: How many others live and are not told to.
        floor: How many are to be there though there is nothing to do, by stated needs.
    """

    leaves: bool
    others: int
    floor: int = 0


class Staff(msgspec.Struct, frozen=True, kw_only=True):
    """How many workers a pool is to have.

    Between ``needed`` and ``kept`` nothing is done: that keeps it from flapping.

    Attributes:
        needed: Whoever is missing of these is started.
        kept: Whoever is there beyond these is told to leave.
        at_ms: When it was decided, by the server's clock; 0 if it never was.
        quiet_ms: Since when fewer than are kept would do; 0 while they would not.
        peak: The most that would have done since then.
        allowed: How many invocations there may be at once; None where that is not known.
        floor: How many of the needed are kept available by stated needs, whatever there is to do.
        stated: How many stated needs come to, what nobody can be given included.
    """

    needed: int = 0
    kept: int = 0
    at_ms: int = 0
    quiet_ms: int = 0
    peak: int = 0
    allowed: int | None = None
    floor: int = 0
    stated: int = 0

    @property
    def startable(self) -> int:
        """How many of those that are needed can be started."""
        return self.needed if self.allowed is None else min(self.needed, self.allowed)


class Staffed(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a pool at one moment: the standing decision, and what workers have shown.

    Attributes:
        staff: The standing decision.
        version: Which one it is, for whoever wants to replace it.
        now_ms: The moment, by the server's clock.
        pace: Requests a second that a worker can deal with; None before any has shown it.
        leaving: Workers that are told to leave and have not left yet.
    """

    staff: Staff = Staff()
    version: int = 0
    now_ms: int = 0
    pace: float | None = None
    leaving: int = 0
