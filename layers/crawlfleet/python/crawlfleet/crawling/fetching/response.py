"""Read bodies, bounded as they arrive and as they are decoded, each and all of them together.

Each body has its own limit, but hundreds at once would still need more memory than a worker has:
:class:`BodyRoom` bounds them together. :class:`Trail` keeps the last answer of a download that
fails, bounded too, for its dead letter (SPEC.md H6).
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

import aiohttp
from yarl import URL

from crawlfleet.crawling.fetching.content_encoding import SIZE_SETTING, BodyDecoder
from crawlfleet.kernel.errors import TooLargeError
from crawlfleet.kernel.page import SAMPLE_BYTES, Answer
from crawlfleet.kernel.redaction import Mask

#: Bytes that a body asks for at a time.
STEP_BYTES: Final = 256 * 1024
#: The part of the room that tenants leave beyond their own part: whoever comes has it at once.
KEPT_PART: Final = 1 / 4


class BodyRoom:
    """Bound the bytes of bodies in flight, by tenant; bodies of one wait, first come, first served.

    A tenant's part is what there is by the number of tenants with bodies here, half of it at most.
    Beyond it a tenant may have free room as well, but for :data:`KEPT_PART` of all, which is kept
    for those who come: the bodies of one never keep another's waiting for their sites. Of several
    tenants that wait the one that has least is next.

    The oldest body never waits, even where it exceeds the bound, so one can always finish. At most
    ``total`` bytes and one body are in memory. Bodies of no tenant may have all.
    """

    def __init__(self, total: int) -> None:
        self._total = self._free = total
        self._holders: dict[Share, None] = {}
        self._held: Counter[str | None] = Counter()
        self._queue: OrderedDict[Share, tuple[int, asyncio.Future[None]]] = OrderedDict()

    def share(self, tenant: str | None = None) -> "Share":
        """Lend a body its part of the room; empty until it is grown, and left with its block."""
        return Share(self, tenant)

    @property
    def free(self) -> int:
        """Bytes left; below zero while the oldest body exceeds the bound."""
        return self._free

    async def take(self, share: "Share", count: int) -> None:
        """Give ``count`` bytes to ``share``, or wait until that is possible."""
        if self._is_oldest(share) or (not self._queue and self._fits(share, count)):
            self._grant(share, count)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._queue[share] = count, waiter
        self._settle()
        try:
            await waiter
        finally:
            if self._queue.pop(share, None):
                self._settle()  # cancelled; those behind it may need less

    def leave(self, share: "Share") -> None:
        """Take back all that ``share`` has."""
        self._free += share.held
        self._held[share.tenant] -= share.held
        if not self._held[share.tenant]:
            del self._held[share.tenant]
        share.held = 0
        self._holders.pop(share, None)
        self._settle()

    def _is_oldest(self, share: "Share") -> bool:
        return next(iter(self._holders), share) is share

    def _fits(self, share: "Share", count: int) -> bool:
        tenants = self._held.keys() | {share.tenant}
        return count <= self._free and self._is_open_to(share.tenant, count, len(tenants))

    def _is_open_to(self, tenant: str | None, count: int, tenants: int) -> bool:
        """Tell whether so much of the room, free or not, is for one of so many tenants."""
        if tenant is None or self._held[tenant] + count <= self._total / max(2, tenants):
            return True
        return self._free - count >= self._total * KEPT_PART

    def _next(self) -> "Share | None":
        """Get the next waiting body: the oldest one, else the first that came of who has least."""
        oldest = next(iter(self._holders), None)
        if oldest is not None and oldest in self._queue:
            return oldest
        firsts: dict[str | None, Share] = {}
        for share in self._queue:
            firsts.setdefault(share.tenant, share)
        tenants = len(self._held.keys() | firsts.keys())
        able = [
            one
            for one in firsts.values()
            if self._is_oldest(one) or self._is_open_to(one.tenant, self._queue[one][0], tenants)
        ]
        return min(able, key=lambda one: self._held[one.tenant], default=None)

    def _grant(self, share: "Share", count: int) -> None:
        self._free -= count
        share.held += count
        self._held[share.tenant] += count
        self._holders[share] = None

    def _settle(self) -> None:
        """Give the free room to those that wait."""
        while (share := self._next() if self._queue else None) is not None:
            count, waiter = self._queue[share]
            if not waiter.done():
                if not self._is_oldest(share) and count > self._free:
                    return
                self._grant(share, count)
                waiter.set_result(None)
            del self._queue[share]


class Share:
    """A body's share of its ``BodyRoom``: ``held`` bytes."""

    __slots__ = ("_room", "held", "tenant")

    def __init__(self, room: BodyRoom, tenant: str | None = None) -> None:
        self._room = room
        self.tenant = tenant
        self.held = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.held:
            self._room.leave(self)

    async def grow(self, size: int, deadline: float) -> None:
        """Grow to ``size`` bytes; TimeoutError without room by ``deadline``, in the loop's time."""
        if size > self.held:
            count = -(-(size - self.held) // STEP_BYTES) * STEP_BYTES
            async with asyncio.timeout_at(deadline):
                await self._room.take(self, count)


#: The longest wait for the beginning of an error page, where the biz allows it.
SAMPLE_SECONDS: Final = 2.0
#: Encoded bytes that may arrive before a sample: a coding can yield nothing for long.
_SAMPLE_ARRIVED: Final = 65_536


#: Stands for an address that only the proxy knows, as it looks up names itself.
BY_PROXY: Final = "proxy"


class Trail:
    """The trail of a download: ``last`` is the latest answer of any hop.

    ``body`` is what was decoded so far of its body, ``raw`` how it arrived. ``peers`` are the
    addresses that were asked, hop by hop.
    """

    __slots__ = ("_seconds", "_url", "body", "last", "peers", "raw")

    def __init__(self, sample_seconds: float = SAMPLE_SECONDS) -> None:
        self._seconds = sample_seconds
        self.last: aiohttp.ClientResponse | None = None
        self._url = ""
        self.body = bytearray()
        self.raw = b""
        self.peers: list[str] = []

    def asking(self, told: str | None) -> Callable[[str], None]:
        """Begin a hop; return what is to be told the address of each connection made for it.

        A broken connection is replaced: the last one counts. Of a proxy, ``told`` counts instead.
        """
        hops = len(self.peers)

        def connected(address: str) -> None:
            self.peers[hops:] = [told or address]

        return connected

    def answered(self, url: URL, response: aiohttp.ClientResponse) -> None:
        """Take the answer to a hop, and its URL: the answer's may have an address for the host."""
        self._url, self.last = str(url), response

    def answer(self, seconds: float, mask: Mask) -> Answer | None:
        """Get the site's last answer; None without any.

        ``mask`` has the secrets that were sent, which a site may echo.
        """
        last = self.last
        if last is None:
            return None
        sample = bytes(self.body[:SAMPLE_BYTES]) or self.raw
        headers, url = headers_of(last), self._url
        if mask:
            sample, headers, url = mask.content(sample, 1), mask.headers(headers, 1), mask.text(url)
        return Answer.of(url, last.status, headers, seconds, sample)

    async def sample(self, response: aiohttp.ClientResponse, limit: int) -> None:
        """Read the beginning of an error page; whatever fails, the page's error stays the same."""
        limit = min(limit, SAMPLE_BYTES)
        try:
            async with asyncio.timeout(self._seconds):
                await self._read(response, limit)
        except Exception:  # noqa: BLE001  the page failed already, with an error of its own
            return

    async def _read(self, response: aiohttp.ClientResponse, limit: int) -> None:
        decoder = decoder_of(response, _SAMPLE_ARRIVED * 16)
        arrived = 0
        while arrived < _SAMPLE_ARRIVED and (chunk := await response.content.readany()):
            arrived += len(chunk)
            self.raw = self.raw or chunk[:limit]
            for piece in (chunk,) if decoder is None else decoder.feed(chunk):
                self.body += piece[: limit - len(self.body)]
                if len(self.body) >= limit:
                    return


def decoder_of(response: aiohttp.ClientResponse, limit: int) -> BodyDecoder | None:
    """Make the decoder of the answer's codings, None without any; BadCodingError if too many."""
    if "Content-Encoding" not in response.headers:
        return None
    return BodyDecoder(",".join(response.headers.getall("Content-Encoding")), limit)


def headers_of(response: aiohttp.ClientResponse) -> dict[str, str]:
    """Map lower-case names to their last value; bytes that are no UTF-8 are read as Latin-1.

    Of ``Link``, which many sites send once for each link, to all values.
    """
    headers = {
        name.lower(): value if value.isascii() else _text(value)
        for name, value in response.headers.items()
    }
    if "link" in headers and len(links := response.headers.getall("Link")) > 1:
        headers["link"] = ", ".join(map(_text, links))
    return headers


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="surrogateescape").decode("latin-1")
    return value


#: After decoding so many bytes others get the event loop.
_DECODE_AT_ONCE_BYTES: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class BodyReader:
    """Read one body: up to ``limit`` bytes, in its ``share`` of the room, until ``deadline``."""

    limit: int
    share: Share
    deadline: float
    trail: Trail

    async def content(self, response: aiohttp.ClientResponse) -> bytes:
        """Read and decode the body. Should that fail, the trail has its beginning.

        Raises TooLargeError if it exceeds the limit, encoded or decoded; TimeoutError if it, or
        room for it, is late; BadCodingError if it does not match its coding.
        """
        limit, trail = self.limit, self.trail
        announced = response.content_length
        if announced is not None and announced > limit and response.method != "HEAD":
            await trail.sample(response, limit)
            most = f"{limit:,} ({SIZE_SETTING})"
            raise TooLargeError(f"the body has {announced:,} bytes, more than {most}")
        stream = response.content
        if (decoder := decoder_of(response, limit)) is not None:
            return await self._decoded(stream, decoder)
        first = await stream.readany()
        if stream.at_eof() and len(first) <= limit:
            return first
        gathered = trail.body
        gathered += first  # a list would hold an object for every byte of a slow drip
        while len(gathered) <= limit and (chunk := await stream.readany()):
            await self.share.grow(len(gathered) + len(chunk), self.deadline)
            gathered += chunk
        if len(gathered) > limit:
            raise TooLargeError(f"the body is larger than {limit:,} bytes ({SIZE_SETTING})")
        return bytes(gathered)

    async def _decoded(self, stream: aiohttp.StreamReader, decoder: BodyDecoder) -> bytes:
        arrived = since_pause = 0
        trail, gathered = self.trail, self.trail.body
        while chunk := await stream.readany():
            arrived += len(chunk)
            trail.raw = trail.raw or chunk[:SAMPLE_BYTES]
            if arrived > self.limit:
                most = f"{self.limit:,} bytes ({SIZE_SETTING})"
                raise TooLargeError(f"the encoded body is larger than {most}")
            for piece in decoder.feed(chunk):
                size = len(gathered) + len(piece)
                if size > self.share.held:
                    await self.share.grow(size, self.deadline)
                gathered += piece
                since_pause += len(piece)
                if since_pause > _DECODE_AT_ONCE_BYTES:
                    since_pause = 0
                    await asyncio.sleep(0)
        decoder.finish()
        return bytes(gathered)
