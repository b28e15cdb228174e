"""Fakes of MongoDB share this state: requests, records and ledgers of each biz.

:class:`KeptState` is one world: the request store, its ledgers, dead letters and recovery take the
same one, and hold its lock while they work.
"""

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from tests.kit.extract import together
from tests.kit.kernel import QueueKey, RequestId
from tests.kit.requests import (
    UNSTORABLE,
    Answer,
    Coverage,
    Dead,
    Done,
    Event,
    Outcome,
    Record,
    Request,
    State,
    Tracked,
)

#: Events kept of a request's timeline, after the submission.
_LOG_LENGTH: Final = 50
_LONGEST_ERROR: Final = 2_000


@dataclass(slots=True)
class Kept:
    """A request as it stands."""

    request: Request
    state: int = State.PENDING
    attempts: int = 0
    log: list[Event] = field(default_factory=list)
    worker: str | None = None
    token: str | None = None
    error: str | None = None
    records: int = 0
    parts: int = 0
    due_at: datetime | None = None
    reason: str | None = None
    answer: Answer | None = None

    def note(
        self, at: datetime, state: int, by: str, why: str, peers: tuple[str, ...] = ()
    ) -> None:
        """Change the state, and write down who did it, when and why."""
        self.state = state
        self.log.append(Event(at=at, state=state, by=by, why=why[:500], peers=peers))
        del self.log[:-_LOG_LENGTH]

    def leave_nothing(self, queue_key: "KeptQueue") -> None:
        """A page that was read in part only leaves no records behind, but for those with keys."""
        if self.parts:
            self.parts = 0
            queue_key.drop(self.request.id)

    def tracked(self) -> Tracked:
        """The request as the read API shows it."""
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
            reason=self.reason,
            answer=self.answer,
        )


@dataclass(slots=True)
class KeptQueue:
    """The requests and records of one biz of one tenant.

    ``counters`` are the terms of the ledger that are counted for ever (``submitted``, ``done``,
    ``dead``, ``cancelled``, ``expired``): of the whole biz under None, and of each job by its name.
    ``swept`` is when recovery last completed. ``keyed`` are the records with keys of their own.
    """

    requests: dict[RequestId, Kept] = field(default_factory=dict)
    records: dict[tuple[RequestId, int], Record] = field(default_factory=dict)
    keyed: dict[str, Record] = field(default_factory=dict)
    counters: dict[str | None, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    swept: datetime | None = None
    covered: dict[tuple[str, str], Coverage] = field(default_factory=dict)

    def cover(self, request: Request, coverage: Coverage | None) -> None:
        """Add what a page of a job was read to."""
        if request.job is not None and coverage is not None:
            key = request.job, request.body.rule
            self.covered[key] = together(self.covered.get(key, Coverage()), coverage)

    def count(self, job: str | None, term: str, by: int = 1) -> None:
        """Count a request of the job, or of none, for the biz and for the job."""
        for whose in {None, job}:
            self.counters[whose][term] += by

    def keep(self, records: Iterable[Record]) -> None:
        """Store records; of two under one key of their own the newer one stays."""
        for record in records:
            if record.key is None:
                self.records[record.request_id, record.index] = record
                continue
            before = self.keyed.get(record.key)
            if before is None:
                self.keyed[record.key] = record
            elif before.version_ns <= record.version_ns:
                at = max(before.stored_at, record.stored_at)
                self.keyed[record.key] = msgspec.structs.replace(record, stored_at=at)

    def drop(self, request_id: RequestId, first: int = 0) -> None:
        """Remove the records of a request from the index ``first`` on, but for those with keys."""
        for key in [key for key in self.records if key[0] == request_id and key[1] >= first]:
            del self.records[key]


class KeptState:
    """Every queue, and the lock under which they are worked on."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], KeptQueue] = {}
        #: Bizs of which something could not be queued, by when that was noted.
        self.unqueued: dict[tuple[str, str], datetime] = {}
        self.lock = threading.RLock()

    def of(self, queue_key: QueueKey) -> KeptQueue:
        """The queue's part."""
        return self._queues.setdefault((queue_key.tenant, queue_key.biz), KeptQueue())


def clean(error: str) -> str:
    """An error as MongoDB would hold it."""
    return error[:_LONGEST_ERROR].encode("utf-8", "replace").decode("utf-8")


def is_due(kept: Kept, now: datetime) -> bool:
    """Tell if its lease or its wait has ended."""
    waits = kept.state in (State.LEASED, State.WAITING)
    return waits and kept.due_at is not None and kept.due_at <= now


def place(ms: int, request_id: RequestId) -> tuple[int, int, int, str]:
    """Integer ids come before hex ones, as in MongoDB."""
    if isinstance(request_id, int):
        return ms, 0, request_id, ""
    return ms, 1, 0, request_id


def typed(text: str) -> RequestId:
    """An id from its text in a cursor."""
    return int(text) if text.isdigit() and len(text) < 20 else text


_LONGEST_INTEGER: Final = 2**63 - 1
#: What MongoDB takes of one record, in bytes and in levels.
_LARGEST_RECORD: Final = 16_000_000
_DEEPEST_RECORD: Final = 150
#: Half of a character: no encoding has it.
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def storable(outcome: Outcome) -> Outcome:
    """A record that MongoDB could not hold costs its request its life here, too."""
    if not isinstance(outcome, Done):
        return outcome
    problem = why_not(outcome.records)
    return outcome if problem is None else Dead(f"no records stored: {problem}", UNSTORABLE)


def why_not(records: Iterable[Record]) -> str | None:
    """Return why MongoDB could not store one of the records, or None."""
    for record in records:
        for problem in _problems(record.fields, 0):
            return problem
        if len(msgspec.msgpack.encode(record.fields)) > _LARGEST_RECORD:
            return "it is too large"
    return None


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
        if _SURROGATE.search(value):
            yield "a text is no Unicode"
    else:
        yield f"{type(value).__name__} is no type of a record"
