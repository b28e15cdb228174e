"""What the API answers, typed. Fields that a newer server adds are ignored, never an error."""

from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.ids import FINAL_STATES

_FINAL_LABELS = frozenset(state.label for state in FINAL_STATES)


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An RFC 9457 problem: why the API refused; ``errors`` names each field that is wrong."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    errors: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        said = self.detail or self.title
        named = "; ".join(map(str, self.errors))
        return named if named and said in named else ": ".join(filter(None, (said, named)))


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One page to download. ``rule`` may be left to the submission or to the biz.

    Under one ``client_id`` of yours a biz stores one request; ``job`` is what it is counted under.
    Of a ``priority`` from 0 to 10, 5 where none is said, the higher ones are served earlier.
    """

    url: str
    rule: str | None = None
    method: str = "GET"
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    body: str | None = None
    meta: dict[str, str | int | float | bool | None] = {}
    client_id: str | None = None
    job: str | None = None
    priority: int | None = None


class Submitted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one entry: its ``id``, or the ``error`` for which it was not accepted.

    ``index`` is its place in what was submitted, from 0; ``url`` is the one it named. ``repeated``:
    it was stored before, by the same submission or under the same client id; then ``state`` is
    None, because nobody looked: :meth:`Client.get` does.
    """

    index: int
    url: str
    id: str | None = None
    state: str | None = None
    repeated: bool = False
    error: ProblemDocument | None = None

    @property
    def accepted(self) -> bool:
        """Whether the request is stored and will be worked on."""
        return self.id is not None


class TimelineEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a request's state: when, by whom, why."""

    at: datetime
    state: str
    by: str = ""
    why: str = ""


class RequestStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the platform knows about a request (SPEC.md A8)."""

    id: str
    state: str
    url: str
    biz: str = ""
    flag: int | None = None
    queued_at: datetime | None = None
    rule: str = ""
    rule_version: str = ""
    method: str = "GET"
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    body: str | None = None
    meta: dict[str, Any] = {}
    attempts: int = 0
    worker: str | None = None
    error: str | None = None
    records: int = 0
    due_at: datetime | None = None
    job: str | None = None
    priority: int = 5
    pool: str | None = None
    timeline: tuple[TimelineEvent, ...] = ()

    @property
    def final(self) -> bool:
        """Whether nothing more will happen to it: done, dead, cancelled or expired."""
        return self.state in _FINAL_LABELS


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One extracted record. ``id`` is stable: seen twice, it is the same record."""

    id: str
    request_id: str
    url: str
    fields: dict[str, Any]
    rule: str = ""
    rule_version: str = ""
    stored_at: datetime | None = None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """What waits: ready, leased to workers, delayed for a later try."""

    queued: int = 0
    leased: int = 0
    delayed: int = 0
    oldest_at: datetime | None = None


class Speeds(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"per_1s": "1s", "per_5s": "5s", "per_60s": "60s"},
):
    """Requests per second over the last 1, 5 and 60 seconds (SPEC.md A10)."""

    per_1s: float = 0.0
    per_5s: float = 0.0
    per_60s: float = 0.0


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """How fast requests come in and how fast they are worked off."""

    submitted: Speeds = Speeds()
    processed: Speeds = Speeds()


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """A biz at a glance. ``phases`` says where workers spent their time, in seconds."""

    states: dict[str, int]
    submitted: int | None = None
    records: int = 0
    queue: Queue = Queue()
    rates: Rates = Rates()
    phases: dict[str, float] = {}

    @property
    def unfinished(self) -> int:
        """Requests to which something will still happen."""
        return sum(
            count
            for state, count in self.states.items()
            if state in {"pending", "leased", "waiting"}
        )


class SubmissionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One element of a batch's answer, as it travels."""

    id: str | None = None
    state: str | None = None
    repeated: bool = False
    error: ProblemDocument | None = None


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a batch, as it travels."""

    requests: tuple[SubmissionAnswer, ...]


class RequestsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of requests, as it travels."""

    requests: tuple[RequestStatus, ...]
    cursor: str | None = None
    more: bool = False


class RecordsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of records, as it travels."""

    records: tuple[Record, ...]
    cursor: str | None = None
    more: bool = False
