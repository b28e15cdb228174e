"""Seeds: URLs with a dedupe key, once a segment each (SPEC.md F1-F5, words)."""

from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from crawlfleet.model.document import Count, Document, RuleName, Seconds
from crawlfleet.model.ids import RequestId
from crawlfleet.model.priority import DEFAULT_PRIORITY


class Span(StrEnum):
    """How long a segment is. ``custom`` takes ``span_seconds``; ``forever`` has one segment."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    CUSTOM = "custom"
    FOREVER = "forever"


class KeyRules(Document, frozen=True, kw_only=True):
    """What makes two URLs the same page, beside the canonical form (policy.seedkey).

    ``ignore`` are further parameters that say nothing about the page, ``keep`` those that count
    although they look like a time stamp, a session id or a JSONP callback; both may end in ``*``.
    ``only`` drops all parameters but these. ``ignore_scheme`` takes http and https for one,
    ``ignore_www`` a host with and without ``www.``. ``fragment`` keeps what follows ``#``.
    """

    ignore: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    keep: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    only: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    ignore_scheme: bool = False
    ignore_www: bool = False
    fragment: bool = False


class SeedPolicy(Document, frozen=True, kw_only=True):
    """How a biz's seeds are kept apart and handed out.

    Segments begin at local midnight (or hour, Monday, first of the month) of ``timezone``.
    ``resolvers`` name what decides on the same page for a rule or spider instead of ``keys`` (the
    entry point group ``crawlfleet.seed_keys``). ``expected`` is how many keys a segment's filter is
    made for, with ``error_rate`` false duplicates at that number; beyond it the filter grows. With
    ``exact`` every key that the filter takes for known is looked up. At most ``ahead`` seeds are
    queued at once; the rest waits in MongoDB. A seed that was handed out and is not heard of for
    ``lease_seconds`` is looked after. Finished ones are kept for ``archive_days``.
    """

    span: Span = Span.DAY
    span_seconds: Seconds | None = None
    timezone: str = "UTC"
    keys: KeyRules = KeyRules()
    resolvers: Annotated[dict[RuleName, str], Meta(max_length=100)] = {}
    exact: bool = False
    expected: Annotated[int, Meta(ge=1_000, le=1_000_000_000)] = 1_000_000
    error_rate: Annotated[float, Meta(ge=1e-9, le=0.1)] = 0.001
    ahead: Count = 10_000
    lease_seconds: Seconds = 3_600.0
    archive_days: Annotated[int, Meta(ge=1, le=3_650)] = 30


class Segment(msgspec.Struct, frozen=True):
    """A time slice in which a seed key may appear once. ``name`` sorts as time does."""

    name: str
    starts_at: datetime
    ends_at: datetime | None


class SeedState(IntEnum):
    """Where a seed is."""

    READY = 0
    HANDED = 1
    FINISHED = 2
    FAILED = 3

    @property
    def label(self) -> str:
        """The state as clients write it: ``ready``."""
        return self.name.lower()


#: Bytes of one offer, as it is stored.
LARGEST_OFFER: Final = 64_000


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A URL offered as a seed: what a request of it would be, and when it may begin.

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


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an offer. ``segment`` is the one it was judged in, ``key`` in hex."""

    accepted: bool
    segment: str
    key: str
    why: str = ""


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """A seed as it is kept. ``request`` is the one that it was last handed out as, ``handed_at``.

    ``due_at`` is when it is to be looked at next: handed out, or looked after; of one that has
    ended it is when. ``ends_at`` is the end of its segment: it is archived no earlier than that.
    """

    key: str
    segment: str
    offer: Offer
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
        """What a seed is called: ``segment/key``."""
        return f"{self.segment}/{self.key}"


class SeedsMeant(msgspec.Struct, frozen=True, kw_only=True):
    """Which seeds are meant: those of which all that is given holds."""

    segment: str | None = None
    state: SeedState | None = None


class SeedTotals(msgspec.Struct, frozen=True, kw_only=True):
    """How many seeds of a segment are in each state; ``waiting`` are ready ones of the future."""

    segment: str
    ready: int = 0
    waiting: int = 0
    handed: int = 0
    finished: int = 0
    failed: int = 0
    filter_bytes: int = 0
