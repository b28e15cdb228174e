"""Attempts at requests: the leased request in a worker's hands, and its outcomes as values.

:func:`after_failure` decides after a failed attempt: try again, and when, or give up.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from crawlfleet.config.documents.biz import RetryLimits
from crawlfleet.kernel import errors
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.page import Answer
from crawlfleet.requests.models import Coverage, Link, Record
from crawlfleet.requests.visits import Visit


class Done(msgspec.Struct, frozen=True):
    """The page was read: its records (possibly none) and the links to go on with.

    ``stored`` are records that were stored while the page was still being read: these are the first
    of the page, and ``records`` go on from their index. ``rejected`` says of some that were not
    stored why, ``rejected_count`` how many there are of those. ``visit`` is what is known of the
    page from now on. ``coverage`` counts the fields of its records that have a value. ``peers`` are
    the addresses that were asked for it, one for each hop: of failed attempts, too.
    """

    records: tuple[Record, ...]
    status: int = 200
    links: tuple[Link, ...] = ()
    stored: int = 0
    rejected: tuple[str, ...] = ()
    rejected_count: int = 0
    visit: Visit | None = None
    coverage: Coverage | None = None
    peers: tuple[str, ...] = ()


class Retry(msgspec.Struct, frozen=True):
    """The attempt failed in a way that another one may mend, not before ``due_at``.

    ``reason`` and ``answer`` are as in :class:`Dead`, the answer without its sample.
    """

    due_at: datetime
    error: str
    reason: str = ""
    answer: Answer | None = None
    peers: tuple[str, ...] = ()


class Dead(msgspec.Struct, frozen=True):
    """The request is given up on; ``error`` says why.

    ``reason`` is the class of the error by which dead letters are found, such as ``PageGone``;
    ``answer`` the site's last one, if there was any.
    """

    error: str
    reason: str = ""
    answer: Answer | None = None
    peers: tuple[str, ...] = ()


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
#: A quota ends what is over it (fleet.quotas).
OVER_QUOTA: Final = "QuotaExceeded"


#: Reasons that are the rule's, as it was frozen with the request: by that it would die again.
OF_RULE: Final = frozenset({"Extract", "ReaderKilled", "UnknownRule", UNSTORABLE})

#: The site's robots.txt forbids the page: as long as it does, each attempt ends so.
ROBOTS_DENIED: Final = "RobotsDenied"


def replay_of(biz: str, request_id: RequestId, reason: str) -> str:
    """Write the command that has a dead letter worked on again, by the rule that may be mended.

    >>> replay_of("news", 17, "PageGone"), replay_of("news", 17, "Extract")
    ('crawlfleet dead replay news 17', 'crawlfleet dead replay news 17 --current-rule')
    """
    command = f"crawlfleet dead replay {biz} {request_id}"
    return f"{command} --current-rule" if reason in OF_RULE else command


def _reasons() -> Iterator[str]:
    roots = (
        errors.FetchError,
        errors.ExtractError,
        errors.ReaderKilledError,
        errors.UnknownRuleError,
    )
    kinds: list[type[errors.CrawlfleetError]] = [*roots]
    while kinds:
        kind = kinds.pop()
        below = [each for each in kind.__subclasses__() if each.__module__ == errors.__name__]
        kinds += below
        if not below:
            yield _named(kind)
    yield from (CUT_OFF, INTERNAL, UNSTORABLE, UNREADABLE, OVER_QUOTA)


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

    >>> reason_of(errors.ThrottledError("answered 429"))
    'Throttled'
    """
    return _named(type(error)) if isinstance(error, errors.CrawlfleetError) else INTERNAL


def after_failure(
    error: errors.CrawlfleetError, attempt: int, limits: RetryLimits, now: datetime, jitter: float
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
    if isinstance(error, errors.ThrottledError) and error.retry_after_seconds is not None:
        asked = min(error.retry_after_seconds, LONGEST_RETRY_AFTER.total_seconds())
        delay = max(delay, timedelta(seconds=asked))
    return Retry(now + delay, text, reason, None if answer is None else answer.facts())
