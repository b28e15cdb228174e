"""A submission that its client may repeat: under one key it is one submission (SPEC.md D13).

What a client asks for, before it is admitted; and the answer to it.

The stores of submission, as its verbs ask for them.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import Meta

from crawlfleet.config.documents.biz import IntakeLimits
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, Priority, QueueKey
from crawlfleet.kernel.urls import Url
from crawlfleet.kernel.validation import Words
from crawlfleet.requests.queue.stats import Pressure


class KeyKind(StrEnum):
    """What a key is of."""

    CALL = "call"
    """The ``Idempotency-Key`` of a call: it stands for all entries of the call, by position."""
    ENTRY = "entry"
    """The ``client_id`` of an entry, whatever call it comes in."""


class KeyName(NamedTuple):
    """A key, as it is told from all others of its lane."""

    kind: KeyKind
    key: str


class RuleVersion(msgspec.Struct, frozen=True):
    """The rule that an entry was admitted with, and the version that was frozen then."""

    rule: str
    version: str


class Keyed(msgspec.Struct, frozen=True, kw_only=True):
    """What a key stands for: the ids its entries have, and a digest of what was submitted.

    It is written before the requests, so that whoever comes again goes on with the same ids, the
    same ``queued_at`` (which routes counters) and the same rules, edited since or not. ``rules``
    has None for an entry that was not admitted, or that its own ``client_id`` decides about.
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
    """One page to download. ``rule`` may be left out where the biz has only one.

    ``params`` are appended to the URL's query; ``meta`` is carried along and not looked at. What
    has a ``client_id`` is stored once, however often and in whatever call it comes. What has a
    ``job`` is counted by it too (SPEC.md H1). Of a higher ``priority`` it is served earlier.
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


class SubmissionKeys(Protocol):
    """What makes a repeated submission one (SPEC.md D13)."""

    def find(self, queue_key: QueueKey, names: Sequence[KeyName]) -> dict[KeyName, Keyed]:
        """Those that are kept."""
        ...

    def open(self, queue_key: QueueKey, keyed: Sequence[Keyed], until: datetime) -> list[Keyed]:
        """Keep each under its key, until then at least; returns what stands, in the same order.

        A key that is kept already answers with what it was first given.
        """
        ...

    def close(self, queue_key: QueueKey, keyed: Sequence[Keyed]) -> None:
        """All requests of these are stored. No effect on what has taken the place of one."""
        ...

    def forget(self, queue_key: QueueKey, keyed: Sequence[Keyed]) -> None:
        """Keep these no longer; no effect on one that is closed, or has been replaced."""
        ...


class Intake(Protocol):
    """Back-pressure: whether a lane takes more now."""

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

        What waits in the lanes ``beside``, of the same biz, is a part of the backlog.
        Time is the server's where it has one: callers' clocks (``now``) may differ by an hour.
        """
        ...
