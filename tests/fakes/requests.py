"""An in-memory fake keeps requests, as MongoDB does, in one process and under one lock.

There are no shards here: what a route decides is where a request lies, never what becomes of it.
The clock that removes what is past its TTL is the ``now`` that methods are given.
"""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import msgspec

from tests.fakes.records import MemoryRecords
from tests.fakes.request_state import (
    Kept,
    KeptQueue,
    KeptState,
    clean,
    is_due,
    place,
    storable,
    typed,
)
from tests.kit.config import Biz, Rule, Spider
from tests.kit.kernel import QueueKey, RequestId, StoreError, to_ms
from tests.kit.requests import (
    ALL_REQUESTS,
    Claim,
    Dead,
    Done,
    Entry,
    Inserted,
    Outcome,
    Request,
    RequestFilter,
    Settled,
    State,
    Tracked,
    Transited,
    Transition,
    done_with,
    is_final,
    term_of,
)

_NOT_MODIFIED = 304


class MemoryRequestStore(MemoryRecords):
    """In-memory ``MongoRequestStore``."""

    def __init__(self, state: KeptState | None = None) -> None:
        super().__init__(state or KeptState())

    def note_unqueued(self, queue_key: QueueKey, now: datetime) -> None:
        with self.state.lock:
            self.state.unqueued[queue_key.tenant, queue_key.biz] = now

    def noted_unqueued(self) -> dict[tuple[str, str], datetime]:
        with self.state.lock:
            return dict(self.state.unqueued)

    def forget_unqueued(self, queue_key: QueueKey, noted_at: datetime) -> None:
        key = queue_key.tenant, queue_key.biz
        with self.state.lock:
            if self.state.unqueued.get(key) == noted_at:
                del self.state.unqueued[key]

    def insert(
        self,
        queue_key: QueueKey,
        biz: Biz,
        requests: Sequence[Request],
        kept: frozenset[RequestId] = frozenset(),
    ) -> Inserted:
        existing: set[RequestId] = set()
        refused: dict[RequestId, StoreError] = {}
        with self.state.lock:
            mine = self.state.of(queue_key)
            for request in requests:
                if request.id in mine.requests:
                    existing.add(request.id)
                    continue
                try:
                    msgspec.msgpack.encode(request.body)
                except (OverflowError, UnicodeEncodeError) as error:
                    refused[request.id] = StoreError(f"the store cannot hold it: {error}")
                else:
                    mine.requests[request.id] = Kept(request)
                    mine.count(request.job, "submitted")
        return Inserted(existing=frozenset(existing), refused=refused)

    def claim(
        self,
        queue_key: QueueKey,
        biz: Biz,
        entries: Sequence[Entry],
        worker: str,
        now: datetime,
        until: datetime,
        token: str,
    ) -> list[Claim]:
        oldest = to_ms(now - timedelta(seconds=biz.ttl_seconds))
        won = {}
        with self.state.lock:
            requests = self.state.of(queue_key).requests
            for entry in entries:
                kept = requests.get(entry.id)
                if (
                    kept is None
                    or entry.biz != queue_key.biz
                    or entry.ts <= oldest
                    or entry.ts != to_ms(kept.request.queued_at)
                ):
                    continue
                if kept.state == State.PENDING or is_due(kept, now):
                    kept.attempts += 1
                    kept.worker, kept.token, kept.due_at = worker, token, until
                    kept.note(now, State.LEASED, worker, "claimed")
                elif kept.token != token:
                    continue
                won[entry.id] = Claim(
                    request=kept.request, entry=entry, token=token, attempt=kept.attempts
                )
        return list(won.values())

    def due(
        self, queue_key: QueueKey, biz: Biz, entries: Sequence[Entry]
    ) -> list[tuple[Entry, datetime]]:
        found = []
        with self.state.lock:
            for entry in entries:
                kept = self.state.of(queue_key).requests.get(entry.id)
                if (
                    kept is not None
                    and kept.due_at is not None
                    and kept.state in (State.LEASED, State.WAITING)
                    and to_ms(kept.request.queued_at) == entry.ts
                ):
                    found.append((entry, kept.due_at))
        return found

    def renew(
        self, queue_key: QueueKey, biz: Biz, claims: Sequence[Claim], until: datetime
    ) -> set[RequestId]:
        lost: set[RequestId] = set()
        with self.state.lock:
            for claim in claims:
                kept = self.owned(queue_key, claim)
                if kept is None:
                    lost.add(claim.request.id)
                else:
                    kept.due_at = until
        return lost

    def settle(
        self,
        queue_key: QueueKey,
        biz: Biz,
        outcomes: Sequence[tuple[Claim, Outcome]],
        worker: str,
        now: datetime,
    ) -> Settled:
        lost: set[RequestId] = set()
        buried: dict[RequestId, Dead] = {}
        once = {(claim.request.id, claim.token): (claim, end) for claim, end in outcomes}
        with self.state.lock:
            for claim, outcome in once.values():
                kept = self.owned(queue_key, claim)
                if kept is None:
                    lost.add(claim.request.id)
                    continue
                kept.token = None
                end = storable(outcome)
                if isinstance(end, Dead) and end is not outcome:
                    buried[claim.request.id] = end
                self._end(self.state.of(queue_key), kept, end, worker, now)
        return Settled(lost, buried)

    @staticmethod
    def _end(
        queue_key: KeptQueue, kept: Kept, outcome: Outcome, worker: str, now: datetime
    ) -> None:
        if isinstance(outcome, Done):
            queue_key.count(kept.request.job, "done")
            queue_key.cover(kept.request, outcome.coverage)
            if outcome.records or (kept.parts and outcome.status != _NOT_MODIFIED):
                queue_key.drop(kept.request.id, outcome.stored)
            queue_key.keep(outcome.records)
            kept.records = outcome.stored + len(outcome.records)
            kept.parts, kept.error, kept.due_at = 0, None, None
            kept.reason = kept.answer = None
            kept.note(now, State.DONE, worker, clean(done_with(outcome)), outcome.peers)
        elif isinstance(outcome, Dead):
            queue_key.count(kept.request.job, "dead")
            kept.leave_nothing(queue_key)
            kept.error, kept.due_at = clean(outcome.error), None
            kept.reason, kept.answer = clean(outcome.reason), outcome.answer
            kept.note(now, State.DEAD, worker, kept.error, outcome.peers)
        else:
            kept.error, kept.due_at = clean(outcome.error), outcome.due_at
            kept.reason, kept.answer = clean(outcome.reason), outcome.answer
            kept.note(now, State.WAITING, worker, kept.error, outcome.peers)

    def release(
        self,
        queue_key: QueueKey,
        biz: Biz,
        claims: Sequence[Claim],
        worker: str,
        why: str,
        now: datetime,
    ) -> None:
        with self.state.lock:
            for claim in claims:
                kept = self.owned(queue_key, claim)
                if kept is not None:
                    kept.attempts -= 1
                    kept.token = kept.due_at = None
                    kept.note(now, State.PENDING, worker, why)

    def get(self, queue_key: QueueKey, biz: Biz, request_id: RequestId) -> Tracked | None:
        with self.state.lock:
            kept = self.state.of(queue_key).requests.get(request_id)
            return kept.tracked() if kept else None

    def cancel(
        self, queue_key: QueueKey, biz: Biz, request_id: RequestId, by: str, now: datetime
    ) -> Tracked | None:
        with self.state.lock:
            mine = self.state.of(queue_key)
            kept = mine.requests.get(request_id)
            if kept is None:
                return None
            if not is_final(kept.state) and kept.state != State.LEASED:
                mine.count(kept.request.job, "cancelled")
                kept.leave_nothing(mine)
                kept.due_at = None
                kept.note(now, State.CANCELLED, by, "cancelled")
            return kept.tracked()

    def cancel_job(
        self, queue_key: QueueKey, biz: Biz, job: str, limit: int, by: str, now: datetime
    ) -> int:
        with self.state.lock:
            mine = self.state.of(queue_key)
            found = [
                kept
                for kept in mine.requests.values()
                if kept.request.job == job and not is_final(kept.state)
            ]
            chosen = sorted(found, key=lambda kept: kept.state == State.LEASED)[:limit]
            for kept in chosen:
                mine.count(job, "cancelled")
                kept.leave_nothing(mine)
                kept.token = kept.due_at = None
                kept.note(now, State.CANCELLED, by, "its job was cancelled")
        return len(chosen)

    def transition(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ids: Sequence[RequestId],
        asked: Transition,
        now: datetime,
    ) -> dict[RequestId, Transited]:
        oldest = now - timedelta(seconds=biz.ttl_seconds)
        done: dict[RequestId, Transited] = {}
        with self.state.lock:
            mine = self.state.of(queue_key)
            for kept in filter(None, map(mine.requests.get, ids)):
                late = asked.after == State.PENDING and kept.request.queued_at <= oldest
                changed = kept.state == asked.before and not late
                done[kept.request.id] = Transited(
                    entry=kept.request.entry,
                    state=kept.state,
                    changed=changed,
                    pool=kept.request.pool,
                    late=late,
                )
                if changed:
                    self._change(mine, kept, asked, now)
        return done

    @staticmethod
    def _change(mine: KeptQueue, kept: Kept, asked: Transition, now: datetime) -> None:
        for flag, count in ((asked.before, -1), (asked.after, 1)):
            if term := term_of(flag):
                mine.count(kept.request.job, term, count)
        if is_final(asked.after):
            kept.leave_nothing(mine)
        if not is_final(asked.before):
            kept.token = kept.due_at = None
        if asked.after == State.PENDING:
            kept.attempts = 0
            kept.error = kept.reason = kept.answer = kept.worker = None
        kept.note(now, asked.after, asked.by, asked.why)

    def find(
        self,
        queue_key: QueueKey,
        biz: Biz,
        wanted: RequestFilter = ALL_REQUESTS,
        *,
        after: tuple[int, str] | None = None,
        limit: int,
        now: datetime,
        brief: bool = False,
    ) -> list[Tracked]:
        with self.state.lock:
            found = [
                kept.tracked()
                for kept in self.state.of(queue_key).requests.values()
                if wanted.state in {None, kept.state}
                and wanted.job in {None, kept.request.job}
                and (wanted.since is None or kept.request.queued_at >= wanted.since)
            ]
        placed = sorted(
            ((place(to_ms(t.request.queued_at), t.request.id), t) for t in found),
            key=lambda pair: pair[0],
            reverse=wanted.newest,
        )
        end = None if after is None else place(after[0], typed(after[1]))
        if end is not None:
            placed = [(at, one) for at, one in placed if (at < end if wanted.newest else at > end)]
        return [one for _, one in placed[:limit]]

    def unqueued(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        before: Sequence[datetime],
        now: datetime,
        limit: int,
    ) -> list[Entry]:
        alive = now - timedelta(seconds=biz.ttl_seconds)
        with self.state.lock:
            found = [
                kept.request.entry
                for kept in self.state.of(queue_key).requests.values()
                if kept.request.queued_at > alive
                and kept.request.pool == queue_key.pool
                and (
                    kept.request.queued_at < before[kept.request.priority]
                    if kept.state == State.PENDING
                    else kept.state in (State.LEASED, State.WAITING)
                    and kept.due_at is not None
                    and kept.due_at <= now
                )
            ]
        return sorted(found, key=lambda entry: entry.ts)[:limit]

    def index(
        self, queue_key: QueueKey, biz: Biz, now: datetime, time_left: Callable[[], float]
    ) -> list[str]:
        """Do nothing: there is no index to build."""
        return []

    def expire(self, queue_key: QueueKey, biz: Biz, now: datetime) -> int:
        """Expire requests; remove those that have passed the grace time too.

        That is MongoDB's own doing; here it comes after the marking, so nothing goes uncounted.
        """
        oldest = now - timedelta(seconds=biz.ttl_seconds)
        gone = oldest - timedelta(seconds=biz.expiry_grace_seconds)
        last_chance = oldest - timedelta(seconds=biz.expiry_grace_seconds / 2)
        marked = 0
        with self.state.lock:
            mine = self.state.of(queue_key)
            for kept in mine.requests.values():
                if (
                    kept.request.queued_at <= oldest
                    and not is_final(kept.state)
                    and (
                        kept.state != State.LEASED
                        or is_due(kept, now)
                        or kept.request.queued_at <= last_chance
                    )
                ):
                    kept.token = kept.due_at = None
                    kept.error = "not processed within its time to live"
                    kept.note(now, State.EXPIRED, "recovery", "time to live passed")
                    mine.count(kept.request.job, "expired")
                    kept.leave_nothing(mine)
                    marked += 1
            mine.requests = {
                key: kept
                for key, kept in mine.requests.items()
                if kept.request.queued_at > gone or not is_final(kept.state)
            }
            if biz.records_ttl_seconds is not None:
                first = now - timedelta(seconds=biz.records_ttl_seconds)
                mine.records = {k: r for k, r in mine.records.items() if r.stored_at > first}
                mine.keyed = {k: r for k, r in mine.keyed.items() if r.stored_at > first}
        return marked


class MemoryRules:
    """In-memory ``MongoRules``."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str, str], Rule | Spider] = {}
        self._lock = threading.Lock()

    def keep_version(self, queue_key: QueueKey, name: str, rule: Rule | Spider) -> None:
        with self._lock:
            self._kept.setdefault((queue_key.tenant, queue_key.biz, name, rule.version), rule)

    def get_version(self, queue_key: QueueKey, name: str, version: str) -> Rule | Spider | None:
        with self._lock:
            return self._kept.get((queue_key.tenant, queue_key.biz, name, version))
