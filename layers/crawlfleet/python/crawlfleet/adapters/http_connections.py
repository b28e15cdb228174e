"""aiohttp as this fetcher uses it: its sessions, where they may connect, and how long they wait."""

import asyncio
import functools
import socket
import ssl
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

from crawlfleet.adapters.http_errors import RefusedAddressError, SilentSiteError

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
