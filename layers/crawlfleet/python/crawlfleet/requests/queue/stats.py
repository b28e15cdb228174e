"""Figures of queues: depths, loads, rates, pressure, health.

Rates are of counts by second (SPEC.md A10).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, LEVELS
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.models import Ledger


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """Count the entries of a queue: to be served, leased, delayed.

    ``deferred`` of the ``queued`` wait for their host. Nothing that is queued or deferred has a
    ``ts`` below ``oldest_ts``, unless it was put before the queue's next entry's. ``heads`` are the
    ``ts`` of the next entry of each priority that any is queued of, ``deferred_ts`` the least of
    what is deferred. ``away``: the queue's node of a cluster is away and others are not; all counts
    are 0 then.
    """

    queued: int
    leased: int
    delayed: int
    oldest_ts: int | None = None
    deferred: int = 0
    away: bool = False
    heads: dict[int, int] = {}
    deferred_ts: int | None = None


def together(depths: Sequence[Depth]) -> Depth:
    """Sum the queues of a biz; where one of them is away, so is the sum.

    >>> near = Depth(queued=2, leased=1, delayed=0, heads={5: 7}, oldest_ts=7)
    >>> far = Depth(queued=1, leased=0, delayed=0, heads={5: 3}, oldest_ts=3)
    >>> both = together([near, far])
    >>> both.queued, both.leased, both.heads, both.oldest_ts
    (3, 1, {5: 3}, 3)
    """
    if len(depths) == 1:
        return depths[0]
    heads: dict[int, int] = {}
    for depth in depths:
        for level, ts in depth.heads.items():
            heads[level] = min(ts, heads.get(level, ts))
    return Depth(
        queued=sum(depth.queued for depth in depths),
        leased=sum(depth.leased for depth in depths),
        delayed=sum(depth.delayed for depth in depths),
        oldest_ts=_least(depth.oldest_ts for depth in depths),
        deferred=sum(depth.deferred for depth in depths),
        away=any(depth.away for depth in depths),
        heads=heads,
        deferred_ts=_least(depth.deferred_ts for depth in depths),
    )


def _least(moments: Iterable[int | None]) -> int | None:
    return min((one for one in moments if one is not None), default=None)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Count the work of a queue at one moment: what a lease would find, and what is leased.

    Retries that are not due yet, and what waits for a host that is not to be asked yet, are in
    neither; ``next_ts`` is when the next of these is. Of a host that is due at most
    ``requests.queue.ageing.READY_EACH`` are ready: no more can be had of it at once. ``away`` is as
    of :class:`Depth`.
    """

    ready: int
    leased: int
    next_ts: int | None = None
    away: bool = False


def at_hand(loads: Sequence[Load]) -> Load:
    """Sum the work of all queues of a biz."""
    if len(loads) == 1:
        return loads[0]
    return Load(
        ready=sum(load.ready for load in loads),
        leased=sum(load.leased for load in loads),
        next_ts=_least(load.next_ts for load in loads),
        away=any(load.away for load in loads),
    )


class Pressure(msgspec.Struct, frozen=True, kw_only=True):
    """Tell what stands against taking more: nothing, or one of these.

    ``backlog`` is what is queued, leased and delayed; ``wait_seconds`` how long the rate asks to
    wait; ``memory_full``: Redis has no room.
    """

    backlog: int
    backlog_full: bool = False
    memory_full: bool = False
    wait_seconds: float = 0.0

    @property
    def admitted(self) -> bool:
        """Tell whether more is taken."""
        return not (self.backlog_full or self.memory_full or self.wait_seconds > 0)


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Requests per second over the last full 1, 5 and 60 seconds (SPEC.md A10)."""

    per_1s: float
    per_5s: float
    per_60s: float


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Totals per state, rates, and where workers spent their time, in seconds by phase.

    ``states`` is the ledger as clients read it: by label, the biz's own states included.
    """

    states: dict[str, int]
    ledger: Ledger
    records: int
    depth: Depth
    submitted: Rates
    processed: Rates
    phases: dict[str, float]


class NodeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Hold figures of Redis or a MongoDB node, plain numbers by metric name.

    ``missing`` says by figure why it is not among them: a right that our user has not, a wrong
    answer, a server without it. ``unread`` are those of them that may well exist. ``error`` is what
    is wrong with the part itself.
    """

    part: str
    name: str
    up: bool
    figures: dict[str, float] = {}
    missing: dict[str, str] = {}
    unread: tuple[str, ...] = ()
    error: str | None = None


class QueueWork(msgspec.Struct, frozen=True, kw_only=True):
    """Count what lies ahead of the workers in a queue, at one moment.

    ``queued`` are entries of the queue and of leases that have ended; their hosts are not known.
    ``due`` are retries that are due soon. ``deferred`` entries wait for ``hosts`` hosts, however
    long that takes; ``hosts_due`` of these are looked at again soon, and ``sample`` has some, the
    soonest due first, each with its count. ``parked_entries`` of the deferred wait for an account
    of a quota and for no host; ``parked`` are some of these lists, each with its count. Nothing
    queued or deferred is older than ``oldest_ts``.
    """

    queued: int = 0
    leased: int = 0
    due: int = 0
    deferred: int = 0
    hosts: int = 0
    hosts_due: int = 0
    sample: tuple[tuple[str, int], ...] = ()
    parked: tuple[tuple[str, int], ...] = ()
    parked_entries: int = 0
    oldest_ts: int | None = None

    @property
    def backlog(self) -> int:
        """Sum all of it."""
        return self.queued + self.leased + self.due + self.deferred

    @property
    def can_go_on(self) -> bool:
        """Tell whether a worker could do something of it now or soon."""
        return bool(self.queued or self.leased or self.due or self.hosts_due)


#: The longest span of the rates, in seconds.
LONGEST_SECONDS: Final = 60
#: Counts older than this many seconds may be forgotten.
KEPT_SECONDS: Final = 90


def full_minute(counts: Mapping[int, int], second: int) -> dict[int, int]:
    """Return the counts of the 60 full seconds before ``second``; an empty second is missing.

    >>> full_minute({39: 1, 40: 2, 99: 3, 100: 4}, 100)
    {40: 2, 99: 3}
    """
    return {at: counts[at] for at in sorted(counts) if second - LONGEST_SECONDS <= at < second}


def before(counts: Mapping[int, int], second: int, since: int = 0) -> dict[int, int]:
    """Return the counts of the seconds from ``since`` on that are over at ``second``, in order.

    >>> before({39: 1, 99: 3, 100: 4}, 100, 40)
    {99: 3}
    """
    return {at: counts[at] for at in sorted(counts) if since <= at < second and counts[at]}


def rates(counts: Mapping[int, int], second: int) -> Rates:
    """Average over the last full 1, 5 and 60 seconds; ``second`` itself is not over yet.

    >>> rates({95: 10, 99: 5, 100: 7}, 100)
    Rates(per_1s=5.0, per_5s=3.0, per_60s=0.25)
    """

    def over(span: int) -> float:
        return sum(counts.get(at, 0) for at in range(second - span, second)) / span

    return Rates(per_1s=over(1), per_5s=over(5), per_60s=over(LONGEST_SECONDS))


def queued_before(
    depth: Depth, now: datetime, slack_seconds: float, priority: int = DEFAULT_PRIORITY
) -> int:
    """Return the epoch ms below which a pending request of that priority cannot be queued any more.

    Of one priority the queue is served oldest first, so what is older than its oldest entry and
    still pending has been lost from it, or is about to be claimed; unless it is deferred. A
    submission needs a moment from MongoDB to Redis, hence the slack. Requests lost from the middle
    are found when they would be served.
    """
    latest = to_ms(now) - round(slack_seconds * 1_000)
    bounds = (depth.heads.get(priority), depth.deferred_ts)
    return min([latest, *(bound for bound in bounds if bound is not None)])


def each_queued_before(depth: Depth, now: datetime, slack_seconds: float) -> tuple[int, ...]:
    """Return :func:`queued_before` of the priorities 0 to 10."""
    return tuple(queued_before(depth, now, slack_seconds, level) for level in range(LEVELS))
