"""Download pages over aiohttp: one page a call, many calls at once on one event loop.

Everything that comes from outside is bounded while it arrives: the address of each socket, the
size of headers and body, encoded and decoded, the hops, the time.
"""

import asyncio
import io
import ipaddress
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

import aiohttp
from aiohttp.abc import AbstractResolver
from multidict import CIMultiDict
from yarl import URL

from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.crawling.fetching.connections import (
    HostSlots,
    MayConnect,
    first_byte_seconds,
    open_session,
    system_tls,
    timeout,
    translated,
    translated_behind_proxy,
)
from crawlfleet.crawling.fetching.cookies import Jars, OpenJar, RedisSessions
from crawlfleet.crawling.fetching.dns import FRESH_SECONDS, CachedResolver
from crawlfleet.crawling.fetching.models import (
    NO_FETCH_CONTEXT,
    FetchContext,
    HopGuard,
    error_for,
    error_for_type,
)
from crawlfleet.crawling.fetching.proxies import Proxies, ProxyRoute
from crawlfleet.crawling.fetching.request import REDIRECTS, HeaderBook, Hop, first_hop, next_hop
from crawlfleet.crawling.fetching.response import (
    SAMPLE_SECONDS,
    BodyReader,
    BodyRoom,
    Trail,
    headers_of,
)
from crawlfleet.kernel.errors import (
    AddressRefusedError,
    ConnectFailedError,
    FetchError,
    FetchTimeoutError,
    TooLargeError,
)
from crawlfleet.kernel.page import Answer, Page
from crawlfleet.kernel.time import Clock
from crawlfleet.kernel.urls import is_public
from crawlfleet.requests.models import Body

#: Bytes of bodies in flight at once, over all downloads.
ROOM_BYTES: Final = 256_000_000
#: aiohttp warns of larger request bodies unless they come as a file.
_PLAIN_PAYLOAD_BYTES: Final = 1_000_000


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True, kw_only=True, eq=False)
class Download:
    """A download from its first hop to its end; waits between hops do not count as its time.

    ``before`` are the seconds of the hops before this one.
    """

    limits: FetchLimits
    route: ProxyRoute | None
    jar: OpenJar | None
    conditional: bool
    trail: Trail
    redirects: list[str] = field(default_factory=list)
    before: float = 0.0
    _began: float = 0.0
    # The event loop's clock, which its time-outs use as well.
    _clock: Callable[[], float] = field(default_factory=lambda: asyncio.get_running_loop().time)

    def go_on(self) -> None:
        """Begin a hop."""
        self._began = self._clock()

    def pause(self) -> None:
        """End the hop."""
        self.before = self.seconds

    @property
    def seconds(self) -> float:
        """Seconds that the download has taken so far."""
        return self.before + self._clock() - self._began


class AiohttpFetcher:
    """Download over aiohttp; an asynchronous context manager, for one event loop.

    Args:
        allow_private: Switches the check of addresses off, for a stage on one's own machine.
        may_connect: Checks an address.
        clock: The time of day, for Retry-After.
        resolver: Replaces the system's.
        ssl_context: Replaces the system's authorities.
        sessions: Keeps the cookies of jobs for other workers; None keeps them here.
        read_secret: Reads the text of a secret, for lists of proxies; it must not cache, as lists
            are read again every few minutes. Without it no pool of proxies is usable.
        room: Bounds the bytes of bodies in flight.
        slots: Bound the downloads of one host.
        proxies: Proxies shared by several fetchers, instead of ``read_secret``.
        source_address: The machine's address that downloads leave by; None for any.
        sample_seconds: How long to wait for the beginning of an error page.
        name_seconds: How long an address of a host is kept.
    """

    def __init__(
        self,
        allow_private: bool,
        *,
        may_connect: MayConnect = is_public,
        clock: Clock = _now,
        resolver: AbstractResolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        sessions: RedisSessions | None = None,
        read_secret: Callable[[str], str] | None = None,
        room: BodyRoom | None = None,
        slots: HostSlots | None = None,
        proxies: Proxies | None = None,
        source_address: str | None = None,
        sample_seconds: float = SAMPLE_SECONDS,
        name_seconds: float = FRESH_SECONDS,
    ) -> None:
        self._name_seconds = name_seconds
        self._sample_seconds = sample_seconds
        self._source_address = source_address
        self._may_connect = None if allow_private else may_connect
        self._clock = clock
        self._resolver = resolver
        self._ssl_context = ssl_context
        self._direct: aiohttp.ClientSession | None = None
        # Sessions to proxies, by whether these may have private addresses.
        self._to_proxies: dict[bool, aiohttp.ClientSession] = {}
        self._slots = HostSlots() if slots is None else slots
        self._headers = HeaderBook()
        self._room = BodyRoom(ROOM_BYTES) if room is None else room
        self._jars = Jars(sessions)
        self._proxies = Proxies(read_secret) if proxies is None else proxies

    async def __aenter__(self) -> Self:
        self._tls = self._ssl_context or system_tls()
        self._names = CachedResolver(self._resolver, fresh_seconds=self._name_seconds)
        self._direct = open_session(self._names, self._tls, self._may_connect, self._source_address)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._direct is None:
            return
        sessions = [self._direct, *self._to_proxies.values()]
        self._direct = None
        self._to_proxies.clear()
        await self._jars.close()
        for session in sessions:
            await session.close()
        await self._names.close()

    async def fetch(
        self,
        body: Body,
        limits: FetchLimits,
        hop_guard: HopGuard | None = None,
        fetch_context: FetchContext = NO_FETCH_CONTEXT,
    ) -> Page:
        """Download one page.

        Redirects are followed by hand, so that each hop waits: first for a slot of its host in this
        worker, then in ``hop_guard``. Neither counts as the download's time.

        Raises:
            FetchError: one of its kinds; nothing else leaves but a cancellation and what
                ``hop_guard`` raises.
        """
        if self._direct is None:
            raise RuntimeError("AiohttpFetcher is used outside of its 'async with'")
        hop = first_hop(self._headers, body, limits, fetch_context.validators)
        route = jar = slot = None
        if fetch_context.proxies is not None:
            route = await self._proxies.route(fetch_context, hop.host)
        if limits.cookies and fetch_context.job is not None and fetch_context.queue_key is not None:
            jar = await self._jars.open(fetch_context.queue_key, fetch_context.job)
        download = Download(
            limits=limits,
            route=route,
            jar=jar,
            conditional=bool(fetch_context.validators),
            trail=Trail(self._sample_seconds),
        )
        try:
            while True:
                key = hop.host, limits.per_host
                if key != slot:
                    if slot is not None:
                        self._slots.leave(slot)
                        slot = None
                    if not self._slots.take(key):
                        await self._slots.wait(key)
                    slot = key
                if hop_guard is not None:
                    await hop_guard(hop.asked)
                end = await self._ask(hop, download)
                if isinstance(end, Page):
                    return end
                hop = end
        finally:
            if slot is not None:
                self._slots.leave(slot)

    async def _ask(self, hop: Hop, download: Download) -> Page | Hop:
        """Send one hop; whatever a site provokes becomes one of our errors."""
        before = download.trail.last
        download.go_on()
        try:
            return await self._exchange(hop, download)
        except FetchError as error:
            error.answer = _answer(download)
            raise
        except Exception as error:
            known = _known(error, download, answered=download.trail.last is not before)
            known.answer = _answer(download)
            if download.route is None:
                raise known from error
        finally:
            download.pause()
        # Outside of the handler: aiohttp's text about a proxy must not get into any log.
        raise known

    async def _exchange(self, hop: Hop, download: Download) -> Page | Hop:
        limits, route = download.limits, download.route
        left = limits.total_seconds - download.before
        if left <= 0:
            raise FetchTimeoutError("the answer took longer than fetch.total_seconds")
        deadline = asyncio.get_running_loop().time() + left
        headers = hop.headers if download.jar is None else _with_cookies(hop, download.jar)
        session, proxy, proxy_headers = self._direct, None, None
        if route is not None:
            await self._judge(hop.url, limits.connect_seconds)
            session, proxy = self._session_to(route), route.proxy.url
            if route.proxy.authorization is not None:
                reported = {"Proxy-Authorization": route.proxy.authorization}
                if hop.url.scheme == "https":
                    proxy_headers = reported
                else:
                    headers = headers.copy()
                    headers.update(reported)
        if session is None:
            raise ConnectFailedError("the fetcher has been closed")
        first_byte_seconds.set(limits.first_byte_seconds)
        async with session.request(
            hop.method,
            hop.url,
            headers=headers,
            data=_payload(hop.payload),
            timeout=timeout(limits.connect_seconds, left),
            allow_redirects=False,
            proxy=proxy,
            proxy_headers=proxy_headers,
        ) as response:
            download.trail.last = response
            if route is not None:
                _judge_proxy(route, hop, response.status)
            if download.jar is not None and (said := response.headers.getall("Set-Cookie", ())):
                download.jar.jar.learn(hop.url, said)
                self._jars.exchange(download.jar)
            return await self._read(hop, download, response, deadline)

    async def _read(
        self, hop: Hop, download: Download, response: aiohttp.ClientResponse, deadline: float
    ) -> Page | Hop:
        """Read the answer: a page, or the hop that a redirect asks for."""
        limits, status, content = download.limits, response.status, b""
        if status in REDIRECTS and (place := response.headers.get("Location")):
            if len(download.redirects) >= limits.max_redirects:
                raise TooLargeError(f"more than {limits.max_redirects} redirects", status=status)
            download.redirects.append(str(hop.url))
            return next_hop(hop, status, place)
        if 200 <= status < 300:
            said = response.headers.get("Content-Type")
            if limits.content_types and (error := error_for_type(said, limits.content_types)):
                raise error
            with self._room.share() as share:
                reader = BodyReader(limits.max_body_bytes, share, deadline, download.trail)
                content = await reader.content(response)
        elif not (status == 304 and download.conditional and hop.method in {"GET", "HEAD"}):
            retry_after = response.headers.get("Retry-After")
            if failure := error_for(status, retry_after, self._clock()):
                await download.trail.sample(response, limits.max_body_bytes)
                raise failure
        return Page(
            url=str(hop.url),
            status=status,
            headers=headers_of(response),
            body=content,
            redirects=tuple(download.redirects),
            seconds=download.seconds,
        )

    def _session_to(self, route: ProxyRoute) -> aiohttp.ClientSession:
        session = self._to_proxies.get(route.allow_private)
        if session is None:
            may_connect = None if route.allow_private else self._may_connect
            session = open_session(self._names, self._tls, may_connect, self._source_address)
            self._to_proxies[route.allow_private] = session
        return session

    async def _judge(self, url: URL, seconds: float) -> None:
        """Check that every address of the target is public, since a proxy may connect to any."""
        if self._may_connect is None:
            return
        host = url.host or ""
        try:
            ipaddress.ip_address(host)
            addresses = [host]
        except ValueError:
            try:
                async with asyncio.timeout(seconds):
                    found = await self._names.resolve(url.raw_host or "", url.port or 0)
            except OSError as error:
                if isinstance(error, TimeoutError):
                    raise FetchTimeoutError(
                        "looking up the host took longer than fetch.connect_seconds"
                    ) from error
                raise ConnectFailedError("host name not found") from error
            addresses = [place["host"] for place in found]
        if not all(map(self._may_connect, addresses)):
            raise AddressRefusedError("the host leads to an address that is not public")


def _with_cookies(hop: Hop, opened: OpenJar) -> CIMultiDict[str]:
    """Append the job's cookies to those of the request itself."""
    cookies = opened.jar.header(hop.url)
    if not cookies:
        return hop.headers
    headers = hop.headers.copy()
    own = headers.get("Cookie")
    headers["Cookie"] = f"{own}; {cookies}" if own else cookies
    return headers


def _judge_proxy(route: ProxyRoute, hop: Hop, status: int) -> None:
    if status == 407 and hop.url.scheme == "http":  # over https the proxy answers CONNECT only
        route.refused_us()
        raise ConnectFailedError("the proxy does not take our credentials")
    route.succeeded()


def _known(error: Exception, download: Download, *, answered: bool) -> FetchError:
    route = download.route
    if route is None or answered:
        return translated(error)
    known, at_fault = translated_behind_proxy(error, route.proxy.url)
    if isinstance(error, aiohttp.ClientHttpProxyError) and error.status == 407:
        route.refused_us()
    elif at_fault:
        route.failed()
    return known


def _answer(download: Download) -> Answer | None:
    secret = None if download.route is None else download.route.proxy.authorization
    return download.trail.answer(download.seconds, secret)


def _payload(payload: bytes | None) -> bytes | io.BytesIO | None:
    if payload is not None and len(payload) > _PLAIN_PAYLOAD_BYTES:
        return io.BytesIO(payload)
    return payload
