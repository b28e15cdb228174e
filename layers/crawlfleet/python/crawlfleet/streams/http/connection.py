"""Connections of streams: one request that is answered for hours, to addresses that are allowed.

As for pages the address of each socket is judged when it is made (crawling.fetching.connections),
and redirects are followed by hand. What is sent for one origin goes to no other.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self

import aiohttp
import msgspec
from yarl import URL

from crawlfleet.crawling.fetching import connections
from crawlfleet.crawling.fetching.dns import CachedResolver
from crawlfleet.crawling.fetching.models import retry_after_seconds
from crawlfleet.kernel import errors
from crawlfleet.kernel.time import Clock
from crawlfleet.kernel.urls import is_public

CONNECT_SECONDS: Final = 10.0
MOST_REDIRECTS: Final = 5
_BEGINNING_BYTES: Final = 4_000
_BEGINNING_SECONDS: Final = 2.0
#: What the API of a stream may answer: a list of all rules is some hundred bytes a rule.
MOST_ANSWER_BYTES: Final = 16_000_000
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SAME_METHOD: Final = frozenset({307, 308})
_GUARDED: Final = "the check of addresses has come into force; the stream is connected to anew"


class StatusError(errors.FetchError):
    """A stream is not open: it answered with this status, and perhaps says why.

    ``body`` is the beginning of what it answered.
    """

    def __init__(
        self, status: int, asked_seconds: float | None, *, said: str = "", body: bytes = b""
    ) -> None:
        super().__init__(f"answered {status}{f': {said}' if said else ''}", status=status)
        self.asked_seconds = asked_seconds or 0.0
        self.body = body


class Answer(NamedTuple):
    """An answer of the API of a stream: an object, and the seconds that it asks to wait for."""

    status: int
    said: dict[str, Any]
    headers: Mapping[str, str]
    asked_seconds: float


class StreamClient:
    """Connects to streams; an asynchronous context manager, for one event loop.

    Args:
        allow_private: Tells whether the check of addresses is switched off; asked at every hop and
            read.
        may_ask: Tells whether a port may be asked.
        may_connect: Tells whether an address may be connected to.
        is_store: Tells whether an address and port are the platform's own store's.
        clock: The time of day, for Retry-After.
        names: Resolves host names, and is another's to close.
    """

    def __init__(
        self,
        allow_private: Callable[[], bool],
        may_ask: Callable[[int], bool],
        *,
        clock: Clock,
        may_connect: connections.MayConnect = is_public,
        is_store: connections.Reaches | None = None,
        names: CachedResolver | None = None,
        tls: Any = None,
    ) -> None:
        self._allow_private, self._may_ask = allow_private, may_ask
        self._may_connect, self._is_store = may_connect, is_store
        self._clock = clock
        self._given_names, self._tls = names, tls
        # By whether they are guarded.
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> Self:
        self._names = self._given_names or CachedResolver()
        self._tls = self._tls or connections.system_tls()
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()
        if self._given_names is None:
            await self._names.close()

    async def open(
        self, url: URL, headers: Mapping[str, str], secret: Mapping[str, str], seconds: float
    ) -> "OpenStream":
        """Connect to a stream that answers 200 within so many seconds.

        ``secret`` are headers for the origin of ``url`` alone.

        Raises:
            StatusError: it answered with another status.
            FetchError: there is no connection, or no answer in time.
        """
        origin = url.origin()
        for _ in range(MOST_REDIRECTS + 1):
            sent = {**headers, **secret} if url.origin() == origin else dict(headers)
            response, is_guarded = await self._ask(url, sent, seconds)
            place = response.headers.get("Location")
            if response.status in _REDIRECTS and place:
                response.close()
                url = _joined(url, place)
                continue
            if response.status != 200:
                asked = retry_after_seconds(response.headers.get("Retry-After"), self._clock())
                body = await _beginning(response, seconds)
                raise StatusError(response.status, asked, body=body)
            coding = response.headers.get("Content-Encoding", "identity").strip().lower()
            if coding not in {"", "identity"}:
                response.close()
                raise errors.ServerFaultError("answers compressed, and was asked not to")
            return OpenStream(response, _always if is_guarded else self._allow_private)
        raise errors.TooLargeError(f"more than {MOST_REDIRECTS} redirects")

    async def ask(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        seconds: float,
        body: object = None,
    ) -> "Answer":
        """Ask the API of a stream, which answers an object of JSON within so many seconds.

        Redirects are not followed: what is sent is for this origin.

        Raises:
            FetchError: there is no connection, no answer in time, or none of JSON.
        """
        sent = dict(headers) if body is None else {**headers, "Content-Type": "application/json"}
        data = None if body is None else msgspec.json.encode(body)
        response, _ = await self._ask(url, sent, seconds, method, data)
        try:
            async with asyncio.timeout(seconds):
                found = await response.content.read(MOST_ANSWER_BYTES + 1)
                while not response.content.at_eof() and len(found) <= MOST_ANSWER_BYTES:
                    found += await response.content.read(MOST_ANSWER_BYTES + 1 - len(found))
        except Exception as error:
            raise connections.translated(error) from error
        finally:
            response.close()
        if len(found) > MOST_ANSWER_BYTES:
            raise errors.TooLargeError(f"answers more than {MOST_ANSWER_BYTES} bytes")
        try:
            said = msgspec.json.decode(found) if found.strip() else {}
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            said = None
        if not isinstance(said, dict):
            if response.status < 300:
                raise errors.ServerFaultError("answers what is no object of JSON")
            said = {}
        asked = retry_after_seconds(response.headers.get("Retry-After"), self._clock())
        return Answer(response.status, said, dict(response.headers), asked or 0.0)

    async def post_form(
        self, url: URL, headers: Mapping[str, str], form: str, seconds: float
    ) -> int:
        """Post a form; return the status of the answer, which is another than a redirect's.

        A redirect that keeps the method is followed, any other one is the answer.

        Raises:
            StatusError: it was not accepted.
            FetchError: there is no connection, or no answer in time.
        """
        sent = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
        for _ in range(MOST_REDIRECTS + 1):
            response, _ = await self._ask(url, sent, seconds, "POST", form.encode())
            place, asked = (response.headers.get(name) for name in ("Location", "Retry-After"))
            body = await _beginning(response, seconds)
            if response.status in _SAME_METHOD and place:
                url = _joined(url, place)
                continue
            if not 200 <= response.status < 300:
                seconds_asked = retry_after_seconds(asked, self._clock())
                raise StatusError(response.status, seconds_asked, body=body)
            return response.status
        raise errors.TooLargeError(f"more than {MOST_REDIRECTS} redirects")

    async def _ask(
        self,
        url: URL,
        headers: Mapping[str, str],
        seconds: float,
        method: str = "GET",
        data: bytes | None = None,
    ) -> tuple[aiohttp.ClientResponse, bool]:
        if not self._may_ask(url.port or 0):
            message = f"port {url.port} is none that may be asked (ports of the stage)"
            raise errors.AddressRefusedError(message)
        is_guarded = not self._allow_private()
        connections.first_byte_seconds.set(seconds)
        connections.tell_peer.set(_untold)
        try:
            return await self._session(is_guarded).request(
                method,
                url,
                headers=headers,
                data=data,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS),
            ), is_guarded
        except Exception as error:
            raise connections.translated(error) from error

    def _session(self, is_guarded: bool) -> aiohttp.ClientSession:
        session = self._sessions.get(is_guarded)
        if session is None:

            def reaches(address: str, port: int) -> bool:
                if is_guarded and not self._may_connect(address):
                    return False
                return self._is_store is None or not self._is_store(address, port)

            session = connections.open_session(self._names, self._tls, reaches)
            self._sessions[is_guarded] = session
        return session


class OpenStream:
    """A stream that has answered."""

    def __init__(self, response: aiohttp.ClientResponse, may_stay: Callable[[], bool]) -> None:
        self._response = response
        self._may_stay = may_stay

    async def read(self, seconds: float) -> bytes:
        """Return what comes next; nothing at the end.

        Raises:
            TimeoutError: nothing came for so many seconds.
            FetchError: the connection broke.
        """
        if not self._may_stay():
            raise errors.ConnectFailedError(_GUARDED)
        try:
            async with asyncio.timeout(seconds) as bound:
                return await self._response.content.readany()
        except Exception as error:
            if isinstance(error, TimeoutError) and bound.expired():
                raise
            raise connections.translated(error) from error

    def close(self) -> None:
        """Close the connection at once."""
        self._response.close()


async def _beginning(response: aiohttp.ClientResponse, seconds: float) -> bytes:
    """Read the beginning of an answer, and close it; what does not come in time is left."""
    found = b""
    try:
        async with asyncio.timeout(min(seconds, _BEGINNING_SECONDS)):
            while not response.content.at_eof() and len(found) < _BEGINNING_BYTES:
                found += await response.content.read(_BEGINNING_BYTES - len(found))
    except (aiohttp.ClientError, OSError, TimeoutError):
        pass
    finally:
        response.close()
    return found


def asked_of(error: errors.FetchError) -> float:
    """Return the seconds that a server asks to wait for, 0 where it asks for none."""
    return error.asked_seconds if isinstance(error, StatusError) else 0.0


def _always() -> bool:
    """Let a stream stay whose address was judged."""
    return True


def _untold(_: str) -> None:
    """Keep no address: a connection of hours is not a page."""


def _joined(url: URL, place: str) -> URL:
    try:
        found = url.join(URL(place)).with_fragment(None)
    except ValueError as error:
        raise errors.PageGoneError("redirects to what is no address") from error
    if found.scheme not in {"http", "https"} or not found.host:
        raise errors.PageGoneError("redirects to no http or https address")
    return found
