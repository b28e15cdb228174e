"""Gather a sample: concurrent calls, hosts worth showing, ledgers due for an audit.

Calls to many parts are made at once, without waiting for those that do not end: a call that hangs
costs one thread and one entry among the failures. Calls to the same part, which would all hang with
it, share a few threads, so that the others' answers come all the same.

There may be a hundred thousand hosts; people want those that refuse, and those that most is asked
of (SPEC.md A11, C6).

An audit counts every open request by itself, which reads an index from end to end: a second or two
for a million keys (SPEC.md H1). So a sample has a budget of keys for each node. Where all that is
open fits into it every biz is audited each time; where more is open bizs alternate by what they
hold.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, zip_longest
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from crawlfleet.crawling.politeness.models import HostState
from crawlfleet.fleet.models import WorkerHeartbeats
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.fairness import place
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.monitoring.models import HostSample
from crawlfleet.requests.queue.ageing import DeferredHost, host_of, is_parked

T = TypeVar("T")

#: Hosts in a sample, those with incidents not counted.
SHOWN: Final = 50
#: Hosts that are asked for to find these; two round trips.
LOOKED_AT: Final = 1_000
#: Of each queue, hosts that something waits for.
WAITING_EACH: Final = 50
#: Of each tenant, hosts that have refused or failed lately; and how many of all tenants, by fair
#: queueing.
TROUBLED_EACH: Final = 50
TROUBLED_PLACES: Final = LOOKED_AT // 4
#: A window without answers is taken to be so long.
_WINDOW_SECONDS: Final = 60.0
#: Keys that a node is asked to count for a sample, on average: 2 to 4 s of one of its processors.
KEYS_A_NODE: Final = 2_000_000
#: What an audit costs however little is open, as so many keys.
_LEAST_KEYS: Final = 1_000
#: The nodes that a queue's requests lie on.
Nodes: TypeAlias = frozenset[str]
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of a sample: how long it takes, and how much it asks for.

    ``sample_seconds`` is for everything but audits, which have to end ``audited_by_seconds`` after
    the beginning, hosts, which have ``hosts_seconds`` after that, and the coverage of rules, which
    has ``coverage_seconds``. Together they leave the monitor some 40 % of its minute for what it
    makes of it. ``audited_keys`` are those that a node is asked to count, ``threads`` calls at the
    same time.
    """

    sample_seconds: float = 16.0
    audited_by_seconds: float = 26.0
    hosts_seconds: float = 6.0
    coverage_seconds: float = 4.0
    audited_keys: int = KEYS_A_NODE
    threads: int = 16


def candidates(
    heartbeats: Iterable[WorkerHeartbeats],
    deferred: Iterable[DeferredHost],
    troubled: Iterable[Sequence[str]] = (),
) -> tuple[list[str], Counter[str]]:
    """Choose the hosts to ask for, and count what waits for each.

    Those that have refused or failed lately come first, of each tenant in turn; then those that
    most waits for: what asks for less makes others wait. Then those at which workers say that they
    have something under way, by how many say so.
    """
    waiting: Counter[str] = Counter()
    for one in deferred:
        if not is_parked(one.host):
            waiting[host_of(one.host)] += one.count
    busy = Counter(host for beats in heartbeats for host, _ in beats.worker_status.hosts)
    half = LOOKED_AT // 2
    names = dict.fromkeys(islice(dict.fromkeys(_in_turn(troubled)), TROUBLED_PLACES))
    for host, _ in waiting.most_common(half):
        if len(names) < half:
            names.setdefault(host)
    for host, _ in (*busy.most_common(LOOKED_AT), *waiting.most_common(LOOKED_AT)):
        if len(names) >= LOOKED_AT:
            break
        names.setdefault(host)
    return list(names), waiting


def host_sample(state: HostState, waiting: int, met_by: str = "") -> HostSample:
    """Make a sample of a host's state."""
    asked = state.answered + state.overloads
    return HostSample(
        host=state.host,
        window_seconds=state.window_seconds or _WINDOW_SECONDS,
        answered=state.answered,
        failed=state.failed,
        strained=state.overloads,
        latency_seconds=state.spent_seconds / state.answered if state.answered else None,
        success_share=(state.answered - state.failed) / asked if asked else None,
        throttled=state.back_off_until is not None or state.overload > 0,
        backing_off_until=state.back_off_until,
        strain=state.overload,
        interval_seconds=state.interval_seconds,
        running=state.running,
        deferred=waiting,
        met_by=met_by,
    )


def shown(
    samples: Sequence[HostSample], most: int = SHOWN, watched: Collection[str] = ()
) -> list[HostSample]:
    """Sort the worst first, then the busiest.

    Of ``most`` places new ones that are bad get half, of each tenant that has met some in turn:
    those of one hide nobody else's. Those that are ``watched`` are shown whatever their number, and
    take none of these places.

    >>> calm, busy = HostSample(host="a", answered=1), HostSample(host="b", answered=9)
    >>> bad = HostSample(host="c", strained=1, throttled=True)
    >>> [one.host for one in shown([calm, busy, bad], 2)]
    ['c', 'b']
    """
    bad = sorted((one for one in samples if _badness(one) > (False, 0, 0)), key=_worst_first)
    of_tenant: defaultdict[str, list[HostSample]] = defaultdict(list)
    for one in bad:
        if one.host not in watched:
            of_tenant[one.met_by].append(one)
    # In the order of the samples: the sampler decides which tenant comes first.
    tenants = dict.fromkeys(one.met_by for one in samples if one.met_by in of_tenant)
    new = {
        one.host for one in islice(_in_turn(of_tenant[tenant] for tenant in tenants), -(-most // 2))
    }
    worst = [one for one in bad if one.host in new or one.host in watched]
    names = {one.host for one in worst}
    rest = sorted((one for one in samples if one.host not in names), key=_busiest_first)
    left = max(0, most - len(new))
    busiest, others = rest[:left], rest[left:]
    return [*worst, *busiest, *(one for one in others if one.host in watched)]


def _in_turn(each: Iterable[Sequence[T]]) -> Iterator[T]:
    """Interleave: the first of each, then the second of each, and so on.

    >>> list(_in_turn(["abc", "", "de"]))
    ['a', 'd', 'b', 'e', 'c']
    """
    return (one for row in zip_longest(*each) for one in row if one is not None)


def _badness(one: HostSample) -> tuple[bool, int, int]:
    return one.throttled, one.strained, one.failed


def _worst_first(one: HostSample) -> tuple[bool, int, int, str]:
    return not one.throttled, -one.strained - one.failed, -one.strain, one.host


def _busiest_first(one: HostSample) -> tuple[int, int, int, str]:
    return -one.asked, -one.running, -one.deferred, one.host


def due(
    opened: Mapping[QueueKey, int],
    nodes: Mapping[QueueKey, Nodes],
    now: datetime,
    *,
    budget: int = KEYS_A_NODE,
) -> list[QueueKey]:
    """Choose the queue keys to audit in this sample, the first ones first.

    Queues lie end to end on a circle, each as long as what it holds. A sample goes through a part
    of the circle, as long as the budget, and audits what begins there, so a queue's turn comes
    again after about as many samples as the circle has such parts. That may exceed the budget by
    one queue: one that is larger than any budget has its turn too. Each minute begins at another
    place.

    ``opened`` is how many are open of each queue, ``nodes`` where they lie (half of them on each of
    two nodes), ``budget`` the keys of each node.

    >>> many = {QueueKey("acme", f"b{n}", "main"): 10**6 for n in range(10)}
    >>> on_main = dict.fromkeys(many, frozenset({"main"}))
    >>> [len(due(many, on_main, datetime.fromtimestamp(60 * n))) for n in range(5)]
    [2, 2, 2, 2, 2]
    >>> len(due(dict.fromkeys(many, 10), on_main, datetime.fromtimestamp(0)))
    10
    """
    keys = {queue_key: _LEAST_KEYS + max(0, count) for queue_key, count in opened.items()}
    asked: Counter[str] = Counter()
    circles: defaultdict[Nodes, list[QueueKey]] = defaultdict(list)
    for queue_key, count in keys.items():
        circles[nodes[queue_key]].append(queue_key)
        for node in nodes[queue_key]:
            asked[node] += -(-count // len(nodes[queue_key]))
    begin = place(now)
    return [
        queue_key
        for on, queues in circles.items()
        for queue_key in _of_circle(
            {queue_key: keys[queue_key] for queue_key in queues},
            begin,
            min((budget / asked[node] for node in on), default=1.0),
        )
    ]


def _of_circle(keys: Mapping[QueueKey, int], begin: float, part: float) -> list[QueueKey]:
    """Return the queue keys that begin within this part of the circle."""
    whole = sum(keys.values())
    until = part * whole if part < 1 else float("inf")
    passed, found = 0, []
    for queue_key, count in keys.items():
        ahead = (passed - begin * whole) % whole
        if ahead < until:
            found.append((ahead, queue_key))
        passed += count
    return [queue_key for _, queue_key in sorted(found, key=lambda one: one[0])]


class Gathered(msgspec.Struct, Generic[K, T], frozen=True):
    """Answers, and failures of the other calls; each in the order of asking."""

    answers: dict[K, T]
    failures: dict[K, Exception | str]


class Sharing(msgspec.Struct, frozen=True):
    """A bound: of calls ``of`` the same, up to ``at_once`` are made at once."""

    of: Mapping[Any, Hashable]
    at_once: int


def gather(
    calls: Mapping[K, Callable[[], T]],
    *,
    threads: int,
    seconds: float,
    sharing: Sharing | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Gathered[K, T]:
    """Make all calls, ``threads`` at a time, the first ones first; give up after ``seconds``.

    Calls that share take turns with all others: the first of each, then the second of each.

    What has not begun by then never does. What has begun goes on by itself, so it must be harmless
    and bounded; its answer is dropped.
    """
    if not calls:
        return Gathered({}, {})
    ends_at = clock() + seconds
    turns = _Turns(calls, sharing)
    pool = ThreadPoolExecutor(min(threads, len(calls)), thread_name_prefix="gather")
    keys: dict[Future[T], K] = {}
    pending: set[Future[T]] = set()
    while True:
        while len(pending) < threads and turns.ready:
            key = turns.take()
            future = pool.submit(calls[key])
            keys[future] = key
            pending.add(future)
        left = ends_at - clock()
        if not pending or left <= 0:
            break
        done, pending = wait(pending, timeout=left, return_when=FIRST_COMPLETED)
        for future in done:
            turns.end(keys[future])
    pool.shutdown(wait=False, cancel_futures=True)
    ended = {key: future for future, key in keys.items() if future not in pending}
    return _gathered(calls, ended, f"not answered within {seconds:g} s")


def _gathered(
    calls: Mapping[K, Callable[[], T]], ended: Mapping[K, Future[T]], too_late: str
) -> Gathered[K, T]:
    answers: dict[K, T] = {}
    failures: dict[K, Exception | str] = {}
    for key in calls:
        future = ended.get(key)
        if future is None:
            failures[key] = too_late
            continue
        error = future.exception()
        if error is None:
            answers[key] = future.result()
        elif isinstance(error, Exception):
            failures[key] = error
        else:  # the process is to end
            raise error
    return Gathered(answers, failures)


class _Turns(Generic[K]):
    """The order of calls, bounded by what they share; the groups ``ready`` to begin, each once."""

    def __init__(self, calls: Mapping[K, object], sharing: Sharing | None) -> None:
        of: Mapping[Any, Hashable] = {} if sharing is None else sharing.of
        self._at_once = 1 if sharing is None else sharing.at_once
        # A call that shares with no other is a group of its own.
        self._group = {key: (True, of[key]) if key in of else (False, key) for key in calls}
        self._waiting: defaultdict[Hashable, deque[K]] = defaultdict(deque)
        self._running: Counter[Hashable] = Counter()
        for key, group in self._group.items():
            self._waiting[group].append(key)
        self.ready: deque[Hashable] = deque(self._waiting)

    def take(self) -> K:
        """Begin the next call."""
        group = self.ready.popleft()
        self._running[group] += 1
        key = self._waiting[group].popleft()
        self._offer(group)
        return key

    def end(self, key: K) -> None:
        """End a call."""
        group = self._group[key]
        full = self._running[group] == self._at_once
        self._running[group] -= 1
        if full:
            self._offer(group)

    def _offer(self, group: Hashable) -> None:
        if self._waiting[group] and self._running[group] < self._at_once:
            self.ready.append(group)


def in_words(failure: Exception | str) -> str:
    """Write a failure for people, with its kind where it was not foreseen.

    >>> in_words("too late"), in_words(ZeroDivisionError("odd"))
    ('too late', 'ZeroDivisionError: odd')
    """
    if isinstance(failure, CrawlfleetError | str):
        return str(failure)
    return f"{type(failure).__name__}: {failure}"
