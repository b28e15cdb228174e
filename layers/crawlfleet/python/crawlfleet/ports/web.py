"""The sites that are crawled, and what is made of their pages."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from crawlfleet.model.biz import FetchLimits
from crawlfleet.model.harvest import Harvest, Link, Skipped
from crawlfleet.model.lane import Lane
from crawlfleet.model.proxy import ProxyPool
from crawlfleet.model.recrawl import Validators
from crawlfleet.model.request import Body
from crawlfleet.model.rule import Rule
from crawlfleet.model.spider import Spider
from crawlfleet.page import Page

#: Asked with a URL right before anything is sent to it, at each hop. It returns when it is its turn
#: there, or raises what the download is to end with: LeaseLostError, RobotsDeniedError,
#: ThrottledError.
Passage: TypeAlias = Callable[[str], Awaitable[None]]


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """Whose download it is, and by which way it leaves.

    Cookies are kept by ``lane`` and ``job``. ``proxies`` is the pool to leave through, by the name
    ``pool``. With ``validators`` a page that has not changed comes as a 304 without a body.
    """

    lane: Lane | None = None
    job: str | None = None
    pool: str | None = None
    proxies: ProxyPool | None = None
    validators: Validators | None = None


NO_ERRAND = Errand()


class Fetcher(Protocol):
    """Downloads."""

    async def fetch(
        self,
        body: Body,
        limits: FetchLimits,
        passage: Passage | None = None,
        errand: Errand = NO_ERRAND,
    ) -> Page:
        """Download one page, redirects followed.

        Raises:
            LeaseLostError: the request is not ours any more; nothing more was sent.
            FetchError: one of its kinds, for anything that is no 2xx answer within the limits.
        """
        ...


class Extractor(Protocol):
    """Applies rules."""

    def harvest(
        self, rule: Rule, page: Page, depth: int = 0, meta: Mapping[str, Any] | None = None
    ) -> Harvest:
        """The records and links of a page that lies ``depth`` links from where the crawl began.

        ``meta`` is its request's: there it says which page of a list it is (policy.following).

        Raises:
            ExtractError: names the field that could not be read.
        """
        ...


class Executors(Protocol):
    """Applies spiders that are no rules."""

    def read(
        self, spider: Spider, page: Page, body: Body
    ) -> Iterator[dict[str, object] | Link | Skipped]:
        """Records, as mappings of their fields, links, and what is left out, as they are found.

        Raises:
            ExtractError: names what could not be read; what came before it counts for nothing.
        """
        ...


class Sessions(Protocol):
    """Cookies of jobs, for whichever worker needs them next."""

    def load(self, lane: Lane, job: str) -> bytes | None:
        """What was saved last, or None."""
        ...

    def save(self, lane: Lane, job: str, cookies: bytes) -> None:
        """Save; forgotten a day after the last save."""
        ...
