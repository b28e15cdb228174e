"""Decide how many workers there should be (SPEC.md A12, H4, C1).

**Needed.** A queue with a plan needs as many workers as end its backlog within :data:`MARGIN` of
the time that is left to its oldest request; one without a plan needs one for every
``requests_per_consumer``. A worker's throughput is what workers have reported of that queue, or
else of any (:func:`capacity`), and until then a guess. No queue gets more than its hosts may be
asked for: a worker more would wait at them too. Parts of workers add up over the queues, so that a
hundred small ones share one. Where there is anything to do there is at least one. A queue that will
not end in time at its present rate, though its hosts could bear more, keeps the workers that it
has: the reported throughput is too good then.

**Kept.** More are started in one step, as soon as they are needed. Fewer are kept only after
``quiet_seconds`` in which fewer would have done even with :data:`BAND` times the work, then no
fewer than that quiet time's peak, and at most a quarter of them leaves at once. So a load that
varies within the band changes nothing, and one that comes back soon finds its workers.

**Stated needs** become workers that are kept available. What a biz states comes to a number of
workers, or a part of one. A tenant is kept no more than the stage's
``capacity.workers_per_tenant``, whatever it states. Where all of it together is more than the pool
may have, each tenant gets the same share of it at most, and what one does not need is the others'
(max-min fairness): a tenant that states more takes nothing of theirs by it. Workers serve
everybody: who gets how much of them is the queue's fairness.

**Plans.** A plan says how long a request may take from its submission to its end. The deadline
alarm, the monitor's ``late`` and the number of workers are three readings of :func:`seconds_left`.
Requests are served in turn: one with ``ahead`` requests up to itself that was submitted ``age``
seconds ago is done in time at rates of ``ahead / (planned - age)`` and more, and the backlog's
planned end is that of the request which asks for the highest rate. Of a burst that is its last one:
all of it is as old as its oldest. Of a steady stream it is the youngest, which has all of its time
left, however old the oldest is. What was submitted in the last seconds is known; what waits beyond
that is taken to have come as evenly as the last of it, and what that does not explain came all at
once, with the oldest. Where nothing is known of the last seconds all is as old as the oldest: that
asks for the most, never for less.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import FleetLimits, Needs, Stage, Tree
from crawlfleet.config.lookup import is_suspended
from crawlfleet.fleet import models
from crawlfleet.requests.queue.stats import KEPT_SECONDS

#: A plan is to be kept with so much of its time used: rates vary, and a worker may die.
MARGIN: Final = 0.8
#: A plan that is over, or nearly, is taken to have so many seconds left.
LEAST_SECONDS: Final = 30.0
#: Fewer workers must be able to bear so many times the load before any leaves.
BAND: Final = 1.2
#: The part that leaves at once, at most; one may always.
LEAVING: Final = 0.25
#: A download and its page take so long before any was measured.
GUESSED_SECONDS: Final = 1.0
#: A worker that was less busy than this has shown a lower bound of its throughput only.
LEAST_BUSY: Final = 0.25
#: Below this nothing is learnt: a worker that takes 100 seconds for a page is stuck.
SLOWEST: Final = 0.01
#: The weight of one report beside what is known: each worker reports every few seconds.
THROUGHPUT_WEIGHT: Final = 0.1
#: Queues whose own throughput is kept, at most: for others that of all counts.
MOST_THROUGHPUTS: Final = 500
#: A queue that goes on at this part of what its hosts may be asked for is held up by them.
HELD_UP: Final = 0.9
#: Invocations beside workers, such as wake-ups by submissions.
SPARE: Final = 2


def capacity(per_second: float, busy: float) -> models.Throughput | None:
    """Compute a worker's throughput from what it has done; None if that says nothing.

    ``busy`` is the part of its runners that were at work meanwhile, on average. By Little's law a
    full worker does as many times more as it has runners left, at the same time a page. That the
    time stays the same is not to be believed of one that was nearly idle: it has shown a lower
    bound only.

    >>> capacity(8.0, 0.5)
    Throughput(per_second=16.0, is_least=False)
    >>> capacity(8.0, 0.01)
    Throughput(per_second=8.0, is_least=True)
    >>> capacity(0.0, 1.0)
    """
    if per_second < SLOWEST or busy <= 0:
        return None
    if busy < LEAST_BUSY:
        return models.Throughput(per_second=per_second, is_least=True)
    return models.Throughput(per_second=per_second / min(1.0, busy))


def learnt(known: float | None, shown: models.Throughput) -> float | None:
    """Learn a throughput from a report; report_throughput.lua does the same.

    A report of a nearly idle worker can raise it and never lower it, and is no beginning: the guess
    is better, as a fleet of too few workers will soon be busy and report that.

    >>> shown = models.Throughput(per_second=20.0)
    >>> learnt(None, shown), learnt(10.0, shown)
    (20.0, 11.0)
    >>> idle = models.Throughput(per_second=1.0, is_least=True)
    >>> learnt(10.0, idle), learnt(None, idle)
    (10.0, None)
    """
    if known is None:
        return None if shown.is_least else shown.per_second
    if shown.is_least and shown.per_second < known:
        return known
    return known + (shown.per_second - known) * THROUGHPUT_WEIGHT


def assumed_throughput(limits: FleetLimits) -> float:
    """Assume a worker's throughput before any was reported."""
    return limits.concurrency / GUESSED_SECONDS


def needed_workers(
    demand: models.Demand,
    throughput: float,
    limits: FleetLimits,
    most: int,
    load: float = 1.0,
    live: int = 0,
) -> int:
    """Compute the workers that are needed for ``load`` times the demand, ``most`` at most.

    ``throughput`` is a worker's where a queue has none of its own; ``live`` work now.

    >>> queue = models.QueueDemand(backlog=20_000, seconds_left=600)
    >>> needed_workers(models.Demand(queues=(queue,)), 16.0, FleetLimits(max_consumers=9), 9)
    3
    """
    parts = [_queue_workers(queue, throughput, limits, load) for queue in demand.queues]
    pairs = list(zip(parts, demand.queues, strict=True))
    made = sum(part * (queue.throughput or throughput) for part, queue in pairs)
    usable = min(1.0, demand.polite_per_second / made) if made else 1.0
    held = sum(queue.leased for queue in demand.queues)
    total = 0.0
    for part, queue in pairs:
        now = live * queue.leased / held if held and is_late(queue) else 0.0
        total += max(part * usable, now)
    # Sums of parts are not exact: 3 of them must not become 4.
    needed = math.ceil(min(total, float(most)) - 1e-9)
    if demand.backlog:
        needed = max(1, needed)
    return min(max(limits.min_consumers, needed), most)


def _queue_workers(
    queue: models.QueueDemand, throughput: float, limits: FleetLimits, load: float
) -> float:
    if not queue.backlog:
        return 0.0
    throughput = queue.throughput or throughput
    if queue.seconds_left is None:
        asked = queue.backlog / limits.requests_per_consumer
    else:
        seconds = max(LEAST_SECONDS, queue.seconds_left * MARGIN)
        asked = queue.backlog / (seconds * throughput)
    return min(asked * load, queue.polite_per_second / throughput)


def is_late(queue: models.QueueDemand) -> bool:
    """Tell whether a queue will not end in time at its rate, for want of workers and not of slots.

    >>> queue = models.QueueDemand(
    ...     backlog=1_000, seconds_left=100.0, polite_per_second=50.0, drained=5.0
    ... )
    >>> is_late(queue)
    True
    """
    if queue.seconds_left is None or queue.drained is None or not queue.backlog:
        return False
    in_time = queue.drained * max(0.0, queue.seconds_left)
    return queue.backlog > in_time and queue.drained < HELD_UP * queue.polite_per_second


def decide(
    scaling_state: models.ScalingState,
    demand: models.Demand,
    limits: FleetLimits,
    *,
    live: int,
    ceiling: int | None = None,
) -> models.ScalingTarget:
    """Decide the target from now on; the stage may have ``ceiling`` invocations at once.

    The ``live`` workers are the standing target where none is known: what Redis has lost is no
    reason to send anybody away.
    """
    most = limits.max_consumers if ceiling is None else min(limits.max_consumers, ceiling)
    throughput = scaling_state.throughput or assumed_throughput(limits)
    before, now_ms = scaling_state.target, scaling_state.now_ms
    staying = max(0, live - scaling_state.leaving)
    needed = needed_workers(demand, throughput, limits, most, live=staying)
    # More work may need fewer: quick queues take the slots of hosts that they share with slow ones.
    roomy = max(needed, needed_workers(demand, throughput, limits, most, BAND, staying))
    if models.is_fresh(scaling_state):
        kept = min(before.kept, most)
    else:
        before = models.ScalingTarget(allowed=before.allowed)
        kept = min(max(needed, live), most)
    quiet_ms = min(before.quiet_ms, now_ms)
    found = models.ScalingTarget(needed=needed, kept=kept, at_ms=now_ms, allowed=before.allowed)
    if roomy >= kept:
        return replace(found, kept=max(needed, kept))
    if not quiet_ms:
        return replace(found, quiet_ms=now_ms, peak=roomy)
    peak = max(before.peak, roomy)
    if now_ms - quiet_ms < limits.quiet_seconds * 1_000:
        return replace(found, quiet_ms=quiet_ms, peak=peak)
    # Never more than now: the peak may be of a time that had more to give.
    kept = min(kept, max(peak, kept - max(1, math.floor(kept * LEAVING))))
    return replace(found, kept=kept, quiet_ms=now_ms, peak=roomy)


def reserved(target: models.ScalingTarget, ceiling: int) -> int:
    """Compute the concurrency to reserve for the workers' function.

    Never none: a submission to an idle fleet wakes a worker, and rules are tried.

    >>> reserved(models.ScalingTarget(needed=3, kept=4), 10), reserved(models.ScalingTarget(), 10)
    (6, 2)
    >>> reserved(models.ScalingTarget(kept=9), 10)
    10
    """
    return max(1, min(target.kept + SPARE, ceiling))


_HOUR_SECONDS: Final = 3600.0
#: Sums of parts are not exact: 3 workers must not become 4.
_EXACT: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Workers that stated needs keep available in a pool.

    By tenant, those ``asked`` are what its needs come to, before any bound; ``given`` are kept.
    """

    asked: Mapping[str, float] = field(default_factory=dict)
    given: Mapping[str, float] = field(default_factory=dict)

    @property
    def floor(self) -> int:
        """Workers that are kept, whatever there is to do."""
        return _whole(sum(self.given.values()))

    @property
    def stated(self) -> int:
        """Workers that everything that is stated would take."""
        return _whole(sum(self.asked.values()))

    @property
    def short(self) -> tuple[str, ...]:
        """Tenants that are kept less than they state, the shortest first."""
        missing = {name: self.asked[name] - self.given.get(name, 0.0) for name in self.asked}
        found = [name for name, workers in missing.items() if workers > _EXACT]
        return tuple(sorted(found, key=lambda name: (-missing[name], name)))


def stated_by(tree: Tree) -> Iterator[tuple[str, Needs]]:
    """Yield stated needs: of ``tenant/biz``, or of a tenant for all of its bizs together.

    What a suspended tenant states is kept for nobody.
    """
    for tenant, document in sorted(tree.tenants.items()):
        if document.needs is not None and not document.suspended:
            yield tenant, document.needs
    for tenant, bizs in sorted(tree.bizs.items()):
        if is_suspended(tree, tenant):
            continue
        for name, biz in sorted(bizs.items()):
            if biz.needs is not None:
                yield f"{tenant}/{name}", biz.needs


def active(tree: Tree, at_work: Collection[str]) -> set[str]:
    """Name those with stated needs that have work; a tenant has where any of its bizs has."""
    tenants = {path.partition("/")[0] for path in at_work}
    return {name for name, _ in stated_by(tree) if name in (at_work if "/" in name else tenants)}


def pool_capacity(
    tree: Tree,
    pool: str,
    most: int,
    *,
    throughputs: Mapping[str, float],
    throughput: float | None = None,
    idle_seconds: Mapping[str, float] | None = None,
) -> Capacity:
    """Compute what is to be kept available in a pool, of ``most`` workers.

    ``throughputs`` are requests a second that a worker does, by ``tenant/biz``, ``throughput`` of
    any; a guess where None was reported. ``idle_seconds`` are those without work by who states
    needs; who is not there counts as busy.
    """
    idle_seconds = idle_seconds or {}
    own: defaultdict[str, float] = defaultdict(float)
    whole: dict[str, float] = {}
    any_throughput = throughput or assumed_throughput(tree.stage.fleet)
    for name, needs in stated_by(tree):
        longest, idle = needs.idle_seconds, idle_seconds.get(name, 0.0)
        released = longest is not None and idle > longest
        if needs.pool != pool or released:
            continue
        tenant, _, biz = name.partition("/")
        if biz:
            own[tenant] += _workers(needs, throughputs.get(name) or any_throughput)
        else:
            mine = [throughputs[path] for path in throughputs if path.startswith(f"{tenant}/")]
            whole[tenant] = _workers(needs, sum(mine) / len(mine) if mine else any_throughput)
    asked = {
        tenant: max(own.get(tenant, 0.0), whole.get(tenant, 0.0))
        for tenant in sorted(own.keys() | whole.keys())
    }
    return Capacity(asked=asked, given=shares(asked, most, tree.stage))


def shares(asked: Mapping[str, float], most: float, stage: Stage) -> dict[str, float]:
    """Give each tenant of ``most`` workers what it asks, or a fair share.

    >>> stage = Stage()
    >>> shares({"a": 1.0, "b": 8.0, "c": 99.0}, 9.0, stage)
    {'a': 1.0, 'b': 4.0, 'c': 4.0}
    >>> shares({"a": 1.0, "c": 99.0}, 50.0, stage)
    {'a': 1.0, 'c': 10.0}
    """
    cap = float(stage.capacity.workers_per_tenant)
    wanted = {tenant: min(workers, cap) for tenant, workers in asked.items()}
    left, open_ones = max(0.0, float(most)), sorted(wanted, key=lambda name: (wanted[name], name))
    given: dict[str, float] = {}
    while open_ones:
        tenant = open_ones.pop(0)
        given[tenant] = min(wanted[tenant], left / (len(open_ones) + 1))
        left -= given[tenant]
    return {tenant: given[tenant] for tenant in asked}


def _workers(needs: Needs, throughput: float) -> float:
    """Compute the workers that stated needs come to."""
    if needs.workers is not None:
        return float(needs.workers)
    return (needs.requests_per_hour or 0) / _HOUR_SECONDS / throughput


def _whole(workers: float) -> int:
    return math.ceil(workers - _EXACT)


def seconds_left(
    planned: float, oldest: float, waiting: float, submitted: Sequence[int] = ()
) -> float:
    """Compute how long a backlog may still take as a whole, so that nothing of it is late.

    0 or below where the oldest has had all of its time: then something is late already.

    The biz plans ``planned`` seconds for each request; the ``oldest`` has waited for so many.
    ``submitted`` are those of each of the last full seconds, the latest first; empty if unknown.

    >>> seconds_left(600, 100, 20_000)
    500.0
    >>> round(seconds_left(600, 300, 9_000, [30] * 90))
    599
    """
    if oldest >= planned or waiting <= 0:
        return float(planned - oldest)
    fastest, later = 0.0, 0
    # What was submitted in a second is taken to have come as it began.
    for second, count in enumerate(submitted):
        ahead = waiting - later
        if ahead <= 0:
            break
        if count:
            fastest = max(fastest, ahead / (planned - min(second + 1, oldest)))
        later += count
    rest = waiting - later
    if rest > 0:
        known = min(len(submitted), oldest)
        evenly = later / len(submitted) * (oldest - known) if submitted else 0.0
        burst = max(0.0, rest - evenly) / (planned - oldest)
        fastest = max(fastest, rest / (planned - known), burst)
    return waiting / fastest


def latest_seconds(planned: float, left: float, oldest: float, forecast: float | None) -> float:
    """Compute how long the latest waiting request will have taken; late is more than ``planned``.

    ``left`` are the :func:`seconds_left`; ``forecast`` is for all that waits at the present rate.
    None without a rate: then only the wait of the ``oldest`` so far is sure.
    """
    if forecast is None:
        return oldest
    return max(oldest, planned - left + forecast)


def latest_first(counts: Mapping[int, int], second: int) -> list[int]:
    """List counts by epoch second as those of each full second before ``second``.

    >>> latest_first({98: 3, 99: 4, 100: 5}, 100)[:3]
    [4, 3, 0]
    """
    return [counts.get(second - 1 - ago, 0) for ago in range(KEPT_SECONDS)]
