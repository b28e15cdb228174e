"""In-memory fakes keep queues of requests and sum their depths."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import RLock
from typing import Final
from uuid import uuid4

import msgspec

from tests.fakes.ageing import NONE, joined, served, settle
from tests.fakes.kept_queue import (
    KeptQueue,
    count_rate,
    earliest,
    in_turn,
    member_of,
    next_priority,
)
from tests.kit.kernel import USUAL_AGEING, Ageing, QueueKey, to_ms
from tests.kit.politeness import DeferredHost
from tests.kit.queue import (
    LOOKED_AT,
    Depth,
    Load,
    Rates,
    by_host,
    full_minute,
    kept,
    place,
    places,
    rates,
    ready_count,
)
from tests.kit.requests import Entry

_encode: Final = msgspec.json.Encoder().encode


class _Statistics:
    """The counters of one biz, whatever its queue's name is."""

    def __init__(self) -> None:
        self.submitted: Counter[int] = Counter()
        self.processed: Counter[int] = Counter()
        self.phases: dict[str, float] = defaultdict(float)


class MemoryOpenQueues:
    """The open queues of a :class:`MemoryQueue`: those in which anything is."""

    def __init__(self, queue: "MemoryQueue") -> None:
        self._queue = queue

    def announce(self, queues: Iterable[QueueKey]) -> None:
        """Do nothing: what is open is seen."""

    def listed(self) -> dict[QueueKey, int]:
        """Return them, each announced with every entry that comes."""
        return {one: self._queue.depth(one).queued for one in self._queue.with_anything()}

    def forget(self, seen: Mapping[QueueKey, int]) -> int:
        """Forget none: those that are empty are not open."""
        return 0


class MemoryQueue:
    """A ``RequestQueue`` that lives as long as it is held; thread-safe.

    The lease book, the filling and the intake of this package are other views of it. ``flush`` and
    ``restart`` do to it what may happen to a Redis. ``clock`` stands for the server's, by which
    priorities age; where none is given it is the caller's.
    """

    def __init__(self, *, clock: Callable[[], datetime] | None = None) -> None:
        self._clock = clock
        self._lock = RLock()
        self._queues: dict[QueueKey, KeptQueue] = defaultdict(KeptQueue)
        self._statistics: dict[tuple[str, str], _Statistics] = defaultdict(_Statistics)
        self.server = uuid4().hex
        self.open = MemoryOpenQueues(self)

    def announce(self, queues: Iterable[QueueKey]) -> None:
        """Do nothing: what is open is seen."""

    def with_anything(self) -> list[QueueKey]:
        """Return the queues in which anything is."""
        with self._lock:
            return [
                queue_key
                for queue_key, kept in self._queues.items()
                if kept.queued or kept.leases or kept.delayed or kept.waiting
            ]

    @contextmanager
    def opened(self, queue_key: QueueKey) -> Iterator[KeptQueue]:
        """Open a queue, and lock everybody else out meanwhile."""
        with self._lock:
            yield self._queues[queue_key]

    def flush(self) -> None:
        """Lose everything."""
        with self._lock:
            self._queues.clear()
            self._statistics.clear()

    def restart(self) -> None:
        """Become another server, of the same content."""
        self.server = uuid4().hex

    def enqueue(self, queue_key: QueueKey, entries: Sequence[Entry], now: datetime) -> int:
        """Append, and count towards the queue's submission rate; returns how many wait now."""
        with self._lock:
            self._queues[queue_key].append(entries)
            if entries:
                count_rate(self._of(queue_key).submitted, now, len(entries))
            return self._queues[queue_key].queued

    def requeue(self, queue_key: QueueKey, entries: Sequence[Entry]) -> None:
        """Put recovered entries where they are served next, the first one first."""
        with self._lock:
            self._queues[queue_key].put_first(reversed(entries))

    def lease(
        self,
        queue_key: QueueKey,
        token: str,
        count: int,
        now: datetime,
        until: datetime,
        ageing: Ageing = USUAL_AGEING,
    ) -> list[Entry]:
        """Move up to ``count`` entries to the token's lease; a repeated one only once.

        Raises:
            ValueError: the token contains ``:{``, which Redis keeps for itself.
        """
        if ":{" in token:
            raise ValueError(f"a lease token must not contain ':{{': {token!r}")
        if count < 1:
            return []
        with self._lock:
            queue, now_ms = self._queues[queue_key], to_ms(now)
            until_ms = to_ms(until)
            taken: list[Entry] = []

            def take(entry: Entry) -> None:
                if (token, entry) not in queue.leases:
                    taken.append(entry)
                queue.leases[token, entry] = until_ms

            queue.reported_ms = now_ms
            due = earliest(queue.delayed, now_ms, count, _encode)
            ended = earliest(queue.leases, now_ms, count - len(due), member_of)
            for entry in due:
                del queue.delayed[entry]
            for held in ended:
                del queue.leases[held]
            queue.put_first(reversed([*due, *(entry for _, entry in ended)]))
            if heads := queue.heads:
                clock = now_ms if self._clock is None else to_ms(self._clock())
                most = kept(ageing.beta, ageing.clamp)
                oldest = min(heads.values())
                settle(queue.times, queue.oldests, clock, oldest, ageing.interval_ms, most)
            while len(taken) < count and (level := next_priority(queue, ageing)) != NONE:
                take(queue.levels[level].pop())
            return taken

    def renew(
        self, queue_key: QueueKey, token: str, entries: Sequence[Entry], until: datetime
    ) -> list[Entry]:
        """Extend the lease of ``entries``; returns those that the token no longer holds."""
        with self._lock:
            leases = self._queues[queue_key].leases
            lost = []
            for entry in entries:
                if (token, entry) in leases:
                    leases[token, entry] = to_ms(until)
                else:
                    lost.append(entry)
            return lost

    def finish(
        self,
        queue_key: QueueKey,
        token: str,
        entries: Sequence[Entry],
        processed: int,
        now: datetime,
    ) -> int:
        """Drop the token's entries, count ``processed``; returns how many it held."""
        with self._lock:
            count_rate(self._of(queue_key).processed, now, processed)
            return len(list(self._let_go(queue_key, token, entries)))

    def give_back(self, queue_key: QueueKey, token: str, entries: Sequence[Entry]) -> int:
        """Return entries still held by the token to where they are served next."""
        with self._lock:
            back = list(self._let_go(queue_key, token, entries[::-1]))
            self._queues[queue_key].put_first(back)
            return len(back)

    def return_unconfirmed(self, queue_key: QueueKey, token: str, until: datetime) -> int:
        """Return to the queue what a lease of which the answer was lost has moved."""
        with self._lock:
            leases = self._queues[queue_key].leases.items()
            held = (token, to_ms(until))
            mine = [entry for (whose, entry), ends in leases if (whose, ends) == held]
            return self.give_back(queue_key, token, sorted(mine, key=_encode))

    def delay(
        self, queue_key: QueueKey, token: str, entries: Sequence[tuple[Entry, datetime]]
    ) -> int:
        """Move entries still held by the token to the waiting set, each until its time."""
        with self._lock:
            due_at = dict(entries[::-1])
            delayed = list(self._let_go(queue_key, token, list(due_at)))
            self._queues[queue_key].delayed.update(
                {entry: to_ms(due_at[entry]) for entry in delayed}
            )
            return len(delayed)

    def defer(
        self,
        queue_key: QueueKey,
        token: str,
        hosts: Sequence[tuple[str, datetime, Sequence[Entry]]],
    ) -> int:
        """Move entries still held by the token to the end of their host's and priority's list."""
        with self._lock:
            queue, moved = self._queues[queue_key], 0
            for host, again_at, entries in hosts:
                for level in {entry.priority for entry in entries}:
                    part = [entry for entry in entries if entry.priority == level]
                    held = list(self._let_go(queue_key, token, part))
                    if held:
                        at, least = place(host, level), min(entry.ts for entry in part)
                        queue.deferred.setdefault(at, deque()).extend(held)
                        before = queue.waiting.get(at)
                        queue.waiting[at] = joined(before, len(held), least)
                        for each in {at, *queue.parked_due.keys() & places(host)}:
                            queue.parked_due[each] = to_ms(again_at)
                        moved += len(held)
            return moved

    def deferred(self, queue_key: QueueKey, now: datetime, limit: int) -> list[DeferredHost]:
        """Hosts whose time has come and that have entries, the longest due first."""
        with self._lock:
            queue = self._queues[queue_key]
            queue.reported_ms = to_ms(now)
            due = earliest(queue.parked_due, queue.reported_ms, limit, str.encode)
            return queue.hosts(due)

    def lease_deferred(
        self,
        queue_key: QueueKey,
        token: str,
        hosts: Sequence[tuple[str, int, datetime]],
        until: datetime,
        ageing: Ageing = USUAL_AGEING,
    ) -> dict[str, list[Entry]]:
        """Move up to so many entries of each host to the token's lease, by priority and age.

        Raises:
            ValueError: the token contains ``:{``, which Redis keeps for itself.
        """
        if ":{" in token:
            raise ValueError(f"a lease token must not contain ':{{': {token!r}")
        with self._lock:
            queue = self._queues[queue_key]
            leased: dict[str, list[Entry]] = {}
            for host, count, again_at in hosts:
                taken = leased.setdefault(host, [])
                wanted = len(taken) + count
                clock = queue.reported_ms if self._clock is None else to_ms(self._clock())
                for entry in in_turn(queue.deferred, host, clock, ageing):
                    if len(taken) >= wanted:
                        break
                    at = place(host, entry.priority)
                    queue.deferred[at].popleft()
                    if (token, entry) not in queue.leases:
                        taken.append(entry)
                    queue.leases[token, entry] = to_ms(until)
                    left = served(queue.waiting[at], 1)
                    if left is None:
                        del queue.deferred[at], queue.parked_due[at], queue.waiting[at]
                    else:
                        queue.waiting[at] = left
                for at in places(host):
                    if at in queue.parked_due:
                        queue.parked_due[at] = to_ms(again_at)
            return leased

    def look_at(self, queue_key: QueueKey, hosts: Sequence[str], now: datetime) -> None:
        """Have deferred lists of hosts, or of accounts of quotas, be looked at now."""
        self.lease_deferred(queue_key, "", [(host, 0, now) for host in hosts], now)

    def depth(self, queue_key: QueueKey) -> Depth:
        """Count what is queued, parked, leased and delayed."""
        with self._lock:
            queue = self._queues[queue_key]
            deferred = sum(one.count for one in queue.waiting.values())
            return Depth(
                queued=queue.queued + deferred,
                deferred=deferred,
                leased=len(queue.leases),
                delayed=len(queue.delayed),
                oldest_ts=queue.oldest_ts,
                heads=queue.heads,
                deferred_ts=queue.deferred_ts,
            )

    def depths(self, queues: Sequence[QueueKey]) -> list[Depth]:
        """:meth:`depth` of many queues."""
        return [self.depth(queue_key) for queue_key in queues]

    def loads(self, queues: Sequence[QueueKey], now: datetime) -> list[Load]:
        """Count what can be leased now of many queues."""
        at = to_ms(now)
        with self._lock:
            found = []
            for queue_key in queues:
                queue = self._queues[queue_key]
                ended = sum(until <= at for until in queue.leases.values())
                due = sum(until <= at for until in queue.delayed.values())
                ready = queue.queued + ended + due
                places = earliest(queue.parked_due, at, len(queue.parked_due), str.encode)
                looked = [(one, queue.waiting[one].count) for one in places[:LOOKED_AT]]
                counts = by_host(looked)
                ready += ready_count([*counts.values()], len(places) - len(looked) + len(counts))
                times = (*queue.delayed.values(), *queue.parked_due.values())
                following = min((due for due in times if due > at), default=None)
                leased = len(queue.leases) - ended
                found.append(Load(ready=ready, leased=leased, next_ts=following))
            return found

    def rates(self, queue_key: QueueKey, now: datetime) -> tuple[Rates, Rates]:
        """Submitted and processed requests per second over the last full 1, 5 and 60 seconds."""
        with self._lock:
            second, counted = to_ms(now) // 1000, self._of(queue_key)
            return rates(counted.submitted, second), rates(counted.processed, second)

    def per_second(
        self, queue_key: QueueKey, now: datetime
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Submitted and processed counts by epoch second; a second without any is missing."""
        with self._lock:
            second, counted = to_ms(now) // 1000, self._of(queue_key)
            return full_minute(counted.submitted, second), full_minute(counted.processed, second)

    def counted(self, queue_key: QueueKey) -> tuple[dict[int, int], dict[int, int]]:
        """Return all kept counts of submitted and processed requests by epoch second."""
        with self._lock:
            counted = self._of(queue_key)
            return dict(counted.submitted), dict(counted.processed)

    def add_phases(self, queue_key: QueueKey, seconds: Mapping[str, float]) -> None:
        """Add to the queue's account of where workers spend their time."""
        with self._lock:
            for phase, spent in seconds.items():
                self._of(queue_key).phases[phase] += spent

    def phases(self, queue_key: QueueKey) -> dict[str, float]:
        """Get that account, in seconds by phase."""
        with self._lock:
            return dict(self._of(queue_key).phases)

    def _of(self, queue_key: QueueKey) -> _Statistics:
        return self._statistics[queue_key.tenant, queue_key.biz]

    def _let_go(self, queue_key: QueueKey, token: str, entries: Sequence[Entry]) -> Iterator[Entry]:
        leases = self._queues[queue_key].leases
        for entry in entries:
            if leases.pop((token, entry), None) is not None:
                yield entry


class MemoryOverview:
    """An ``Overview`` of a queue in memory."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue

    def counts(
        self, queues: Sequence[QueueKey]
    ) -> list[tuple[dict[int, int], dict[int, int]] | None]:
        return [self._queue.counted(queue_key) for queue_key in queues]

    def waiting_hosts(self, queues: Sequence[QueueKey], limit: int) -> list[list[DeferredHost]]:
        return [self._of(queue_key, max(0, limit)) for queue_key in queues]

    def _of(self, queue_key: QueueKey, limit: int) -> list[DeferredHost]:
        with self._queue.opened(queue_key) as queue:
            due = sorted(
                queue.parked_due, key=lambda host: (queue.parked_due[host], host), reverse=True
            )
            return queue.hosts(due[:limit])
