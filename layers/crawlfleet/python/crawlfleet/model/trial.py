"""A rule tried before it is in force: what is asked of a worker, and what it answers (SPEC.md H8).

Both travel between functions as JSON.
"""

from typing import Final

import msgspec

from crawlfleet.errors import Problem
from crawlfleet.model.harvest import Coverage, Link
from crawlfleet.model.rule import Rule
from crawlfleet.model.spider import Spider
from crawlfleet.page import Page

#: The largest page that may be sent along, in bytes.
LARGEST_PAGE: Final = 1_000_000


class TrialWanted(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants tried: a rule or spider of a biz by its name, or a rule as it is.

    On a page that is given, or on one that is fetched from ``url``; ``depth`` counts links from
    where the crawl would have begun.
    """

    rule: str | Rule
    page: Page | None = None
    url: str | None = None
    depth: int = 0


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trial as a worker gets it: a rule or a spider, and a page or where to fetch it.

    ``name`` is the reader's in its biz; a rule that was sent along has none, and is checked first.
    """

    tenant: str
    biz: str
    name: str = ""
    rule: Rule | None = None
    spider: Spider | None = None
    page: Page | None = None
    url: str | None = None
    depth: int = 0


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A page that was fetched: where redirects ended, and what came from there."""

    url: str
    status: int
    content_type: str = ""
    bytes: int = 0
    seconds: float = 0.0
    redirects: tuple[str, ...] = ()


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a page could not be fetched; ``reason`` is a dead letter's, such as ``PageGone``.

    ``status`` is the site's, 0 where it was not asked or gave no answer. ``retry_after_seconds`` is
    when it makes sense to ask again, if anybody knows.
    """

    reason: str
    message: str
    status: int = 0
    retryable: bool = False
    retry_after_seconds: float | None = None


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a trial.

    ``mistakes`` are the rule's: with any, nothing was looked at. With a ``failure`` there was no
    page. ``problems`` are what of the page could not be read: then there are no records, as with a
    worker. ``records`` and ``links`` are the first ones of ``record_count`` and ``link_count``;
    ``refused`` counts links that are not followed, by reason. ``rejected`` says of the first of
    ``rejected_count`` records why they would not be stored, ``left_out`` of the first of
    ``left_out_count`` things of the page why a spider could not read them. ``unread`` says that a
    spider was stopped before the end of the page.
    """

    version: str = ""
    mistakes: tuple[Problem, ...] = ()
    seen: Seen | None = None
    failure: Failure | None = None
    problems: tuple[Problem, ...] = ()
    records: tuple[dict[str, object], ...] = ()
    record_count: int = 0
    links: tuple[Link, ...] = ()
    link_count: int = 0
    refused: dict[str, int] = {}
    coverage: Coverage = Coverage()
    rejected: tuple[str, ...] = ()
    rejected_count: int = 0
    left_out: tuple[str, ...] = ()
    left_out_count: int = 0
    unread: bool = False
    seconds: float = 0.0
