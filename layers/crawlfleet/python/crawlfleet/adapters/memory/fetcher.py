"""The fetcher's twin: answers from a table instead of the web."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import msgspec

from crawlfleet.adapters.http_hops import first_hop
from crawlfleet.adapters.http_request import HeaderBook
from crawlfleet.errors import FetchError, PageGoneError, TooLargeError
from crawlfleet.model.biz import FetchLimits
from crawlfleet.model.outcome import Answer, Page
from crawlfleet.model.request import Body
from crawlfleet.policy.web_status import error_for, error_for_type
from crawlfleet.ports import NO_ERRAND, Errand, Passage


class MemoryFetcher:
    """Serves ``answers`` by URL, params included; what is not among them answers 404.

    An answer is a page, its bytes alone, or the error to raise. ``asked`` lists the requests made,
    in order, ``errands`` what each was made for. It refuses what the real one refuses before it
    connects. A page whose ``etag`` is asked for comes as a 304.
    """

    def __init__(self, answers: Mapping[str, Page | bytes | FetchError]) -> None:
        self.answers = dict(answers)
        self.asked: list[Body] = []
        self.errands: list[Errand] = []
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
        passage: Passage | None = None,
        errand: Errand = NO_ERRAND,
    ) -> Page:
        """The answer to ``body`` (see ``ports.Fetcher``)."""
        hop = first_hop(self._headers, body, limits, errand.validators)
        url = str(hop.url)
        answer = self.answers.get(url)
        hops = answer.redirects if isinstance(answer, Page) else ()
        if passage is not None:
            later = (*hops[1:], answer.url) if isinstance(answer, Page) and hops else ()
            for place in (hop.asked, *later):
                await passage(place.partition("#")[0])
        self.asked.append(body)
        self.errands.append(errand)
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
            message = f"more than {limits.max_redirects} redirects"
            raise TooLargeError(message, answer=Answer.of_page(page).facts())
        return _judged(page, hop.method, limits, errand)


def _judged(page: Page, method: str, limits: FetchLimits, errand: Errand) -> Page:
    """The page, where a site that is asked so would give it and the limits let it through."""
    facts = Answer.of_page(page).facts()
    if not 200 <= page.status < 300:
        if page.status == 304 and errand.validators and method in {"GET", "HEAD"}:
            return page
        failure = error_for(page.status, page.headers.get("retry-after"), datetime.now(UTC))
        if failure is not None:
            failure.answer = Answer.of_page(page)
            raise failure
    if unwanted := error_for_type(page.content_type, limits.content_types):
        unwanted.answer = facts
        raise unwanted
    same = page.headers.get("etag")
    if same and errand.validators and errand.validators.etag == same and method in {"GET", "HEAD"}:
        return msgspec.structs.replace(page, status=304, body=b"")
    if len(page.body) > limits.max_body_bytes:
        message = f"the body is larger than {limits.max_body_bytes:,} bytes"
        raise TooLargeError(message, answer=Answer.of_page(page))
    return page
