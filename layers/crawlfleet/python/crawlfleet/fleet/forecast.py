"""Forecast the work ahead of the workers (SPEC.md A12, H4), on which the autoscaler decides.

It is bounded, whatever is queued: so many hosts are read, and so many requests. A node of MongoDB
that is slow to answer must not delay the decision: after one slow answer it is asked nothing more,
and after some seconds none is. A queue that was not sampled counts as a long one of unknown hosts.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import zip_longest
from typing import Final, Protocol

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.policies import HostLimits
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.politeness.models import HostState, limits_for
from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.crawling.records.redis import RedisDataQueue
from crawlfleet.fleet.autoscaler import latest_first, seconds_left
from crawlfleet.fleet.models import Demand, QueueDemand
from crawlfleet.fleet.quotas.demand import QuotaDemand, within
from crawlfleet.kernel.errors import StoreError, StoreUnavailableError
from crawlfleet.kernel.hosts import host_of
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Entry
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.queue.redis.stats import RedisOverview, RedisQueueSampler
from crawlfleet.requests.queue.stats import QueueWork
from crawlfleet.requests.queue.stats import rates as rates_of
from crawlfleet.requests.routing import candidates

#: No request is read when all reads of a forecast have taken so long together.
SAMPLING_SECONDS: Final = 10.0
#: A node that took longer for one request is asked nothing more.
SLOW_SECONDS: Final = 1.0


class EntryHosts:
    """Read the hosts of queue entries, for one forecast; nobody sets the clock ``steady``."""

    def __init__(
        self, store: MongoRequestStore, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._steady = steady
        self._until = steady() + SAMPLING_SECONDS
        #: Slow nodes; True where they did not answer in the end.
        self._slow: dict[str, bool] = {}

    def hosts(
        self, queue_key: QueueKey, biz: Biz, entries: Sequence[Entry]
    ) -> tuple[Counter[str], bool]:
        """Hosts of these entries, how often each was met, and True if some could not be read."""
        met: Counter[str] = Counter()
        unread = False
        for entry in entries:
            nodes = {shard.node for shard in candidates(biz, entry.id)}
            if slow := nodes & self._slow.keys():
                unread = unread or any(self._slow[node] for node in slow)
                continue
            began = self._steady()
            if began >= self._until:
                continue
            try:
                url = self._url(queue_key, biz, entry.id)
            except StoreError as error:
                warn(f"requests of {queue_key.tenant}/{queue_key.biz} could not be read", error)
                self._note(nodes, began, failed=True)
                return met, True
            self._note(nodes, began, failed=False)
            if url is not None:
                met[host_of(url)] += 1
        return met, unread

    def _url(self, queue_key: QueueKey, biz: Biz, request_id: RequestId) -> str | None:
        found = self._store.get(queue_key, biz, request_id)
        return None if found is None else found.request.body.url

    def _note(self, nodes: set[str], began: float, *, failed: bool) -> None:
        if self._steady() - began >= SLOW_SECONDS:
            self._slow |= dict.fromkeys(nodes, failed)


def allowed_rate(
    limits: HostLimits,
    state: HostState,
    now: datetime,
    soon: timedelta = timedelta(),
    tenant: str = "",
) -> float:
    """Compute the requests a second that a host may be asked for.

    Its limits bound it, what it has shown, downloads at once by how long they take, and the
    interval between the slots of the ``tenant``: a crawl-delay. 0 while it is in back-off for
    longer than ``soon``.

    >>> from datetime import UTC
    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> limits = HostLimits(per_second=10, concurrency=8)
    >>> allowed_rate(limits, HostState(host="a"), now)
    10.0
    >>> allowed_rate(limits, HostState(host="a", answer_seconds=4.0), now)
    2.0
    """
    if state.back_off_until is not None and state.back_off_until > now + soon:
        return 0.0
    rate = float(limits.per_second)
    if state.interval_seconds > 0:
        rate = min(rate, 1 / state.interval_seconds)
    if state.intervals.get(tenant, 0.0) > 0:
        rate = min(rate, 1 / state.intervals[tenant])
    if state.answer_seconds > 0:
        rate = min(rate, limits.concurrency / state.answer_seconds)
    return rate


def coverage(met: Mapping[str, int], known: Collection[str]) -> float:
    """Estimate the part of a queue that leads to known hosts, by some entries (Good and Turing).

    Of hosts that were met once there are likely to be others that were not met at all. ``met`` is
    how often each was met; ``known`` are met for other reasons.

    >>> coverage({"a": 16}, ()), coverage({"a": 8, "b": 7, "c": 1}, ()), coverage({"a": 1}, ())
    (1.0, 0.9375, 0.0)
    """
    total = sum(met.values())
    once = sum(count for host, count in met.items() if count == 1 and host not in known)
    return 1 - once / total if total else 0.0


#: What is due within this is work of now.
SOON: Final = timedelta(seconds=10)
#: Hosts that are read in one go, of all queues together, and of one queue at least.
MOST_HOSTS: Final = 500
LEAST_HOSTS: Final = 4
#: Queues with a plan whose rate is read, those with the most to do first.
RATED_QUEUES: Final = 200
#: Entries of a queue whose hosts are read, and queues of which that is done.
SAMPLED_ENTRIES: Final = 16
SAMPLED_QUEUES: Final = 8


class UnmadeJobs(Protocol):
    """Jobs whose tasks are yet to be made; one is enough for a worker to be started.

    A Protocol, as jobs stand above the fleet, which so never imports their store.
    """

    def expandable(self, limit: int, now: datetime | None = None) -> Sequence[object]: ...  # noqa: D102
    def placing(self, limit: int) -> Sequence[object]: ...  # noqa: D102


class _View:
    """A queue with work, and the hosts of some of its entries: how often each was met.

    ``is_dark`` says that it is long and no host of it was met, ``is_stuck`` that its requests
    cannot be read, so that nobody can claim them either.
    """

    def __init__(self, queue_key: QueueKey, biz: Biz, work: QueueWork) -> None:
        self.queue_key = queue_key
        self.biz = biz
        self.work = work
        self.met: Counter[str] = Counter()
        self.is_dark = self.is_stuck = False

    @property
    def hosts(self) -> Sequence[str]:
        """Every host that is known to have something waiting."""
        return list(dict.fromkeys([*(host for host, _ in self.work.sample), *self.met]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Forecast demand from queues, hosts, data queues and jobs.

    ``steady`` is a clock in seconds that nobody sets; ``most_hosts`` are read in one go.
    """

    sampler: RedisQueueSampler
    overview: RedisOverview
    data: RedisDataQueue
    hosts: RedisHosts
    store: MongoRequestStore
    jobs: UnmadeJobs
    quotas: QuotaDemand | None = None
    steady: Callable[[], float] = time.monotonic
    most_hosts: int = MOST_HOSTS

    def demand(
        self,
        tree: Tree,
        now: datetime,
        throughputs: Mapping[str, float] | None = None,
        queues: Sequence[QueueKey] | None = None,
        *,
        with_items: bool = True,
    ) -> Demand:
        """Forecast the demand of queues on the workers, by throughputs per ``tenant/biz``.

        ``queues`` are those that the workers serve, by default all that are bound for no pool;
        ``with_items`` says that they store what waits in the data queues, too. Raises StoreError
        (Redis did not answer: then nothing is known).
        """
        queues = tree.queues() if queues is None else queues
        if not queues:
            return Demand()
        each = max(LEAST_HOSTS, self.most_hosts // len(queues))
        works = self.sampler.works(queues, now, SOON, min(each, self.most_hosts))
        rooms: Mapping[str, int] = {}
        if self.quotas is not None:
            works = self.quotas.without_parked(tree, queues, works, now)
            rooms = self.quotas.rooms(tree, queues, now)
        views = [
            _View(queue_key, biz_of(tree, queue_key.tenant, queue_key.biz)[1], work)
            for queue_key, work in zip(queues, works, strict=True)
            if work.can_go_on and rooms.get(queue_key.path, 1) > 0
        ]
        self._sample(tree, views)
        states = self._states(views)
        rates = [_Rates(tree, view, states, now) for view in views]
        keys = [view.queue_key for view in views]
        lately = _lately(self.overview, views, now)
        throughputs = throughputs or {}
        items = sum(self.data.waiting(queues)) if with_items else 0
        stores = [QueueDemand(backlog=items)] if items else []
        return Demand(
            queues=(
                *stores,
                *self._unmade(tree, now),
                *(
                    within(
                        rooms.get(key.path),
                        _demand(view, one, now, throughputs.get(key.path), lately.get(key)),
                    )
                    for key, view, one in zip(keys, views, rates, strict=True)
                ),
            ),
            polite_per_second=math.inf if items else _together(rates),
            at_work=frozenset(
                queue_key.path
                for queue_key, work in zip(queues, works, strict=True)
                if work.backlog
            ),
        )

    def _unmade(self, tree: Tree, now: datetime) -> list[QueueDemand]:
        """Demand one worker where jobs wait for tasks to be made.

        A job that waits for a bid asks each pool for one: any of them may suit it.
        """
        try:
            waiting = self.jobs.expandable(1, now)
            if not waiting and tree.stage.bidding is not None:
                waiting = self.jobs.placing(1)
        except StoreUnavailableError as error:
            warn("whether jobs are to be made into tasks is not known", error)
            return []
        return [QueueDemand(backlog=1)] if waiting else []

    def _sample(self, tree: Tree, views: Sequence[_View]) -> None:
        """Sample the hosts of the longest queues.

        A queue that fits into a worker's hands is not sampled: it is one worker's in any case.
        """
        least = tree.stage.fleet.batch + tree.stage.fleet.concurrency
        long = [view for view in views if view.work.queued > least]
        long.sort(key=lambda view: -view.work.queued)
        entry_hosts, sample = EntryHosts(self.store, self.steady), self.sampler.sample_queue
        for place, view in enumerate(long):
            is_read = place < SAMPLED_QUEUES
            entries = sample(view.queue_key, SAMPLED_ENTRIES) if is_read else []
            view.met, view.is_stuck = entry_hosts.hosts(view.queue_key, view.biz, entries)
            view.is_dark = not view.met and not view.is_stuck

    def _states(self, views: Sequence[_View]) -> dict[str, HostState]:
        """Read how hosts answer: of each queue in turn, so that no queue's fill all the room."""
        turns = zip_longest(*(view.hosts for view in views))
        named = list(dict.fromkeys(host for turn in turns for host in turn if host is not None))
        named = named[: self.most_hosts]
        return {state.host: state for state in self.hosts.states(named)} if named else {}


class _Rates:
    """Requests a second that the hosts of a queue may be asked for: of known hosts, and of all."""

    def __init__(
        self, tree: Tree, view: _View, states: Mapping[str, HostState], now: datetime
    ) -> None:
        limits, tenant = partial(limits_for, tree.stage, view.biz), view.queue_key.tenant
        self.known = {
            host: allowed_rate(limits(host), states[host], now, SOON, tenant)
            for host in view.hosts
            if host in states
        }
        work, found = view.work, sum(self.known.values())
        looked = [self.known[host] for host, _ in work.sample if host in self.known]
        if work.hosts > len(looked):
            found += _extrapolated(looked or self.known.values(), work.hosts - len(looked))
        if unlooked := view.met.keys() - self.known.keys() - dict(work.sample).keys():
            found += _extrapolated(self.known.values(), len(unlooked))
        if view.met:
            part = coverage(view.met, dict(work.sample))
            found = found / part if part else math.inf
        elif view.is_dark or not (work.hosts or view.is_stuck):
            # Their hosts are unknown: nothing says that they will have to wait.
            found = math.inf
        self.all = found


def _extrapolated(looked: Collection[float], hosts: int) -> float:
    """Extrapolate the rate of known hosts to others; without any, nothing bounds them."""
    return sum(looked) / len(looked) * hosts if looked else math.inf


@dataclass(frozen=True, slots=True)
class _Lately:
    """Requests of a queue lately: processed in a second; submitted in each, the latest first."""

    drained: float
    submitted: Sequence[int]


def _lately(
    overview: RedisOverview, views: Sequence[_View], now: datetime
) -> dict[QueueKey, _Lately]:
    """Read the rates of queues with a plan, as far as they are known.

    The rate of the last seconds counts where it is better: a queue that has just begun is not late
    for that.
    """
    planned = [view for view in views if view.biz.planned_seconds is not None]
    planned.sort(key=lambda view: -view.work.backlog)
    queues = [view.queue_key for view in planned[:RATED_QUEUES]]
    second, found = int(now.timestamp()), {}
    for queue_key, counted in zip(queues, overview.counts(queues) if queues else (), strict=True):
        if counted is not None:
            submitted, processed = counted
            seen = rates_of(processed, second)
            drained = max(seen.per_5s, seen.per_60s)
            found[queue_key] = _Lately(drained, latest_first(submitted, second))
    return found


def _demand(
    view: _View, rates: _Rates, now: datetime, throughput: float | None, lately: _Lately | None
) -> QueueDemand:
    work, planned, left = view.work, view.biz.planned_seconds, None
    if planned is not None:
        since = now.timestamp() if work.oldest_ts is None else work.oldest_ts / 1_000
        oldest = max(0.0, now.timestamp() - since)
        submitted = () if lately is None else lately.submitted
        left = seconds_left(planned, oldest, work.backlog, submitted)
    return QueueDemand(
        backlog=work.backlog,
        seconds_left=left,
        polite_per_second=max(0.0, rates.all),
        throughput=throughput,
        leased=work.leased,
        drained=None if lately is None else lately.drained,
    )


def _together(rates: Sequence[_Rates]) -> float:
    """Sum the rates of all hosts: one that several queues wait for counts once."""
    hosts: dict[str, float] = {}
    beyond = 0.0
    for one in rates:
        beyond += one.all - sum(one.known.values())
        for host, rate in one.known.items():
            hosts[host] = max(rate, hosts.get(host, 0.0))
    return sum(hosts.values()) + max(0.0, beyond)
