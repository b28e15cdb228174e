"""Admission of submissions: shape, names of jobs, and refusals (SPEC.md A1, C2, C4)."""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import Meta

from crawlfleet.config.documents.biz import Biz, IntakeLimits
from crawlfleet.config.documents.quota import UserName
from crawlfleet.kernel.errors import CrawlfleetError, Problem
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, Priority, QueueKey
from crawlfleet.kernel.urls import Url, problem_with
from crawlfleet.kernel.validation import Words, named
from crawlfleet.requests.ceilings.models import used_rate
from crawlfleet.requests.models import SCRAPY_META, Body
from crawlfleet.requests.queue.stats import Pressure


class KeyKind(StrEnum):
    """Tell the keys of calls from those of entries."""

    CALL = "call"
    """The ``Idempotency-Key`` of a call: it stands for all entries of the call, by position."""
    ENTRY = "entry"
    """The ``client_id`` of an entry, whatever call it comes in."""


class KeyName(NamedTuple):
    """Name a key among all others of its biz."""

    kind: KeyKind
    key: str


class RuleVersion(msgspec.Struct, frozen=True):
    """Name the rule that an entry was admitted with, and its version then."""

    rule: str
    version: str


class Keyed(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what a key stands for: the ids of its entries, and a digest of what was submitted.

    It is written before the requests, so that a repetition goes on with the same ids, the same
    ``queued_at`` (which routes counters) and the same rules, edited since or not. ``rules`` has
    None for an entry that was not admitted, or that its own ``client_id`` decides about.
    ``stored``: the requests of all entries with a rule are persisted.
    """

    name: KeyName
    digest: bytes
    ids: tuple[RequestId, ...]
    rules: tuple[RuleVersion | None, ...]
    queued_at: datetime
    stored: bool = False


#: Most entries of one batch.
BATCH_LIMIT = 1_000
Text = Annotated[str, Meta(max_length=4_000)]
HeaderName = Annotated[
    str,
    Meta(min_length=1, max_length=128, pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z"),
    Words("the name of a header, such as Accept-Language"),
]
HeaderValue = Annotated[
    str,
    Meta(max_length=4_000, pattern=r"^[\t\x20-\x7e\x80-\xff]*\Z"),
    Words("a header's value: one line of Latin-1"),
]
#: What MongoDB holds as a whole number.
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
#: What a client calls an entry of its own.
ClientId = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9._:/-]{1,128}\Z"),
    Words("1 to 128 letters, digits, ., _, :, / and -"),
]
#: What is counted together: letters, digits, ``.``, ``_`` and ``-``, which nothing has to quote.
JobName = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z"), Words("1 to 64 letters, digits, ., _ and -")
]
Scalar: TypeAlias = str | Integer | float | bool | None


class Submission(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A page to download. ``rule`` may be left out where the biz has only one.

    ``params`` are appended to the URL's query; ``meta`` is carried along and not looked at. What
    has a ``client_id`` is stored once, however often and in whatever call it comes. What has a
    ``job`` is counted by it too (SPEC.md H1). Of a higher ``priority`` it is served earlier. What
    has a ``user`` is under the quotas that its tenant has for that one.
    """

    url: Url
    rule: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    method: Literal["GET", "HEAD", "POST", "PUT"] = "GET"
    headers: Annotated[dict[HeaderName, HeaderValue], Meta(max_length=64)] = {}
    params: Annotated[dict[Text, Text], Meta(max_length=64)] = {}
    body: Annotated[str, Meta(max_length=100_000)] | None = None
    meta: Annotated[dict[Text, Scalar], Meta(max_length=64)] = {}
    client_id: ClientId | None = None
    job: JobName | None = None
    priority: Priority = DEFAULT_PRIORITY
    user: UserName | None = None


class Accepted(msgspec.Struct, frozen=True):
    """The request is persisted; it will be worked on, whatever becomes of the queue.

    ``repeated``: it was persisted before, by the same submission or under the same client's id.
    """

    id: RequestId
    repeated: bool = False


class Refused(msgspec.Struct, frozen=True):
    """The entry is not stored, for this reason."""

    error: CrawlfleetError


Receipt: TypeAlias = Accepted | Refused


class Intake(Protocol):
    """Decide whether a biz takes more now: back-pressure."""

    def admit(
        self,
        queue_key: QueueKey,
        count: int,
        limits: IntakeLimits,
        memory_ratio: float,
        now: datetime,
        beside: Sequence[QueueKey] = (),
    ) -> Pressure:
        """Ask for ``count`` more, and count them towards the rate if there is room.

        The backlog includes what waits in the queues ``beside``, of the same biz. Time is the
        server's: callers' clocks (``now``) may differ by an hour.
        """
        ...


_TIME = r"[0-9]{8}T[0-9]{6}Z"
#: How names are that are given here or by an idempotency key: of fires, of run-now, of events.
_GIVEN: Final = re.compile(
    rf"\.(?:{_TIME}(?:\.[0-9a-f]{{6}})?|(?:now|event)\.[0-9a-f]{{16}})\Z|\Akey\.[0-9a-f]{{20}}\Z"
)
#: What is said of such a name where a client gives it.
RESERVED: Final = "is such a name as fires, events and idempotency keys give: choose another name"


def job_name(of: str, now: datetime) -> str:
    """Make a new name that says of what it is a run and when: ``shop.20261121T030000Z.4f2a91``."""
    short = re.sub(r"[^A-Za-z0-9_-]", "-", of)[:32]
    return f"{short}.{now:%Y%m%dT%H%M%SZ}.{secrets.token_hex(3)}"


def fire_name(schedule: str, fire_at: datetime) -> str:
    """Name a schedule's job of a fire time, one for each.

    >>> from datetime import UTC
    >>> fire_name("nightly", datetime(2026, 11, 21, 3, tzinfo=UTC))
    'nightly.20261121T030000Z'
    """
    return f"{schedule}.{fire_at:%Y%m%dT%H%M%SZ}"


def event_name(spider: str, event: str, content: Mapping[str, object]) -> str:
    """Name the job that an event starts: one for each event and what is made of it.

    An event comes more than once now and then, and may be the event of several rules.

    >>> event_name("shop", "53dc4d37-cffa", {"values": {"page": "1"}})
    'shop.event.ad863e60fe2d7245'
    """
    said = json.dumps([event, content], sort_keys=True, default=str)
    return f"{spider}.event.{blake2b(said.encode(), digest_size=8).hexdigest()}"


def run_now_name(schedule: str, key: str | None, now: datetime) -> str:
    """Name a schedule's job that somebody wants now: one for each key, where there is one.

    >>> run_now_name("nightly", "a key", datetime(2026, 11, 21, 3))
    'nightly.now.a9539f4e9c4dd814'
    """
    if key is None:
        return f"{schedule}.now.{now:%Y%m%dT%H%M%SZ}.{secrets.token_hex(3)}"
    return f"{schedule}.now.{blake2b(key.encode(), digest_size=8).hexdigest()}"


def is_reserved(name: str) -> bool:
    """Tell whether a name is given here: no client may have it before, or add tasks to it.

    >>> is_reserved("nightly.20261121T030000Z"), is_reserved("nightly.20261121")
    (True, False)
    """
    return _GIVEN.search(name) is not None


def problem_with_meta(biz: Biz, meta: Mapping[str, object]) -> Problem | None:
    """Return why a caller's ``meta`` is refused: it names what workers alone issue; None if not."""
    if biz.intake.scrapy_requests or SCRAPY_META not in meta:
        return None
    why = "is written by workers alone; intake.scrapy_requests of the biz lets callers, too"
    return Problem(f"meta.{SCRAPY_META}", why)


class Admission:
    """Admit one batch: rules are looked up, and their versions computed, once."""

    def __init__(self, biz: Biz) -> None:
        self._biz = biz
        self._versions: dict[str, str] = {}
        self._only = biz.readers[0] if len(biz.readers) == 1 else None

    @property
    def rules(self) -> tuple[str, ...]:
        """Return the names of the rules and spiders that admitted entries use."""
        return tuple(self._versions)

    def admit(
        self, submission: Submission, field: str = "", admitted: RuleVersion | None = None
    ) -> Body | list[Problem]:
        """Return the body that will be stored, or every validation error with its field's path.

        What was admitted before is admitted again, as ``admitted`` says, whatever became of its
        rule.
        """
        if admitted is not None:
            return _body(submission, admitted)
        problems = []
        if fault := problem_with(submission.url):
            problems.append(Problem(f"{field}url", fault))
        if (issued := problem_with_meta(self._biz, submission.meta)) is not None:
            problems.append(Problem(f"{field}{issued.field}", issued.message))
        if submission.job is not None and is_reserved(submission.job):
            # Under it a fire would find tasks that are not its own.
            problems.append(Problem(f"{field}job", RESERVED))
        rule = submission.rule or self._only
        if rule is None:
            names = ", ".join(self._biz.readers[:10])
            problems.append(Problem(f"{field}rule", f"is missing; this biz has: {names}"))
            return problems
        reader = self._biz.reader(rule)
        if reader is None:
            there = named(self._biz.readers, rule) or "none"
            said = f"this biz has no rule called {rule!r}; it has: {there}"
            problems.append(Problem(f"{field}rule", said))
        if problems or reader is None:
            return problems
        if rule not in self._versions:
            self._versions[rule] = reader.version
        return _body(submission, RuleVersion(rule, self._versions[rule]))


def _body(submission: Submission, admitted: RuleVersion) -> Body:
    return Body(
        url=submission.url,
        rule=admitted.rule,
        rule_version=admitted.version,
        method=submission.method,
        headers=submission.headers,
        params=submission.params,
        body=submission.body,
        meta=submission.meta,
    )


#: Bounds of the wait for a backlog to shrink. Below, callers would only ask; above, work that could
#: be done would wait for them.
SHORTEST_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 300.0
#: The part of the limit that is worked off before callers come back: less, and few find room.
WORKED_OFF: Final = 0.1
#: Memory is freed by whatever biz is worked on, so this one's rate says nothing about it.
MEMORY_SECONDS: Final = 30.0


def retry_after(pressure: Pressure, limits: IntakeLimits, processed_per_second: float) -> float:
    """Return the seconds after which to ask again; 0 where nothing stands against it.

    >>> full = Pressure(backlog=1_000, backlog_full=True)
    >>> retry_after(full, IntakeLimits(max_backlog=1_000), processed_per_second=10.0)
    10.0
    """
    waits = [pressure.wait_seconds]
    if pressure.memory_full:
        waits.append(MEMORY_SECONDS)
    if pressure.backlog_full:
        excess = max(pressure.backlog - limits.max_backlog, 0)
        waits.append(_worked_off(excess + limits.max_backlog * WORKED_OFF, processed_per_second))
    return max(waits)


def _worked_off(requests: float, per_second: float) -> float:
    if requests >= per_second * LONGEST_SECONDS:  # no worker lives, for one
        return LONGEST_SECONDS
    return max(requests / per_second, SHORTEST_SECONDS)


def limit_of(
    pressure: Pressure, count: int, limits: IntakeLimits, memory_ratio: float
) -> tuple[str, float | None, float | None]:
    """Return the setting that stands against ``count`` more, how much there is, and may be.

    >>> full = Pressure(backlog=1_000, backlog_full=True)
    >>> limit_of(full, 1, IntakeLimits(max_backlog=1_000), 0.85)
    ('intake.max_backlog', 1000, 1000)
    >>> limit_of(Pressure(backlog=0, wait_seconds=0.5), 1, IntakeLimits(per_second=2, burst=4), 1)
    ('intake.per_second', 2.0, 2)
    """
    if pressure.backlog_full:
        return "intake.max_backlog", pressure.backlog, limits.max_backlog
    if pressure.memory_full:
        return "redis_memory_ratio", None, memory_ratio
    rate = limits.per_second or 0.0
    used = used_rate(pressure.wait_seconds, count, rate, limits.burst)
    return "intake.per_second", used, limits.per_second


def refusal(biz: str, pressure: Pressure, limits: IntakeLimits, memory_ratio: float) -> str:
    """Name the limits that stand against it, how much there is, and what helps."""
    reasons = []
    if pressure.backlog_full:
        reasons.append(
            f"biz {biz} has a backlog of {pressure.backlog:,} requests, and intake.max_backlog is "
            f"{limits.max_backlog:,}: submit less at once, come back when some of it is done, add "
            "consumers, or raise the limit"
        )
    if pressure.memory_full:
        reasons.append(
            f"the queues fill Redis beyond {memory_ratio:.0%} of its memory "
            f"(redis_memory_ratio), {pressure.backlog:,} requests of biz {biz} among them: come "
            "back when some of it is done, add consumers, or give Redis more memory"
        )
    if pressure.wait_seconds > 0:
        reasons.append(
            f"biz {biz} takes {limits.per_second or 0:g} requests a second and {limits.burst:,} at "
            "once (intake.per_second, intake.burst): come back later, submit more slowly, or raise "
            "the limit"
        )
    return "; ".join(reasons)
