"""What the API answers about dead letters, reasons, the ledger, workers and visits, typed."""

import base64
from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.sdk.results import TimelineEvent


class SiteAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the site answered last; ``status`` is 0 where there was no answer."""

    url: str = ""
    status: int = 0
    headers: dict[str, str] = {}
    seconds: float = 0.0


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of the answer's body; ``encoding`` is ``text`` or ``base64``."""

    encoding: str
    content: str

    @property
    def body(self) -> bytes:
        r"""The bytes.

        >>> Sample(encoding="base64", content="/w==").body
        b'\xff'
        """
        if self.encoding == "base64":
            return base64.b64decode(self.content)
        return self.content.encode()


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was given up on, and why.

    ``reason`` is the error's kind, such as ``PageGone``. What a list leaves out (``sample``,
    ``timeline``, ``headers`` ...) :meth:`Client.dead_letter` has.
    """

    id: str
    url: str
    queued_at: datetime | None = None
    rule: str = ""
    rule_version: str = ""
    job: str | None = None
    attempts: int = 0
    reason: str | None = None
    error: str | None = None
    status: int = 0
    answer: SiteAnswer | None = None
    biz: str = ""
    state: str = "dead"
    method: str = "GET"
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    body: str | None = None
    meta: dict[str, Any] = {}
    worker: str | None = None
    sample: Sample | None = None
    timeline: tuple[TimelineEvent, ...] = ()


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay or a purge of many did.

    ``skipped`` were meant but too old to be worked on: submit those anew. ``more`` says that a
    ``limit`` ended it; ``cursor`` is where another call goes on.
    """

    count: int
    skipped: int = 0
    cursor: str | None = None
    more: bool = False


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One decision. ``kind`` is ``request``, or ``lane`` for what befell the biz's whole queue.

    Of a URL also ``seed`` and ``visit``.
    """

    at: datetime
    kind: str
    by: str = ""
    why: str = ""
    state: str | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request stands now: a sentence for people, its facts for programs."""

    sentence: str
    facts: dict[str, Any] = {}


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request is where it is. ``missing`` says what of the chain is not kept."""

    id: str
    state: str
    standing: Standing
    steps: tuple[Step, ...] = ()
    missing: str | None = None
    biz: str = ""
    url: str = ""
    flag: int | None = None
    attempts: int = 0


class UrlExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a URL was or was not crawled. ``keys`` are what makes it the same page as others."""

    url: str
    standing: Standing
    keys: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    missing: str | None = None
    biz: str = ""


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Where everything that was ever submitted is.

    ``submitted`` is the sum of the terms, or ``difference`` tells by how much it is not: above 0 is
    lost, below 0 made up.
    """

    submitted: int
    pending: int = 0
    leased: int = 0
    waiting: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0
    others: int = 0
    difference: int = 0
    balanced: bool = True
    job: str | None = None

    @property
    def terms(self) -> dict[str, int]:
        """What the submitted ones have become."""
        names = ("pending", "leased", "waiting", "done", "dead", "cancelled", "expired", "others")
        return {name: getattr(self, name) for name in names}


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """A worker: alive, suspected or dead. ``held`` is what it holds of the biz.

    ``phi`` is how sure the detector is that it is dead, as a power of ten. ``pool`` is the kind of
    worker that it is. ``done`` and ``failed`` are told to operators alone.
    """

    worker: str
    health: str
    phi: float = 0.0
    silent_seconds: float = 0.0
    since: datetime | None = None
    held: int = 0
    pool: str = "main"
    done: int = 0
    failed: int = 0


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """A page as it was last read.

    ``visits`` counts the times it was read, ``changes`` those in which it had changed, ``saved``
    those that were answered with 304, without a download. It is read again at ``next_at``, or never
    by itself; ``interval_seconds`` follows how often it changes.
    """

    url: str
    rule: str
    visited_at: datetime
    changed_at: datetime
    next_at: datetime | None = None
    interval_seconds: float = 0.0
    visits: int = 1
    changes: int = 0
    saved: int = 0
    etag: str | None = None
    last_modified: str | None = None
    content: str = ""
    key: str = ""
    rule_version: str = ""
    depth: int = 0


class VisitTotals(msgspec.Struct, frozen=True, kw_only=True):
    """All pages that are known, and the sums of their counts; ``due`` are to be read again now."""

    pages: int = 0
    visits: int = 0
    changes: int = 0
    saved: int = 0
    due: int = 0


class FieldCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """In how many records a field had a value, and in which share of them, from 0 to 1."""

    name: str
    count: int = 0
    share: float = 0.0


class RuleCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """How well one version of a rule or spider finds what it looks for.

    ``current`` is the version that new requests are read by. ``rejected`` of the records were not
    stored: the schema or the key did not take them.
    """

    rule: str
    version: str
    current: bool = False
    pages: int = 0
    records: int = 0
    rejected: int = 0
    fields: tuple[FieldCoverage, ...] = ()


class CoverageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of all rules, as it travels."""

    coverage: tuple[RuleCoverage, ...]


class DeadLettersPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of dead letters, as it travels."""

    dead_letters: tuple[DeadLetter, ...]
    cursor: str | None = None
    more: bool = False


class ReplayedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a replay of many, as it travels."""

    replayed: int
    skipped: int = 0
    cursor: str | None = None
    more: bool = False


class PurgedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a purge of many, as it travels."""

    purged: int
    skipped: int = 0
    cursor: str | None = None
    more: bool = False


class WorkersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All workers, as they travel."""

    workers: tuple[WorkerState, ...]


class VisitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One page, as it travels."""

    visit: Visit


class VisitTotalsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The totals, as they travel."""

    totals: VisitTotals
