"""The sites that are crawled, and what is made of their pages."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

import msgspec

from crawlfleet.config.documents.biz import FetchLimits, ProxyPool
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.queue_key import Lane
from crawlfleet.requests.models import Body, Validators

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


class Sessions(Protocol):
    """Cookies of jobs, for whichever worker needs them next."""

    def load(self, lane: Lane, job: str) -> bytes | None:
        """What was saved last, or None."""
        ...

    def save(self, lane: Lane, job: str, cookies: bytes) -> None:
        """Save; forgotten a day after the last save."""
        ...
