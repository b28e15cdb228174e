"""The fetcher's twin: answers from a table instead of the web."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from crawlfleet.adapters.http_request import HeaderBook, method_of, payload_of, url_of
from crawlfleet.errors import FetchError, LeaseLostError, PageGoneError, TooLargeError
from crawlfleet.model.biz import FetchLimits
from crawlfleet.model.outcome import Answer, Page
from crawlfleet.model.request import Body
from crawlfleet.ports import Ours


class MemoryFetcher:
    """Serves ``answers`` by URL, params included; what is not among them answers 404.

    An answer is a page, its bytes alone, or the error to raise. ``asked`` lists the requests made,
    in order. It refuses what the real one refuses before it connects.
    """

    def __init__(self, answers: Mapping[str, Page | bytes | FetchError]) -> None:
        self.answers = dict(answers)
        self.asked: list[Body] = []
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

    async def fetch(self, body: Body, limits: FetchLimits, ours: Ours | None = None) -> Page:
        """The answer to ``body`` (see ``ports.Fetcher``)."""
        if ours is not None and not await ours():
            raise LeaseLostError("another worker owns the request")
        url = str(url_of(body))
        method_of(body)
        self._headers.headers_of(body, limits)
        payload_of(body)
        self.asked.append(body)
        answer = self.answers.get(url)
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
        if len(page.body) > limits.max_body_bytes:
            message = f"the body is larger than {limits.max_body_bytes:,} bytes"
            raise TooLargeError(message, answer=Answer.of_page(page))
        if len(page.redirects) > limits.max_redirects:
            message = f"more than {limits.max_redirects} redirects"
            raise TooLargeError(message, answer=Answer.of_page(page).facts())
        return page
