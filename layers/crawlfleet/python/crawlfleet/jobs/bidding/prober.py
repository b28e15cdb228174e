"""Probe links to sites with the fetcher's politeness and its checks of addresses (SPEC.md B4)."""

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver

from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.crawling.fetching.connections import MayConnect, Reaches
from crawlfleet.crawling.fetching.download import Download
from crawlfleet.crawling.fetching.downloader import AiohttpFetcher, any_port
from crawlfleet.crawling.fetching.models import NO_FETCH_CONTEXT, FetchContext, HopGuard, error_for
from crawlfleet.crawling.fetching.proxies import Proxies
from crawlfleet.crawling.fetching.request import REDIRECTS, Hop
from crawlfleet.jobs.bidding.models import Probe
from crawlfleet.kernel.errors import PageGoneError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.time import Clock
from crawlfleet.kernel.urls import is_public
from crawlfleet.requests.models import Body

#: Seconds of a download's time that are left for what comes after the body.
_SPARE_SECONDS: Final = 0.02
#: Fewer bytes come in one flight and say nothing of speed, unless they took so long.
_CONCLUSIVE_BYTES: Final = 16_384
_CONCLUSIVE_SECONDS: Final = 0.25
#: No body is taken to have come in less.
_SHORTEST_SECONDS: Final = 0.001
#: 4xx that concern the client and not the page: the link is of no use. Others measure it.
_REFUSALS: Final = frozenset({401, 402, 403, 407, 451})


def speed(count: int, seconds: float) -> float | None:
    """Compute the bytes a second of a body; None where it says nothing of the link.

    >>> speed(65_536, 0.5), speed(300, 0.0001), speed(50, 5.0)
    (131072.0, None, 10.0)
    """
    if count < _CONCLUSIVE_BYTES and seconds < _CONCLUSIVE_SECONDS:
        return None
    return count / max(seconds, _SHORTEST_SECONDS)


def _now() -> datetime:
    return datetime.now(UTC)


class _PartialPage(Page, frozen=True, kw_only=True):
    """The beginning of a page; ``seconds`` are those to its first byte."""

    bytes_per_second: float | None = None


class _PartialFetcher(AiohttpFetcher):
    """A fetcher that reads only the beginning of a page; one for each probe reuses nothing."""

    async def _read(
        self, hop: Hop, download: Download, response: aiohttp.ClientResponse, deadline: float
    ) -> Page | Hop:
        status, first_byte = response.status, download.seconds
        if status in REDIRECTS and response.headers.get("Location"):
            return await super()._read(hop, download, response, deadline)
        failure = error_for(status, response.headers.get("Retry-After"), self._clock())
        is_elsewhere = isinstance(failure, PageGoneError) and status not in _REFUSALS
        if failure is not None and not is_elsewhere:
            raise failure
        return _PartialPage(
            url=str(hop.url),
            status=status,
            headers={},
            body=b"",
            redirects=tuple(download.redirects),
            seconds=first_byte,
            bytes_per_second=await _read_part(response, download.limits.max_body_bytes, deadline),
        )


async def _read_part(response: aiohttp.ClientResponse, most: int, deadline: float) -> float | None:
    """Read the beginning of a body, and compute its speed; late bytes are not waited for."""
    clock = asyncio.get_running_loop().time
    began, count = clock(), 0
    try:
        async with asyncio.timeout_at(deadline - _SPARE_SECONDS):
            while count < most and (chunk := await response.content.readany()):
                count += len(chunk)
    except TimeoutError:
        pass  # the bytes of all that time are its speed
    return speed(count, clock() - began)


class HttpProber:
    """Probes links, with one request each on a connection of its own.

    Its arguments are those of the fetcher; a probe shares its ``proxies``, whose requests may be
    other coroutines' of the same event loop.
    """

    def __init__(
        self,
        allow_private: bool | Callable[[], bool],
        *,
        may_connect: MayConnect = is_public,
        clock: Clock = _now,
        resolver: AbstractResolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        proxies: Proxies | None = None,
        source_address: str | None = None,
        may_ask: Callable[[int], bool] = any_port,
        is_store: Reaches | None = None,
    ) -> None:
        self._clock = clock
        self._fetcher = partial(
            _PartialFetcher,
            allow_private,
            may_connect=may_connect,
            clock=clock,
            resolver=resolver,
            ssl_context=ssl_context,
            proxies=Proxies(None) if proxies is None else proxies,
            source_address=source_address,
            may_ask=may_ask,
            is_store=is_store,
        )

    async def probe(
        self,
        url: str,
        limits: FetchLimits,
        hop_guard: HopGuard | None = None,
        fetch_context: FetchContext = NO_FETCH_CONTEXT,
    ) -> Probe:
        """Request the beginning of a page, and measure the link to its site.

        Of the body ``limits.max_body_bytes`` are read at most, undecoded, and for no longer than
        ``limits.total_seconds``. A page that is gone measures the link as well as one that is
        there. Redirects are followed as those of any download, and count into the first byte's
        time. Raises FetchError (the site gave no answer, or refused us).
        """
        body = Body(url=url, rule="probe", rule_version="")
        async with self._fetcher() as fetcher:
            page = await fetcher.fetch(body, limits, hop_guard, fetch_context)
        rate = page.bytes_per_second if isinstance(page, _PartialPage) else None
        return Probe(at=self._clock(), seconds=page.seconds, bytes_per_second=rate)
