"""The twin of what recovery takes from dead workers, and of what it fills queues from."""
# ruff: noqa: ARG002  the port hands every method what a store with shards needs

from collections.abc import Sequence
from datetime import datetime, timedelta

from crawlfleet.adapters.memory.kept import KeptState, place
from crawlfleet.model.biz import Biz
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry, Mark, State
from crawlfleet.model.times import to_ms


class MemoryDisowning:
    """ports.Disowning on the state of a MemoryRequestStore."""

    def __init__(self, state: KeptState) -> None:
        self._state = state
        self._marks: dict[Lane, Mark] = {}

    def disown(
        self,
        lane: Lane,
        biz: Biz,
        entries: Sequence[Entry],
        worker: str,
        by: str,
        why: str,
        now: datetime,
    ) -> int:
        """See ports.Disowning.disown."""
        disowned = 0
        with self._state.lock:
            requests = self._state.of(lane).requests
            for entry in entries:
                kept = requests.get(entry.id)
                if (
                    kept is not None
                    and entry.biz == lane.biz
                    and kept.state == State.LEASED
                    and kept.worker == worker
                ):
                    kept.token = kept.due_at = None
                    kept.note(now, State.PENDING, by, why)
                    disowned += 1
        return disowned

    def pending(
        self, lane: Lane, biz: Biz, *, since: int, before: datetime, now: datetime, limit: int
    ) -> list[Entry]:
        """See ports.Disowning.pending."""
        alive = now - timedelta(seconds=biz.ttl_seconds)
        with self._state.lock:
            found = sorted(
                (
                    kept.request.entry
                    for kept in self._state.of(lane).requests.values()
                    if kept.state == State.PENDING
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
        self, lane: Lane, biz: Biz, *, now: datetime, limit: int
    ) -> list[tuple[Entry, datetime]]:
        """See ports.Disowning.waiting."""
        alive = now - timedelta(seconds=biz.ttl_seconds)
        with self._state.lock:
            found = [
                (kept.request.entry, kept.due_at)
                for kept in self._state.of(lane).requests.values()
                if kept.state == State.WAITING
                and kept.due_at is not None
                and kept.request.queued_at > alive
            ]
        return sorted(found, key=lambda one: (one[1], place(one[0].ts, one[0].id)))[:limit]

    def held(self, lane: Lane, biz: Biz, *, now: datetime, limit: int) -> list[tuple[str, Entry]]:
        """See ports.Disowning.held."""
        with self._state.lock:
            kept = self._state.of(lane).requests.values()
            return [
                (one.worker, one.request.entry)
                for one in kept
                if one.state == State.LEASED
                and one.worker is not None
                and one.due_at is not None
                and one.due_at > now
            ][:limit]

    def remembered_mark(self, lane: Lane, biz: Biz) -> Mark | None:
        """See ports.Disowning.remembered_mark."""
        with self._state.lock:
            return self._marks.get(lane)

    def remember_mark(self, lane: Lane, biz: Biz, mark: Mark) -> None:
        """See ports.Disowning.remember_mark."""
        with self._state.lock:
            self._marks[lane] = mark
