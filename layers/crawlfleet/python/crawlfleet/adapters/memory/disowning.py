"""The twin of what recovery takes from dead workers, and of what it fills queues from."""
# ruff: noqa: ARG002  the port hands every method what a store with shards needs

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from crawlfleet.adapters.memory.kept import KeptState, is_due, place
from crawlfleet.model.biz import Biz
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry, Mark, State
from crawlfleet.model.times import to_ms


class MemoryDisowning:
    """ports.Disowning on the state of a MemoryRequestStore."""

    def __init__(self, state: KeptState) -> None:
        self._state = state
        self._marks: dict[Lane, Mark] = {}

    def pools(self, lane: Lane, biz: Biz, among: Collection[str], now: datetime) -> set[str]:
        """See ports.Disowning.pools."""
        with self._state.lock:
            kept = self._state.of(lane).requests.values()
            return {one.request.pool for one in kept if one.request.pool is not None}

    def give_over(
        self, lane: Lane, biz: Biz, limit: int, by: str, why: str, now: datetime
    ) -> tuple[int, list[Entry]]:
        """See ports.Disowning.give_over."""
        with self._state.lock:
            mine = [
                kept
                for kept in self._state.of(lane).requests.values()
                if kept.request.pool is not None
                and kept.request.pool == lane.pool
                and (kept.state in (State.PENDING, State.WAITING) or is_due(kept, now))
            ]
            mine = sorted(mine, key=lambda one: place(one.request.entry.ts, one.request.id))[:limit]
            for one in mine:
                one.request = replace(one.request, pool=None)
                one.note(now, State(one.state), by, why)
            return len(mine), [one.request.entry for one in mine if one.state != State.WAITING]

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
                    and kept.request.pool == lane.pool
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
                and kept.request.pool == lane.pool
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
                and one.request.pool == lane.pool
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
