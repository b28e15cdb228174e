"""Re-crawling: what is known of a page since it was last read (SPEC.md H7)."""

from datetime import datetime
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from crawlfleet.model.document import Document

#: Up to ten years.
Interval: TypeAlias = Annotated[float, Meta(ge=1, le=315_360_000)]


class RecrawlPolicy(Document, frozen=True, kw_only=True):
    """When a page is read again, and what spares its download.

    ``conditional`` sends the validators that the site gave (ETag, Last-Modified). With ``schedule``
    each page is submitted again by itself, first after ``first_seconds``, then after an interval
    that follows how often the page was seen to change, between ``min_seconds`` and ``max_seconds``;
    so that pages spread, each a part of a tenth later that is always the page's own. A page of
    which nothing is heard for ``forget_seconds`` is forgotten.
    """

    conditional: bool = True
    schedule: bool = False
    first_seconds: Interval = 86_400.0
    min_seconds: Interval = 3_600.0
    max_seconds: Interval = 2_592_000.0
    forget_seconds: Interval = 31_536_000.0


class Validators(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a site says tells one state of a page from another (RFC 9110, 8.8)."""

    etag: str | None = None
    last_modified: str | None = None

    def __bool__(self) -> bool:
        return self.etag is not None or self.last_modified is not None


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """A page as it was last read. ``key`` is its seed key, in hex.

    ``visits`` counts the times it was read, ``changes`` those in which it had changed, ``saved``
    those that were answered with 304. ``content`` is the hash of what was read, in hex; two of them
    can be compared where ``rule`` and ``rule_version`` are the same. ``depth`` counts links from
    where the crawl began; ``meta`` is the request's own, so that who reads the page again knows
    what its first reader knew, such as which page of a list it is.
    """

    key: str
    url: str
    rule: str
    rule_version: str = ""
    depth: int = 0
    meta: dict[str, Any] = {}
    visited_at: datetime
    changed_at: datetime
    next_at: datetime | None = None
    interval_seconds: float = 0.0
    validators: Validators = Validators()
    content: str = ""
    visits: int = 1
    changes: int = 0
    saved: int = 0


class VisitTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of all pages of a biz: the sums of their counts, and how many are due."""

    pages: int = 0
    visits: int = 0
    changes: int = 0
    saved: int = 0
    due: int = 0
