"""The worker's downloader: one page at a time per call, many calls at once on one event loop.

Everything that comes from outside is bounded while it arrives: the address of each socket, the
size of headers and body, encoded and decoded, the hops, the time. The journey of a request's work
passes through here ("its work" in DESIGN.md).
"""

import asyncio
import functools
import io
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp
import certifi
from aiohttp.abc import AbstractResolver

from crawlfleet.adapters.host_slots import HostSlots
from crawlfleet.adapters.http_coding import BodyDecoder
from crawlfleet.adapters.http_errors import RefusedAddressError, translated
from crawlfleet.adapters.http_request import HeaderBook, method_of, payload_of, url_of
from crawlfleet.adapters.http_trail import Trail, decoder_of, headers_of
from crawlfleet.errors import FetchError, LeaseLostError, TooLargeError
from crawlfleet.model.biz import FetchLimits
from crawlfleet.model.outcome import SAMPLE_BYTES, Page
from crawlfleet.model.request import Body
from crawlfleet.policy.address import is_public
from crawlfleet.policy.web_status import error_for
from crawlfleet.ports import Clock, Ours

#: Some sites' Content-Security-Policy is longer than aiohttp's 8 KB; more than this is a flood.
_MAX_HEADER_BYTES: Final = 32_768
_MAX_HEADERS: Final = 128
#: The status line, and the line of a chunk's size.
_MAX_LINE_BYTES: Final = 8_190
_DNS_SECONDS: Final = 10
#: Decoding this much in one go is long enough; then others get the loop.
_DECODE_AT_ONCE_BYTES: Final = 4_000_000
#: aiohttp warns of larger bodies unless they come as a file.
_PLAIN_PAYLOAD_BYTES: Final = 1_000_000


def _now() -> datetime:
    return datetime.now(UTC)


class AiohttpFetcher:
    """Downloads over one aiohttp session; an asynchronous context manager, for one event loop.

    ``allow_private`` switches the check of addresses off, for a stage on one's own machine.
    ``may_connect`` is the check. ``resolver`` and ``ssl_context`` replace aiohttp's and the
    system's.
    """

    def __init__(
        self,
        allow_private: bool,
        *,
        may_connect: Callable[[str], bool] = is_public,
        clock: Clock = _now,
        resolver: AbstractResolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._may_connect = None if allow_private else may_connect
        self._clock = clock
        self._resolver = resolver
        self._ssl_context = ssl_context
        self._session: aiohttp.ClientSession | None = None
        self._slots = HostSlots()
        self._headers = HeaderBook()

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            limit=0,  # the worker's concurrency is the limit; hosts have theirs in HostSlots
            ssl=self._ssl_context or _system_tls(),
            ttl_dns_cache=_DNS_SECONDS,
            resolver=self._resolver,
            socket_factory=self._socket if self._may_connect else None,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            max_line_size=_MAX_LINE_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            max_headers=_MAX_HEADERS,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _socket(self, info: aiohttp.AddrInfoType) -> socket.socket:
        """A socket for the very address that is connected to next, on every hop, or a refusal."""
        family, kind, protocol, _, address = info
        if self._may_connect is not None and not self._may_connect(str(address[0])):
            raise RefusedAddressError
        return socket.socket(family, kind, protocol)

    async def fetch(self, body: Body, limits: FetchLimits, ours: Ours | None = None) -> Page:
        """Download one page (see ``ports.Fetcher``). Waiting for the host's slot takes no time off.

        Raises:
            FetchError: one of its kinds; nothing else but a cancellation leaves.
            LeaseLostError: the request is not ours any more, now that it is its turn.
        """
        if self._session is None:
            raise RuntimeError("AiohttpFetcher is used outside of its 'async with'")
        url = url_of(body)
        key = (url.raw_host or "", limits.per_host)
        if not self._slots.take(key):
            await self._slots.wait(key)
        clock, trail = asyncio.get_running_loop().time, Trail()
        started = clock()
        try:
            if ours is not None and not await ours():
                raise LeaseLostError("another worker owns it")  # noqa: TRY301  leaves the slot
            async with self._session.request(
                method_of(body),
                url,
                headers=self._headers.headers_of(body, limits),
                data=None if body.body is None else _payload(body),
                timeout=_timeout(limits.connect_seconds, limits.total_seconds),
                max_redirects=limits.max_redirects + 1,  # aiohttp counts the one it gives up at
                middlewares=(trail,),
            ) as response:
                status = response.status
                if not 200 <= status < 300:
                    retry_after = response.headers.get("Retry-After")
                    if error := error_for(status, retry_after, self._clock()):
                        await trail.sample(response, limits.max_body_bytes)
                        raise error  # noqa: TRY301  the next clause lets it through
                content = await _content(response, limits.max_body_bytes, trail)
                return Page(
                    url=str(response.url),
                    status=status,
                    headers=headers_of(response),
                    body=content,
                    redirects=tuple([str(hop.url) for hop in response.history]),
                    seconds=clock() - started,
                )
        except LeaseLostError:
            raise
        except FetchError as error:
            error.answer = trail.answer(clock() - started)
            raise
        except Exception as error:  # the border: whatever a site provokes ends here
            known = translated(error)
            known.answer = trail.answer(clock() - started)
            raise known from error
        finally:
            self._slots.leave(key)


def _system_tls() -> ssl.SSLContext | bool:
    """True, which is the system's authorities; certifi's where the system has none."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())):
        return True
    return ssl.create_default_context(cafile=certifi.where())


def _payload(body: Body) -> bytes | io.BytesIO | None:
    payload = payload_of(body)
    if payload is not None and len(payload) > _PLAIN_PAYLOAD_BYTES:
        return io.BytesIO(payload)
    return payload


@functools.lru_cache(maxsize=256)
def _timeout(connect_seconds: float, total_seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total_seconds, connect=connect_seconds)


async def _content(response: aiohttp.ClientResponse, limit: int, trail: Trail) -> bytes:
    """The decoded body. Neither what arrives nor what it becomes may be longer than ``limit``.

    Should that fail, ``trail`` has what there was.
    """
    announced = response.content_length
    if announced is not None and announced > limit and response.method != "HEAD":
        await trail.sample(response, limit)
        raise TooLargeError(f"the body has {announced:,} bytes, more than {limit:,}")
    stream = response.content
    if (decoder := decoder_of(response, limit)) is not None:
        return await _decoded(stream, decoder, limit, trail)
    first = await stream.readany()
    if stream.at_eof() and len(first) <= limit:
        return first
    gathered = trail.body
    gathered += first  # a list would hold an object for every byte of a slow drip
    while len(gathered) <= limit and (chunk := await stream.readany()):
        gathered += chunk
    if len(gathered) > limit:
        raise TooLargeError(f"the body is larger than {limit:,} bytes")
    return bytes(gathered)


async def _decoded(
    stream: aiohttp.StreamReader, decoder: BodyDecoder, limit: int, trail: Trail
) -> bytes:
    arrived = since_pause = 0
    gathered = trail.body
    while chunk := await stream.readany():
        arrived += len(chunk)
        trail.raw = trail.raw or chunk[:SAMPLE_BYTES]
        if arrived > limit:
            raise TooLargeError(f"the encoded body is larger than {limit:,} bytes")
        for piece in decoder.feed(chunk):
            gathered += piece
            since_pause += len(piece)
            if since_pause > _DECODE_AT_ONCE_BYTES:
                since_pause = 0
                await asyncio.sleep(0)
    decoder.finish()
    return bytes(gathered)
