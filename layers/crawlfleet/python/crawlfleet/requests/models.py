"""What was read of a page: records, and links to go on with; and items that come from outside.

A record: extracted data, keyed so that storing it twice is impossible.

Re-crawling: what is known of a page since it was last read (SPEC.md H7).

A request: one page to download, from submission to its end (SPEC.md A1, A7, A8).
"""

from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from crawlfleet.kernel.errors import Problem, StoreError
from crawlfleet.kernel.ids import RequestId, State
from crawlfleet.kernel.page import Answer
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, Priority, QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.kernel.validation import RuleName


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A page to go on with. ``rule`` names the rule or spider that is to read it.

    An empty ``rule`` is the one that found the link, which does not know its own name.
    ``depth`` counts links from where the crawl began; a further page of the same list is as deep
    as the first one.
    """

    url: str
    rule: str = ""
    depth: int = 0
    meta: dict[str, Any] = {}
    headers: dict[str, str] = {}


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How many records a rule gave, and of how many each field had a value.

    ``rejected`` of the records were not stored: the schema or the key did not take them.
    """

    pages: int = 0
    records: int = 0
    rejected: int = 0
    fields: dict[str, int] = {}


class Harvest(msgspec.Struct, frozen=True, kw_only=True):
    """Records as mappings of their fields, in the page's order; links without repeats."""

    records: tuple[dict[str, object], ...] = ()
    links: tuple[Link, ...] = ()
    coverage: Coverage = Coverage()


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule makes of one page, tried before it is in force (SPEC.md H8).

    ``refused`` counts the links that were found and are not followed, by reason. With ``problems``
    there is nothing else: they are the rule's mistakes, or the field that could not be read.

    Once records are checked (crawling.trials.service), ``rejected`` says of the first of
    ``rejected_count`` others why they would not be stored. ``left_out`` says of the first of
    ``left_out_count`` things of the page, such as lines, why a spider could not read them;
    ``unread``, that it was stopped before the end of the page.
    """

    records: tuple[dict[str, object], ...] = ()
    links: tuple[Link, ...] = ()
    refused: dict[str, int] = {}
    coverage: Coverage = Coverage()
    problems: tuple[Problem, ...] = ()
    rejected: tuple[str, ...] = ()
    rejected_count: int = 0
    left_out: tuple[str, ...] = ()
    left_out_count: int = 0
    unread: bool = False
    seconds: float = 0.0


class Skipped(msgspec.Struct, frozen=True):
    """Something of a page that was left out, and why; ``place`` is such as ``line 17``."""

    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


class Item(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A record that reaches the data queue from outside of workers, such as a Scrapy project's.

    On the wire it is a JSON object of these names (crawling.records.normalise). ``rule`` is a rule
    or spider of the biz, whose schema and key fields hold for it; a name that the biz does not have
    is kept as it is, and neither is asked for. ``key`` is any text that tells the item from others,
    where no key fields do. ``request`` is the id of the request it came of, as clients write it.
    """

    rule: RuleName
    url: Annotated[str, Meta(max_length=8_000)]
    fields: dict[str, Any]
    key: Annotated[str, Meta(min_length=1, max_length=1_000)] | None = None
    request: Annotated[str, Meta(max_length=36)] | None = None


class QueuedItem(msgspec.Struct, frozen=True):
    """An item as it is handed out: what it is finished by, and which attempt this is, from 1.

    The id says when it was put (crawling.records.normalise.put_of).
    """

    id: str
    data: bytes
    attempt: int


class RuleCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of one version of a rule or spider; ``current`` is what new requests have."""

    rule: str
    version: str
    current: bool
    coverage: Coverage


#: Nanoseconds of a millisecond.
NS_OF_MS: Final = 1_000_000


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One record. ``request_id`` and ``index`` (its place on the page, from 0) are its key.

    A record with a ``key`` of its own, in hex, has that instead: whatever page it is found on, it
    replaces what was stored under it, unless that is newer: ``put`` is when the item was put that
    it came as, in epoch ns, and what came in no item is as old as its storing.

    What came from outside without a request always has a key, of its content if of nothing else,
    and the first 32 digits of it as ``request_id``: so the same item, delivered twice, is one
    record, and its request is one that nobody finds.
    """

    request_id: RequestId
    index: int
    biz: str
    url: str
    rule: str
    rule_version: str
    stored_at: datetime
    fields: dict[str, Any]
    key: str | None = None
    put: int | None = None

    @property
    def id(self) -> str:
        """The key as clients see it: ``{request id}-{index}``, or the record's own."""
        return self.key or f"{self.request_id}-{self.index}"

    @property
    def version_ns(self) -> int:
        """What tells the newer of two under one key, in epoch ns: the greater one is newer."""
        return to_ms(self.stored_at) * NS_OF_MS if self.put is None else self.put


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


class QueueEpoch(msgspec.Struct, frozen=True, kw_only=True):
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


#: 160 bits: two of a thousand million records share a key with a chance below 10^-30. Its 40 hex
#: digits tell it from every id of a request, too.
KEY_BYTES: Final = 20


def is_visit(body: Body) -> bool:
    """Whether a request reads a page as anybody sees it: what others say is nobody's page.

    With a method, a body or headers of its own, or with parameters beside its URL, the same URL may
    be another page.
    """
    return body.method == "GET" and not (body.body or body.headers or body.params)


class Recollection(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a page before it is read: its seed key in hex, the last visit, if any.

    ``validators`` are to be sent with the request; None reads the page in full.
    """

    key: str
    previous: Visit | None = None
    validators: Validators | None = None


def new_token(worker: str, nonce: str, number: int) -> str:
    """A token for the ``number``-th lease of one run of a worker.

    Lambda may run one invocation twice, under one id: the nonce keeps their leases apart.

    >>> new_token("w1", "9f3c", 12)
    'w1.9f3c.12'
    """
    return f"{worker}.{nonce}.{number}"


def worker_of(token: str) -> str:
    """Whose token it is.

    >>> worker_of("eu.w1.9f3c.12")
    'eu.w1'
    """
    return token.rsplit(".", 2)[0]


def is_of(token: str, worker: str) -> bool:
    """Whether the token is one of that worker's.

    >>> is_of("eu.w1.9f3c.12", "eu.w1"), is_of("eu.w1.9f3c.12", "eu")
    (True, False)
    """
    return token.startswith(f"{worker}.") and worker_of(token) == worker


class JournalLine(msgspec.Struct, frozen=True, kw_only=True):
    """One event: when, who, what kind, why in words, and how many requests it concerned."""

    at: datetime
    by: str
    kind: str
    why: str
    count: int = 0


#: The ledger of a job can be read for so long after its last request is gone.
JOB_LIFE: Final = timedelta(days=30)


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of a biz, or of one job of it, since it exists.

    ``done``, ``dead``, ``cancelled`` and ``expired`` are counted for ever, also those that MongoDB
    has removed since. A dead letter that is replayed leaves ``dead``. ``others`` are requests in
    states of the biz's own, ``own`` the same by state.
    """

    submitted: int = 0
    pending: int = 0
    leased: int = 0
    waiting: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0
    others: int = 0
    own: dict[int, int] = {}

    @property
    def open(self) -> int:
        """Submitted and not ended, by the counters alone."""
        return self.submitted - self.done - self.dead - self.cancelled - self.expired

    @property
    def difference(self) -> int:
        """Submitted and in no state: 0 unless something was lost (above 0) or made up (below)."""
        return self.open - self.pending - self.leased - self.waiting - self.others


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """What had to be booked by hand of the machine, and why: a line of the lane's journal."""

    queue_key: QueueKey
    term: str
    count: int
    why: str
