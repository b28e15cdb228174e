"""In-memory fakes keep the autoscaler's decisions, forecast demand and limit concurrency."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from threading import RLock
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from tests.fakes.fleet import MemoryWorkers
from tests.fakes.queue import MemoryQueue
from tests.kit.fleet import (
    FLEET_POOL,
    MOST_THROUGHPUTS,
    ScalingState,
    ScalingTarget,
    Throughput,
    ThroughputReply,
    is_fresh,
    learnt,
)
from tests.kit.kernel import MAIN_POOL, LimitRefusedError, QueueKey, to_ms
from tests.kit.queue import QueueWork, by_account, by_host, hosts_among, is_parked
from tests.kit.requests import Entry

_NONE: Final[Mapping[str, Throughput]] = MappingProxyType({})


class MemoryScalingTargets:
    """Scaling targets of workers in memory, by their clock; thread-safe."""

    def __init__(self, workers: MemoryWorkers) -> None:
        self._lock = RLock()
        self._workers = workers
        self._pools: dict[str, ScalingState] = {}
        self._throughputs: dict[str, dict[str, float]] = {}
        self._needs: dict[str, int] = {}

    def _workers_of(self, pool: str) -> MemoryWorkers:
        return self._workers.pool(MAIN_POOL if pool == FLEET_POOL else pool)

    def idle(self, stated: Sequence[str], active: Collection[str]) -> dict[str, float]:
        """Tell the seconds since those with stated needs were active."""
        with self._lock, self._workers.opened() as (_, now_ms):
            before = self._needs
            self._needs = {
                name: now_ms if name in active else min(before.get(name, now_ms), now_ms)
                for name in stated
            }
            return {name: (now_ms - at) / 1_000 for name, at in self._needs.items()}

    def read(self, pool: str) -> ScalingState:
        """Get the standing target."""
        with self._lock, self._workers.opened() as (_, now_ms):
            found = self._pools.get(pool, ScalingState())
            return replace(found, now_ms=now_ms, leaving=self._workers_of(pool).leaving)

    def settle(self, pool: str, read: ScalingState, target: ScalingTarget) -> bool:
        """Set the target, unless another was set since ``read``."""
        with self._lock:
            found = self._pools.get(pool, ScalingState())
            if found.version != read.version:
                return False
            self._pools[pool] = replace(found, target=target, version=found.version + 1)
            return True

    def throughputs(self, pool: str) -> dict[str, float]:
        """Get the learnt throughputs of queues."""
        with self._lock:
            return dict(self._throughputs.get(pool, {}))

    def report_throughput(
        self,
        pool: str,
        worker: str,
        throughput: Throughput | None,
        now: datetime,
        throughputs: Mapping[str, Throughput] = _NONE,
    ) -> ThroughputReply:
        """Learn a throughput; tell whether the worker is to leave."""
        with self._lock:
            if throughput is not None:
                found = self._pools.get(pool, ScalingState())
                self._pools[pool] = replace(found, throughput=learnt(found.throughput, throughput))
            kept_throughputs = self._throughputs.setdefault(pool, {})
            for queue_key, shown in throughputs.items():
                # Whoever was shown last stands last: the first are forgotten first.
                known = learnt(kept_throughputs.pop(queue_key, None), shown)
                kept_throughputs |= {} if known is None else {queue_key: known}
            for queue_key in list(kept_throughputs)[
                : max(0, len(kept_throughputs) - MOST_THROUGHPUTS)
            ]:
                del kept_throughputs[queue_key]
            standing = self.read(pool)
            workers = self._workers_of(pool)
            if not is_fresh(standing):
                return workers.throughput_reply(worker, now, None)
            return workers.throughput_reply(
                worker, now, standing.target.kept, standing.target.floor
            )


class MemoryQueueSampler:
    """Samples of a queue in memory."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue

    def works(
        self, queues: Sequence[QueueKey], now: datetime, soon: timedelta, hosts: int
    ) -> list[QueueWork]:
        """Sum the work ahead in each queue."""
        return [self._work(queue_key, to_ms(now), to_ms(now + soon), hosts) for queue_key in queues]

    def sample_queue(self, queue_key: QueueKey, count: int) -> list[Entry]:
        """Up to ``count`` entries of the queue, the one to be served next first."""
        with self._queue.opened(queue_key) as held:
            everything = [entry for level in held.levels[::-1] for entry in reversed(level)]
            length, count = len(everything), min(count, len(everything))
            step = (length - 1, max(1, count - 1))
            return [everything[n * step[0] // step[1]] for n in range(max(0, count))]

    def _work(self, queue_key: QueueKey, now_ms: int, soon_ms: int, hosts: int) -> QueueWork:
        with self._queue.opened(queue_key) as held:
            ended = sum(until <= now_ms for until in held.leases.values())
            named = sorted(held.parked_due, key=lambda host: (held.parked_due[host], host))
            every = [(at, held.waiting[at].count) for at in named[: max(0, hosts)]]
            places = [one for one in every if not is_parked(one[0])]
            seen = {at for at, _ in every} - {at for at, _ in places}
            soon = sum(at <= soon_ms for name, at in held.parked_due.items() if name not in seen)
            hidden = [name for name in held.parked_due if is_parked(name)]
            sample, hosts = by_host(places), len(held.parked_due) - len(hidden)
            return QueueWork(
                queued=held.queued + ended,
                leased=len(held.leases) - ended,
                due=sum(at <= soon_ms for at in held.delayed.values()),
                deferred=sum(one.count for one in held.waiting.values()),
                hosts=hosts_among(hosts, len(places), len(sample)),
                hosts_due=hosts_among(min(soon, hosts), len(places), len(sample)),
                sample=tuple(sample.items()),
                parked=tuple(by_account(every).items()),
                parked_entries=sum(held.waiting[name].count for name in hidden),
                oldest_ts=held.oldest_ts,
            )


class MemoryLimit:
    """A ``ConcurrencyLimit``: ``room`` is what the account has to give."""

    def __init__(self, ceiling: int, *, count: int | None = None, room: int | None = None) -> None:
        self._ceiling = ceiling
        self._count = count
        self.room = ceiling if room is None else room

    @property
    def ceiling(self) -> int:
        """The most that the stage may be given."""
        return self._ceiling

    def current(self) -> int | None:
        """Get how many are allowed now."""
        return self._count

    def change(self, count: int) -> None:
        """Allow so many.

        Raises:
            LimitRefusedError: the account has not so many to give.
        """
        if count > self.room:
            raise LimitRefusedError(f"the account has {self.room} to give")
        self._count = count
