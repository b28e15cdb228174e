"""What the API shows: the shapes of its answers, and how models become them.

Ids are strings (they pass 2^53), times are RFC 3339 in UTC with milliseconds.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from crawlfleet.edge.problems import ProblemDocument, document_of
from crawlfleet.model.priority import DEFAULT_PRIORITY
from crawlfleet.model.record import Record
from crawlfleet.model.request import Event, State, Tracked
from crawlfleet.model.submission import Accepted, Receipt
from crawlfleet.model.times import from_ms
from crawlfleet.model.totals import Rates, Stats

_PENDING: Final = State.PENDING.label


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every answer's shape."""


class SubmittedView(View, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one page: it is persisted under this id.

    ``repeated`` says that it was before, under the same key or client id; ``state`` is left out
    then, because nobody looked how it is by now.
    """

    id: str
    state: str | None = None
    repeated: bool = False


class EntryView(View, frozen=True, kw_only=True, omit_defaults=True):
    """An accepted entry of a batch, or the problem that kept it from being stored.

    ``repeated`` says that it was stored before, under the same key or client id; ``state`` is left
    out then, because nobody looked how it is by now.
    """

    id: str | None = None
    state: str | None = None
    repeated: bool = False
    error: ProblemDocument | None = None


class BatchView(View, frozen=True, kw_only=True):
    """One answer an entry, in the order of the entries."""

    accepted: int
    rejected: int
    requests: list[EntryView]


class EventView(View, frozen=True, kw_only=True):
    """One line of the timeline."""

    at: str
    state: str
    by: str
    why: str


class RequestView(View, frozen=True, kw_only=True):
    """A request, with its body readable and its timeline whole."""

    id: str
    biz: str
    state: str
    flag: int
    queued_at: str
    url: str
    rule: str
    rule_version: str
    method: str
    headers: dict[str, str]
    params: dict[str, str]
    body: str | None
    meta: dict[str, str | int | float | bool | None]
    attempts: int
    worker: str | None
    error: str | None
    records: int
    due_at: str | None
    timeline: list[EventView]
    job: str | None = None
    priority: int = DEFAULT_PRIORITY
    pool: str | None = None


class RequestsView(View, frozen=True, kw_only=True):
    """A page of requests; ``cursor`` is where to go on."""

    requests: list[RequestView]
    cursor: str | None
    more: bool


class RecordView(View, frozen=True, kw_only=True):
    """A record."""

    id: str
    request_id: str
    url: str
    rule: str
    rule_version: str
    stored_at: str
    fields: dict[str, Any]


class RecordsView(View, frozen=True, kw_only=True):
    """A page of records; ``cursor`` is where to go on, now or later."""

    records: list[RecordView]
    cursor: str | None
    more: bool


class QueueView(View, frozen=True, kw_only=True):
    """The queue's depth."""

    queued: int
    leased: int
    delayed: int
    oldest_at: str | None


class RatesView(View, frozen=True, kw_only=True):
    """Requests per second over the last full 1, 5 and 60 seconds."""

    submitted: dict[str, float]
    processed: dict[str, float]


class StatsView(View, frozen=True, kw_only=True):
    """Totals, depth, rates, and the workers' time by phase in seconds.

    ``submitted`` is how many there ever were, the sum of all states.
    """

    submitted: int
    states: dict[str, int]
    records: int
    queue: QueueView
    rates: RatesView
    phases: dict[str, float]


def at(moment: datetime) -> str:
    """A moment as clients read it.

    >>> at(from_ms(1767225600123))
    '2026-01-01T00:00:00.123Z'
    """
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def maybe_at(moment: datetime | None) -> str | None:
    """The same, where there may be none."""
    return None if moment is None else at(moment)


def submitted_view(accepted: Accepted) -> SubmittedView:
    """The answer to one page."""
    return SubmittedView(id=str(accepted.id), state=_state_of(accepted), repeated=accepted.repeated)


def entry_view(receipt: Receipt) -> EntryView:
    """The answer to one entry of a batch."""
    if isinstance(receipt, Accepted):
        return EntryView(id=str(receipt.id), state=_state_of(receipt), repeated=receipt.repeated)
    return EntryView(error=document_of(receipt.error))


def _state_of(accepted: Accepted) -> str | None:
    """What is new is pending; what was accepted before may be long done."""
    return None if accepted.repeated else _PENDING


def request_view(tracked: Tracked, label: Callable[[int], str]) -> RequestView:
    """A request; ``label`` names its state, which may be one of the biz's own."""
    request, body = tracked.request, tracked.request.body
    return RequestView(
        id=str(request.id),
        biz=request.biz,
        state=label(tracked.state),
        flag=tracked.state,
        queued_at=at(request.queued_at),
        url=body.url,
        rule=body.rule,
        rule_version=body.rule_version,
        method=body.method,
        headers=body.headers,
        params=body.params,
        body=body.body,
        meta=body.meta,
        attempts=tracked.attempts,
        worker=tracked.worker,
        error=tracked.error,
        records=tracked.records,
        due_at=maybe_at(tracked.due_at),
        timeline=[event_view(event) for event in tracked.timeline],
        job=request.job,
        priority=request.priority,
        pool=request.pool,
    )


def event_view(event: Event) -> EventView:
    """A line of the timeline."""
    return EventView(at=at(event.at), state=event.state.label, by=event.by, why=event.why)


def record_view(record: Record) -> RecordView:
    """A record."""
    return RecordView(
        id=record.id,
        request_id=str(record.request_id),
        url=record.url,
        rule=record.rule,
        rule_version=record.rule_version,
        stored_at=at(record.stored_at),
        fields=record.fields,
    )


def stats_view(stats: Stats) -> StatsView:
    """Totals, depth and rates."""
    oldest = stats.depth.oldest_ts
    return StatsView(
        submitted=stats.ledger.submitted,
        states=stats.states,
        records=stats.records,
        queue=QueueView(
            queued=stats.depth.queued,
            leased=stats.depth.leased,
            delayed=stats.depth.delayed,
            oldest_at=None if oldest is None else at(from_ms(oldest)),
        ),
        rates=RatesView(submitted=rates_of(stats.submitted), processed=rates_of(stats.processed)),
        phases={phase: round(seconds, 3) for phase, seconds in stats.phases.items()},
    )


def rates_of(rates: Rates) -> dict[str, float]:
    """Rates by their span."""
    return {"1s": rates.per_1s, "5s": rates.per_5s, "60s": rates.per_60s}
