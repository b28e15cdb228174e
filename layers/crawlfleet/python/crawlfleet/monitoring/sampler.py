"""The metric journey (SPEC.md A10, A11, C6): look at everything once, as one sample.

Everything is asked at the same time and nothing is waited for beyond the look's own time: a part
that is dead, slow, refuses or answers nonsense is named among what was not read, and the others
are read all the same. What is made of a sample, metrics, incidents, workers, is for others.

Rates are kept per second where they happen, so one look a minute still gives every second of it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.config.documents.stage import Thresholds, own_or
from crawlfleet.config.lookup import biz_of, every_queue, nodes_of
from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.fleet import status as queues
from crawlfleet.fleet.autoscaler import latest_first
from crawlfleet.fleet.models import (
    PoolState,
    QueueSample,
    ScalingTarget,
    Ticked,
    WorkerHeartbeats,
    WorkersSample,
)
from crawlfleet.fleet.redis.registry import RedisFailureDetector, RedisWorkers
from crawlfleet.fleet.status import headcount, is_late
from crawlfleet.kernel.fairness import rotated
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.monitoring import gathering as auditing
from crawlfleet.monitoring import gathering as hosts
from crawlfleet.monitoring.gathering import Gathered, Sharing, gather, in_words
from crawlfleet.monitoring.incidents.detectors import comparable
from crawlfleet.monitoring.incidents.store_checks import judged, unwatched
from crawlfleet.monitoring.models import Health, HostSample, Sample, UnplacedJob, Unread
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.queue.redis.stats import RedisOverview
from crawlfleet.requests.queue.stats import (
    Depth,
    Load,
    NodeHealth,
    at_hand,
    before,
    rates,
    together,
)

#: How much the same nodes of MongoDB may be asked for at once: one that hangs holds no others up.
OF_THE_SAME_NODES: Final = 3

#: An audit that begins just before the end of the look has so long; nobody hears of it.
_SHORTEST_SECONDS: Final = 0.1

#: What is asked: a part of Redis or MongoDB by its name, a lane's ledger, or one of these.
Asked: TypeAlias = "tuple[str, str] | QueueKey | str"
_WORKERS: Final = "workers"
_QUEUES: Final = "queues"
_ORPHANED: Final = "strays"
_TICKS: Final = "ticks"
_UNPLACED: Final = "unplaced"
_HOSTS: Final = "hosts"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPorts:
    """What sampling needs of the world.

    ``decided`` tells the decision on workers that is in force, if one is; ``strays`` how many
    items and requests wait for bizs that there are not; ``ticked`` the scheduler's latest tick.
    ``unplaced`` tells the jobs that no worker suited, of late, or that wait for one too long.
    ``workers`` and ``decided`` are of the usual pool, ``pools`` tells the same of the others.
    """

    queue: RedisQueue
    overview: RedisOverview
    store: MongoRequestStore
    ledgers: MongoLedgers
    workers: RedisWorkers
    detector: RedisFailureDetector
    hosts: RedisHosts
    health: Health
    decided: Callable[[], ScalingTarget | None]
    orphaned: Callable[[Tree, datetime], tuple[int, int]]
    ticked: Callable[[], Ticked]
    pools: Callable[[], Sequence[PoolState]] = tuple
    unplaced: Callable[[datetime, BiddingTerms], Sequence[UnplacedJob]] = lambda *_: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of a look: how long it takes, and how much it asks for.

    Attributes:
        look_seconds: How long the look at everything may take.
        audited_by_seconds: By when audits have to have ended since it began.
        hosts_seconds: How long the look at hosts may take after that. Together they leave the
            monitor nearly half of its minute for what it makes of it.
        audited_keys: Keys that a node is asked to count.
        threads: What is asked at the same time.
    """

    look_seconds: float = 16.0
    audited_by_seconds: float = 26.0
    hosts_seconds: float = 6.0
    audited_keys: int = auditing.KEYS_A_NODE
    threads: int = 16


class _Queue(msgspec.Struct, frozen=True):
    depth: Depth
    load: Load
    submitted: dict[int, int]
    processed: dict[int, int]


class _Fleet(msgspec.Struct, frozen=True):
    heartbeats: list[WorkerHeartbeats]
    sample: WorkersSample


class _Throughput(msgspec.Struct, frozen=True):
    """Hosts worth showing, of so many, of which so many are throttled."""

    hosts: list[HostSample] = []
    seen: int = 0
    throttled: int = 0


class _Book(msgspec.Struct, frozen=True):
    """A lane's ledger. Why its records could not be counted, if so; the rest is there."""

    totals: Ledger
    records: int | None = None
    why_no_records: Exception | None = None


def sample(
    ports: SamplingPorts,
    tree: Tree | None,
    now: datetime,
    *,
    config_refused: str | None = None,
    watched: Sequence[str] = (),
    before: Sample | None = None,
    audits: bool = True,
    bounds: Bounds = Bounds(),
    clock: Callable[[], float] = time.monotonic,
) -> Sample:
    """Look at everything once. Never fails, and takes no longer than its time.

    Without a configuration only the parts are looked at that need none: nobody knows of the others.

    Args:
        ports: The world.
        tree: The configuration in force; None where there has never been one.
        now: The moment that it is about.
        config_refused: Why the newest configuration is not in force.
        watched: Hosts that are looked at and shown in any case, a few hundred at most.
        before: The look before, for what rises between the two.
        audits: Whether ledgers are audited where that is due, which costs the nodes the most.
        bounds: How long it may take, and how much it may ask for.
        clock: Measures that.
    """
    began = clock()
    nodes = (
        {}
        if tree is None
        else {queue_key: nodes_of(tree, queue_key) for queue_key in tree.queues()}
    )
    sharing = Sharing(nodes, OF_THE_SAME_NODES)
    calls = {} if tree is None else _calls(ports, tree, now)
    found = gather(
        {**ports.health.looks(), **calls},
        threads=bounds.threads,
        seconds=bounds.look_seconds,
        sharing=sharing,
        clock=clock,
    )
    audited: Gathered[Asked, Ledger] = Gathered({}, {})
    if tree is not None and audits:
        opened = {
            queue_key: found.answers[queue_key].totals.open
            for queue_key in nodes
            if queue_key in found.answers
        }
        due = auditing.due(opened, nodes, now, budget=bounds.audited_keys)
        ends_at = began + bounds.audited_by_seconds
        audited = gather(
            {
                queue_key: partial(_audit, ports, tree, queue_key, now, ends_at, clock)
                for queue_key in due
            },
            threads=bounds.threads,
            seconds=ends_at - clock(),
            sharing=sharing,
            clock=clock,
        )
    samples = () if tree is None else _queues(tree, found, audited.answers, now)
    fleet: _Fleet | None = found.answers.get(_WORKERS)
    shown = _Throughput()
    failures = _failures(found, audited, tree)
    if tree is not None and fleet is not None:
        waiting = [one.queue_key for one in samples if one.depth is not None and one.depth.deferred]
        look: Callable[[], _Throughput] = partial(
            _hosts, ports, waiting, fleet.heartbeats, rotated(sorted(tree.bizs), now), watched, now
        )
        asked = gather({_HOSTS: look}, threads=1, seconds=bounds.hosts_seconds, clock=clock)
        shown = asked.answers.get(_HOSTS, shown)
        failures += asked.failures.items()
    items, requests = found.answers.get(_ORPHANED, (None, None))
    parts = _parts(
        found, comparable(now, before), Thresholds() if tree is None else tree.stage.thresholds
    )
    borne = () if tree is None else tree.stage.monitor.unwatched
    return Sample(
        at=now,
        took_seconds=max(0.0, clock() - began),
        revision="" if tree is None else tree.revision,
        queues=samples,
        hosts=tuple(shown.hosts),
        hosts_seen=shown.seen,
        hosts_throttled=shown.throttled,
        workers=None if fleet is None else fleet.sample,
        fleet=queues.fleet_of(samples),
        parts=parts,
        config_refused=config_refused,
        stray_items=items,
        stray_requests=requests,
        ticked=found.answers.get(_TICKS),
        unplaced=_unplaced(tree, found),
        unread=(
            *(_unread(what, failure) for what, failure in failures),
            *(each for part in parts for each in unwatched(part, borne)),
        ),
    )


def _calls(ports: SamplingPorts, tree: Tree, now: datetime) -> dict[Asked, Callable[[], Any]]:
    """What is asked, the most telling first: what there is no time for is left out from the end.

    Of lanes those are at the end that another minute begins with, so it is never the same ones.
    """
    calls: dict[Asked, Callable[[], Any]] = {
        _WORKERS: partial(_workers, ports, tree),
        _QUEUES: partial(_read_queues, ports, tree, now),
        _ORPHANED: partial(ports.orphaned, tree, now),
        _TICKS: ports.ticked,
    }
    if tree.stage.bidding is not None:
        calls[_UNPLACED] = partial(ports.unplaced, now, tree.stage.bidding)
    beside: defaultdict[frozenset[str], list[QueueKey]] = defaultdict(list)
    for queue_key in tree.queues():
        beside[nodes_of(tree, queue_key)].append(queue_key)
    for queues_there in beside.values():
        for queue_key in rotated(queues_there, now):
            _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
            calls[queue_key] = partial(_book, ports, queue_key, biz, now)
    return calls


def _unplaced(tree: Tree | None, found: Gathered[Asked, Any]) -> tuple[UnplacedJob, ...] | None:
    if tree is None or tree.stage.bidding is None:
        return ()
    jobs = found.answers.get(_UNPLACED)
    return None if jobs is None else tuple(jobs)


def _workers(ports: SamplingPorts, tree: Tree) -> _Fleet:
    heartbeats = ports.detector.heartbeats()
    present = len(ports.workers.live())
    count = headcount(
        heartbeats,
        tree.stage.detector,
        present=present,
        target=ports.decided(),
        pools=ports.pools(),
    )
    return _Fleet(heartbeats, count)


def _read_queues(ports: SamplingPorts, tree: Tree, now: datetime) -> dict[QueueKey, _Queue]:
    """Of each lane; those whose part of Redis is away are not in it."""
    each = tree.queues()
    every = every_queue(tree)
    depths: defaultdict[str, list[Depth]] = defaultdict(list)
    loads: defaultdict[str, list[Load]] = defaultdict(list)
    for queue_key, depth, load in zip(
        every, ports.queue.depths(every), ports.queue.loads(every, now), strict=True
    ):
        depths[queue_key.path].append(depth)
        loads[queue_key.path].append(load)
    found: dict[QueueKey, _Queue] = {}
    for queue_key, counted in zip(each, ports.overview.counts(each), strict=True):
        depth, load = together(depths[queue_key.path]), at_hand(loads[queue_key.path])
        if counted is not None and not (depth.away or load.away):
            found[queue_key] = _Queue(depth, load, *counted)
    return found


def _book(ports: SamplingPorts, queue_key: QueueKey, biz: Biz, now: datetime) -> _Book:
    totals = ports.ledgers.totals(queue_key, biz, now)
    try:
        return _Book(totals, ports.store.record_count(queue_key, biz))
    except Exception as error:  # noqa: BLE001  the ledger tells more
        return _Book(totals, why_no_records=error)


def _audit(
    ports: SamplingPorts,
    tree: Tree,
    queue_key: QueueKey,
    now: datetime,
    ends_at: float,
    clock: Callable[[], float],
) -> Ledger:
    """The ledger with every term counted, or nothing once the look is over."""
    _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
    left = max(_SHORTEST_SECONDS, ends_at - clock())
    return ports.ledgers.audit(queue_key, biz, now, within_seconds=left)


def _hosts(
    ports: SamplingPorts,
    waiting: Sequence[QueueKey],
    heartbeats: Sequence[WorkerHeartbeats],
    tenants: Sequence[str],
    watched: Sequence[str],
    now: datetime,
) -> _Throughput:
    """Hosts worth showing. Each minute others in trouble come first, and the watched besides."""
    deferred = ports.overview.waiting_hosts(waiting, hosts.WAITING_EACH) if waiting else []
    known, asked_of = set(watched), tenants[: hosts.TROUBLED_PLACES]
    troubled = ports.hosts.troubled(asked_of, hosts.TROUBLED_EACH + len(known))
    waits = [one for of_queue in deferred for one in of_queue]
    new = [[one for one in rotated(names, now) if one not in known] for names in troubled]
    names, counts = hosts.candidates(heartbeats, waits, new)
    asked = list(dict.fromkeys([*names, *watched]))
    states = ports.hosts.states(asked) if asked else []
    met_by = {host: tenant for tenant, met in zip(asked_of, troubled, strict=True) for host in met}
    samples = [
        hosts.host_sample(state, counts[state.host], met_by.get(state.host, "")) for state in states
    ]
    return _Throughput(
        hosts.shown(samples, watched=known),
        len(samples),
        sum(one.throttled for one in samples),
    )


def _queues(
    tree: Tree, found: Gathered[Asked, Any], audited: Mapping[Asked, Ledger], now: datetime
) -> tuple[QueueSample, ...]:
    read_queues: Mapping[QueueKey, _Queue] = found.answers.get(_QUEUES, {})
    return tuple(
        _queue_key(
            tree,
            queue_key,
            read_queues.get(queue_key),
            found.answers.get(queue_key),
            audited.get(queue_key),
            now,
        )
        for queue_key in tree.queues()
    )


def _queue_key(
    tree: Tree,
    queue_key: QueueKey,
    queue: _Queue | None,
    book: _Book | None,
    audited: Ledger | None,
    now: datetime,
) -> QueueSample:
    _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
    totals = None if book is None else book.totals
    seen = QueueSample(
        queue_key=queue_key,
        ledger=audited or totals,
        difference=None if audited is None else audited.difference,
        records=None if book is None else book.records,
        planned_seconds=biz.planned_seconds,
    )
    if queue is None:
        return seen
    second, depth = to_ms(now) // 1000, queue.depth
    oldest = 0.0 if depth.oldest_ts is None else max(0.0, (to_ms(now) - depth.oldest_ts) / 1000)
    processed = rates(queue.processed, second)
    longest = own_or(
        biz.thresholds.oldest_waiting_seconds, tree.stage.thresholds.oldest_waiting_seconds
    )
    late = is_late(
        oldest_seconds=oldest,
        longest_seconds=longest,
        queued=depth.queued,
        per_second=processed.per_60s,
        planned_seconds=biz.planned_seconds,
        submitted=latest_first(queue.submitted, second),
    )
    return msgspec.structs.replace(
        seen,
        depth=depth,
        load=queue.load,
        oldest_seconds=oldest,
        submitted=rates(queue.submitted, second),
        processed=processed,
        submitted_seconds=before(queue.submitted, second),
        processed_seconds=before(queue.processed, second),
        retries=depth.delayed,
        finish_seconds=queues.finish_seconds(depth.queued, processed.per_60s),
        late=late,
    )


def _parts(
    found: Gathered[Asked, Any], before: Sample | None, thresholds: Thresholds
) -> tuple[NodeHealth, ...]:
    """Redis and the nodes; one that took too long is down, for whoever waits for it."""
    looks = [look for look in found.answers.values() if isinstance(look, NodeHealth)]
    for key, failure in found.failures.items():
        if isinstance(key, tuple):
            part, name = key
            looks.append(NodeHealth(part=part, name=name, up=False, error=in_words(failure)))
    # Redis first, then the nodes by name: a stable order.
    looks.sort(key=lambda look: (look.part != "redis", look.name))
    earlier = {} if before is None else {(each.part, each.name): each for each in before.parts}
    return tuple(judged(look, earlier.get((look.part, look.name)), thresholds) for look in looks)


def _failures(
    found: Gathered[Asked, Any], audited: Gathered[Asked, Ledger], tree: Tree | None
) -> list[tuple[str, Exception | str]]:
    """What could not be read; parts that are down have their own entries."""
    failures: list[tuple[str, Exception | str]] = []
    each = () if tree is None else tree.queues()
    if away := len(each) - len(found.answers.get(_QUEUES, each)):
        failures.append((f"queues of {away} bizs", "their node of the Redis cluster is away"))
    failures += [(key, why) for key, why in found.failures.items() if isinstance(key, str)]
    for what, said in (("ledger", found), ("audit", audited)):
        failures += [
            (f"{what} of {queue_key.tenant}/{queue_key.biz}", said.failures[queue_key])
            for queue_key in each
            if queue_key in said.failures
        ]
    for queue_key in each:
        book: _Book | None = found.answers.get(queue_key)
        if book is not None and book.why_no_records is not None:
            failures.append((f"records of {queue_key.tenant}/{queue_key.biz}", book.why_no_records))
    return failures


def _unread(what: str, failure: Exception | str) -> Unread:
    error = failure if isinstance(failure, Exception) else TimeoutError(failure)
    warn(f"the monitor could not read {what}", error)
    return Unread(what=what, why=in_words(failure))
