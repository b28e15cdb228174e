"""What is remembered of a download that fails: the last answer on the way, and how its body began.

A dead letter shows it to people (SPEC.md H6), so it is bounded like everything that a site sends.
"""

import asyncio
from typing import Final

import aiohttp

from crawlfleet.adapters.http_coding import BodyDecoder
from crawlfleet.page import SAMPLE_BYTES, Answer

#: How an error page begins is worth this much of a wait, where the biz allows it, and no more.
SAMPLE_SECONDS: Final = 2.0
#: Bytes that may arrive before there is a sample: a coding can go on for long without a result.
_SAMPLE_ARRIVED: Final = 65_536


class Trail:
    """One download's. ``last`` is the latest answer, of whichever hop.

    ``body`` is what was decoded so far of the last answer's body, ``raw`` how it came.
    """

    __slots__ = ("_seconds", "body", "last", "raw")

    def __init__(self, sample_seconds: float = SAMPLE_SECONDS) -> None:
        self._seconds = sample_seconds
        self.last: aiohttp.ClientResponse | None = None
        self.body = bytearray()
        self.raw = b""

    def answer(self, seconds: float, secret: str | None = None) -> Answer | None:
        """What the site said last; None if it said nothing at all.

        ``secret`` is what a proxy was told, and must not be seen even where it is echoed.
        """
        last = self.last
        if last is None:
            return None
        sample = bytes(self.body[:SAMPLE_BYTES]) or self.raw
        headers = headers_of(last)
        if secret is not None:
            token = secret.rpartition(" ")[2]
            sample = sample.replace(token.encode(), b"***")
            headers = {name: value.replace(token, "***") for name, value in headers.items()}
        return Answer.of(str(last.url), last.status, headers, seconds, sample)

    async def sample(self, response: aiohttp.ClientResponse, limit: int) -> None:
        """Read the beginning of an error page. Whatever goes wrong, the error stays what it is."""
        limit = min(limit, SAMPLE_BYTES)
        try:
            async with asyncio.timeout(self._seconds):
                await self._read(response, limit)
        except Exception:  # noqa: BLE001  the page failed already, and that is what is told
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
    """What undoes the answer's codings; None where it has none.

    Raises:
        BadCodingError: it has too many.
    """
    if "Content-Encoding" not in response.headers:
        return None
    return BodyDecoder(",".join(response.headers.getall("Content-Encoding")), limit)


def headers_of(response: aiohttp.ClientResponse) -> dict[str, str]:
    """Lower-case names, last value; bytes beyond ASCII that are no UTF-8 are read as Latin-1."""
    return {
        name.lower(): value if value.isascii() else _text(value)
        for name, value in response.headers.items()
    }


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="surrogateescape").decode("latin-1")
    return value
