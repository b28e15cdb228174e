"""In-memory fakes reclaim requests from dead workers and rebuild lost queues."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from tests.fakes.kept_queue import KeptQueue
from tests.fakes.queue import MemoryQueue
from tests.fakes.request_state import KeptState, is_due, place
from tests.kit.config import Biz
from tests.kit.kernel import QueueKey, to_ms
from tests.kit.queue import is_of
from tests.kit.requests import Entry, QueueEpoch, State


class MemoryLeaseRevocation:
    """In-memory ``MongoLeaseRevocation`` on the state of a MemoryRequestStore."""

    def __init__(self, state: KeptState) -> None:
        self._state = state
        self._marks: dict[QueueKey, QueueEpoch] = {}

    def pools(
        self, queue_key: QueueKey, biz: Biz, among: Collection[str], now: datetime
    ) -> set[str]:
        with self._state.lock:
            kept = self._state.of(queue_key).requests.values()
            return {one.request.pool for one in kept if one.request.pool is not None}

    def give_over(
        self, queue_key: QueueKey, biz: Biz, limit: int, by: str, why: str, now: datetime
    ) -> tuple[int, list[Entry]]:
        with self._state.lock:
            mine = [
                kept
                for kept in self._state.of(queue_key).requests.values()
                if kept.request.pool is not None
                and kept.request.pool == queue_key.pool
                and (kept.state in (State.PENDING, State.WAITING) or is_due(kept, now))
            ]
            mine = sorted(mine, key=lambda one: place(one.request.entry.ts, one.request.id))[:limit]
            for one in mine:
                one.request = replace(one.request, pool=None)
                one.note(now, State(one.state), by, why)
            return len(mine), [one.request.entry for one in mine if one.state != State.WAITING]

    def revoke(
        self,
        queue_key: QueueKey,
        biz: Biz,
        entries: Sequence[Entry],
        worker: str,
        by: str,
        why: str,
        now: datetime,
    ) -> int:
        revoked = 0
        with self._state.lock:
            requests = self._state.of(queue_key).requests
            for entry in entries:
                kept = requests.get(entry.id)
                if (
                    kept is not None
                    and entry.biz == queue_key.biz
                    and kept.state == State.LEASED
                    and kept.worker == worker
                ):
                    kept.token = kept.due_at = None
                    kept.note(now, State.PENDING, by, why)
                    revoked += 1
        return revoked

    def pending(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        since: int,
        before: datetime,
        now: datetime,
        limit: int,
    ) -> list[Entry]:
        alive = now - timedelta(seconds=biz.ttl_seconds)
        with self._state.lock:
            found = sorted(
                (
                    kept.request.entry
                    for kept in self._state.of(queue_key).requests.values()
                    if kept.state == State.PENDING
                    and kept.request.pool == queue_key.pool
                    and to_ms(kept.request.queued_at) >= since
                    and alive < kept.request.queued_at < before
                ),
                key=lambda entry: place(entry.ts, entry.id),
            )
        if len(found) > limit:
            last = found[limit - 1].ts
            found = [entry for entry in found if entry.ts <= last]
        return found

    def waiting(
        self, queue_key: QueueKey, biz: Biz, *, now: datetime, limit: int
    ) -> list[tuple[Entry, datetime]]:
        alive = now - timedelta(seconds=biz.ttl_seconds)
        with self._state.lock:
            found = [
                (kept.request.entry, kept.due_at)
                for kept in self._state.of(queue_key).requests.values()
                if kept.state == State.WAITING
                and kept.request.pool == queue_key.pool
                and kept.due_at is not None
                and kept.request.queued_at > alive
            ]
        return sorted(found, key=lambda one: (one[1], place(one[0].ts, one[0].id)))[:limit]

    def held(
        self, queue_key: QueueKey, biz: Biz, *, now: datetime, limit: int
    ) -> list[tuple[str, Entry]]:
        with self._state.lock:
            kept = self._state.of(queue_key).requests.values()
            return [
                (one.worker, one.request.entry)
                for one in kept
                if one.state == State.LEASED
                and one.request.pool == queue_key.pool
                and one.worker is not None
                and one.due_at is not None
                and one.due_at > now
            ][:limit]

    def remembered_epoch(self, queue_key: QueueKey) -> QueueEpoch | None:
        with self._state.lock:
            return self._marks.get(queue_key)

    def remembered_epochs(self, queues: Sequence[QueueKey]) -> dict[QueueKey, QueueEpoch]:
        with self._state.lock:
            return {one: self._marks[one] for one in queues if one in self._marks}

    def remember_epoch(self, queue_key: QueueKey, epoch: QueueEpoch) -> None:
        with self._state.lock:
            self._marks[queue_key] = epoch


class MemoryQueueRebuild:
    """A ``QueueFilling`` of a queue in memory; thread-safe."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue

    def epoch(self, queue_key: QueueKey) -> QueueEpoch:
        """Name the server that holds the queue now, and the mark of its latest filling."""
        with self._queue.opened(queue_key) as held:
            nonce, reached = held.filled or (None, None)
            return QueueEpoch(server=self._queue.server, nonce=nonce, reached=reached)

    def epochs(self, queues: Sequence[QueueKey]) -> dict[QueueKey, QueueEpoch | None]:
        """Do that for many."""
        return {queue_key: self.epoch(queue_key) for queue_key in queues}

    def clear(self, queue_key: QueueKey, nonce: str) -> None:
        """Drop what is queued, parked and delayed (not what is leased), begin a filling at 0."""
        with self._queue.opened(queue_key) as held:
            for level in held.levels:
                level.clear()
            held.times.clear()
            held.oldests.clear()
            held.deferred.clear()
            held.parked_due.clear()
            held.waiting.clear()
            held.delayed.clear()
            held.filled = (nonce, 0)

    def fill(self, queue_key: QueueKey, nonce: str, entries: Sequence[Entry], reached: int) -> bool:
        """Append, oldest first, and note how far this has come. False: another has begun anew."""
        with self._queue.opened(queue_key) as held:
            if not _under_way(held, nonce):
                return False
            held.append(entries)
            held.filled = (nonce, reached)
            return True

    def fill_delayed(
        self, queue_key: QueueKey, nonce: str, entries: Sequence[tuple[Entry, datetime]]
    ) -> bool:
        """The same for what waits for its time; what a worker has delayed meanwhile stays."""
        with self._queue.opened(queue_key) as held:
            if not _under_way(held, nonce):
                return False
            for entry, due_at in entries:
                held.delayed.setdefault(entry, to_ms(due_at))
            return True

    def filled(self, queue_key: QueueKey, nonce: str) -> bool:
        """The queue is complete; True also if this nonce had completed it before."""
        with self._queue.opened(queue_key) as held:
            if not _under_way(held, nonce):
                return held.filled == (nonce, None)
            held.filled = (nonce, None)
            return True


def _under_way(held: KeptQueue, nonce: str) -> bool:
    return held.filled is not None and held.filled[0] == nonce and held.filled[1] is not None


class MemoryLeaseBook:
    """A ``LeaseBook`` of a queue in memory; thread-safe."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue

    def leases(self, queue_key: QueueKey, worker: str | None = None) -> list[tuple[str, Entry]]:
        """Leased entries with their tokens: of one worker, or of all."""
        with self._queue.opened(queue_key) as held:
            return [lease for lease in held.leases if worker is None or is_of(lease[0], worker)]

    def relist(
        self, queue_key: QueueKey, token: str, entries: Sequence[Entry], until: datetime
    ) -> None:
        """List as leased what the store says the token owns and the queue has forgotten.

        Raises:
            ValueError: the token contains ``:{``, which Redis keeps for itself.
        """
        if ":{" in token:
            raise ValueError(f"a lease token must not contain ':{{': {token!r}")
        with self._queue.opened(queue_key) as held:
            for entry in entries:
                until_ms = max(to_ms(until), held.leases.get((token, entry), 0))
                held.leases[token, entry] = until_ms


class MemoryBizs:
    """In-memory ``RedisBizs``."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[bool, str]] = {}

    def report(self, queues: Mapping[str, Sequence[QueueKey]]) -> list[QueueKey]:
        for key, (_, queue) in self._known.items():
            if key[0] in queues:
                self._known[key] = (False, queue)
        for each in queues.values():
            self._known |= {
                (queue_key.tenant, queue_key.biz): (True, queue_key.queue) for queue_key in each
            }
        return [
            QueueKey(tenant, biz, queue)
            for (tenant, biz), (there, queue) in self._known.items()
            if tenant in queues and not there
        ]

    def gone(self, queues: Mapping[str, Sequence[QueueKey]]) -> list[QueueKey]:
        there = {
            (queue_key.tenant, queue_key.biz) for each in queues.values() for queue_key in each
        }
        return [
            QueueKey(*key, queue)
            for key, (_, queue) in self._known.items()
            if key[0] in queues and key not in there
        ]

    def ask(self, queue_key: QueueKey) -> tuple[bool | None, list[str]]:
        """Answer as ``RedisBizs.ask`` does."""
        key = queue_key.tenant, queue_key.biz
        if self._known.get(key, (False, ""))[0]:
            return True, []
        others = sorted(b for (t, b), (there, _) in self._known.items() if t == key[0] and there)
        if others:
            return False, others[:20]
        self._known.setdefault(key, (False, queue_key.queue))
        return None, []
