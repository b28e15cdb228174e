"""Sample everything once (SPEC.md A10, A11, C6): the metric journey begins here.

Everything is asked at the same time and nothing is waited for beyond the sampler's own time: a part
that is dead, slow, refuses or answers nonsense is named among what was not read, and the others are
read all the same. Metrics, incidents and workers are made of a sample elsewhere.

Rates are kept per second where they happen, so one sample a minute still gives every second of it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from crawlfleet.config.documents.biz import Biz, Stage, Tree
from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.config.documents.stage import Thresholds
from crawlfleet.config.lookup import biz_of, every_queue, nodes_of
from crawlfleet.crawling.fetching.proxy_health import ProxyPoolState
from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.fleet.models import (
    PoolState,
    QueueSample,
    ScalingTarget,
    Ticked,
    WorkerHeartbeats,
    WorkersSample,
)
from crawlfleet.fleet.quotas.models import Standing, biz_under, described
from crawlfleet.fleet.redis.registry import RedisFailureDetector, RedisWorkers
from crawlfleet.fleet.status import fleet_of, headcount
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.fairness import rotated
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.monitoring import gathering
from crawlfleet.monitoring.gathering import Bounds, Gathered, gather, in_words
from crawlfleet.monitoring.incidents.detectors import comparable
from crawlfleet.monitoring.incidents.store_checks import counted_since, judged, unwatched
from crawlfleet.monitoring.models import (
    BizCoverage,
    FailedFire,
    HostSample,
    Sample,
    StreamsSample,
    UnplacedJob,
    Unread,
    UsedUpQuota,
)
from crawlfleet.monitoring.queue_samples import LedgerReading, QueueReading, queue_sample
from crawlfleet.monitoring.store_health import PartHealth
from crawlfleet.requests.models import HourCoverage, Ledger
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.queue import stats
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.queue.redis.stats import RedisOverview
from crawlfleet.requests.queue.stats import NodeHealth

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
_COVERAGE: Final = "coverage"
_PROXIES: Final = "proxies"
_QUOTAS: Final = "quotas"
_FIRES: Final = "fires of schedules"
_STREAMS: Final = "streams"
#: The bounds of the monitor's samples.
USUAL: Final = Bounds()
#: Calls of a sample for people who watch.
_AT_A_GLANCE: Final[tuple[Asked, ...]] = (_WORKERS, _QUEUES, _UNPLACED, _FIRES)
#: Bizs at work whose coverage a sample reads; where there are more they alternate.
MOST_COVERED: Final = 50


class _Fleet(msgspec.Struct, frozen=True):
    heartbeats: list[WorkerHeartbeats]
    sample: WorkersSample


class _Hosts(msgspec.Struct, frozen=True):
    """Hosts worth showing, of so many, of which so many are throttled."""

    hosts: list[HostSample] = []
    seen: int = 0
    throttled: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """Samples everything there is.

    ``decided`` returns the decision on workers that is in force, if one is; ``orphaned`` how many
    items and requests wait for bizs that there are not; ``ticked`` the scheduler's latest tick;
    ``unplaced`` the jobs that no worker suited, of late, or that wait for one too long. ``workers``
    and ``decided`` are of the usual pool, ``pools`` returns the same of the others. ``coverages``
    returns the field coverage of a biz's last hours, ``proxies`` the state of pools of proxies,
    ``quotas`` those that are used up, ``fires`` the last ones of schedules that have failed,
    ``streams`` channels, silent feeds and receivers that fail.
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
    coverages: Callable[[QueueKey], Sequence[HourCoverage]] = lambda _: ()
    proxies: Callable[[Collection[str]], Sequence[ProxyPoolState]] = lambda _: ()
    quotas: Callable[[Tree, datetime], Sequence[Standing]] = lambda *_: ()
    fires: Callable[[], tuple[FailedFire, ...]] = tuple
    streams: Callable[[Tree, datetime], StreamsSample] = lambda *_: StreamsSample()
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
        bounds: Bounds = USUAL,
    ) -> Sample:
        """Sample everything once. Never fails, and takes no longer than its time.

        Without a ``tree`` only the parts are sampled. ``watched`` are hosts that are asked for and
        shown in any case, a few hundred at most; ``before`` is the sample before, for what rises
        between the two. Ledgers are audited where ``audits`` are asked for and due: they cost the
        nodes the most.
        """
        began, stage = self.clock(), Stage() if tree is None else tree.stage
        queue_keys = () if tree is None else tree.queues()
        nodes = {} if tree is None else {key: nodes_of(tree, key) for key in queue_keys}
        sharing = gathering.Sharing(nodes, OF_THE_SAME_NODES)
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
                    for key in gathering.due(opened, nodes, now, budget=bounds.audited_keys)
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
        coverage: tuple[BizCoverage, ...] = ()
        if busy := [one.queue_key for one in samples if one.processed and one.processed.per_60s]:
            asked_coverage = gather(
                {_COVERAGE: partial(self._coverage, rotated(busy, now)[:MOST_COVERED])},
                threads=1,
                seconds=bounds.coverage_seconds,
                clock=self.clock,
            )
            coverage = asked_coverage.answers.get(_COVERAGE, ())
            failures += asked_coverage.failures.items()
        items, requests = found.answers.get(_ORPHANED, (None, None))
        parts = _parts(found, now, comparable(now, before), stage.thresholds)
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
            coverage=coverage,
            proxies=_proxies(tree, found),
            used_up=found.answers.get(_QUOTAS),
            failed_fires=found.answers.get(_FIRES),
            streams=found.answers.get(_STREAMS),
            unread=(
                *(_unread(what, failure) for what, failure in failures),
                *(each for part in parts for each in unwatched(part, stage.monitor.unwatched)),
            ),
        )

    def glance(
        self,
        tree: Tree,
        now: datetime,
        *,
        config_refused: str | None = None,
        bounds: Bounds = USUAL,
    ) -> Sample:
        """Sample queues, workers, fires and unplaced jobs alone: cheap enough for every viewer."""
        calls = self._calls(tree, now)
        asked = {what: calls[what] for what in _AT_A_GLANCE if what in calls}
        seconds = bounds.sample_seconds
        found = gather(asked, threads=bounds.threads, seconds=seconds, clock=self.clock)
        samples = _queue_samples(tree, found, {}, now)
        fleet: _Fleet | None = found.answers.get(_WORKERS)
        return Sample(
            at=now,
            revision=tree.revision,
            queues=samples,
            workers=None if fleet is None else fleet.sample,
            fleet=fleet_of(samples),
            config_refused=config_refused,
            unplaced=_unplaced(tree, found),
            failed_fires=found.answers.get(_FIRES),
            unread=tuple(
                _unread(*each) for each in _failures(found, Gathered({}, {}), tree.queues())
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
        if tree.stage.proxies:
            calls[_PROXIES] = partial(self.proxies, sorted(tree.stage.proxies))
        calls[_QUOTAS] = partial(self._used_up, tree, now)
        calls[_FIRES] = self.fires
        calls[_STREAMS] = partial(self.streams, tree, now)
        beside: defaultdict[frozenset[str], list[QueueKey]] = defaultdict(list)
        for key in tree.queues():
            beside[nodes_of(tree, key)].append(key)
        for keys in beside.values():
            for key in rotated(keys, now):
                _, biz = biz_of(tree, key.tenant, key.biz)
                calls[key] = partial(self._book, key, biz, now)
        return calls

    def _coverage(self, busy: Sequence[QueueKey]) -> tuple[BizCoverage, ...]:
        """Read the coverage of bizs at work; one that is away is left out, and not known."""
        found: list[BizCoverage] = []
        for key in busy:
            try:
                found.append(BizCoverage(key, tuple(self.coverages(key))))
            except CrawlfleetError as error:
                warn(f"the coverage of {key.biz} could not be read", error)
        return tuple(found)

    def _used_up(self, tree: Tree, now: datetime) -> tuple[UsedUpQuota, ...]:
        return tuple(
            UsedUpQuota(
                tenant=standing.limit.account.tenant,
                biz=biz_under(standing.limit),
                said=described(standing),
            )
            for standing in self.quotas(tree, now)
        )

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

    def _read_queues(self, tree: Tree, now: datetime) -> dict[QueueKey, QueueReading]:
        """Read each queue key; those whose part of Redis is away are left out."""
        each, every = tree.queues(), every_queue(tree)
        depths: defaultdict[str, list[stats.Depth]] = defaultdict(list)
        loads: defaultdict[str, list[stats.Load]] = defaultdict(list)
        for key, depth, load in zip(
            every, self.queue.depths(every), self.queue.loads(every, now), strict=True
        ):
            depths[key.path].append(depth)
            loads[key.path].append(load)
        found: dict[QueueKey, QueueReading] = {}
        for key, counted in zip(each, self.overview.counts(each), strict=True):
            depth, load = stats.together(depths[key.path]), stats.at_hand(loads[key.path])
            if counted is not None and not (depth.away or load.away):
                found[key] = QueueReading(depth, load, *counted)
        return found

    def _book(self, key: QueueKey, biz: Biz, now: datetime) -> LedgerReading:
        totals = self.ledgers.totals(key, biz, now)
        try:
            return LedgerReading(totals, self.store.record_count(key, biz))
        except Exception as error:  # noqa: BLE001  the ledger is worth more
            return LedgerReading(totals, why_no_records=error)

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
        deferred = self.overview.waiting_hosts(waiting, gathering.WAITING_EACH) if waiting else []
        known, asked_of = set(watched), tenants[: gathering.TROUBLED_PLACES]
        troubled = self.hosts.troubled(asked_of, gathering.TROUBLED_EACH + len(known))
        waits = [one for of_queue in deferred for one in of_queue]
        new = [[one for one in rotated(names, now) if one not in known] for names in troubled]
        names, counts = gathering.candidates(heartbeats, waits, new)
        asked = list(dict.fromkeys([*names, *watched]))
        met_by = {host: who for who, met in zip(asked_of, troubled, strict=True) for host in met}
        states = self.hosts.states(asked, met_by) if asked else []
        samples = [
            gathering.host_sample(state, counts[state.host], met_by.get(state.host, ""))
            for state in states
        ]
        throttled = sum(one.throttled for one in samples)
        return _Hosts(gathering.shown(samples, watched=known), len(samples), throttled)


def _unplaced(tree: Tree | None, found: Gathered[Asked, Any]) -> tuple[UnplacedJob, ...] | None:
    if tree is None or tree.stage.bidding is None:
        return ()
    jobs = found.answers.get(_UNPLACED)
    return None if jobs is None else tuple(jobs)


def _proxies(tree: Tree | None, found: Gathered[Asked, Any]) -> tuple[ProxyPoolState, ...] | None:
    if tree is None or not tree.stage.proxies:
        return ()
    pools = found.answers.get(_PROXIES)
    return None if pools is None else tuple(pools)


def _queue_samples(
    tree: Tree, found: Gathered[Asked, Any], audited: Mapping[Asked, Ledger], now: datetime
) -> tuple[QueueSample, ...]:
    queues, answers = found.answers.get(_QUEUES, {}), found.answers
    return tuple(
        queue_sample(tree, key, queues.get(key), answers.get(key), audited.get(key), now)
        for key in tree.queues()
    )


def _parts(
    found: Gathered[Asked, Any], now: datetime, before: Sample | None, thresholds: Thresholds
) -> tuple[NodeHealth, ...]:
    """Judge Redis and the nodes; one that took too long is down."""
    nodes = [node for node in found.answers.values() if isinstance(node, NodeHealth)]
    for key, failure in found.failures.items():
        if isinstance(key, tuple):
            part, name = key
            nodes.append(NodeHealth(part=part, name=name, up=False, error=in_words(failure)))
    # Redis first, then the nodes by name: a stable order.
    nodes.sort(key=lambda node: (node.part != "redis", node.name))
    if before is None:
        return tuple(judged(node, None, thresholds) for node in nodes)
    earlier = {(each.part, each.name): each for each in before.parts}
    pairs = [(node, earlier.get((node.part, node.name))) for node in nodes]
    seconds = (now - before.at).total_seconds()
    return tuple(judged(counted_since(node, was, seconds), was, thresholds) for node, was in pairs)


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
        book: LedgerReading | None = found.answers.get(queue_key)
        if book is not None and book.why_no_records is not None:
            failures.append((f"records of {queue_key.tenant}/{queue_key.biz}", book.why_no_records))
    return failures


def _unread(what: str, failure: Exception | str) -> Unread:
    error = failure if isinstance(failure, Exception) else TimeoutError(failure)
    warn(f"the monitor could not read {what}", error)
    return Unread(what=what, why=in_words(failure))
