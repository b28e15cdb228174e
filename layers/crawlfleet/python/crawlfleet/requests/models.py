"""Requests, claims, records, items and ledgers, as values.

SPEC.md A1, A7, A8 (requests), B9 (records), H1 (ledgers).
"""

from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from crawlfleet.kernel.errors import Problem, StoreError
from crawlfleet.kernel.ids import OWN_FINAL, RequestId
from crawlfleet.kernel.page import Answer
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, Priority, QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.kernel.validation import RuleName

#: The key of a request's ``meta`` that holds the Scrapy request that it is, as JSON text: which
#: callback reads the page, with what. The executor ``scrapy`` alone writes it.
SCRAPY_META: Final = "scrapy"


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """Name a page to go on with, and the ``rule`` or spider that is to read it.

    An empty ``rule`` is the one that found the link, which does not know its own name. ``depth``
    counts links from where the crawl began; a further page of the same list is as deep as the first
    one. With ``repeat`` its page is read although it is known in its segment, once for each page
    that has such a link.
    """

    url: str
    rule: str = ""
    depth: int = 0
    meta: dict[str, Any] = {}
    headers: dict[str, str] = {}
    method: str = "GET"
    body: str | None = None
    repeat: bool = False

    @property
    def identity(self) -> tuple[object, ...]:
        """Return what tells it from the other links of its page."""
        meta = msgspec.msgpack.encode(self.meta) if self.repeat else None
        return self.url, self.rule, self.method, self.body, meta


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Count a rule's records, and those in which each field had a value.

    ``rejected`` records were not stored: the schema or the key refused them.
    """

    pages: int = 0
    records: int = 0
    rejected: int = 0
    fields: dict[str, int] = {}


class Harvest(msgspec.Struct, frozen=True, kw_only=True):
    """Hold records as mappings of their fields, in the page's order, and links without repeats."""

    records: tuple[dict[str, object], ...] = ()
    links: tuple[Link, ...] = ()
    coverage: Coverage = Coverage()


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what a rule makes of one page, tried before it is in force (SPEC.md H8).

    ``refused`` counts the links that were found and are not followed, by reason. With ``problems``
    there is nothing else: they are the rule's errors, or the field that could not be read.

    Once records are checked (crawling.trials.service), ``rejected`` says of the first of
    ``rejected_count`` others why they would not be stored. ``left_out`` says of the first of
    ``left_out_count`` things of the page, such as lines, why a spider could not read them;
    ``unread``, that it was stopped before the end of the page. ``empty`` says of fields that no
    record has a value of why that is.
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
    empty: dict[str, str] = {}
    seconds: float = 0.0


class Skipped(msgspec.Struct, frozen=True):
    """Name something of a page that was left out, and why; ``place`` is such as ``line 17``."""

    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


class Item(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Carry a record that reaches the data queue from outside, such as a Scrapy project's.

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
    """Carry an item to who stores it: the id it is finished by, and the attempt, from 1.

    The id says when it was put (crawling.records.normalise.put_of).
    """

    id: str
    data: bytes
    attempt: int


class HourCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """Count the coverage of one version of a rule in one hour."""

    started_at: datetime
    rule: str
    version: str
    coverage: Coverage


class RuleCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """Count the coverage of one version of a rule; new requests have the ``current`` one.

    ``hours`` are the last ones in which it had records, the oldest first. Of the current version
    ``empty`` are fields that next to no record has; ``mostly`` says that half of them are.
    """

    rule: str
    version: str
    current: bool
    coverage: Coverage
    empty: tuple[str, ...] = ()
    mostly: bool = False
    hours: tuple[HourCoverage, ...] = ()


#: Nanoseconds of a millisecond.
NS_OF_MS: Final = 1_000_000


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one record; its key is ``request_id`` and ``index``, its place on the page, from 0.

    A record with a ``key`` of its own, in hex, has that instead: whatever page it is found on, it
    replaces what was stored under it, unless that is newer: ``put`` is when the item was put that
    it came as, in epoch ns, and what came in no item is as old as its storing.

    What came from outside without a request always has a key, of its content if of nothing else,
    and the first 32 digits of it as ``request_id``: so the same item, delivered twice, is one
    record, and its request is one that nobody finds.

    ``job`` and ``trace`` are those of its request; None where it has none, and of records of older
    versions.
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
    job: str | None = None
    trace: str | None = None

    @property
    def id(self) -> str:
        """Return the key as clients see it: ``{request id}-{index}``, or the record's own."""
        return self.key or f"{self.request_id}-{self.index}"

    @property
    def version_ns(self) -> int:
        """Return the version, in epoch ns: of two under one key the greater one is newer."""
        return to_ms(self.stored_at) * NS_OF_MS if self.put is None else self.put


class RequestFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Select requests; all that is given must hold. ``newest`` lists the newest first."""

    state: int | None = None
    job: str | None = None
    since: datetime | None = None
    newest: bool = False


#: All of them, the oldest first, and the newest.
ALL_REQUESTS: Final = RequestFilter()
NEWEST_REQUESTS: Final = RequestFilter(newest=True)


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Select records; all that is given must hold.

    ``host`` is that of the record's URL. ``field`` is one that has a value, or this ``value``:
    as the text, or as the JSON that it is. ``since`` and ``until`` bound the time of storing: from
    the first on, before the second. ``newest`` lists the newest first.
    """

    job: str | None = None
    rule: str | None = None
    rule_version: str | None = None
    host: str | None = None
    field: str | None = None
    value: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    newest: bool = False


#: Everything, the oldest first.
ALL_RECORDS: Final = RecordFilter()


class RecordPage(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one search, and how far it came.

    ``reached`` is the position ``(ms, id)`` that the next search begins at; None: that was all. A
    search that was cut short may have found none.
    """

    records: tuple[Record, ...] = ()
    reached: tuple[int, str] | None = None


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hold what ``data`` has: everything needed to download the page and read it.

    ``rule`` names a rule or a spider of the biz, ``rule_version`` the version that it had then: a
    later edit does not change work already accepted. ``depth`` counts links from where the crawl
    began; ``seed`` is the seed that was dispatched as this request, as ``segment/key``. ``segment``
    is the one that its links are known in, as its job has chosen it; None is the biz's.
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
    segment: str | None = None


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Name a request in Redis: ``{id, biz, ts}`` as JSON, ``ts`` in epoch milliseconds.

    ``p`` is beside them where the priority is not the usual one.
    """

    id: RequestId
    biz: str
    ts: int
    priority: Priority = msgspec.field(default=DEFAULT_PRIORITY, name="p")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a request as it is persisted; ``queued_at`` is ``ts``, exact to the millisecond.

    ``pool`` names the workers that alone may have it, in whose queue it is; None is any usual one.
    ``trace`` is the id of its trace, 32 hex digits; None where it is not traced. ``user`` is whom
    its tenant has named as the one that it is for, by whom it has quotas; None is its job's.
    """

    id: RequestId
    tenant: str
    biz: str
    queued_at: datetime
    body: Body
    job: str | None = None
    priority: int = DEFAULT_PRIORITY
    pool: str | None = None
    trace: str | None = None
    user: str | None = None

    @property
    def entry(self) -> Entry:
        """Return the queue's entry of it."""
        return Entry(self.id, self.biz, to_ms(self.queued_at), self.priority)


class Inserted(msgspec.Struct, frozen=True, kw_only=True):
    """Tell which ids of an insertion existed, and why others were refused."""

    existing: frozenset[RequestId] = frozenset()
    refused: dict[RequestId, StoreError] = {}


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a request that a worker owns until its lease ends.

    ``token`` is the fence: every later write of this worker is conditional on it. ``attempt``
    counts from 1.
    """

    request: Request
    entry: Entry
    token: str
    attempt: int


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Record one change of a request's state, which may be one of its biz's own.

    ``peers`` are the addresses that an attempt asked, one for each hop.
    """

    at: datetime
    state: int
    by: str
    why: str
    peers: tuple[str, ...] = ()


class QueueEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """Tell which Redis holds a queue, and whether it holds all of it.

    ``server`` is the run of the server process: it changes with a restart, a failover and a
    restored snapshot. ``nonce`` was written when the queue was last rebuilt; None after a flush.
    ``reached`` is how far an unfinished rebuild has come, as ``ts`` in epoch milliseconds.
    """

    server: str
    nonce: str | None = None
    reached: int | None = None


class Tracked(msgspec.Struct, frozen=True, kw_only=True):
    """Hold everything known about a request, as the read API shows it (SPEC.md A8).

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


class JournalLine(msgspec.Struct, frozen=True, kw_only=True):
    """Note one event of a biz: when, who, what kind, why, and how many requests it concerned."""

    at: datetime
    by: str
    kind: str
    why: str
    count: int = 0


#: The ledger of a job can be read for so long after its last request is gone.
JOB_LIFE: Final = timedelta(days=30)


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Count the requests of a biz, or of one job of it, since it exists.

    ``done``, ``dead``, ``cancelled`` and ``expired`` are counted for ever, also those that MongoDB
    has removed since. A dead letter that is replayed leaves ``dead``. ``own`` are requests in
    states of the biz's own: those in final ones are counted for ever, too, and have left the term
    that they came from.
    """

    submitted: int = 0
    pending: int = 0
    leased: int = 0
    waiting: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0
    own: dict[int, int] = {}

    @property
    def others(self) -> int:
        """Count what is in states of the biz's own."""
        return sum(self.own.values())

    @property
    def others_ended(self) -> int:
        """Count what has ended in states of the biz's own."""
        return sum(count for flag, count in self.own.items() if flag >= OWN_FINAL)

    @property
    def ended(self) -> int:
        """Count what has ended, by the counters alone."""
        return self.done + self.dead + self.cancelled + self.expired + self.others_ended

    @property
    def open(self) -> int:
        """Count what was submitted and has not ended, by the counters alone."""
        return self.submitted - self.ended

    @property
    def difference(self) -> int:
        """Count what is in no state: above 0 was lost, below 0 made up; 0 is right."""
        waiting = self.pending + self.leased + self.waiting
        return self.open - waiting - (self.others - self.others_ended)


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """Tell what reconciliation booked, and why: a line of the biz's journal."""

    queue_key: QueueKey
    term: str
    count: int
    why: str
