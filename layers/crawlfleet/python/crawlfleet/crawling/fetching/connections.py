"""Wrap aiohttp: its sessions, the addresses they may connect to, its errors, and slots of hosts.

Whatever aiohttp raises becomes one of our errors here. A worker's own limit of downloads at a host
(:class:`HostSlots`) keeps it from opening dozens of connections to one site, beside the fleet's.
"""

import asyncio
import functools
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, TypeAlias

import aiohttp
import certifi
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader
from yarl import URL

from crawlfleet.crawling.fetching.content_encoding import BadCodingError
from crawlfleet.crawling.fetching.proxy_health import Fault
from crawlfleet.kernel import errors

_MESSAGE_LENGTH: Final = 300


class RefusedAddressError(OSError):
    """Raised by the socket factory, and wrapped by aiohttp on its way to :func:`translated`.

    One text for every address: aiohttp then reports this error even when it refused several, and
    tenants do not learn what our name servers say of private names.
    """

    def __init__(self) -> None:
        setting = "allow_private_addresses of the stage"
        public = f"the host leads to an address that is not public ({setting})"
        super().__init__(f"{public}, or to a store of the platform")


class SilentSiteError(TimeoutError):
    """The request was sent, and no answer has begun in time."""


def translated(error: Exception) -> errors.FetchError:
    """Translate an error of aiohttp's into ours, to be raised from it."""
    if _is_refusal(error):
        return errors.AddressRefusedError(str(RefusedAddressError()))
    text = _text(error)
    match error:
        case aiohttp.ConnectionTimeoutError():
            return errors.FetchTimeoutError("connecting took longer than fetch.connect_seconds")
        case SilentSiteError():
            return errors.FetchTimeoutError(
                "the answer took longer to begin than fetch.first_byte_seconds"
            )
        case TimeoutError():
            return errors.FetchTimeoutError("the answer took longer than fetch.total_seconds")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return errors.PageGoneError(f"leads to no http or https page: {text}")
        case aiohttp.ClientResponseError():
            said = repr(error.message)[:_MESSAGE_LENGTH]
            return errors.ServerFaultError(f"answered with something that is no HTTP: {said}")
        case aiohttp.ClientPayloadError() | BadCodingError():
            return errors.ServerFaultError(f"the body is broken: {text}")
        case aiohttp.ServerDisconnectedError():
            return errors.ServerFaultError("connection closed before the answer")
        case aiohttp.ClientConnectorError():
            return errors.ConnectFailedError(_unconnected(error))
        case ssl.SSLError():
            return errors.ConnectFailedError(f"TLS failed: {text}")
        case OSError(errno=int(code)) if code > 0:
            return errors.ConnectFailedError(f"the connection broke off: {os.strerror(code)}")
        case OSError() | aiohttp.ClientConnectionError():
            return errors.ConnectFailedError(text)
        case ValueError():
            return errors.PageGoneError(f"cannot be asked for: {text}")
        case _:
            return errors.ServerFaultError(text)


def translated_behind_proxy(error: Exception, proxy: URL) -> tuple[errors.FetchError, Fault | None]:
    """Translate the error of a download through a proxy; add the proxy's fault, if it has one.

    The proxy is named without its credentials, and the error is not quoted, as it may hold them.
    Silence, and an end without an answer, count as the proxy's fault as well, because they cannot
    be told from the site's here.
    """
    named = f"the proxy {proxy.with_user(None)}"[:_MESSAGE_LENGTH].rstrip("/")
    if _is_refusal(error):
        return errors.ConnectFailedError(f"{named} has an address that is not public"), Fault.BROKEN
    match error:
        case aiohttp.ConnectionTimeoutError():
            return errors.FetchTimeoutError(
                f"connecting through {named} took too long"
            ), Fault.SILENT
        case TimeoutError():
            return errors.FetchTimeoutError(
                f"the answer through {named} took too long"
            ), Fault.SILENT
        case aiohttp.ClientProxyConnectionError():
            return errors.ConnectFailedError(f"{named} cannot be connected to"), Fault.UNREACHABLE
        case aiohttp.ClientHttpProxyError():
            message = f"{named} answered {error.status} to CONNECT"
            if error.status in _NO_ADDRESSES:
                message += "; if it takes names alone, set resolves_names of the pool"
            known = errors.ConnectFailedError(message, status=0)
            if error.status == 407:
                return known, Fault.CREDENTIALS
            return known, None if error.status in _SITE_BEHIND_PROXY else Fault.BROKEN
        case aiohttp.ClientConnectorError():
            fault = Fault.UNREACHABLE if error.host == proxy.host else None
            return errors.ConnectFailedError(f"TLS through {named} failed"), fault
        case aiohttp.InvalidURL():
            return errors.PageGoneError("leads to no http or https page"), None
        case _:
            message = f"{named} closed the connection or sent no HTTP"
            return errors.ConnectFailedError(message), Fault.CLOSED


#: The answers of a proxy to CONNECT whose site does not answer.
_SITE_BEHIND_PROXY: Final = frozenset({502, 503, 504})
#: The answers of a proxy that does not connect to addresses, among other reasons.
_NO_ADDRESSES: Final = frozenset({400, 403, 405, 421, 501})


def _unconnected(error: aiohttp.ClientConnectorError) -> str:
    """Explain why there is no connection, with the system's words where we have none."""
    place = f"{error.host}:{error.port}"
    match error, error.os_error:
        case aiohttp.ClientConnectorDNSError(), _:
            return f"host name not found: {error.host}"
        case aiohttp.ClientConnectorCertificateError(), _:
            return f"certificate of {place} is not trusted"
        case aiohttp.ClientConnectorSSLError(), _:
            return f"TLS handshake with {place} failed"
        case _, ConnectionRefusedError():
            return f"connection refused by {place}"
        case _, ConnectionError():
            return f"connection closed by {place}"
        case _, OSError(errno=int(code)) if code > 0:
            return f"{place} cannot be connected to: {os.strerror(code)}"
    return f"{place} cannot be connected to"


def _is_refusal(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, RefusedAddressError):
            return True
        error = error.__cause__
    return False


def _text(error: Exception) -> str:
    """Get the error's text as every store can take it: a site may have written part of it."""
    text = str(error) or type(error).__name__
    return text[:_MESSAGE_LENGTH].encode(errors="replace").decode()


#: Some sites' Content-Security-Policy is longer than aiohttp's 8 KB; more than this is abuse.
_MAX_HEADER_BYTES: Final = 32_768
_MAX_HEADERS: Final = 128
#: The status line, and the line of a chunk's size.
_MAX_LINE_BYTES: Final = 8_190

#: Interim answers (1xx) before the real one. Honest sites send one or two.
_MAX_INTERIM: Final = 32

#: Idle connections that are kept, over all hosts. Each holds a file descriptor, of which a function
#: has 1,024; aiohttp would keep them all for up to half a minute, thousands of them where each page
#: is of another host.
MAX_IDLE: Final = 256

#: The time in which the answer to the request that is being sent has to begin.
first_byte_seconds: ContextVar[float] = ContextVar("first_byte_seconds")
#: Is told the address of each connection that a request is sent over.
tell_peer: ContextVar[Callable[[str], None]] = ContextVar("tell_peer")

#: Check that an address may be connected to.
MayConnect = Callable[[str], bool]
#: Check that an address may be connected to at a port.
Reaches = Callable[[str, int], bool]


class _Response(aiohttp.ClientResponse):
    """An answer that has to begin in time."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Read the head. The request has been sent, except for what is left of a long body."""
        if (transport := connection.transport) is not None:
            tell_peer.get()(str((transport.get_extra_info("peername") or ("",))[0]))
        try:
            async with asyncio.timeout(first_byte_seconds.get()) as bound:
                return await super().start(connection)
        except TimeoutError as error:
            if bound.expired():
                raise SilentSiteError from error
            raise


class _Protocol(ResponseHandler):
    """A connection with a bound of interim answers.

    aiohttp queues them as fast as they come, a hundred megabytes in a second.
    """

    _interim = 0

    def set_response_params(self, **params: Any) -> None:
        """Expect another answer."""
        self._interim = 0
        super().set_response_params(**params)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take an answer: its head, and the stream of its body."""
        if data[0].code < 200:
            self._interim += 1
            if self._interim > _MAX_INTERIM:
                if self.transport is not None and not self.transport.is_closing():
                    self.transport.abort()
                    self.set_exception(HttpProcessingError(message="too many interim answers"))
                return
        super().feed_data(data, size)


class _Connector(aiohttp.TCPConnector):
    """Connect; keep :data:`MAX_IDLE` idle connections, the most recently used."""

    def _release(self, *args: Any, **named: Any) -> None:
        """Release a connection (aiohttp has no public hook for it); close the oldest idle ones."""
        super()._release(*args, **named)
        idle = self._conns
        # Hosts are in the order in which the first of theirs became idle.
        for _ in range(sum(map(len, idle.values())) - MAX_IDLE):
            host = next(iter(idle))
            protocol, _since = idle[host].popleft()
            if not idle[host]:
                del idle[host]
            protocol.close()


def open_session(
    names: AbstractResolver,
    tls: ssl.SSLContext | bool,
    reaches: Reaches,
    source_address: str | None = None,
) -> aiohttp.ClientSession:
    """Open a session that connects to what ``reaches`` allows.

    With a ``source_address`` it reaches the sites of that address family only.
    """
    family = socket.AF_UNSPEC
    if source_address is not None:
        family = socket.AF_INET6 if ":" in source_address else socket.AF_INET
    connector = _Connector(
        limit=0,  # the worker's concurrency is the limit; hosts have theirs in HostSlots
        ssl=tls,
        use_dns_cache=False,  # the names have one
        resolver=names,
        family=family,
        local_addr=None if source_address is None else (source_address, 0),
        socket_factory=functools.partial(_socket, reaches),
    )
    # There is no public way to name the protocol; the tests of interim answers hold this one.
    vars(connector)["_factory"] = functools.partial(_Protocol, loop=asyncio.get_running_loop())
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        response_class=_Response,
        max_line_size=_MAX_LINE_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
        max_headers=_MAX_HEADERS,
    )


def _socket(reaches: Reaches, info: aiohttp.AddrInfoType) -> socket.socket:
    """Make the socket of the very address that is connected to next, or refuse it."""
    family, kind, protocol, _, address = info
    if not reaches(str(address[0]), int(address[1])):
        raise RefusedAddressError
    return socket.socket(family, kind, protocol)


def system_tls() -> ssl.SSLContext | bool:
    """Return True for the system's authorities; certifi's where the system has none."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())):
        return True
    return ssl.create_default_context(cafile=certifi.where())


@functools.lru_cache(maxsize=256)
def timeout(connect_seconds: float, total_seconds: float) -> aiohttp.ClientTimeout:
    """Make aiohttp's time-outs."""
    return aiohttp.ClientTimeout(total=total_seconds, connect=connect_seconds)


class _Host:
    __slots__ = ("free", "waiting")

    def __init__(self, limit: int) -> None:
        self.free = limit
        self.waiting: deque[asyncio.Future[None]] = deque()


#: A host, the limit, and the tenant.
SlotKey: TypeAlias = tuple[str, int, str | None]


class HostSlots:
    """The slots of a worker by host, limit and tenant: nobody waits for another tenant's downloads.

    What all tenants together ask of a host is the fleet's to bound; bizs of one tenant with
    different limits do not share slots either. First come, first served. A host takes memory only
    while it is used or waited for. A semaphore for each host would do the same at several times the
    cost of a free slot, the common case.
    """

    def __init__(self) -> None:
        self._hosts: dict[SlotKey, _Host] = {}

    def take(self, key: SlotKey) -> bool:
        """Take a slot of the key if one is free; else :meth:`wait` for it."""
        host = self._hosts.get(key)
        if host is None:
            host = self._hosts[key] = _Host(key[1])
        if host.free <= 0:
            return False
        host.free -= 1
        return True

    async def wait(self, key: SlotKey) -> None:
        """Wait until another download hands its slot over."""
        waiter = asyncio.get_running_loop().create_future()
        self._hosts[key].waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.leave(key)  # it was handed over in the same moment
            raise

    def leave(self, key: SlotKey) -> None:
        """Give a slot back: to the download that has waited longest, if any."""
        host = self._hosts[key]
        while host.waiting:
            waiter = host.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        host.free += 1
        if host.free == key[1]:
            del self._hosts[key]

    def __len__(self) -> int:
        return len(self._hosts)
