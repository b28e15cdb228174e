"""aiohttp as this fetcher uses it: its sessions, where they may connect, and how long they wait.

The border to aiohttp: whatever it raises becomes one of our errors, none of its own get past.

How many downloads of this worker may be under way at one host at once.

The fleet-wide limit is another matter; this one keeps a single worker from opening dozens of
connections to one site.
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
from typing import Any, Final

import aiohttp
import certifi
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader
from yarl import URL

from crawlfleet.crawling.fetching.content_encoding import BadCodingError
from crawlfleet.kernel.errors import (
    AddressRefusedError,
    ConnectFailedError,
    FetchError,
    FetchTimeoutError,
    PageGoneError,
    ServerFaultError,
)

_MESSAGE_LENGTH: Final = 300
_BY_PROXY: Final = "through the proxy "


class RefusedAddressError(OSError):
    """Raised by the socket factory, and wrapped by aiohttp on its way to :func:`translated`.

    One text for every address: aiohttp then reports this error even when it refused several, and
    the tenant does not learn what our name servers say about the inside.
    """

    def __init__(self) -> None:
        super().__init__("the host leads to an address that is not public")


class SilentSiteError(TimeoutError):
    """The request is sent, and no answer has begun in the time for that."""


def translated(error: Exception) -> FetchError:
    """The error of ours that one of aiohttp's amounts to, to be raised from it."""
    if _is_refusal(error):
        return AddressRefusedError(str(RefusedAddressError()))
    text = _text(error)
    match error:
        case aiohttp.ConnectionTimeoutError():
            return FetchTimeoutError("connecting took longer than fetch.connect_seconds")
        case SilentSiteError():
            return FetchTimeoutError(
                "the answer took longer to begin than fetch.first_byte_seconds"
            )
        case TimeoutError():
            return FetchTimeoutError("the answer took longer than fetch.total_seconds")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return PageGoneError(f"leads to no http or https page: {text}")
        case aiohttp.ClientResponseError():
            said = repr(error.message)[:_MESSAGE_LENGTH]
            return ServerFaultError(f"answered with something that is no HTTP: {said}")
        case aiohttp.ClientPayloadError() | BadCodingError():
            return ServerFaultError(f"the body is broken: {text}")
        case aiohttp.ServerDisconnectedError():
            return ServerFaultError("hung up before it answered")
        case aiohttp.ClientConnectorError():
            return ConnectFailedError(_unconnected(error))
        case ssl.SSLError():
            return ConnectFailedError(f"TLS failed: {text}")
        case OSError(errno=int(code)) if code > 0:
            return ConnectFailedError(f"the connection broke off: {os.strerror(code)}")
        case OSError() | aiohttp.ClientConnectionError():
            return ConnectFailedError(text)
        case ValueError():
            return PageGoneError(f"cannot be asked for: {text}")
        case _:
            return ServerFaultError(text)


def translated_behind_proxy(error: Exception, proxy: URL) -> tuple[FetchError, bool]:
    """The error of a download through a proxy that brought no answer; is it the proxy's fault?

    The proxy is named, without its credentials, and none of what is said is quoted: it may hold
    what the proxy was told, its password included. Silence is laid at the proxy's door, because
    nobody can tell whose it is.
    """
    named = f"the proxy {proxy.with_user(None)}"[:_MESSAGE_LENGTH].rstrip("/")
    if _is_refusal(error):
        return ConnectFailedError(f"{named} has an address that is not public"), True
    match error:
        case aiohttp.ConnectionTimeoutError():
            return FetchTimeoutError(f"connecting through {named} took too long"), True
        case TimeoutError():
            return FetchTimeoutError(f"the answer through {named} took too long"), True
        case aiohttp.ClientProxyConnectionError():
            return ConnectFailedError(f"{named} cannot be connected to"), True
        case aiohttp.ClientHttpProxyError():
            status = error.status
            message = f"{named} answered {status} to CONNECT"
            return ConnectFailedError(message, status=0), status not in _SITE_BEHIND_PROXY
        case aiohttp.ClientConnectorError():
            return ConnectFailedError(f"TLS through {named} failed"), error.host == proxy.host
        case aiohttp.InvalidURL():
            return PageGoneError("leads to no http or https page"), False
        case _:
            return ConnectFailedError(f"{named} hung up, or answered with no HTTP"), True


#: With these a proxy says that the site behind it does not answer.
_SITE_BEHIND_PROXY: Final = frozenset({502, 503, 504})


def _unconnected(error: aiohttp.ClientConnectorError) -> str:
    """Why there is no connection, in words; what the system says where there are none for it."""
    place = f"{error.host}:{error.port}"
    match error, error.os_error:
        case aiohttp.ClientConnectorDNSError(), _:
            return f"the host's name is not known: {error.host}"
        case aiohttp.ClientConnectorCertificateError(), _:
            return f"the certificate of {place} is not to be trusted"
        case aiohttp.ClientConnectorSSLError(), _:
            return f"there is no TLS to be had with {place}"
        case _, ConnectionRefusedError():
            return f"nobody listens at {place}"
        case _, ConnectionError():
            return f"{place} hung up"
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
    """What it says, as text that every store can take; a site may have had a hand in it."""
    text = str(error) or type(error).__name__
    return text[:_MESSAGE_LENGTH].encode(errors="replace").decode()


#: Some sites' Content-Security-Policy is longer than aiohttp's 8 KB; more than this is a flood.
_MAX_HEADER_BYTES: Final = 32_768
_MAX_HEADERS: Final = 128
#: The status line, and the line of a chunk's size.
_MAX_LINE_BYTES: Final = 8_190

#: Interim answers (1xx) before the real one. Honest sites send one or two.
_MAX_INTERIM: Final = 32

#: Connections that are kept though nothing is asked on them, over all hosts. Each holds a file
#: descriptor, of which a function has 1,024 for all it does; aiohttp would keep them all for up to
#: half a minute, thousands of them where each page is of another host.
MAX_IDLE: Final = 256

#: How long the request that is being sent may wait for its answer to begin.
first_byte_seconds: ContextVar[float] = ContextVar("first_byte_seconds")

#: The check of an address: may one connect there?
MayConnect = Callable[[str], bool]


class _Response(aiohttp.ClientResponse):
    """An answer that has to begin in time."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Read the head. The request has been sent, except for what is left of a long body."""
        try:
            async with asyncio.timeout(first_byte_seconds.get()) as bound:
                return await super().start(connection)
        except TimeoutError as error:
            if bound.expired():
                raise SilentSiteError from error
            raise


class _Protocol(ResponseHandler):
    """A connection whose site does not send interim answers without end.

    aiohttp queues them as fast as they come, a hundred megabytes in a second.
    """

    _interim = 0

    def set_response_params(self, **params: Any) -> None:
        """Another answer is expected."""
        self._interim = 0
        super().set_response_params(**params)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """An answer has come: its head, and where its body will come."""
        if data[0].code < 200:
            self._interim += 1
            if self._interim > _MAX_INTERIM:
                if self.transport is not None and not self.transport.is_closing():
                    self.transport.abort()
                    self.set_exception(HttpProcessingError(message="too many interim answers"))
                return
        super().feed_data(data, size)


class _Connector(aiohttp.TCPConnector):
    """Connects; keeps :data:`MAX_IDLE` connections for later, those that were used last."""

    def _release(self, *args: Any, **named: Any) -> None:
        """What a connection was asked for is done. There is no public place to be told so."""
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
    may_connect: MayConnect | None,
    source_address: str | None = None,
) -> aiohttp.ClientSession:
    """A session that connects where ``may_connect`` allows it; None allows all.

    With a ``source_address`` it leaves by that alone, and so reaches the sites of its family only.
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
        socket_factory=None if may_connect is None else functools.partial(_socket, may_connect),
    )
    # There is no public way to name the protocol; the tests of floods hold that this one works.
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


def _socket(may_connect: MayConnect, info: aiohttp.AddrInfoType) -> socket.socket:
    """A socket for the very address that is connected to next, on every hop, or a refusal."""
    family, kind, protocol, _, address = info
    if not may_connect(str(address[0])):
        raise RefusedAddressError
    return socket.socket(family, kind, protocol)


def system_tls() -> ssl.SSLContext | bool:
    """True, which is the system's authorities; certifi's where the system has none."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())):
        return True
    return ssl.create_default_context(cafile=certifi.where())


@functools.lru_cache(maxsize=256)
def timeout(connect_seconds: float, total_seconds: float) -> aiohttp.ClientTimeout:
    """What aiohttp calls these."""
    return aiohttp.ClientTimeout(total=total_seconds, connect=connect_seconds)


class _Host:
    __slots__ = ("free", "waiting")

    def __init__(self, limit: int) -> None:
        self.free = limit
        self.waiting: deque[asyncio.Future[None]] = deque()


class HostSlots:
    """Slots by host and limit: bizs with different limits for a host do not share slots.

    First come, first served. A host takes memory only while it is used or waited for. A semaphore
    for each host would do the same at several times the cost of a free slot, the common case.
    """

    def __init__(self) -> None:
        self._hosts: dict[tuple[str, int], _Host] = {}

    def take(self, key: tuple[str, int]) -> bool:
        """Take a slot of ``(host, limit)`` if one is free; else :meth:`wait` for it."""
        host = self._hosts.get(key)
        if host is None:
            host = self._hosts[key] = _Host(key[1])
        if host.free <= 0:
            return False
        host.free -= 1
        return True

    async def wait(self, key: tuple[str, int]) -> None:
        """Wait until a slot has been handed over."""
        turn = asyncio.get_running_loop().create_future()
        self._hosts[key].waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(key)  # it was handed over in the same moment
            raise

    def leave(self, key: tuple[str, int]) -> None:
        """Give a slot back: to the one who has waited longest, if anyone has."""
        host = self._hosts[key]
        while host.waiting:
            turn = host.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        host.free += 1
        if host.free == key[1]:
            del self._hosts[key]

    def __len__(self) -> int:
        return len(self._hosts)
