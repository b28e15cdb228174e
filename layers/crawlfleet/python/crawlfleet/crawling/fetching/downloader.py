"""Download pages over aiohttp: one page a call, many calls at once on one event loop.

Everything that comes from outside is bounded while it arrives: the address of each socket, the
size of headers and body, encoded and decoded, the hops, the time.
"""

import asyncio
import functools
import io
import ipaddress
import ssl
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.config.documents.secret import Secret
from crawlfleet.crawling.fetching import connections, models
from crawlfleet.crawling.fetching.cookies import Jars
from crawlfleet.crawling.fetching.dns import FRESH_SECONDS, CachedResolver
from crawlfleet.crawling.fetching.download import Download
from crawlfleet.crawling.fetching.proxies import Proxies, ProxyRoute
from crawlfleet.crawling.fetching.proxy_health import Fault
from crawlfleet.crawling.fetching.request import REDIRECTS, HeaderBook, Hop, first_hop
from crawlfleet.crawling.fetching.response import (
    BY_PROXY,
    SAMPLE_SECONDS,
    BodyReader,
    BodyRoom,
    Trail,
    headers_of,
)
from crawlfleet.crawling.fetching.secrets import SecretTexts, nothing_reads
from crawlfleet.kernel import errors
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.redaction import NO_SECRETS, Mask
from crawlfleet.kernel.time import Clock
from crawlfleet.kernel.urls import is_public
from crawlfleet.requests.models import Body

if TYPE_CHECKING:
    from crawlfleet.crawling.fetching.redis import RedisSessions

#: Bytes of bodies in flight at once, over all downloads.
ROOM_BYTES: Final = 256_000_000
#: A site that answers so may have been sent a secret that is no longer the one.
_REFUSED: Final = frozenset({401, 403})
_GUARDED_MEANWHILE: Final = "the check of addresses has come into force; it is asked for anew"
#: aiohttp warns of larger request bodies unless they come as a file.
_PLAIN_PAYLOAD_BYTES: Final = 1_000_000


def any_port(_: int) -> bool:
    """Allow every port."""
    return True


class AiohttpFetcher:
    """Download over aiohttp; an asynchronous context manager, for one event loop.

    Args:
        allow_private: Switches the check of addresses off, for a stage on one's own machine; a
            function is asked at every hop. Once it says no, nothing goes or comes over a connection
            that was opened before.
        may_ask: Tells whether a port of a site may be asked; it is asked at every hop.
        is_store: Tells whether an address and port are the platform's own store's. Those are never
            connected to, whatever else is allowed.
        clock: The time of day, for Retry-After.
        sessions: Keeps the cookies of jobs for other workers; None keeps them here.
        read_secret: Reads the text of a secret, for lists of proxies; it must not cache, as lists
            are read again every few minutes. Without it no pool of proxies is usable.
        secrets: The texts of the secrets that headers refer to; without it they are not there.
        proxies: Proxies shared by several fetchers, instead of ``read_secret``.
        source_address: The machine's address that downloads leave by; None for any.
        sample_seconds: How long to wait for the beginning of an error page.
        name_seconds: How long an address of a host is kept.
    """

    def __init__(
        self,
        allow_private: bool | Callable[[], bool],
        *,
        may_connect: connections.MayConnect = is_public,
        may_ask: Callable[[int], bool] = any_port,
        is_store: connections.Reaches | None = None,
        clock: Clock = lambda: datetime.now(UTC),
        resolver: AbstractResolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        sessions: "RedisSessions | None" = None,
        read_secret: Callable[[str], str] | None = None,
        secrets: SecretTexts | None = None,
        room: BodyRoom | None = None,
        slots: connections.HostSlots | None = None,
        proxies: Proxies | None = None,
        source_address: str | None = None,
        sample_seconds: float = SAMPLE_SECONDS,
        name_seconds: float = FRESH_SECONDS,
    ) -> None:
        self._name_seconds, self._sample_seconds = name_seconds, sample_seconds
        self._source_address = source_address
        self._may_connect, self._may_ask, self._is_store = may_connect, may_ask, is_store
        self._allow_private = allow_private if callable(allow_private) else lambda: allow_private
        self._clock = clock
        self._resolver, self._ssl_context = resolver, ssl_context
        self._is_open = self._was_unguarded = False
        # By whether they lead to proxies, and whether they are guarded.
        self._sessions: dict[tuple[bool, bool], aiohttp.ClientSession] = {}
        self._slots = connections.HostSlots() if slots is None else slots
        self._headers = HeaderBook()
        self._room = BodyRoom(ROOM_BYTES) if room is None else room
        self._jars = Jars(sessions)
        self._proxies = Proxies(read_secret) if proxies is None else proxies
        self._secrets = SecretTexts(nothing_reads) if secrets is None else secrets

    async def __aenter__(self) -> Self:
        self._tls = self._ssl_context or connections.system_tls()
        self._names = CachedResolver(self._resolver, fresh_seconds=self._name_seconds)
        self._is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._is_open:
            return
        self._is_open = False
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await self._jars.close()
        for session in sessions:
            await session.close()
        await self._names.close()

    def fetch(
        self,
        body: Body,
        limits: FetchLimits,
        hop_guard: models.HopGuard | None = None,
        fetch_context: models.FetchContext = models.NO_FETCH_CONTEXT,
    ) -> Coroutine[Any, Any, Page]:
        """Download one page.

        Redirects are followed by hand, so that each hop waits: first for a slot of its host in this
        worker, then in ``hop_guard``. Neither counts as the download's time. Nothing leaves but the
        kinds of FetchError, a cancellation and what ``hop_guard`` raises.

        A page that refuses a secret is asked for once more where the secret has changed meanwhile.
        """
        if not self._is_open:
            raise RuntimeError("AiohttpFetcher is used outside of its 'async with'")
        references = [one.secret for one in limits.headers.values() if isinstance(one, Secret)]
        if not references:
            return self._fetch(body, limits, hop_guard, fetch_context, {})
        return self._fetch_by_secrets(body, limits, hop_guard, fetch_context, references)

    async def _fetch_by_secrets(
        self,
        body: Body,
        limits: FetchLimits,
        hop_guard: models.HopGuard | None,
        fetch_context: models.FetchContext,
        references: list[str],
    ) -> Page:
        tenant = fetch_context.queue_key.tenant if fetch_context.queue_key is not None else ""
        texts = await self._secrets.headers(tenant, references)
        try:
            return await self._fetch(body, limits, hop_guard, fetch_context, texts)
        except errors.FetchError as error:
            if error.status not in _REFUSED or not await self._secrets.renewed(tenant, texts):
                raise
        texts = await self._secrets.headers(tenant, references)
        return await self._fetch(body, limits, hop_guard, fetch_context, texts)

    async def _fetch(
        self,
        body: Body,
        limits: FetchLimits,
        hop_guard: models.HopGuard | None,
        fetch_context: models.FetchContext,
        texts: Mapping[str, str],
    ) -> Page:
        """Download one page with the texts of its secrets."""
        hop = first_hop(self._headers, body, limits, fetch_context.validators, texts)
        route = jar = slot = None
        if fetch_context.proxies is not None:
            route = await self._proxies.route(fetch_context, hop.host)
        if limits.cookies and fetch_context.job is not None and fetch_context.queue_key is not None:
            jar = await self._jars.open(fetch_context.queue_key, fetch_context.job)
        tenant = None if fetch_context.queue_key is None else fetch_context.queue_key.tenant
        download = Download(
            tenant=tenant,
            limits=limits,
            route=route,
            jar=jar,
            conditional=bool(fetch_context.validators),
            trail=Trail(self._sample_seconds),
            mask=Mask(texts.values()) if texts else NO_SECRETS,
        )
        if fetch_context.followed:
            hop = download.resume(hop, fetch_context.followed)
        try:
            while True:
                key = hop.host, limits.per_host, tenant
                if key != slot:
                    if slot is not None:
                        self._slots.leave(slot)
                        slot = None
                    if not self._slots.take(key):
                        await self._slots.wait(key)
                    slot = key
                if hop_guard is not None:
                    await download.pass_guard(hop_guard, hop)
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
        except errors.FetchError as error:
            _tell(error, download)
            raise
        except Exception as error:
            known = _known(error, download, hop, answered=download.trail.last is not before)
            _tell(known, download)
            if download.route is None:
                raise known from error
        finally:
            download.pause()
        # Outside of the handler: aiohttp's text about a proxy must not get into any log.
        raise known

    async def _exchange(self, hop: Hop, download: Download) -> Page | Hop:
        limits, route = download.limits, download.route
        payload: bytes | io.BytesIO | None = hop.payload
        if hop.payload is not None and len(hop.payload) > _PLAIN_PAYLOAD_BYTES:
            payload = io.BytesIO(hop.payload)
        left = limits.total_seconds - download.before
        if left <= 0:
            raise errors.FetchTimeoutError("the answer took longer than fetch.total_seconds")
        deadline = asyncio.get_running_loop().time() + left
        headers = (
            hop.headers if download.jar is None else download.jar.sent_with(hop.headers, hop.url)
        )
        is_guarded, proxy, proxy_headers = not self._allow_private(), None, None
        url, server_name, told = hop.url, None, None
        if not self._may_ask(hop.url.port or 0):
            message = f"port {hop.url.port} is none that may be asked (ports of the stage)"
            raise errors.AddressRefusedError(message)
        if is_guarded and self._was_unguarded:
            await self._close_unguarded()
        if route is not None:
            told = BY_PROXY
            if is_guarded or self._is_store is not None:
                address = await self._judge(hop.url, limits.connect_seconds, is_guarded)
                if is_guarded and not route.resolves_names:
                    # Asked for by its name, the proxy could be led to another address.
                    told, url, server_name = address, hop.url.with_host(address), hop.url.raw_host
                    headers = headers.copy()
                    headers["Host"] = hop.url.host_port_subcomponent or ""
            route.begin()
            proxy = route.proxy.url
            if route.proxy.authorization is not None:
                reported = {"Proxy-Authorization": route.proxy.authorization}
                if hop.url.scheme == "https":
                    proxy_headers = reported
                else:
                    headers = headers.copy()
                    headers.update(reported)
        session = self._session(route, is_guarded)
        connections.first_byte_seconds.set(limits.first_byte_seconds)
        connections.tell_peer.set(download.trail.asking(told))
        async with session.request(
            hop.method,
            url,
            headers=headers,
            data=payload,
            timeout=connections.timeout(limits.connect_seconds, left),
            allow_redirects=False,
            proxy=proxy,
            proxy_headers=proxy_headers,
            server_hostname=server_name,
        ) as response:
            download.trail.answered(hop.url, response)
            if route is not None:
                _judge_proxy(route, hop, response.status)
            if download.jar is not None and (said := response.headers.getall("Set-Cookie", ())):
                download.jar.jar.learn(hop.url, said)
                self._jars.exchange(download.jar)
            end = await self._read(hop, download, response, deadline)
        if not is_guarded and not self._allow_private():
            raise errors.ConnectFailedError(_GUARDED_MEANWHILE)
        return end

    async def _read(
        self, hop: Hop, download: Download, response: aiohttp.ClientResponse, deadline: float
    ) -> Page | Hop:
        """Read the answer: a page, or the hop that a redirect asks for."""
        limits, status, content = download.limits, response.status, b""
        if status in REDIRECTS and (place := response.headers.get("Location")):
            if len(download.redirects) >= limits.max_redirects:
                message = f"more than {limits.max_redirects} redirects (fetch.max_redirects)"
                raise errors.TooLargeError(message, status=status)
            return download.follow(hop, status, place)
        if 200 <= status < 300:
            said, wanted = response.headers.get("Content-Type"), limits.content_types
            if wanted and (error := models.error_for_type(said, wanted)):
                raise error
            with self._room.share(download.tenant) as share:
                reader = BodyReader(limits.max_body_bytes, share, deadline, download.trail)
                content = await reader.content(response)
        elif not (status == 304 and download.conditional and hop.method in {"GET", "HEAD"}):
            retry_after = response.headers.get("Retry-After")
            if failure := models.error_for(status, retry_after, self._clock()):
                await download.trail.sample(response, limits.max_body_bytes)
                raise failure
        url, headers, redirects = str(hop.url), headers_of(response), download.redirects
        if mask := download.mask:
            # What a site echoes of a secret would be stored with its records.
            url, headers, content = mask.in_page(url), mask.headers(headers), mask.content(content)
            redirects = list(map(mask.in_page, redirects))
        return Page(
            url=url,
            status=status,
            headers=headers,
            body=content,
            redirects=tuple(redirects),
            seconds=download.seconds,
            peers=tuple(download.trail.peers),
        )

    def _session(self, route: ProxyRoute | None, is_guarded: bool) -> aiohttp.ClientSession:
        if not self._is_open:
            raise errors.ConnectFailedError("the fetcher has been closed")
        may_be_private = route is not None and route.allow_private
        key = route is not None, is_guarded and not may_be_private
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = connections.open_session(
                self._names,
                self._tls,
                functools.partial(self._reaches, key[1]),
                self._source_address,
            )
        self._was_unguarded = self._was_unguarded or not is_guarded
        return session

    def _reaches(self, is_guarded: bool, address: str, port: int) -> bool:
        if is_guarded and not self._may_connect(address):
            return False
        return self._is_store is None or not self._is_store(address, port)

    async def _close_unguarded(self) -> None:
        """Close what was opened while the stage allowed all addresses, whatever is on its way."""
        self._was_unguarded = False
        unguarded = [self._sessions.pop(key) for key in list(self._sessions) if not key[1]]
        for session in unguarded:
            await session.close()

    async def _judge(self, url: URL, seconds: float, is_guarded: bool) -> str:
        """Check every address that the target has, and return the one to connect to.

        It is of IPv4 where there is one, as not every proxy has the other. Where private addresses
        are allowed, a proxy may know hosts that we do not: of those nothing is known.
        """
        host, port = url.host or "", url.port or 0
        try:
            ipaddress.ip_address(host)
            addresses = [host]
        except ValueError:
            try:
                async with asyncio.timeout(seconds):
                    found = await self._names.resolve(url.raw_host or "", port)
            except OSError as error:
                if not is_guarded:
                    return host
                if isinstance(error, TimeoutError):
                    raise errors.FetchTimeoutError(
                        "looking up the host took longer than fetch.connect_seconds"
                    ) from error
                raise errors.ConnectFailedError("host name not found") from error
            addresses = [place["host"] for place in found]
        if not all(self._reaches(is_guarded, one, port) for one in addresses):
            raise errors.AddressRefusedError(str(connections.RefusedAddressError()))
        return next((one for one in addresses if ":" not in one), addresses[0])


def _judge_proxy(route: ProxyRoute, hop: Hop, status: int) -> None:
    if status == 407 and hop.url.scheme == "http":  # over https the proxy answers CONNECT only
        route.failed(hop.host, Fault.CREDENTIALS)
        raise errors.ConnectFailedError("the proxy does not take our credentials")
    route.succeeded(hop.host)


def _known(error: Exception, download: Download, hop: Hop, *, answered: bool) -> errors.FetchError:
    route = download.route
    if route is None or answered:
        return connections.translated(error)
    known, fault = connections.translated_behind_proxy(error, route.proxy.url)
    if fault is not None:
        route.failed(hop.host, fault)
    return known


def _tell(error: errors.FetchError, download: Download) -> None:
    """Add to an error what is known of the hops before it."""
    route, mask = download.route, download.mask
    if route is not None and route.proxy.authorization is not None:
        mask = mask.beside(route.proxy.authorization)
    error.answer = download.trail.answer(download.seconds, mask)
    error.peers = tuple(download.trail.peers)
