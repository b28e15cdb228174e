"""Tracking of what was submitted: requests, their records, totals and the ledger (SPEC.md A8)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of, queues_beside
from crawlfleet.kernel import errors
from crawlfleet.kernel import paging as cursors
from crawlfleet.kernel.ids import OWN, RequestId, State, parse_id
from crawlfleet.kernel.paging import Listing, T
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.models import (
    ALL_RECORDS,
    Body,
    Ledger,
    Record,
    RecordFilter,
    RequestFilter,
    Tracked,
)
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.queue.stats import Stats, together

#: As many digits as the largest number of a state has.
_NUMBER: Final = re.compile(r"[0-9]{3,10}\Z", re.ASCII)
_LABELS: Final = {int(state): state.label for state in State}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """Read and cancel requests, list records, and sum them up (SPEC.md A8)."""

    store: MongoRequestStore
    ledgers: MongoLedgers
    queue: RedisQueue

    def look_up(self, tree: Tree, tenant: str, biz_name: str, text: str) -> Tracked:
        """Get everything about one request.

        Raises:
            NotFoundError: this tenant's biz has none of that id.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        request_id = parse_id(text)
        found = self.store.get(queue_key, biz, request_id)
        if found is None:
            raise _unknown(request_id)
        return found

    def cancel(self, tree: Tree, tenant: str, biz_name: str, text: str, now: datetime) -> Tracked:
        """Cancel a request that is not leased; cancelling twice is cancelling once.

        Raises:
            NotFoundError: there is none of that id.
            ConflictError: it is being worked on, or has ended.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        request_id = parse_id(text)
        found = self.store.cancel(queue_key, biz, request_id, f"api:{tenant}", now)
        if found is None:
            raise _unknown(request_id)
        if found.state != State.CANCELLED:
            label = state_label(biz, found.state)
            raise errors.ConflictError(f"the request is {label}: only pending ones are cancelled")
        return found

    def list_requests(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        *,
        state: str | None,
        since: datetime | None,
        cursor: str | None,
        limit: int,
        now: datetime,
        job: str | None = None,
        is_wanted: Callable[[Body], bool] | None = None,
        newest: bool = False,
    ) -> Listing[Tracked]:
        """List requests by time of queueing, those alone whose bodies are wanted."""
        queue_key, biz = biz_of(tree, tenant, biz_name)
        before = None if cursor is None else cursors.decode(cursor, newest=newest)
        flag = None if state is None else flag_of(biz, state, "state")
        of = RequestFilter(state=flag, job=job, since=since, newest=newest)
        if is_wanted is not None:
            found, reached = self.store.search(
                queue_key, biz, of, is_wanted, after=before, limit=limit, now=now
            )
            return _searched(found, reached, before, now, newest=newest)
        found = self.store.find(queue_key, biz, of, after=before, limit=limit + 1, now=now)
        positions = [(to_ms(t.request.queued_at), str(t.request.id)) for t in found[:limit]]
        return _listing(found, positions, before, limit, now, newest=newest)

    def list_records(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        *,
        request: str | None,
        wanted: RecordFilter = ALL_RECORDS,
        cursor: str | None,
        limit: int,
        now: datetime,
    ) -> Listing[Record]:
        """List records by time of storing, oldest first; those of one request, or those wanted."""
        queue_key, biz = biz_of(tree, tenant, biz_name)
        newest = wanted.newest
        before = None if cursor is None else cursors.decode(cursor, records=True, newest=newest)
        if wanted != ALL_RECORDS:
            page = self.store.find_records(queue_key, biz, wanted, after=before, limit=limit)
            return _searched(list(page.records), page.reached, before, now, newest=newest)
        of = None if request is None else parse_id(request, "request_id")
        found = self.store.records(queue_key, biz, request_id=of, after=before, limit=limit + 1)
        positions = [(to_ms(record.stored_at), record.id) for record in found[:limit]]
        return _listing(found, positions, before, limit, now)

    def stats(self, tree: Tree, tenant: str, biz_name: str, now: datetime) -> Stats:
        """Sum up states, the queues' depth, rates, and where workers spent their time."""
        queue_key, biz = biz_of(tree, tenant, biz_name)
        ledger = self.ledgers.totals(queue_key, biz, now)
        submitted, processed = self.queue.rates(queue_key, now)
        queues = (queue_key, *queues_beside(tree, queue_key))
        return Stats(
            states=_by_label(biz, ledger),
            ledger=ledger,
            records=self.store.record_count(queue_key, biz),
            depth=together([self.queue.depth(one) for one in queues]),
            submitted=submitted,
            processed=processed,
            phases=self.queue.phases(queue_key),
        )

    def audit(
        self, tree: Tree, tenant: str, biz_name: str, job: str | None, now: datetime
    ) -> Ledger:
        """Count every term of the ledger by itself, of the biz or of one job (SPEC.md H1).

        Raises:
            NotFoundError: nothing was ever submitted under this job, or its ledger has gone.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        ledger = self.ledgers.audit(queue_key, biz, now, job)
        if job is not None and ledger == Ledger(own=ledger.own) and not ledger.others:
            raise errors.NotFoundError(f"there is no job {job}")
        return ledger


def _by_label(biz: Biz, ledger: Ledger) -> dict[str, int]:
    counts = {int(state): getattr(ledger, state.label) for state in State} | ledger.own
    return {state_label(biz, flag): count for flag, count in sorted(counts.items())}


def state_label(biz: Biz, flag: int) -> str:
    """Return a state as clients write it; the biz's own states included."""
    if flag in _LABELS:
        return _LABELS[flag]
    return next((name for name, value in biz.states.items() if value == flag), str(flag))


def flag_of(biz: Biz, label: str, field: str) -> int:
    """Read a state as clients write it; one that has no name any more is its number.

    Raises:
        InvalidRequestError: the biz has no such state.
    """
    known = {state.label: int(state) for state in State} | dict(biz.states)
    if label in known:
        return known[label]
    if _NUMBER.match(label) and int(label) >= OWN:
        return int(label)
    raise errors.InvalidRequestError.of(field, f"must be one of {', '.join(known)}")


def _listing(
    found: list[T],
    positions: list[cursors.Position],
    before: cursors.Position | None,
    limit: int,
    now: datetime,
    *,
    newest: bool = False,
) -> Listing[T]:
    more = len(found) > limit
    last = positions[-1] if positions else None
    if newest:  # nothing comes after its end
        resume = last if more else None
    else:
        resume = last if more else cursors.resume_from(last, before, now)
    text = None if resume is None else cursors.encode(resume, newest=newest)
    return Listing(found[:limit], text, more)


def _searched(
    found: list[T],
    reached: cursors.Position | None,
    before: cursors.Position | None,
    now: datetime,
    *,
    newest: bool,
) -> Listing[T]:
    """Make the page of a search that came as far as ``reached``, or to its end."""
    resume = reached
    if resume is None and not newest:  # all is read, up to what may still be stored late
        resume = cursors.resume_from(cursors.LAST, before, now)
    text = None if resume is None else cursors.encode(resume, newest=newest)
    return Listing(found, text, reached is not None)


def _unknown(request_id: RequestId) -> errors.NotFoundError:
    return errors.NotFoundError(f"there is no request {request_id}")
