"""Seeds: URLs with a dedupe key, once a segment each (SPEC.md F1-F5, words)."""

from datetime import datetime
from enum import IntEnum
from typing import Any

import msgspec

from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY


class Segment(msgspec.Struct, frozen=True):
    """A time slice in which a seed key may appear once. ``name`` sorts as time does."""

    name: str
    starts_at: datetime
    ends_at: datetime | None


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
    ``starts_at`` in a later segment makes it wait for its time.
    """

    url: str
    rule: str
    depth: int = 0
    meta: dict[str, Any] = {}
    headers: dict[str, str] = {}
    job: str | None = None
    priority: int = DEFAULT_PRIORITY
    pool: str | None = None
    found_by: RequestId | None = None
    starts_at: datetime | None = None


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
