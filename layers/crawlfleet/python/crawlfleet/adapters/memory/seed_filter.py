"""The twin of the seeds' Bloom filters: sets, which never err."""

import threading
from collections import defaultdict
from collections.abc import Sequence

from crawlfleet.model.biz import Biz
from crawlfleet.model.lane import Lane
from crawlfleet.model.seed import Segment
from crawlfleet.policy.bloom import layers
from crawlfleet.policy.seedkey import KEY_BYTES


class MemorySeedFilter:
    """ports.SeedFilter in memory; thread-safe. Its size is what a filter of Redis would take."""

    def __init__(self) -> None:
        self._known: defaultdict[tuple[Lane, str], set[bytes]] = defaultdict(set)
        self._plans: dict[tuple[Lane, str], tuple[int, float]] = {}
        self._lock = threading.Lock()

    def seen(
        self,
        lane: Lane,
        biz: Biz,  # noqa: ARG002  says how a real filter is laid out
        segment: Segment,
        keys: Sequence[bytes],
    ) -> list[bool]:
        """See ports.SeedFilter.seen."""
        _check(keys)
        with self._lock:
            known = self._known.get((lane, segment.name), set())
            return [key in known for key in keys]

    def add(self, lane: Lane, biz: Biz, segment: Segment, keys: Sequence[bytes]) -> None:
        """See ports.SeedFilter.add."""
        _check(keys)
        if not keys:
            return
        with self._lock:
            place = lane, segment.name
            self._plans.setdefault(place, (biz.seeds.expected, biz.seeds.error_rate))
            self._known[place].update(keys)

    def size(self, lane: Lane, segment: str) -> int:
        """See ports.SeedFilter.size."""
        with self._lock:
            plan = self._plans.get((lane, segment))
            left = len(self._known.get((lane, segment), ()))
        taken = 0
        for layer in layers(*plan) if plan else ():
            if left <= 0:
                break
            taken, left = taken + layer.bytes, left - layer.keys
        return taken

    def drop(self, lane: Lane, segment: str) -> None:
        """See ports.SeedFilter.drop."""
        with self._lock:
            self._known.pop((lane, segment), None)
            self._plans.pop((lane, segment), None)


def _check(keys: Sequence[bytes]) -> None:
    if any(len(key) != KEY_BYTES for key in keys):
        raise ValueError(f"a key has {KEY_BYTES} bytes")
