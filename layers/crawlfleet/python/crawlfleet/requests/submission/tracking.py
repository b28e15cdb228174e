"""Following a request and taking records away (SPEC.md A8): reads, and cancelling."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of, queues_beside
from crawlfleet.kernel import paging as cursors
from crawlfleet.kernel.errors import ConflictError, InvalidRequestError, NotFoundError
from crawlfleet.kernel.ids import RequestId, State, parse_id
from crawlfleet.kernel.paging import Listing, T
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.ledger import Ledger, Ledgers
from crawlfleet.requests.models import Record, Tracked
from crawlfleet.requests.ports import RequestStore
from crawlfleet.requests.queue.ports import RequestQueue
from crawlfleet.requests.queue.stats import Stats, together

_LABELS: Final = {int(state): state.label for state in State}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingPorts:
    """What tracking needs of the world."""

    store: RequestStore
    ledgers: Ledgers
    queue: RequestQueue


def look_up(ports: TrackingPorts, tree: Tree, tenant: str, biz_name: str, text: str) -> Tracked:
    """Everything about one request.

    Raises:
        NotFoundError: this tenant's biz has none of that id.
    """
    queue_key, biz = biz_of(tree, tenant, biz_name)
    request_id = parse_id(text)
    found = ports.store.get(queue_key, biz, request_id)
    if found is None:
        raise _unknown(request_id)
    return found


def cancel(
    ports: TrackingPorts, tree: Tree, tenant: str, biz_name: str, text: str, now: datetime
) -> Tracked:
    """Cancel a request that nobody works on yet; cancelling twice is cancelling once.

    Raises:
        NotFoundError: there is none of that id.
        ConflictError: it is being worked on, or has ended.
    """
    queue_key, biz = biz_of(tree, tenant, biz_name)
    request_id = parse_id(text)
    found = ports.store.cancel(queue_key, biz, request_id, f"api:{tenant}", now)
    if found is None:
        raise _unknown(request_id)
    if found.state != State.CANCELLED:
        message = f"the request is {state_label(biz, found.state)}: only pending ones are cancelled"
        raise ConflictError(message)
    return found


def list_requests(
    ports: TrackingPorts,
    tree: Tree,
    tenant: str,
    biz_name: str,
    *,
    state: str | None,
    since: datetime | None,
    cursor: str | None,
    limit: int,
    now: datetime,
) -> Listing[Tracked]:
    """Requests by time of queueing, oldest first."""
    queue_key, biz = biz_of(tree, tenant, biz_name)
    before = None if cursor is None else cursors.decode(cursor)
    found = ports.store.find(
        queue_key,
        biz,
        state=None if state is None else _flag(biz, state),
        since=since,
        after=before,
        limit=limit + 1,
        now=now,
    )
    positions = [(to_ms(t.request.queued_at), str(t.request.id)) for t in found[:limit]]
    return _listing(found, positions, before, limit, now)


def list_records(
    ports: TrackingPorts,
    tree: Tree,
    tenant: str,
    biz_name: str,
    *,
    request: str | None,
    cursor: str | None,
    limit: int,
    now: datetime,
) -> Listing[Record]:
    """Records by time of storing, oldest first."""
    queue_key, biz = biz_of(tree, tenant, biz_name)
    before = None if cursor is None else cursors.decode(cursor, records=True)
    found = ports.store.records(
        queue_key,
        biz,
        request_id=None if request is None else parse_id(request, "request_id"),
        after=before,
        limit=limit + 1,
    )
    positions = [(to_ms(record.stored_at), record.id) for record in found[:limit]]
    return _listing(found, positions, before, limit, now)


def stats(ports: TrackingPorts, tree: Tree, tenant: str, biz_name: str, now: datetime) -> Stats:
    """Totals per state, the queue's depth, rates, and where workers spent their time."""
    queue_key, biz = biz_of(tree, tenant, biz_name)
    ledger = ports.ledgers.totals(queue_key, biz, now)
    submitted, processed = ports.queue.rates(queue_key, now)
    return Stats(
        states=_by_label(biz, ledger),
        ledger=ledger,
        records=ports.store.record_count(queue_key, biz),
        depth=together(
            [ports.queue.depth(one) for one in (queue_key, *queues_beside(tree, queue_key))]
        ),
        submitted=submitted,
        processed=processed,
        phases=ports.queue.phases(queue_key),
    )


def audit(
    ports: TrackingPorts, tree: Tree, tenant: str, biz_name: str, job: str | None, now: datetime
) -> Ledger:
    """Every term of the ledger counted by itself, of the biz or of one job (SPEC.md H1).

    Raises:
        NotFoundError: nothing was ever submitted under this job, or its ledger has gone.
    """
    queue_key, biz = biz_of(tree, tenant, biz_name)
    ledger = ports.ledgers.audit(queue_key, biz, now, job)
    if job is not None and ledger == Ledger(own=ledger.own) and not ledger.others:
        raise NotFoundError(f"there is no job {job}")
    return ledger


def _by_label(biz: Biz, ledger: Ledger) -> dict[str, int]:
    counts = {int(state): getattr(ledger, state.label) for state in State} | ledger.own
    return {state_label(biz, flag): count for flag, count in sorted(counts.items())}


def state_label(biz: Biz, flag: int) -> str:
    """A state as clients write it; the biz's own states included."""
    if flag in _LABELS:
        return _LABELS[flag]
    return next((name for name, value in biz.states.items() if value == flag), str(flag))


def _flag(biz: Biz, label: str) -> int:
    known = {state.label: int(state) for state in State} | dict(biz.states)
    if label not in known:
        raise InvalidRequestError.of("state", f"must be one of {', '.join(known)}")
    return known[label]


def _listing(
    found: list[T],
    positions: list[cursors.Position],
    before: cursors.Position | None,
    limit: int,
    now: datetime,
) -> Listing[T]:
    more = len(found) > limit
    last = positions[-1] if positions else None
    resume = last if more else cursors.resume_from(last, before, now)
    return Listing(found[:limit], None if resume is None else cursors.encode(resume), more)


def _unknown(request_id: RequestId) -> NotFoundError:
    return NotFoundError(f"there is no request {request_id}")
