"""A request: one page to download, from submission to its end (SPEC.md A1, A7, A8)."""

from datetime import datetime
from enum import IntEnum
from typing import Any

import msgspec

from crawlfleet.errors import StoreError
from crawlfleet.model.ids import RequestId
from crawlfleet.model.priority import DEFAULT_PRIORITY, Priority
from crawlfleet.model.times import to_ms
from crawlfleet.page import Answer


class State(IntEnum):
    """``flag`` on the wire. A biz may add states of its own from 100 upwards."""

    PENDING = 0
    DONE = 1
    LEASED = 2
    WAITING = 3
    DEAD = 4
    CANCELLED = 5
    EXPIRED = 6

    @property
    def label(self) -> str:
        """The state as clients write it: ``pending``."""
        return self.name.lower()


#: States in which nothing more will happen to a request.
FINAL_STATES = frozenset({State.DONE, State.DEAD, State.CANCELLED, State.EXPIRED})


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ``data`` holds: everything needed to download the page and read it.

    ``rule`` names a rule or a spider of the biz, and ``rule_version`` freezes it: a later edit does
    not change work already accepted. ``depth`` counts links from where the crawl began; ``seed`` is
    the seed that was handed out as this request, as ``segment/key``.
    """

    url: str
    rule: str
    rule_version: str
    method: str = "GET"
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    body: str | None = None
    meta: dict[str, Any] = {}
    depth: int = 0
    seed: str | None = None


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What Redis holds of a request: ``{id, biz, ts}`` as JSON, ``ts`` in epoch milliseconds.

    ``p`` is beside them where the priority is not the usual one.
    """

    id: RequestId
    biz: str
    ts: int
    priority: Priority = msgspec.field(default=DEFAULT_PRIORITY, name="p")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it is persisted; ``queued_at`` is ``ts``, exact to the millisecond.

    ``pool`` are the workers that alone may have it, in whose lane it is queued; None is any usual
    one.
    """

    id: RequestId
    tenant: str
    biz: str
    queued_at: datetime
    body: Body
    job: str | None = None
    priority: int = DEFAULT_PRIORITY
    pool: str | None = None

    @property
    def entry(self) -> Entry:
        """What the queue holds of it."""
        return Entry(self.id, self.biz, to_ms(self.queued_at), self.priority)


class Inserted(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an insertion: ids that existed already, and why others were refused by id."""

    existing: frozenset[RequestId] = frozenset()
    refused: dict[RequestId, StoreError] = {}


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a worker owns until its lease ends.

    ``token`` is the fence: every later write of this worker is conditional on it. ``attempt``
    counts from 1.
    """

    request: Request
    entry: Entry
    token: str
    attempt: int


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a request's timeline: who changed its state, when and why."""

    at: datetime
    state: State
    by: str
    why: str


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Which Redis holds a lane's queue, and whether it holds all of it.

    ``server`` is the run of the server process: it changes with a restart, a failover and a
    restored snapshot. ``nonce`` was written when the queue was last filled; None after a flush.
    ``reached`` is how far an unfinished filling has come, as ``ts`` in epoch milliseconds.
    """

    server: str
    nonce: str | None = None
    reached: int | None = None


class Tracked(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about a request, as the read API shows it (SPEC.md A8).

    ``error``, its class ``reason`` and the site's ``answer`` are of the last attempt that failed.
    """

    request: Request
    state: int
    attempts: int
    timeline: tuple[Event, ...]
    worker: str | None = None
    error: str | None = None
    records: int = 0
    due_at: datetime | None = None
    reason: str | None = None
    answer: Answer | None = None
