"""Sample everything once (SPEC.md A10, A11, C6): the metric journey begins here.

Everything is asked at the same time and nothing is waited for beyond the sampler's own time: a part
that is dead, slow, refuses or answers nonsense is named among what was not read, and the others are
read all the same. Metrics, incidents and workers are made of a sample elsewhere.

Rates are kept per second where they happen, so one sample a minute still gives every second of it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from crawlfleet.config.documents.biz import Biz, Stage, Tree
from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.config.documents.stage import Thresholds, own_or
from crawlfleet.config.lookup import biz_of, every_queue, nodes_of
from crawlfleet.crawling.politeness.redis import RedisHosts
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
from crawlfleet.fleet.status import finish_seconds, fleet_of, headcount, is_late
from crawlfleet.kernel.fairness import rotated
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.monitoring.gathering import (
    KEYS_A_NODE,
    TROUBLED_EACH,
    TROUBLED_PLACES,
    WAITING_EACH,
    Gathered,
    Sharing,
    candidates,
    due,
    gather,
    host_sample,
    in_words,
    shown,
)
from crawlfleet.monitoring.incidents.detectors import comparable
from crawlfleet.monitoring.incidents.store_checks import judged, unwatched
from crawlfleet.monitoring.models import HostSample, Sample, UnplacedJob, Unread
from crawlfleet.monitoring.store_health import PartHealth
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

#: Calls to the same nodes of MongoDB at once: one that hangs holds no others up.
OF_THE_SAME_NODES: Final = 3

#: Seconds of an audit that begins just before the end; its answer is not waited for.
_SHORTEST_SECONDS: Final = 0.1

#: A key of a call: a part of Redis or MongoDB by its name, a queue key's ledger, or one of these.
Asked: TypeAlias = "tuple[str, str] | QueueKey | str"
_WORKERS: Final = "workers"
_QUEUES: Final = "queues"
_ORPHANED: Final = "strays"
_TICKS: Final = "ticks"
_UNPLACED: Final = "unplaced"
_HOSTS: Final = "hosts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of a sample: how long it takes, and how much it asks for.

    Attributes:
        sample_seconds: The time for everything but audits and hosts.
        audited_by_seconds: The time since the beginning by which audits have to end.
        hosts_seconds: The time for hosts after that. Together they leave the monitor nearly half of
            its minute for what it makes of it.
        audited_keys: Keys that a node is asked to count.
        threads: Calls at the same time.
    """

    sample_seconds: float = 16.0
    audited_by_seconds: float = 26.0
    hosts_seconds: float = 6.0
    audited_keys: int = KEYS_A_NODE
    threads: int = 16


class _Queue(msgspec.Struct, frozen=True):
    depth: Depth
    load: Load
    submitted: dict[int, int]
    processed: dict[int, int]


class _Fleet(msgspec.Struct, frozen=True):
    heartbeats: list[WorkerHeartbeats]
    sample: WorkersSample


class _Hosts(msgspec.Struct, frozen=True):
    """Hosts worth showing, of so many, of which so many are throttled."""

    hosts: list[HostSample] = []
    seen: int = 0
    throttled: int = 0


class _Book(msgspec.Struct, frozen=True):
    """A biz's ledger, and why its records could not be counted, if so."""

    totals: Ledger
    records: int | None = None
    why_no_records: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """Samples everything there is.

    ``decided`` returns the decision on workers that is in force, if one is; ``orphaned`` how many
    items and requests wait for bizs that there are not; ``ticked`` the scheduler's latest tick;
    ``unplaced`` the jobs that no worker suited, of late, or that wait for one too long. ``workers``
    and ``decided`` are of the usual pool, ``pools`` returns the same of the others.
    """

    queue: RedisQueue
    overview: RedisOverview
    store: MongoRequestStore
    ledgers: MongoLedgers
    workers: RedisWorkers
    detector: RedisFailureDetector
    hosts: RedisHosts
    health: PartHealth
    decided: Callable[[], ScalingTarget | None]
    orphaned: Callable[[Tree, datetime], tuple[int, int]]
    ticked: Callable[[], Ticked]
    pools: Callable[[], Sequence[PoolState]] = tuple
    unplaced: Callable[[datetime, BiddingTerms], Sequence[UnplacedJob]] = lambda *_: ()
    clock: Callable[[], float] = time.monotonic

    def sample(
        self,
        tree: Tree | None,
        now: datetime,
        *,
        config_refused: str | None = None,
        watched: Sequence[str] = (),
        before: Sample | None = None,
        audits: bool = True,
        bounds: Bounds = Bounds(),
    ) -> Sample:
        """Sample everything once. Never fails, and takes no longer than its time.

        Args:
            tree: The configuration in force; without one only the parts are sampled.
            now: The moment of the sample.
            config_refused: Why the newest configuration is not in force.
            watched: Hosts that are asked for and shown in any case, a few hundred at most.
            before: The sample before, for what rises between the two.
            audits: Whether ledgers are audited where that is due, which costs the nodes the most.
            bounds: How long it may take, and how much it may ask for.
        """
        began, stage = self.clock(), Stage() if tree is None else tree.stage
        queue_keys = () if tree is None else tree.queues()
        nodes = {} if tree is None else {key: nodes_of(tree, key) for key in queue_keys}
        sharing = Sharing(nodes, OF_THE_SAME_NODES)
        found = gather(
            {**self.health.checks(), **({} if tree is None else self._calls(tree, now))},
            threads=bounds.threads,
            seconds=bounds.sample_seconds,
            sharing=sharing,
            clock=self.clock,
        )
        audited: Gathered[Asked, Ledger] = Gathered({}, {})
        if tree is not None and audits:
            answers = found.answers
            opened = {key: answers[key].totals.open for key in nodes if key in answers}
            ends_at = began + bounds.audited_by_seconds
            audited = gather(
                {
                    key: partial(self._audit, tree, key, now, ends_at)
                    for key in due(opened, nodes, now, budget=bounds.audited_keys)
                },
                threads=bounds.threads,
                seconds=ends_at - self.clock(),
                sharing=sharing,
                clock=self.clock,
            )
        samples = () if tree is None else _queue_samples(tree, found, audited.answers, now)
        fleet: _Fleet | None = found.answers.get(_WORKERS)
        hosts = _Hosts()
        failures = _failures(found, audited, queue_keys)
        if tree is not None and fleet is not None:
            waiting = [one.queue_key for one in samples if one.depth and one.depth.deferred]
            tenants = rotated(sorted(tree.bizs), now)
            call: Callable[[], _Hosts] = partial(
                self._hosts, waiting, fleet.heartbeats, tenants, watched, now
            )
            asked = gather(
                {_HOSTS: call}, threads=1, seconds=bounds.hosts_seconds, clock=self.clock
            )
            hosts = asked.answers.get(_HOSTS, hosts)
            failures += asked.failures.items()
        items, requests = found.answers.get(_ORPHANED, (None, None))
        parts = _parts(found, comparable(now, before), stage.thresholds)
        return Sample(
            at=now,
            took_seconds=max(0.0, self.clock() - began),
            revision="" if tree is None else tree.revision,
            queues=samples,
            hosts=tuple(hosts.hosts),
            hosts_seen=hosts.seen,
            hosts_throttled=hosts.throttled,
            workers=None if fleet is None else fleet.sample,
            fleet=fleet_of(samples),
            parts=parts,
            config_refused=config_refused,
            stray_items=items,
            stray_requests=requests,
            ticked=found.answers.get(_TICKS),
            unplaced=_unplaced(tree, found),
            unread=(
                *(_unread(what, failure) for what, failure in failures),
                *(each for part in parts for each in unwatched(part, stage.monitor.unwatched)),
            ),
        )

    def _calls(self, tree: Tree, now: datetime) -> dict[Asked, Callable[[], Any]]:
        """Return the calls, the most important first: those without time are left out at the end.

        The ledgers at the end are others each minute, so it is never the same ones.
        """
        calls: dict[Asked, Callable[[], Any]] = {
            _WORKERS: partial(self._workers, tree),
            _QUEUES: partial(self._read_queues, tree, now),
            _ORPHANED: partial(self.orphaned, tree, now),
            _TICKS: self.ticked,
        }
        if tree.stage.bidding is not None:
            calls[_UNPLACED] = partial(self.unplaced, now, tree.stage.bidding)
        beside: defaultdict[frozenset[str], list[QueueKey]] = defaultdict(list)
        for key in tree.queues():
            beside[nodes_of(tree, key)].append(key)
        for keys in beside.values():
            for key in rotated(keys, now):
                _, biz = biz_of(tree, key.tenant, key.biz)
                calls[key] = partial(self._book, key, biz, now)
        return calls

    def _workers(self, tree: Tree) -> _Fleet:
        heartbeats = self.detector.heartbeats()
        count = headcount(
            heartbeats,
            tree.stage.detector,
            present=len(self.workers.live()),
            target=self.decided(),
            pools=self.pools(),
        )
        return _Fleet(heartbeats, count)

    def _read_queues(self, tree: Tree, now: datetime) -> dict[QueueKey, _Queue]:
        """Read each queue key; those whose part of Redis is away are left out."""
        each, every = tree.queues(), every_queue(tree)
        depths: defaultdict[str, list[Depth]] = defaultdict(list)
        loads: defaultdict[str, list[Load]] = defaultdict(list)
        for key, depth, load in zip(
            every, self.queue.depths(every), self.queue.loads(every, now), strict=True
        ):
            depths[key.path].append(depth)
            loads[key.path].append(load)
        found: dict[QueueKey, _Queue] = {}
        for key, counted in zip(each, self.overview.counts(each), strict=True):
            depth, load = together(depths[key.path]), at_hand(loads[key.path])
            if counted is not None and not (depth.away or load.away):
                found[key] = _Queue(depth, load, *counted)
        return found

    def _book(self, key: QueueKey, biz: Biz, now: datetime) -> _Book:
        totals = self.ledgers.totals(key, biz, now)
        try:
            return _Book(totals, self.store.record_count(key, biz))
        except Exception as error:  # noqa: BLE001  the ledger is worth more
            return _Book(totals, why_no_records=error)

    def _audit(self, tree: Tree, key: QueueKey, now: datetime, ends_at: float) -> Ledger:
        """Return the ledger with every term counted, within the time that is left."""
        _, biz = biz_of(tree, key.tenant, key.biz)
        left = max(_SHORTEST_SECONDS, ends_at - self.clock())
        return self.ledgers.audit(key, biz, now, within_seconds=left)

    def _hosts(
        self,
        waiting: Sequence[QueueKey],
        heartbeats: Sequence[WorkerHeartbeats],
        tenants: Sequence[str],
        watched: Sequence[str],
        now: datetime,
    ) -> _Hosts:
        """Sample hosts in trouble, others first each minute, busy ones, and the watched besides."""
        deferred = self.overview.waiting_hosts(waiting, WAITING_EACH) if waiting else []
        known, asked_of = set(watched), tenants[:TROUBLED_PLACES]
        troubled = self.hosts.troubled(asked_of, TROUBLED_EACH + len(known))
        waits = [one for of_queue in deferred for one in of_queue]
        new = [[one for one in rotated(names, now) if one not in known] for names in troubled]
        names, counts = candidates(heartbeats, waits, new)
        asked = list(dict.fromkeys([*names, *watched]))
        states = self.hosts.states(asked) if asked else []
        met_by = {host: who for who, met in zip(asked_of, troubled, strict=True) for host in met}
        samples = [
            host_sample(state, counts[state.host], met_by.get(state.host, "")) for state in states
        ]
        throttled = sum(one.throttled for one in samples)
        return _Hosts(shown(samples, watched=known), len(samples), throttled)


def _unplaced(tree: Tree | None, found: Gathered[Asked, Any]) -> tuple[UnplacedJob, ...] | None:
    if tree is None or tree.stage.bidding is None:
        return ()
    jobs = found.answers.get(_UNPLACED)
    return None if jobs is None else tuple(jobs)


def _queue_samples(
    tree: Tree, found: Gathered[Asked, Any], audited: Mapping[Asked, Ledger], now: datetime
) -> tuple[QueueSample, ...]:
    queues, answers = found.answers.get(_QUEUES, {}), found.answers
    return tuple(
        _queue_sample(tree, key, queues.get(key), answers.get(key), audited.get(key), now)
        for key in tree.queues()
    )


def _queue_sample(
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
        finish_seconds=finish_seconds(depth.queued, processed.per_60s),
        late=late,
    )


def _parts(
    found: Gathered[Asked, Any], before: Sample | None, thresholds: Thresholds
) -> tuple[NodeHealth, ...]:
    """Judge Redis and the nodes; one that took too long is down."""
    nodes = [node for node in found.answers.values() if isinstance(node, NodeHealth)]
    for key, failure in found.failures.items():
        if isinstance(key, tuple):
            part, name = key
            nodes.append(NodeHealth(part=part, name=name, up=False, error=in_words(failure)))
    # Redis first, then the nodes by name: a stable order.
    nodes.sort(key=lambda node: (node.part != "redis", node.name))
    earlier = {} if before is None else {(each.part, each.name): each for each in before.parts}
    return tuple(judged(node, earlier.get((node.part, node.name)), thresholds) for node in nodes)


def _failures(
    found: Gathered[Asked, Any], audited: Gathered[Asked, Ledger], each: Sequence[QueueKey]
) -> list[tuple[str, Exception | str]]:
    """List what could not be read; parts that are down have their own entries."""
    failures: list[tuple[str, Exception | str]] = []
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
