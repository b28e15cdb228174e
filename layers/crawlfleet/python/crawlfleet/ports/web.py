"""The sites that are crawled, and what is made of their pages."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from crawlfleet.model.biz import FetchLimits
from crawlfleet.model.outcome import Page
from crawlfleet.model.request import Body
from crawlfleet.model.rule import Rule

#: Whether what is about to be done is still this worker's to do.
Ours: TypeAlias = Callable[[], Awaitable[bool]]


class Fetcher(Protocol):
    """Downloads."""

    async def fetch(self, body: Body, limits: FetchLimits, ours: Ours | None = None) -> Page:
        """Download one page.

        ``ours`` is asked when it is the request's turn at its host, right before anything is sent.

        Raises:
            LeaseLostError: the request is not ours any more; nothing was sent.
            FetchError: one of its kinds, for anything that is no 2xx answer within the limits.
        """
        ...


class Extractor(Protocol):
    """Applies rules."""

    def extract(self, rule: Rule, page: Page) -> list[dict[str, object]]:
        """The records' fields, one mapping per record.

        Raises:
            ExtractError: names the field that could not be read.
        """
        ...
