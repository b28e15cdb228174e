"""Visits: what is known of a page since it was last read, as values (SPEC.md H7)."""

from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.requests.models import Body


class Validators(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hold the ETag and date by which a site tells a page's states apart (RFC 9110, 8.8)."""

    etag: str | None = None
    last_modified: str | None = None

    def __bool__(self) -> bool:
        return self.etag is not None or self.last_modified is not None


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a page as it was last read. ``key`` is its seed key, in hex.

    ``visits`` counts the times it was read, ``changes`` those in which it had changed, ``saved``
    those that were answered with 304, ``spared`` the segments that did not fetch it as it was not
    due. ``content`` is the hash of what was read, in hex; two of them
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
    spared: int = 0


class VisitTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sum the visits of all pages of a biz, and count the pages that are due."""

    pages: int = 0
    visits: int = 0
    changes: int = 0
    saved: int = 0
    spared: int = 0
    due: int = 0


def is_visit(body: Body) -> bool:
    """Tell whether a request reads a page as anybody sees it.

    With a method, a body or headers of its own, or with parameters beside its URL, the same URL may
    be another page.
    """
    return body.method == "GET" and not (body.body or body.headers or body.params)


class Recollection(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what is known of a page before it is read: its seed key in hex, its last visit.

    ``validators`` are to be sent with the request; None reads the page in full.
    """

    key: str
    previous: Visit | None = None
    validators: Validators | None = None
