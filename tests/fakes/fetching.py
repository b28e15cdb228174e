"""In-memory fakes answer fetches from a table and keep the cookies of jobs."""

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Final, Self

import msgspec

from tests.kit.config import FetchLimits
from tests.kit.fetching import (
    NO_FETCH_CONTEXT,
    FetchContext,
    Followed,
    HeaderBook,
    HeldUpError,
    HopGuard,
    error_for,
    error_for_type,
    first_hop,
)
from tests.kit.kernel import FetchError, PageGoneError, QueueKey, TooLargeError
from tests.kit.requests import Answer, Body, Page


class MemoryFetcher:
    """Serves ``answers`` by URL, params included; what is not among them answers 404.

    An answer is a page, its bytes alone, or the error to raise. ``asked`` lists the requests made,
    in order, ``errands`` what each was made for. It refuses what the real one refuses before it
    connects. A page whose ``etag`` is asked for comes as a 304.
    """

    def __init__(self, answers: Mapping[str, Page | bytes | FetchError]) -> None:
        self.answers = dict(answers)
        self.asked: list[Body] = []
        self.fetch_contexts: list[FetchContext] = []
        self._headers = HeaderBook()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    async def fetch(
        self,
        body: Body,
        limits: FetchLimits,
        hop_guard: HopGuard | None = None,
        fetch_context: FetchContext = NO_FETCH_CONTEXT,
    ) -> Page:
        """Get the answer to ``body``."""
        hop = first_hop(self._headers, body, limits, fetch_context.validators)
        url = str(hop.url)
        answer = self.answers.get(url)
        hops = answer.redirects if isinstance(answer, Page) else ()
        later = (*hops[1:], answer.url) if isinstance(answer, Page) and hops else ()
        places = (hop.asked, *later)
        for number in range(len(fetch_context.followed), len(places)):
            if hop_guard is None:
                break
            try:
                await hop_guard(places[number].partition("#")[0])
            except HeldUpError as error:
                error.followed = tuple(
                    Followed(status=302, place=one) for one in places[1 : number + 1]
                )
                raise
        self.asked.append(body)
        self.fetch_contexts.append(fetch_context)
        if answer is None:
            gone = Answer.of(url, 404, {}, 0.0)
            raise PageGoneError("answered 404", status=404, answer=gone)
        if isinstance(answer, FetchError):
            raise answer
        page = (
            Page(url=url, status=200, headers={}, body=answer)
            if isinstance(answer, bytes)
            else answer
        )
        if len(hops) > limits.max_redirects:
            message = f"more than {limits.max_redirects} redirects (fetch.max_redirects)"
            raise TooLargeError(message, answer=Answer.of_page(page).facts())
        return _judged(page, hop.method, limits, fetch_context)


def _judged(page: Page, method: str, limits: FetchLimits, fetch_context: FetchContext) -> Page:
    """The page, where a site that is asked so would give it and the limits let it through."""
    facts = Answer.of_page(page).facts()
    if not 200 <= page.status < 300:
        if page.status == 304 and fetch_context.validators and method in {"GET", "HEAD"}:
            return page
        failure = error_for(page.status, page.headers.get("retry-after"), datetime.now(UTC))
        if failure is not None:
            failure.answer = Answer.of_page(page)
            raise failure
    if unwanted := error_for_type(page.content_type, limits.content_types):
        unwanted.answer = facts
        raise unwanted
    same = page.headers.get("etag")
    if (
        same
        and fetch_context.validators
        and fetch_context.validators.etag == same
        and method in {"GET", "HEAD"}
    ):
        return msgspec.structs.replace(page, status=304, body=b"")
    if len(page.body) > limits.max_body_bytes:
        most = f"{limits.max_body_bytes:,} bytes (fetch.max_body_bytes)"
        message = f"the body is larger than {most}"
        raise TooLargeError(message, answer=Answer.of_page(page))
    return page


_LIFE: Final = timedelta(days=1)
_MAX_BYTES: Final = 262_144


class MemorySessions:
    """In-memory cookies of jobs; as on Redis, the queues of a biz share its jobs."""

    def __init__(
        self, *, life: timedelta = _LIFE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = life.total_seconds()
        self._clock = clock
        self._kept: dict[tuple[str, str, str], tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    def load(self, queue_key: QueueKey, job: str) -> bytes | None:
        """Get the cookies that were saved last, if any."""
        key = queue_key.tenant, queue_key.biz, job
        with self._lock:
            cookies, until = self._kept.get(key, (None, 0.0))
            if cookies is not None and until <= self._clock():
                del self._kept[key]
                return None
            return cookies

    def save(self, queue_key: QueueKey, job: str, cookies: bytes) -> None:
        """Save, unless it is too long."""
        if len(cookies) <= _MAX_BYTES:
            with self._lock:
                until = self._clock() + self._seconds
                self._kept[queue_key.tenant, queue_key.biz, job] = bytes(cookies), until
