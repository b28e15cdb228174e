"""A page's body while it arrives: bounded as it comes and as it is decoded, alone and together."""

import asyncio
from dataclasses import dataclass
from typing import Final

import aiohttp

from crawlfleet.adapters.http_coding import BodyDecoder
from crawlfleet.adapters.http_room import Share
from crawlfleet.adapters.http_trail import Trail, decoder_of
from crawlfleet.errors import TooLargeError
from crawlfleet.page import SAMPLE_BYTES

#: Decoding this much in one go is long enough; then others get the loop.
_DECODE_AT_ONCE_BYTES: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class Gathering:
    """What one body may take: ``limit`` bytes, of its ``share`` of the room, until ``deadline``."""

    limit: int
    share: Share
    deadline: float
    trail: Trail

    async def content(self, response: aiohttp.ClientResponse) -> bytes:
        """The decoded body. Should that fail, the trail has what there was.

        Raises:
            TooLargeError: what arrives, or what it becomes, is longer than the limit.
            TimeoutError: it is not there by the deadline, or no room for it.
            BadCodingError: it is not of the coding that it says it is.
        """
        limit, trail = self.limit, self.trail
        announced = response.content_length
        if announced is not None and announced > limit and response.method != "HEAD":
            await trail.sample(response, limit)
            raise TooLargeError(f"the body has {announced:,} bytes, more than {limit:,}")
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
            raise TooLargeError(f"the body is larger than {limit:,} bytes")
        return bytes(gathered)

    async def _decoded(self, stream: aiohttp.StreamReader, decoder: BodyDecoder) -> bytes:
        arrived = since_pause = 0
        trail, gathered = self.trail, self.trail.body
        while chunk := await stream.readany():
            arrived += len(chunk)
            trail.raw = trail.raw or chunk[:SAMPLE_BYTES]
            if arrived > self.limit:
                raise TooLargeError(f"the encoded body is larger than {self.limit:,} bytes")
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
