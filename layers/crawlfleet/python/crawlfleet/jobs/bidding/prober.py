"""Measures ways to sites with the fetcher's own manners, and with its checks of addresses."""

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver

from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.crawling.fetching.connections import MayConnect
from crawlfleet.crawling.fetching.downloader import AiohttpFetcher, Run
from crawlfleet.crawling.fetching.models import NO_FETCH_CONTEXT, FetchContext, HopGuard, error_for
from crawlfleet.crawling.fetching.proxies import Proxies
from crawlfleet.crawling.fetching.request import REDIRECTS, Hop
from crawlfleet.jobs.bidding.models import Probe
from crawlfleet.jobs.bidding.probing import REFUSALS, speed
from crawlfleet.kernel.errors import PageGoneError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.time import Clock
from crawlfleet.kernel.urls import is_public
from crawlfleet.requests.models import Body

#: The rest of a download's time is for what comes after the body.
_SPARE_SECONDS: Final = 0.02


def _now() -> datetime:
    return datetime.now(UTC)


class _PartialPage(Page, frozen=True, kw_only=True):
    """A page of which only the beginning was read; ``seconds`` are those to its first byte."""

    bytes_per_second: float | None = None


class _PartialFetcher(AiohttpFetcher):
    """The fetcher, but for what it does with an answer; one for a probe, so nothing is reused."""

    async def _read(
        self, hop: Hop, run: Run, response: aiohttp.ClientResponse, deadline: float
    ) -> Page | Hop:
        status, first_byte = response.status, run.seconds
        if status in REDIRECTS and response.headers.get("Location"):
            return await super()._read(hop, run, response, deadline)
        failure = error_for(status, response.headers.get("Retry-After"), self._clock())
        is_elsewhere = isinstance(failure, PageGoneError) and status not in REFUSALS
        if failure is not None and not is_elsewhere:
            raise failure
        return _PartialPage(
            url=str(hop.url),
            status=status,
            headers={},
            body=b"",
            redirects=tuple(run.redirects),
            seconds=first_byte,
            bytes_per_second=await _read_part(response, run.limits.max_body_bytes, deadline),
        )


async def _read_part(response: aiohttp.ClientResponse, most: int, deadline: float) -> float | None:
    """Read the beginning of a body to learn how fast it comes; what is late is not waited for."""
    clock = asyncio.get_running_loop().time
    began, count = clock(), 0
    try:
        async with asyncio.timeout_at(deadline - _SPARE_SECONDS):
            while count < most and (chunk := await response.content.readany()):
                count += len(chunk)
    except TimeoutError:
        pass  # so many bytes in all that time: that is its speed
    return speed(count, clock() - began)


class HttpProber:
    """A :class:`~crawlfleet.jobs.bidding.probing.Prober`; what it is made of is the fetcher's.

    Args:
        allow_private: Switches the check of addresses off, for a stage on one's own machine.
        may_connect: The check.
        clock: The time of day.
        resolver: Replaces the system's.
        ssl_context: Replaces the system's authorities.
        read_secret: The text of a secret by its name, for lists of proxies.
        source_address: The machine's address that the fetcher's downloads leave from.
    """

    def __init__(
        self,
        allow_private: bool,
        *,
        may_connect: MayConnect = is_public,
        clock: Clock = _now,
        resolver: AbstractResolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        read_secret: Callable[[str], str] | None = None,
        source_address: str | None = None,
    ) -> None:
        self._allow_private = allow_private
        self._may_connect = may_connect
        self._clock = clock
        self._resolver = resolver
        self._ssl_context = ssl_context
        self._source_address = source_address
        self._proxies = Proxies(read_secret)

    async def probe(
        self,
        url: str,
        limits: FetchLimits,
        hop_guard: HopGuard | None = None,
        fetch_context: FetchContext = NO_FETCH_CONTEXT,
    ) -> Probe:
        """See jobs.bidding.probing.Prober.probe."""
        body = Body(url=url, rule="probe", rule_version="")
        sipper = _PartialFetcher(
            self._allow_private,
            may_connect=self._may_connect,
            clock=self._clock,
            resolver=self._resolver,
            ssl_context=self._ssl_context,
            proxies=self._proxies,
            source_address=self._source_address,
        )
        async with sipper:
            page = await sipper.fetch(body, limits, hop_guard, fetch_context)
        return Probe(
            at=self._clock(),
            seconds=page.seconds,
            bytes_per_second=page.bytes_per_second if isinstance(page, _PartialPage) else None,
        )
