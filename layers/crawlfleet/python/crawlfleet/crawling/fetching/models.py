"""Downloads: their context, the hop guard, and what a final HTTP status means for another try."""

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Protocol, TypeAlias

import msgspec

from crawlfleet.config.documents.biz import FetchLimits, ProxyPool
from crawlfleet.kernel import errors
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Body
from crawlfleet.requests.visits import Validators

#: Awaited with the URL of each hop right before it is sent. Returns when the hop may begin, or
#: raises the error that ends the download: LeaseLostError, RobotsDeniedError, ThrottledError,
#: HeldUpError.
HopGuard: TypeAlias = Callable[[str], Awaitable[None]]


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """A redirect that was followed: its status, where it led, the seconds that hop took."""

    status: int
    place: str
    seconds: float = 0.0


class HeldUpError(errors.CrawlfleetError):
    """The next hop may not be sent by this call; another one goes on behind these redirects."""

    followed: tuple[Followed, ...] = ()


class FetchContext(msgspec.Struct, frozen=True, kw_only=True):
    """The queue key and job whose cookies a download uses, and the proxies it leaves through.

    ``pool`` is the name of ``proxies``. With ``validators`` an unchanged page comes as a 304
    without a body. The redirects ``followed`` by an earlier call are not asked for again.
    """

    queue_key: QueueKey | None = None
    job: str | None = None
    pool: str | None = None
    proxies: ProxyPool | None = None
    validators: Validators | None = None
    followed: tuple[Followed, ...] = ()


NO_FETCH_CONTEXT = FetchContext()


class Fetcher(Protocol):
    """Download pages; a Protocol, so that nobody imports aiohttp who only annotates."""

    async def fetch(
        self,
        body: Body,
        limits: FetchLimits,
        hop_guard: HopGuard | None = None,
        fetch_context: FetchContext = NO_FETCH_CONTEXT,
    ) -> Page:
        """Download one page, redirects followed.

        Raises FetchError if the answer is no 2xx within the limits, LeaseLostError if another
        worker owns the request; nothing more was sent then.
        """
        ...


#: A longer Retry-After counts as this one.
MAX_RETRY_AFTER_SECONDS: Final = 604_800.0

_SECONDS: Final = re.compile(r"[0-9]{1,18}")
#: 425 Too Early, 429 Too Many Requests, 503 Service Unavailable: come back later.
_LATER: Final = frozenset({425, 429, 503})


def error_for(status: int, retry_after: str | None, now: datetime) -> errors.FetchError | None:
    """Get the error of a final status, or None for a page (200 to 299).

    A redirect counts as final when it names no place to go to. 408 is the site's own time-out.
    ``retry_after`` is the header of that name as it came.
    """
    if 200 <= status < 300:
        return None
    message = f"answered {status}"
    if status in _LATER:
        seconds = retry_after_seconds(retry_after, now)
        if seconds is not None:
            message += f", Retry-After {seconds:g} s"
        return errors.ThrottledError(message, status=status, retry_after_seconds=seconds)
    if status == 408:
        return errors.FetchTimeoutError(message, status=status)
    if 300 <= status < 500:
        return errors.PageGoneError(message, status=status)
    return errors.ServerFaultError(message, status=status)


def error_for_type(
    content_type: str | None, wanted: Sequence[str]
) -> errors.UnwantedTypeError | None:
    """Get the error of a page whose ``Content-Type`` is none of the ``wanted`` media types.

    ``text/*`` stands for every text, nothing for everything. A page that does not say what it is
    may be what is wanted.

    >>> error_for_type("text/HTML; charset=utf-8", ["image/png", "text/*"]) is None
    True
    >>> str(error_for_type("video/mp4", ["text/html"]))
    "is of type 'video/mp4', which the biz does not read"
    """
    said = (content_type or "").partition(";")[0].strip().lower()
    if not wanted or not said or said in wanted or f"{said.partition('/')[0]}/*" in wanted:
        return None
    return errors.UnwantedTypeError(f"is of type {said[:100]!r}, which the biz does not read")


def retry_after_seconds(value: str | None, now: datetime) -> float | None:
    """Get the seconds to wait from ``now`` of a Retry-After: seconds or an HTTP date, else None.

    >>> moment = datetime(2015, 10, 21, 7, 27, 30, tzinfo=UTC)
    >>> retry_after_seconds("120", moment)
    120.0
    >>> retry_after_seconds("Wed, 21 Oct 2015 07:28:00 GMT", moment)
    30.0
    """
    value = (value or "").strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), MAX_RETRY_AFTER_SECONDS)
    if not value or len(value) > 64:
        return None
    try:
        due_at = parsedate_to_datetime(value)
        if due_at.tzinfo is None:  # "-0000": a UTC time of unknown origin
            due_at = due_at.replace(tzinfo=UTC)
        seconds = (due_at - now).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
