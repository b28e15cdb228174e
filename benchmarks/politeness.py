"""Crawl many small hosts and a large one from one queue, and see who waits (SPEC.md H3).

A simulation, since the large host alone takes hours at a polite rate. Its clock is simulated, and
so are the sites and the workers' event loops; slots are granted, and requests deferred, by the
tests' fakes of the product's Lua, which contract tests hold to it. Beside it: the same workers on a
plain queue, where who has taken a request waits with it until its host may be asked. Both ask no
host for more than its rate.
"""

import heapq
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

from benchmarks.bench import Bench, BenchError, Found
from crawlfleet.config.documents.biz import FleetLimits
from crawlfleet.config.documents.policies import HostLimits
from crawlfleet.crawling.politeness.models import (
    PERMIT_SECONDS,
    HostAsk,
    HostGrant,
    HostReport,
    interval_of,
)
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Entry
from tests.fakes.politeness import MemoryHosts
from tests.fakes.queue import MemoryQueue

WORKERS: Final = 2
FLEET: Final = FleetLimits()
LIMITS: Final = HostLimits()
#: How long hosts take to answer, from the quickest to the slowest.
ANSWERS: Final = (0.1, 0.4)
#: What a worker takes to lease and claim a batch.
LEASING: Final = 0.02
POLL: Final = 0.1
LARGE: Final = "large.example"
QUEUE_KEY: Final = QueueKey("default", "docs", "main")
#: Points of a curve that are kept.
POINTS: Final = 200

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_LEASE: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """So many hosts with so many requests each, beside one with so many."""

    small_hosts: int
    each: int
    large: int

    def hosts(self) -> list[str]:
        """The host of every request, in the order in which they are queued: mixed."""
        found = [f"h{n}.example" for n in range(self.small_hosts) for _ in range(self.each)]
        found += [LARGE] * self.large
        random.Random(3).shuffle(found)
        return found

    @property
    def least_seconds(self) -> float:
        """Get how long the large host takes at its rate, were it alone."""
        return (self.large - 1) * interval_of(LIMITS)


@dataclass(slots=True)
class Curve:
    """The moments at which requests were done, those of small hosts and the large one's apart."""

    small: list[float] = field(default_factory=list)
    large: list[float] = field(default_factory=list)

    def did(self, host: str, at: float) -> None:
        """Record that a request of a host is done."""
        (self.large if host == LARGE else self.small).append(at)

    @property
    def done(self) -> int:
        """Count the requests that are done."""
        return len(self.small) + len(self.large)

    def points(self) -> dict[str, list[tuple[float, float]]]:
        """Seconds and the part that is done by then, as many as are plotted."""
        return {"small hosts": _thin(self.small), "large host": _thin(self.large)}


def run(bench: Bench) -> Found:
    """Simulate both ways."""
    plan = Plan(
        small_hosts=bench.scale.small_hosts,
        each=bench.scale.requests_each,
        large=bench.scale.large_host_requests,
    )
    deferred = slots_and_deferral(plan)
    bench.tick("politeness, slots and deferral")
    plain = plain_queue(plan)
    bench.tick("politeness, plain queue")
    total = plan.small_hosts * plan.each + plan.large
    for name, curve in (("ours", deferred), ("the plain queue", plain)):
        if curve.done != total:
            raise BenchError(f"{name} did {curve.done} of {total} requests")
    said = (
        f"politeness: {plan.small_hosts:,} hosts with {plan.each:,} requests each were done after "
        f"{max(deferred.small):,.0f} s beside one with {plan.large:,} (after "
        f"{max(deferred.large):,.0f} s; alone it takes {plan.least_seconds:,.0f} s), in a plain "
        f"queue after {max(plain.small):,.0f} s"
    )
    return Found(
        figures={
            "politeness_vs_fifo": max(plain.small) / max(deferred.small),
            "politeness_large_host": plan.least_seconds / max(deferred.large),
        },
        details={
            "politeness, requests done (simulated)": {
                "slots and deferral": deferred.points(),
                "plain queue": plain.points(),
            }
        },
        notes=[said],
    )


def plain_queue(plan: Plan) -> Curve:
    """Serve the plan in order: each request is waited with until its host may be asked."""
    curve, interval = Curve(), interval_of(LIMITS)
    free = [0.0] * (WORKERS * FLEET.concurrency)
    slots: dict[str, float] = defaultdict(float)
    for host in plan.hosts():
        start = max(free[0], slots[host])
        slots[host] = start + interval
        ended = start + answer_seconds(host)
        heapq.heapreplace(free, ended)
        curve.did(host, ended)
    return curve


def slots_and_deferral(plan: Plan) -> Curve:
    """Crawl as the product does: a request without a slot waits in its host's own list."""
    world = _World(plan.hosts())
    workers = [_Worker(world, f"w-{number}") for number in range(WORKERS)]
    for worker in workers:
        worker.begin()
    world.run()
    return world.curve


def answer_seconds(host: str) -> float:
    """Get how long a host takes to answer, always the same."""
    quickest, slowest = ANSWERS
    return random.Random(host).uniform(quickest, slowest)


class _World:
    """The simulated time, what is to happen in it, and what workers share."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.now = 0.0
        self.curve = Curve()
        self.host_of = dict(enumerate(hosts, 1))
        self.hosts = MemoryHosts(clock=self.clock)
        self.queue = MemoryQueue()
        self.queue.enqueue(
            QUEUE_KEY, [Entry(an_id, QUEUE_KEY.biz, 0) for an_id in self.host_of], _START
        )
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def clock(self) -> datetime:
        return _START + timedelta(seconds=self.now)

    @property
    def is_over(self) -> bool:
        return self.curve.done == len(self.host_of)

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + max(0.0, seconds), next(self._order), what))

    def run(self) -> None:
        while self._events and not self.is_over:
            self.now, _, what = heapq.heappop(self._events)
            what()


class _Worker:
    """The leases, slots and permits of a worker (worker.leases), without the pages."""

    def __init__(self, world: _World, name: str) -> None:
        self._world = world
        self._name = name
        self._leases = count()
        self._slots = FLEET.concurrency
        self._ready: deque[tuple[str, str, Entry]] = deque()
        self._blocked: dict[str, deque[tuple[str, str, Entry]]] = defaultdict(deque)
        #: By host: requests with a slot or in flight, those in flight, and the permits.
        self._busy: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        self._permits: dict[str, int] = {}
        self._answered: Counter[str] = Counter()
        self._reported: dict[str, float] = {}

    def begin(self) -> None:
        """Lease, and report once a second."""
        self._lease()
        self._world.after(1.0, self._report)

    def _lease(self) -> None:
        world = self._world
        if self._busy.total() >= FLEET.batch + FLEET.concurrency:
            world.after(POLL / 10, self._lease)
            return
        token = f"{self._name}.{next(self._leases)}"
        taken = self._take_deferred(token)
        if taken < FLEET.batch:
            taken += self._take_queued(token, FLEET.batch - taken)
        world.after(LEASING if taken else POLL, self._lease)

    def _take_deferred(self, token: str) -> int:
        world = self._world
        deferred = world.queue.deferred(QUEUE_KEY, world.clock(), FLEET.batch)
        if not deferred:
            return 0
        each = max(1, FLEET.batch // len(deferred))
        grants = self._ask({one.host: min(one.count, each) for one in deferred})
        wanted = [(grant.host, grant.count, self._again(grant)) for grant in grants]
        found = world.queue.lease_deferred(QUEUE_KEY, token, wanted, world.clock() + _LEASE)
        for grant in grants:
            self._give(grant, token, found.get(grant.host, []))
        return sum(map(len, found.values()))

    def _take_queued(self, token: str, room: int) -> int:
        world = self._world
        now = world.clock()
        entries = world.queue.lease(QUEUE_KEY, token, room, now, now + _LEASE)
        by_host: dict[str, list[Entry]] = defaultdict(list)
        for entry in entries:
            by_host[world.host_of[int(entry.id)]].append(entry)
        grants = self._ask({host: len(part) for host, part in by_host.items()})
        for grant in grants:
            self._give(grant, token, by_host[grant.host][: grant.count])
        aside = [
            (grant.host, self._again(grant), by_host[grant.host][grant.count :])
            for grant in grants
            if grant.count < len(by_host[grant.host])
        ]
        world.queue.defer(QUEUE_KEY, token, aside)
        return len(entries)

    def _ask(self, wanted: Mapping[str, int]) -> list[HostGrant]:
        for host in wanted:
            self._reported[host] = self._world.now
        return self._world.hosts.reserve(
            [
                HostAsk(
                    host=host,
                    tenant=QUEUE_KEY.tenant,
                    count=number,
                    running=self._busy[host],
                    interval_seconds=interval_of(LIMITS),
                    concurrency=LIMITS.concurrency,
                )
                for host, number in wanted.items()
            ],
            self._name,
        )

    def _again(self, grant: HostGrant) -> datetime:
        return self._world.clock() + timedelta(seconds=grant.ready_seconds)

    def _give(self, grant: HostGrant, token: str, entries: Iterable[Entry]) -> None:
        for place, entry in enumerate(entries):
            held = grant.host, token, entry
            self._busy[grant.host] += 1
            self._permits[grant.host] = max(1, grant.permits)
            wait = grant.wait_seconds + place * grant.interval_seconds
            self._world.after(wait, lambda held=held: self._come(held))  # type: ignore[misc]  # bound now

    def _come(self, held: tuple[str, str, Entry]) -> None:
        host = held[0]
        if self._running[host] < self._permits[host]:
            self._running[host] += 1
            self._ready.append(held)
            self._start()
        else:
            self._blocked[host].append(held)

    def _start(self) -> None:
        while self._slots and self._ready:
            held = self._ready.popleft()
            self._slots -= 1
            self._world.after(answer_seconds(held[0]), lambda held=held: self._end(held))  # type: ignore[misc]  # bound now

    def _end(self, held: tuple[str, str, Entry]) -> None:
        host, token, entry = held
        world = self._world
        self._slots += 1
        self._running[host] -= 1
        self._busy[host] -= 1
        self._answered[host] += 1
        world.queue.finish(QUEUE_KEY, token, [entry], 1, world.clock())
        world.curve.did(host, world.now)
        blocked = self._blocked[host]
        while blocked and self._running[host] < self._permits[host]:
            self._running[host] += 1
            self._ready.append(blocked.popleft())
        self._start()

    def _report(self) -> None:
        """Report as crawling.politeness.client does: what was answered, is over, is under way."""
        now = self._world.now
        keys = set(self._answered) | {
            host
            for host, reported in self._reported.items()
            if not self._busy[host] or now - reported > PERMIT_SECONDS / 3
        }
        reports = [
            HostReport(
                host=host,
                tenant=QUEUE_KEY.tenant,
                running=self._busy[host],
                answered=self._answered[host],
                seconds=answer_seconds(host),
                limits=LIMITS,
            )
            for host in keys
        ]
        for host in keys:
            if self._busy[host]:
                self._reported[host] = now
            else:
                self._reported.pop(host, None)
        self._answered.clear()
        self._world.hosts.report(reports, self._name)
        self._world.after(1.0, self._report)


def _thin(moments: list[float]) -> list[tuple[float, float]]:
    """Points of a curve: when which part was done."""
    ordered = sorted(moments)
    step = max(1, len(ordered) // POINTS)
    places = [*range(0, len(ordered) - 1, step), len(ordered) - 1]
    return [(round(ordered[place], 2), (place + 1) / len(ordered)) for place in places]
