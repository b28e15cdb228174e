"""Attempts at requests: the leased request in a worker's hands, and its outcomes as values.

:func:`after_failure` decides after a failed attempt: try again, and when, or give up.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from crawlfleet.config.documents.biz import RetryLimits
from crawlfleet.kernel import errors
from crawlfleet.kernel.errors import (
    CrawlfleetError,
    ExtractError,
    FetchError,
    ThrottledError,
    UnknownRuleError,
)
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.page import Answer
from crawlfleet.requests.models import Link, Record, Visit


class Done(msgspec.Struct, frozen=True):
    """The page was read: its records (possibly none) and the links to go on with.

    ``stored`` are records that were stored while the page was still being read: these are the first
    of the page, and ``records`` go on from their index. ``rejected`` says of some that were not
    stored why, ``rejected_count`` how many there are of those. ``visit`` is what is known of the
    page from now on.
    """

    records: tuple[Record, ...]
    status: int = 200
    links: tuple[Link, ...] = ()
    stored: int = 0
    rejected: tuple[str, ...] = ()
    rejected_count: int = 0
    visit: Visit | None = None


class Retry(msgspec.Struct, frozen=True):
    """The attempt failed in a way that another one may mend, not before ``due_at``.

    ``reason`` and ``answer`` are as in :class:`Dead`, the answer without its sample.
    """

    due_at: datetime
    error: str
    reason: str = ""
    answer: Answer | None = None


class Dead(msgspec.Struct, frozen=True):
    """The request is given up on; ``error`` says why.

    ``reason`` is the class of the error by which dead letters are found, such as ``PageGone``;
    ``answer`` the site's last one, if there was any.
    """

    error: str
    reason: str = ""
    answer: Answer | None = None


Outcome: TypeAlias = Done | Retry | Dead


class Settled(msgspec.Struct, frozen=True):
    """Tell what became of outcomes that were to be written.

    Of ``lost`` requests another has the lease, so nothing was written. ``unstorable`` were done
    with records that the store cannot hold: they are dead instead.
    """

    lost: set[RequestId]
    unstorable: dict[RequestId, Dead] = {}


def done_with(done: Done) -> str:
    """Write the timeline's line: status, count of records, what was not stored and why.

    >>> done_with(Done((), 200, stored=5, rejected=("record 2, sku: is missing",)))
    'HTTP 200, records: 5, rejected: 1 (record 2, sku: is missing)'
    """
    line = f"HTTP {done.status}, records: {done.stored + len(done.records)}"
    count = max(done.rejected_count, len(done.rejected))
    if not count:
        return line
    line += f", rejected: {count}"
    return f"{line} ({done.rejected[0]})" if done.rejected else line


#: A site's Retry-After is honoured up to this; beyond it the request comes back anyway.
LONGEST_RETRY_AFTER: Final = timedelta(days=1)

#: Attempts beyond the biz's that ended with their worker. They may be no fault of the request, so
#: some are forgiven; one that kills each worker that takes it must not do so for ever.
CUT_OFFS: Final = 5

#: Reasons that are no error of ours.
CUT_OFF: Final = "CutOff"
INTERNAL: Final = "Internal"
UNSTORABLE: Final = "Unstorable"
UNREADABLE: Final = "Unreadable"


def _reasons() -> Iterator[str]:
    kinds: list[type[CrawlfleetError]] = [FetchError, ExtractError, UnknownRuleError]
    while kinds:
        kind = kinds.pop()
        below = [each for each in kind.__subclasses__() if each.__module__ == errors.__name__]
        kinds += below
        if not below:
            yield _named(kind)
    yield from (CUT_OFF, INTERNAL, UNSTORABLE, UNREADABLE)


def _named(kind: type[Exception]) -> str:
    return kind.__name__.removesuffix("Error")


#: Every reason for which a request is given up on.
REASONS: Final = tuple(sorted(_reasons()))


def cut_off(attempt: int, limits: RetryLimits) -> str | None:
    """Return why an attempt of this number, from 1, is not made; None if it is.

    An attempt that ends in any other way is the last one at ``max_attempts``, so all beyond that
    had no end.
    """
    if attempt <= limits.max_attempts + CUT_OFFS:
        return None
    return f"its worker ended before it did, in the last {CUT_OFFS} attempts or more"


def reason_of(error: Exception) -> str:
    """Return the error's class as dead letters have it; ``Internal`` where it is none of ours.

    >>> reason_of(ThrottledError("answered 429"))
    'Throttled'
    """
    if isinstance(error, CrawlfleetError):
        return _named(type(error))
    return INTERNAL


def after_failure(
    error: CrawlfleetError, attempt: int, limits: RetryLimits, now: datetime, jitter: float
) -> Retry | Dead:
    """Decide by the error's class, the attempt's number (from 1) and the biz's limits.

    The delay doubles with each attempt up to ``max_seconds``; between half and all of it is waited,
    as ``jitter`` from 0 to 1 says, so that what failed together does not come back together. A
    longer Retry-After of the site wins.
    """
    reason = reason_of(error)
    text = f"{reason}: {error}"[:500]
    answer = getattr(error, "answer", None)
    if not error.retryable or attempt >= limits.max_attempts:
        return Dead(text, reason, answer)
    doubled = limits.base_seconds * 2.0 ** min(attempt - 1, 63)
    delay = timedelta(seconds=min(doubled, limits.max_seconds) * (0.5 + 0.5 * jitter))
    if isinstance(error, ThrottledError) and error.retry_after_seconds is not None:
        asked = timedelta(
            seconds=min(error.retry_after_seconds, LONGEST_RETRY_AFTER.total_seconds())
        )
        delay = max(delay, asked)
    return Retry(now + delay, text, reason, None if answer is None else answer.facts())
