"""The worker's downloader: one page at a time per call, many calls at once on one event loop.

Everything that comes from outside is bounded while it arrives: the address of each socket, the
size of headers and body, encoded and decoded, the hops, the time. The journey of a request's work
passes through here ("its work" in DESIGN.md).
"""

import asyncio
import io
import ipaddress
import ssl
from collections.abc import Callable
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
from crawlfleet.crawling.fetching.cookies import Jars, OpenJar
from crawlfleet.crawling.fetching.dns import FRESH_SECONDS, Names
from crawlfleet.crawling.fetching.models import (
    NO_FETCH_CONTEXT,
    FetchContext,
    HopGuard,
    Sessions,
    error_for,
    error_for_type,
)
from crawlfleet.crawling.fetching.proxies import Proxies, Way
from crawlfleet.crawling.fetching.request import REDIRECTS, HeaderBook, Hop, first_hop, next_hop
from crawlfleet.crawling.fetching.response import (
    SAMPLE_SECONDS,
    BodyRoom,
    Gathering,
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
#: aiohttp warns of larger bodies unless they come as a file.
_PLAIN_PAYLOAD_BYTES: Final = 1_000_000


def _now() -> datetime:
    return datetime.now(UTC)


class Run:
    """One download from its first hop to its end. Waiting between hops is not its time.

    ``before`` is what the hops before this one have taken.
    """

    __slots__ = (
        "_began", "_clock", "before", "conditional", "jar", "limits", "redirects", "trail", "way"
    )  # fmt: skip

    def __init__(
        self,
        limits: FetchLimits,
        way: Way | None,
        jar: OpenJar | None,
        *,
        conditional: bool,
        sample_seconds: float,
    ) -> None:
        self.limits = limits
        self.way = way
        self.jar = jar
        self.conditional = conditional
        self.trail = Trail(sample_seconds)
        self.redirects: list[str] = []
        self.before = self._began = 0.0
        # The event loop's own clock, by which its time-outs count as well.
        self._clock = asyncio.get_running_loop().time

    def go_on(self) -> None:
        """A hop begins."""
        self._began = self._clock()

    def pause(self) -> None:
        """The hop has ended."""
        self.before = self.seconds

    @property
    def seconds(self) -> float:
        """What the download has taken so far, while it is under way."""
        return self.before + self._clock() - self._began


class AiohttpFetcher:
    """Downloads over aiohttp; an asynchronous context manager, for one event loop.

    Args:
        allow_private: Switches the check of addresses off, for a stage on one's own machine.
        may_connect: The check.
        clock: The time of day, by which a Retry-After counts.
        resolver: Replaces the system's.
        ssl_context: Replaces the system's authorities.
        sessions: Where the cookies of jobs are kept for other workers; None keeps them here.
        read_secret: The text of a secret by its name, for lists of proxies. It is asked again
            every few minutes, so it should not remember. Without it no pool of proxies is usable.
        room: How many bytes of bodies may be in flight at once.
        slots: How many downloads of one host may be.
        proxies: What several fetchers know of proxies together, in the place of ``read_secret``.
        source_address: By which of the machine's addresses downloads leave; None for any.
        sample_seconds: How long the beginning of an error page is waited for.
        name_seconds: How long it is believed where a host is.
    """

    def __init__(
        self,
        allow_private: bool,
        *,
        may_connect: MayConnect = is_public,
        clock: Clock = _now,
        resolver: AbstractResolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        sessions: Sessions | None = None,
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
        # Those to proxies by whether these may have private addresses.
        self._to_proxies: dict[bool, aiohttp.ClientSession] = {}
        self._slots = HostSlots() if slots is None else slots
        self._headers = HeaderBook()
        self._room = BodyRoom(ROOM_BYTES) if room is None else room
        self._jars = Jars(sessions)
        self._proxies = Proxies(read_secret) if proxies is None else proxies

    async def __aenter__(self) -> Self:
        self._tls = self._ssl_context or system_tls()
        self._names = Names(self._resolver, fresh_seconds=self._name_seconds)
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
        """Download one page (see ``ports.Fetcher``).

        Redirects are followed by hand, so that each hop waits for its turn: first for a slot of its
        host in this worker, then in ``passage``. Neither takes time off.

        Raises:
            FetchError: one of its kinds; nothing else leaves but a cancellation, and whatever
                ``passage`` raises.
        """
        if self._direct is None:
            raise RuntimeError("AiohttpFetcher is used outside of its 'async with'")
        hop = first_hop(self._headers, body, limits, fetch_context.validators)
        way = jar = held = None
        if fetch_context.proxies is not None:
            way = await self._proxies.way(fetch_context, hop.host)
        if limits.cookies and fetch_context.job is not None and fetch_context.queue_key is not None:
            jar = await self._jars.open(fetch_context.queue_key, fetch_context.job)
        run = Run(
            limits,
            way,
            jar,
            conditional=bool(fetch_context.validators),
            sample_seconds=self._sample_seconds,
        )
        try:
            while True:
                key = hop.host, limits.per_host
                if key != held:
                    if held is not None:
                        self._slots.leave(held)
                        held = None
                    if not self._slots.take(key):
                        await self._slots.wait(key)
                    held = key
                if hop_guard is not None:
                    await hop_guard(hop.asked)
                end = await self._ask(hop, run)
                if isinstance(end, Page):
                    return end
                hop = end
        finally:
            if held is not None:
                self._slots.leave(held)

    async def _ask(self, hop: Hop, run: Run) -> Page | Hop:
        """The border: whatever a site provokes ends here, as one of our errors."""
        before = run.trail.last
        run.go_on()
        try:
            return await self._exchange(hop, run)
        except FetchError as error:
            error.answer = _answer(run)
            raise
        except Exception as error:
            known = _known(error, run, answered=run.trail.last is not before)
            known.answer = _answer(run)
            if run.way is None:
                raise known from error
        finally:
            run.pause()
        # Outside of the handler: what aiohttp says of a proxy is not to be seen in any log.
        raise known

    async def _exchange(self, hop: Hop, run: Run) -> Page | Hop:
        limits, way = run.limits, run.way
        left = limits.total_seconds - run.before
        if left <= 0:
            raise FetchTimeoutError("the answer took longer than fetch.total_seconds")
        deadline = asyncio.get_running_loop().time() + left
        headers = hop.headers if run.jar is None else _with_cookies(hop, run.jar)
        session, proxy, proxy_headers = self._direct, None, None
        if way is not None:
            await self._judge(hop.url, limits.connect_seconds)
            session, proxy = self._session_to(way), way.proxy.url
            if way.proxy.authorization is not None:
                reported = {"Proxy-Authorization": way.proxy.authorization}
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
            run.trail.last = response
            if way is not None:
                _judge_proxy(way, hop, response.status)
            if run.jar is not None and (said := response.headers.getall("Set-Cookie", ())):
                run.jar.jar.learn(hop.url, said)
                self._jars.exchange(run.jar)
            return await self._read(hop, run, response, deadline)

    async def _read(
        self, hop: Hop, run: Run, response: aiohttp.ClientResponse, deadline: float
    ) -> Page | Hop:
        """The page that the answer is, or where it sends us."""
        limits, status, content = run.limits, response.status, b""
        if status in REDIRECTS and (place := response.headers.get("Location")):
            if len(run.redirects) >= limits.max_redirects:
                raise TooLargeError(f"more than {limits.max_redirects} redirects", status=status)
            run.redirects.append(str(hop.url))
            return next_hop(hop, status, place)
        if 200 <= status < 300:
            said = response.headers.get("Content-Type")
            if limits.content_types and (error := error_for_type(said, limits.content_types)):
                raise error
            with self._room.share() as share:
                gathering = Gathering(limits.max_body_bytes, share, deadline, run.trail)
                content = await gathering.content(response)
        elif not (status == 304 and run.conditional and hop.method in {"GET", "HEAD"}):
            retry_after = response.headers.get("Retry-After")
            if failure := error_for(status, retry_after, self._clock()):
                await run.trail.sample(response, limits.max_body_bytes)
                raise failure
        return Page(
            url=str(hop.url),
            status=status,
            headers=headers_of(response),
            body=content,
            redirects=tuple(run.redirects),
            seconds=run.seconds,
        )

    def _session_to(self, way: Way) -> aiohttp.ClientSession:
        session = self._to_proxies.get(way.allow_private)
        if session is None:
            may_connect = None if way.allow_private else self._may_connect
            session = open_session(self._names, self._tls, may_connect, self._source_address)
            self._to_proxies[way.allow_private] = session
        return session

    async def _judge(self, url: URL, seconds: float) -> None:
        """Is the target public, as far as can be seen from here? A proxy will not ask.

        Every address is judged, because the proxy may take any.
        """
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
                raise ConnectFailedError("the host's name leads nowhere") from error
            addresses = [place["host"] for place in found]
        if not all(map(self._may_connect, addresses)):
            raise AddressRefusedError("the host leads to an address that is not public")


def _with_cookies(hop: Hop, opened: OpenJar) -> CIMultiDict[str]:
    """The hop's headers with the job's cookies behind those that the request itself brings."""
    cookies = opened.jar.header(hop.url)
    if not cookies:
        return hop.headers
    headers = hop.headers.copy()
    own = headers.get("Cookie")
    headers["Cookie"] = f"{own}; {cookies}" if own else cookies
    return headers


def _judge_proxy(way: Way, hop: Hop, status: int) -> None:
    if status == 407 and hop.url.scheme == "http":  # over https the proxy answers CONNECT only
        way.refused_us()
        raise ConnectFailedError("the proxy does not take our credentials")
    way.succeeded()


def _known(error: Exception, run: Run, *, answered: bool) -> FetchError:
    way = run.way
    if way is None or answered:
        return translated(error)
    known, at_fault = translated_behind_proxy(error, way.proxy.url)
    if isinstance(error, aiohttp.ClientHttpProxyError) and error.status == 407:
        way.refused_us()
    elif at_fault:
        way.failed()
    return known


def _answer(run: Run) -> Answer | None:
    secret = None if run.way is None else run.way.proxy.authorization
    return run.trail.answer(run.seconds, secret)


def _payload(payload: bytes | None) -> bytes | io.BytesIO | None:
    if payload is not None and len(payload) > _PLAIN_PAYLOAD_BYTES:
        return io.BytesIO(payload)
    return payload
