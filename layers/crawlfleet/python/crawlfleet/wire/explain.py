"""Explanations of requests and URLs, and visits: pages as they were last read."""

from datetime import datetime

import msgspec

from crawlfleet.wire import Scalars


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A decision. ``kind`` is ``request``, or ``lane`` for an event of the biz's whole queue.

    Of a URL also ``seed`` and ``visit``. ``peers`` are the addresses that an attempt asked.
    """

    at: datetime
    kind: str
    state: str | None = None
    by: str = ""
    why: str = ""
    peers: tuple[str, ...] = ()


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The present state of a request: a sentence for people, its facts by name for programs."""

    sentence: str
    facts: Scalars = {}


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions about a request in the order of time; ``missing`` names those not kept.

    ``trace`` is the id of its trace, ``trace_url`` where that is shown; null where it has none.
    """

    id: str
    biz: str = ""
    url: str = ""
    state: str
    flag: int | None = None
    attempts: int = 0
    standing: Standing
    steps: tuple[Step, ...] = ()
    missing: str | None = None
    trace: str | None = None
    trace_url: str | None = None


class UrlExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions about a URL: its seeds, the last one's request, its visit.

    ``keys`` are what makes it the same page as others; ``missing`` says what is not known.
    """

    url: str
    biz: str = ""
    keys: tuple[str, ...] = ()
    standing: Standing
    steps: tuple[Step, ...] = ()
    missing: str | None = None


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """A page as it was last read.

    ``visits`` counts the times it was read, ``changes`` those in which it had changed, ``saved``
    those that were answered with 304, without a download, ``spared`` the segments that did not
    fetch it, as it was not due. It is read again at ``next_at``, or never
    by itself; ``interval_seconds`` follows how often it changes.
    """

    url: str
    key: str = ""
    rule: str
    rule_version: str = ""
    depth: int = 0
    visited_at: datetime
    changed_at: datetime
    next_at: datetime | None = None
    interval_seconds: float = 0.0
    visits: int = 1
    changes: int = 0
    saved: int = 0
    spared: int = 0
    etag: str | None = None
    last_modified: str | None = None
    content: str = ""


class VisitTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of all known pages; ``due`` are to be read again now."""

    pages: int = 0
    visits: int = 0
    changes: int = 0
    saved: int = 0
    spared: int = 0
    due: int = 0


class VisitsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The visits of a page where a URL was given, else the totals; the other is null."""

    visit: Visit | None = None
    totals: VisitTotals | None = None
