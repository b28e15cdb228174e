"""Seeds: URLs with a dedupe key, once a segment each (SPEC.md F1-F5, words)."""

from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

import msgspec

from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY
from crawlfleet.kernel.tracing import Caller


class Segment(msgspec.Struct, frozen=True):
    """A time slice in which a seed key may appear once. ``name`` sorts as time does."""

    name: str
    starts_at: datetime
    ends_at: datetime | None


class SegmentChoice(StrEnum):
    """The segment that the links of a job are known in.

    ``JOB`` is the job's own: each run reads all that its links lead to. ``BIZ`` is the biz's, by
    its ``seeds``; the others are as a biz has them whose ``seeds.span`` is that.
    """

    JOB = "job"
    BIZ = "biz"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class SeedState(IntEnum):
    """The state of a seed. Clients know a dispatched one as ``handed``."""

    READY = 0
    HANDED = 1
    FINISHED = 2
    FAILED = 3

    @property
    def label(self) -> str:
        """The state as clients write it: ``ready``."""
        return self.name.lower()


class SeedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A URL to be a seed: what its request is to be, and when it may begin.

    ``rule`` names a rule or spider of the biz; ``depth`` counts the links from where it was begun.
    ``starts_at`` in a later segment makes it wait for its time. What ``repeat`` says of a link
    holds for its seed: its key is of the page that has the link, too. ``segment`` is its job's
    choice (:func:`crawlfleet.crawling.frontier.segments.segment_in`), None the biz's. Its request
    is in the trace of the ``caller``, where that is recorded, and is for the ``user`` of the page.
    """

    url: str
    rule: str
    depth: int = 0
    meta: dict[str, Any] = {}
    headers: dict[str, str] = {}
    method: str = "GET"
    body: str | None = None
    repeat: bool = False
    job: str | None = None
    priority: int = DEFAULT_PRIORITY
    pool: str | None = None
    found_by: RequestId | None = None
    starts_at: datetime | None = None
    segment: str | None = None
    caller: Caller | None = None
    user: str | None = None


class AddResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of adding a seed, in its ``segment`` and with its ``key`` in hex."""

    accepted: bool
    segment: str
    key: str
    why: str = ""


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """A seed as it is kept. ``request`` is the one that it was last dispatched as, ``handed_at``.

    ``due_at`` is when it is to be dispatched or rechecked next; of one that has ended, when it
    did. ``ends_at`` is the end of its segment: it is archived no earlier than that.
    """

    key: str
    segment: str
    spec: SeedSpec
    state: SeedState
    offered_at: datetime
    due_at: datetime
    ends_at: datetime | None = None
    request: RequestId | None = None
    handed_at: datetime | None = None
    tries: int = 0
    why: str = ""

    @property
    def id(self) -> str:
        """The name of a seed: ``segment/key``."""
        return f"{self.segment}/{self.key}"


class SeedSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The seeds of which all that is given holds."""

    segment: str | None = None
    state: SeedState | None = None


class SeedTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a segment's seeds by state; ``waiting`` are ready ones of the future."""

    segment: str
    ready: int = 0
    waiting: int = 0
    handed: int = 0
    finished: int = 0
    failed: int = 0
    filter_bytes: int = 0
