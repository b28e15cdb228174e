"""In-memory fakes keep seeds and the filters of their keys."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from tests.kit.config import Biz
from tests.kit.frontier import (
    KEY_BYTES,
    Seed,
    SeedState,
    SeedTotals,
    Segment,
    layers,
    newest_first,
)
from tests.kit.kernel import QueueKey, RequestId

#: Segments that totals tell of: the newest.
MOST_SEGMENTS: Final = 31

_ENDED: Final = frozenset({SeedState.FINISHED, SeedState.FAILED})


class MemorySeeds:
    """In-memory ``MongoSeeds``; thread-safe.

    ``clock`` stands for the server's, by which ended seeds are forgotten.
    """

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._kept: defaultdict[tuple[str, str], dict[str, Seed]] = defaultdict(dict)
        self._clock = clock
        self._lock = threading.Lock()

    def insert(self, queue_key: QueueKey, biz: Biz, seeds: Sequence[Seed]) -> set[str]:
        with self._lock:
            kept = self._of(queue_key, biz)
            known = {seed.key for seed in seeds if seed.id in kept}
            for seed in seeds:
                kept.setdefault(seed.id, seed)
            return known

    def known(
        self, queue_key: QueueKey, biz: Biz, segment: Segment, keys: Sequence[str]
    ) -> set[str]:
        with self._lock:
            kept = self._of(queue_key, biz)
            return {key for key in keys if f"{segment.name}/{key}" in kept}

    def ready(self, queue_key: QueueKey, biz: Biz, now: datetime, limit: int) -> int:
        with self._lock:
            return min(limit, len(_ready(self._of(queue_key, biz).values(), now)))

    def handed(self, queue_key: QueueKey, biz: Biz, limit: int) -> int:
        with self._lock:
            kept = self._of(queue_key, biz).values()
            return min(limit, sum(seed.state is SeedState.HANDED for seed in kept))

    def dispatch(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ids: Sequence[RequestId],
        now: datetime,
        until: datetime,
    ) -> list[Seed]:
        with self._lock:
            kept = self._of(queue_key, biz)
            handed = []
            for seed, request_id in zip(_ready(kept.values(), now), ids, strict=False):
                changed = msgspec.structs.replace(
                    seed,
                    state=SeedState.HANDED,
                    due_at=until,
                    request=request_id,
                    handed_at=now,
                    tries=seed.tries + 1,
                )
                kept[seed.id] = changed
                handed.append(changed)
            return handed

    def overdue(self, queue_key: QueueKey, biz: Biz, now: datetime, limit: int) -> list[Seed]:
        with self._lock:
            found = [
                seed
                for seed in self._of(queue_key, biz).values()
                if seed.state is SeedState.HANDED and seed.due_at < now
            ]
            return sorted(found, key=_place)[:limit]

    def extend(self, queue_key: QueueKey, biz: Biz, seeds: Sequence[Seed], until: datetime) -> None:
        with self._lock:
            kept = self._of(queue_key, biz)
            for seed in seeds:
                standing = kept.get(seed.id)
                if standing is not None and _is_handed_as(standing, seed.request):
                    kept[seed.id] = msgspec.structs.replace(standing, due_at=until)

    def ended(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ends: Mapping[str, tuple[RequestId, str]],
        now: datetime,
    ) -> int:
        count = 0
        with self._lock:
            kept = self._of(queue_key, biz)
            for seed_id, (request_id, why) in ends.items():
                seed = kept.get(seed_id)
                replayed = not why and seed is not None and seed.state is SeedState.FAILED
                if (
                    seed
                    and seed.request == request_id
                    and (replayed or seed.state is SeedState.HANDED)
                ):
                    state = SeedState.FAILED if why else SeedState.FINISHED
                    kept[seed_id] = msgspec.structs.replace(seed, state=state, due_at=now, why=why)
                    count += 1
        return count

    def requeue(
        self,
        queue_key: QueueKey,
        biz: Biz,
        expired: Mapping[str, tuple[RequestId, str]],
        now: datetime,
    ) -> int:
        count = 0
        with self._lock:
            kept = self._of(queue_key, biz)
            for seed_id, (request_id, why) in expired.items():
                seed = kept.get(seed_id)
                if seed and seed.state is SeedState.HANDED and seed.request == request_id:
                    gone = {"request": None, "handed_at": None}
                    kept[seed_id] = msgspec.structs.replace(
                        seed, state=SeedState.READY, due_at=now, why=why, **gone
                    )
                    count += 1
        return count

    def release(
        self, queue_key: QueueKey, biz: Biz, seeds: Sequence[str], why: str, now: datetime
    ) -> int:
        count = 0
        with self._lock:
            kept = self._of(queue_key, biz)
            for seed_id in dict.fromkeys(seeds):
                seed = kept.get(seed_id)
                if seed is not None and seed.state in _ENDED:
                    kept[seed_id] = msgspec.structs.replace(
                        seed,
                        state=SeedState.READY,
                        due_at=now,
                        why=why,
                        request=None,
                        handed_at=None,
                    )
                    count += 1
        return count

    def forget(self, queue_key: QueueKey, biz: Biz, seeds: Sequence[str]) -> int:
        with self._lock:
            kept = self._of(queue_key, biz)
            return sum(kept.pop(seed_id, None) is not None for seed_id in dict.fromkeys(seeds))

    def find(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        segment: str | None,
        state: int | None,
        after: str | None,
        limit: int,
    ) -> list[Seed]:
        with self._lock:
            found = [
                seed
                for seed_id, seed in sorted(self._of(queue_key, biz).items())
                if segment in {None, seed.segment}
                and state in {None, int(seed.state)}
                and (after is None or seed_id > after)
            ]
        return found[:limit]

    def open_of_job(self, queue_key: QueueKey, biz: Biz, job: str, limit: int) -> list[Seed]:
        with self._lock:
            found = [
                seed
                for seed in self._of(queue_key, biz).values()
                if seed.spec.job == job and seed.state in {SeedState.READY, SeedState.HANDED}
            ]
        return found[:limit]

    def jobs_of(self, queue_key: QueueKey, biz: Biz, seeds: Sequence[str]) -> dict[str, str | None]:
        with self._lock:
            kept = self._of(queue_key, biz)
            return {seed_id: kept[seed_id].spec.job for seed_id in seeds if seed_id in kept}

    def of_keys(self, queue_key: QueueKey, biz: Biz, keys: Sequence[str]) -> list[Seed]:
        with self._lock:
            kept = self._of(queue_key, biz)
            newest = newest_first({seed.segment for seed in kept.values()})
            ids = (f"{one}/{key}" for one in newest[:MOST_SEGMENTS] for key in keys)
            return [kept[seed_id] for seed_id in dict.fromkeys(ids) if seed_id in kept]

    def totals(self, queue_key: QueueKey, biz: Biz, now: datetime) -> list[SeedTotals]:
        counts: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        with self._lock:
            for seed in self._of(queue_key, biz).values():
                waits = seed.state is SeedState.READY and seed.due_at > now
                counts[seed.segment]["waiting" if waits else seed.state.label] += 1
        newest = [(one, counts[one]) for one in newest_first(counts)[:MOST_SEGMENTS]]
        return [SeedTotals(segment=segment, **of_segment) for segment, of_segment in newest]

    def _of(self, queue_key: QueueKey, biz: Biz) -> dict[str, Seed]:
        """Get a queue key's seeds, without those that were archived long enough ago."""
        kept = self._kept[queue_key.tenant, queue_key.biz]
        over = self._clock() - timedelta(days=biz.seeds.archive_days)
        for seed_id, seed in list(kept.items()):
            archived = seed.state in _ENDED and seed.ends_at is not None
            if archived and max(seed.due_at, seed.ends_at or seed.due_at) <= over:
                del kept[seed_id]
        return kept


def _ready(seeds: Iterable[Seed], now: datetime) -> list[Seed]:
    found = (seed for seed in seeds if seed.state is SeedState.READY and seed.due_at <= now)
    return sorted(found, key=_place)


def _place(seed: Seed) -> tuple[datetime, str]:
    return seed.due_at, seed.id


def _is_handed_as(seed: Seed, request_id: RequestId | None) -> bool:
    return seed.state is SeedState.HANDED and seed.request == request_id


class MemorySeedFilter:
    """In-memory ``RedisSeedFilter``; thread-safe. A set, it has no false positives.

    Its size is what a filter of Redis would take.
    """

    def __init__(self) -> None:
        self._known: defaultdict[tuple[QueueKey, str], set[bytes]] = defaultdict(set)
        self._plans: dict[tuple[QueueKey, str], tuple[int, float]] = {}
        self._lock = threading.Lock()

    def seen(
        self,
        queue_key: QueueKey,
        biz: Biz,
        segment: Segment,
        keys: Sequence[bytes],
    ) -> list[bool]:
        _check(keys)
        with self._lock:
            known = self._known.get((queue_key, segment.name), set())
            return [key in known for key in keys]

    def add(self, queue_key: QueueKey, biz: Biz, segment: Segment, keys: Sequence[bytes]) -> None:
        _check(keys)
        if not keys:
            return
        with self._lock:
            place = queue_key, segment.name
            self._plans.setdefault(place, (biz.seeds.expected, biz.seeds.error_rate))
            self._known[place].update(keys)

    def size(self, queue_key: QueueKey, segment: str) -> int:
        with self._lock:
            plan = self._plans.get((queue_key, segment))
            left = len(self._known.get((queue_key, segment), ()))
        taken = 0
        for layer in layers(*plan) if plan else ():
            if left <= 0:
                break
            taken, left = taken + layer.bytes, left - layer.keys
        return taken

    def drop(self, queue_key: QueueKey, segment: str) -> None:
        with self._lock:
            self._known.pop((queue_key, segment), None)
            self._plans.pop((queue_key, segment), None)


def _check(keys: Sequence[bytes]) -> None:
    if any(len(key) != KEY_BYTES for key in keys):
        raise ValueError(f"a key has {KEY_BYTES} bytes")
