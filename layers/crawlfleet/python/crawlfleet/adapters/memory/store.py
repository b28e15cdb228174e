"""The twin of MongoDB's request store: the same behaviour in one process, under one lock.

There are no shards here: what a route decides is where a request lies, never what becomes of it.
The clock that removes what is past its TTL is the ``now`` that methods are given.
"""
# ruff: noqa: ARG002  the port hands every method what a store with shards needs

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from crawlfleet.errors import StoreError
from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.outcome import Dead, Done, Outcome
from crawlfleet.model.record import Record
from crawlfleet.model.request import Claim, Entry, Event, Inserted, Request, State, Tracked
from crawlfleet.model.times import to_ms

_CANCELLABLE = (State.PENDING, State.WAITING)
_UNFINISHED = (State.PENDING, State.WAITING, State.LEASED)
#: Events kept of a request's timeline, after the submission.
_LOG_LENGTH = 50
_LONGEST_ERROR = 2_000
_LONGEST_INTEGER = 2**63 - 1
#: What MongoDB takes of one record, in bytes and in levels.
_LARGEST_RECORD = 16_000_000
_DEEPEST_RECORD = 150


@dataclass(slots=True)
class _Kept:
    """A request as it stands."""

    request: Request
    state: int = State.PENDING
    attempts: int = 0
    log: list[Event] = field(default_factory=list)
    worker: str | None = None
    token: str | None = None
    error: str | None = None
    records: int = 0
    due_at: datetime | None = None

    def note(self, at: datetime, state: State, by: str, why: str) -> None:
        self.state = state
        self.log.append(Event(at=at, state=state, by=by, why=why[:500]))
        del self.log[:-_LOG_LENGTH]

    def tracked(self) -> Tracked:
        submitted = Event(
            at=self.request.queued_at, state=State.PENDING, by="router", why="submitted"
        )
        return Tracked(
            request=self.request,
            state=self.state,
            attempts=self.attempts,
            timeline=(submitted, *self.log),
            worker=self.worker,
            error=self.error,
            records=self.records,
            due_at=self.due_at,
        )


@dataclass(slots=True)
class _Lane:
    """What is kept of one biz of one tenant."""

    requests: dict[RequestId, _Kept] = field(default_factory=dict)
    records: dict[tuple[RequestId, int], Record] = field(default_factory=dict)
    expired: int = 0


class MemoryRequestStore:
    """ports.RequestStore in memory."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._lock = threading.RLock()

    def _of(self, lane: Lane) -> _Lane:
        return self._lanes.setdefault((lane.tenant, lane.biz), _Lane())

    def insert(self, lane: Lane, biz: Biz, requests: Sequence[Request]) -> Inserted:
        """See ports.RequestStore.insert."""
        existing: set[RequestId] = set()
        refused: dict[RequestId, StoreError] = {}
        with self._lock:
            kept = self._of(lane).requests
            for request in requests:
                if request.id in kept:
                    existing.add(request.id)
                    continue
                try:
                    msgspec.msgpack.encode(request.body)
                except (OverflowError, UnicodeEncodeError) as error:
                    refused[request.id] = StoreError(f"the store cannot hold it: {error}")
                else:
                    kept[request.id] = _Kept(request)
        return Inserted(existing=frozenset(existing), refused=refused)

    def claim(
        self,
        lane: Lane,
        biz: Biz,
        entries: Sequence[Entry],
        worker: str,
        now: datetime,
        until: datetime,
        token: str,
    ) -> list[Claim]:
        """See ports.RequestStore.claim."""
        oldest = to_ms(now - timedelta(seconds=biz.ttl_seconds))
        won = {}
        with self._lock:
            requests = self._of(lane).requests
            for entry in entries:
                kept = requests.get(entry.id)
                if (
                    kept is None
                    or entry.biz != lane.biz
                    or entry.ts <= oldest
                    or entry.ts != to_ms(kept.request.queued_at)
                ):
                    continue
                if kept.state == State.PENDING or _is_due(kept, now):
                    kept.attempts += 1
                    kept.worker, kept.token, kept.due_at = worker, token, until
                    kept.note(now, State.LEASED, worker, "claimed")
                elif kept.token != token:
                    continue
                won[entry.id] = Claim(
                    request=kept.request, entry=entry, token=token, attempt=kept.attempts
                )
        return list(won.values())

    def renew(
        self, lane: Lane, biz: Biz, claims: Sequence[Claim], until: datetime
    ) -> set[RequestId]:
        """See ports.RequestStore.renew."""
        lost: set[RequestId] = set()
        with self._lock:
            for claim in claims:
                kept = self._owned(lane, claim)
                if kept is None:
                    lost.add(claim.request.id)
                else:
                    kept.due_at = until
        return lost

    def settle(
        self,
        lane: Lane,
        biz: Biz,
        outcomes: Sequence[tuple[Claim, Outcome]],
        worker: str,
        now: datetime,
    ) -> set[RequestId]:
        """See ports.RequestStore.settle."""
        lost: set[RequestId] = set()
        once = {(claim.request.id, claim.token): (claim, end) for claim, end in outcomes}
        with self._lock:
            for claim, outcome in once.values():
                kept = self._owned(lane, claim)
                if kept is None:
                    lost.add(claim.request.id)
                    continue
                kept.token = None
                self._end(self._of(lane), kept, _storable(outcome), worker, now)
        return lost

    @staticmethod
    def _end(lane: _Lane, kept: _Kept, outcome: Outcome, worker: str, now: datetime) -> None:
        if isinstance(outcome, Done):
            count = len(outcome.records)
            request_id = kept.request.id
            if outcome.records:
                for key in [key for key in lane.records if key[0] == request_id]:
                    del lane.records[key]
            lane.records.update({(request_id, r.index): r for r in outcome.records})
            kept.records, kept.error, kept.due_at = count, None, None
            kept.note(now, State.DONE, worker, f"HTTP {outcome.status}, records: {count}")
        elif isinstance(outcome, Dead):
            kept.error, kept.due_at = _clean(outcome.error), None
            kept.note(now, State.DEAD, worker, kept.error)
        else:
            kept.error, kept.due_at = _clean(outcome.error), outcome.due_at
            kept.note(now, State.WAITING, worker, kept.error)

    def release(
        self, lane: Lane, biz: Biz, claims: Sequence[Claim], worker: str, why: str, now: datetime
    ) -> None:
        """See ports.RequestStore.release."""
        with self._lock:
            for claim in claims:
                kept = self._owned(lane, claim)
                if kept is not None:
                    kept.attempts -= 1
                    kept.token = kept.due_at = None
                    kept.note(now, State.PENDING, worker, why)

    def get(self, lane: Lane, biz: Biz, request_id: RequestId) -> Tracked | None:
        """See ports.RequestStore.get."""
        with self._lock:
            kept = self._of(lane).requests.get(request_id)
            return kept.tracked() if kept else None

    def cancel(
        self, lane: Lane, biz: Biz, request_id: RequestId, by: str, now: datetime
    ) -> Tracked | None:
        """See ports.RequestStore.cancel."""
        with self._lock:
            kept = self._of(lane).requests.get(request_id)
            if kept is None:
                return None
            if kept.state in _CANCELLABLE:
                kept.due_at = None
                kept.note(now, State.CANCELLED, by, "cancelled")
            return kept.tracked()

    def find(
        self,
        lane: Lane,
        biz: Biz,
        *,
        state: int | None,
        since: datetime | None,
        after: tuple[int, str] | None,
        limit: int,
        now: datetime,
    ) -> list[Tracked]:
        """See ports.RequestStore.find."""
        with self._lock:
            found = [
                kept.tracked()
                for kept in self._of(lane).requests.values()
                if (state is None or kept.state == state)
                and (since is None or kept.request.queued_at >= since)
            ]
        placed = sorted(
            ((_place(to_ms(t.request.queued_at), t.request.id), t) for t in found),
            key=lambda pair: pair[0],
        )
        floor = None if after is None else _place(after[0], _typed(after[1]))
        return [one for place, one in placed if floor is None or place > floor][:limit]

    def records(
        self,
        lane: Lane,
        biz: Biz,
        *,
        request_id: RequestId | None,
        after: tuple[int, str] | None,
        limit: int,
    ) -> list[Record]:
        """See ports.RequestStore.records."""
        with self._lock:
            found = [
                record
                for record in self._of(lane).records.values()
                if request_id is None or record.request_id == request_id
            ]
        placed = sorted(
            (((*_place(to_ms(r.stored_at), r.request_id), r.index), r) for r in found),
            key=lambda pair: pair[0],
        )
        floor = None
        if after is not None:
            owner, _, index = after[1].partition("-")
            floor = (*_place(after[0], _typed(owner)), int(index) if index else -1)
        return [one for place, one in placed if floor is None or place > floor][:limit]

    def totals(self, lane: Lane, biz: Biz, now: datetime) -> tuple[dict[int, int], int]:
        """See ports.RequestStore.totals."""
        counts = dict.fromkeys(map(int, sorted({*State, *biz.states.values()})), 0)
        with self._lock:
            mine = self._of(lane)
            for kept in mine.requests.values():
                if kept.state != State.EXPIRED:
                    counts[int(kept.state)] = counts.get(int(kept.state), 0) + 1
            counts[int(State.EXPIRED)] = mine.expired
            return counts, len(mine.records)

    def unqueued(
        self, lane: Lane, biz: Biz, *, before: datetime, now: datetime, limit: int
    ) -> list[Entry]:
        """See ports.RequestStore.unqueued."""
        alive = now - timedelta(seconds=biz.ttl_seconds)
        with self._lock:
            found = [
                Entry(kept.request.id, lane.biz, to_ms(kept.request.queued_at))
                for kept in self._of(lane).requests.values()
                if kept.request.queued_at > alive
                and (
                    kept.request.queued_at < before
                    if kept.state == State.PENDING
                    else kept.state in (State.LEASED, State.WAITING)
                    and kept.due_at is not None
                    and kept.due_at <= now
                )
            ]
        return sorted(found, key=lambda entry: entry.ts)[:limit]

    def expire(self, lane: Lane, biz: Biz, now: datetime) -> int:
        """See ports.RequestStore.expire; what has passed the grace time too is removed."""
        oldest = now - timedelta(seconds=biz.ttl_seconds)
        gone = oldest - timedelta(seconds=biz.expiry_grace_seconds)
        marked = 0
        with self._lock:
            mine = self._of(lane)
            for kept in mine.requests.values():
                if (
                    kept.request.queued_at <= oldest
                    and kept.state in _UNFINISHED
                    and (kept.state != State.LEASED or _is_due(kept, now))
                ):
                    kept.token = kept.due_at = None
                    kept.error = "not processed within its time to live"
                    kept.note(now, State.EXPIRED, "recovery", "time to live passed")
                    marked += 1
            mine.expired += marked
            mine.requests = {
                key: kept for key, kept in mine.requests.items() if kept.request.queued_at > gone
            }
            if biz.records_ttl_seconds is not None:
                first = now - timedelta(seconds=biz.records_ttl_seconds)
                mine.records = {k: r for k, r in mine.records.items() if r.stored_at > first}
        return marked

    def _owned(self, lane: Lane, claim: Claim) -> _Kept | None:
        kept = self._of(lane).requests.get(claim.request.id)
        owns = kept is not None and kept.state == State.LEASED and kept.token == claim.token
        return kept if owns else None


def _clean(error: str) -> str:
    return error[:_LONGEST_ERROR].encode("utf-8", "replace").decode("utf-8")


def _is_due(kept: _Kept, now: datetime) -> bool:
    """Whether its lease has ended, or its wait."""
    waits = kept.state in (State.LEASED, State.WAITING)
    return waits and kept.due_at is not None and kept.due_at <= now


def _place(ms: int, request_id: RequestId) -> tuple[int, int, int, str]:
    """Integer ids come before hex ones, as in MongoDB."""
    if isinstance(request_id, int):
        return ms, 0, request_id, ""
    return ms, 1, 0, request_id


def _typed(text: str) -> RequestId:
    return int(text) if text.isdigit() and len(text) < 20 else text


def _storable(outcome: Outcome) -> Outcome:
    """A record that MongoDB could not hold costs its request its life here, too."""
    if not isinstance(outcome, Done):
        return outcome
    for record in outcome.records:
        for problem in _problems(record.fields, 0):
            return Dead(f"no records stored: {problem}")
        if len(msgspec.msgpack.encode(record.fields)) > _LARGEST_RECORD:
            return Dead("no records stored: it is too large")
    return outcome


def _problems(value: object, depth: int) -> Iterator[str]:
    if depth > _DEEPEST_RECORD:
        yield "it is nested too deeply"
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or "\0" in key:
                yield f"{key!r} is no field name"
            yield from _problems(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _problems(item, depth + 1)
    elif isinstance(value, bool | float | bytes | datetime | None):
        return
    elif isinstance(value, int):
        if not -_LONGEST_INTEGER - 1 <= value <= _LONGEST_INTEGER:
            yield "an integer has more than 64 bits"
    elif isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            yield "a text is no Unicode"
    else:
        yield f"{type(value).__name__} is no type of a record"
