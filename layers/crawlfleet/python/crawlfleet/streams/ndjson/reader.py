"""Read a channel of JSON lines: connect, read on, wait faults out, go on behind the last object."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Final

from yarl import URL

from crawlfleet.config.documents.streams import Channel
from crawlfleet.crawling.fetching.secrets import SecretTexts
from crawlfleet.kernel.time import Clock
from crawlfleet.streams.http.connection import OpenStream, StreamClient
from crawlfleet.streams.http.loop import Fault, LineStream
from crawlfleet.streams.http.token import Token
from crawlfleet.streams.items import Batch, StreamItem, Withdrawn
from crawlfleet.streams.ndjson.mapping import TOO_LONG, read_line

#: Objects of a batch: what comes at once is handed on in such pieces.
MOST_OF_BATCH: Final = 500
_HEADERS: Final = {
    "Accept": "application/x-ndjson, application/json",
    "Accept-Encoding": "identity",
    "Cache-Control": "no-store",
}


class NdjsonReader:
    """The reader of one channel, or of one filter of a channel that filters by itself.

    ``tell`` gets each fault. Of the secret nothing is told.
    """

    def __init__(
        self,
        name: str,
        channel: Channel,
        client: StreamClient,
        secrets: SecretTexts,
        *,
        clock: Clock,
        user_agent: str,
        filter_text: str = "",
        tell: Callable[[Fault], None] = lambda _: None,
        pause: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._channel = name, channel
        self._client, self._token = client, Token(secrets, channel.secret)
        self._clock = clock
        self._headers = {**_HEADERS, "User-Agent": user_agent}
        self._filter_text = filter_text
        self._stream = LineStream(
            self._connect,
            self._read,
            self._token.is_replaced,
            silent_seconds=channel.silence_seconds,
            max_line_bytes=channel.max_line_bytes,
            tell=tell,
            pause=pause,
            steady=steady,
        )

    def read(self, cursor: str, may_read: Callable[[], bool]) -> AsyncGenerator[Batch, None]:
        """Read on from a cursor, for as long as it may; who asks on has accepted what came."""
        return self._stream.batches(cursor, may_read)

    async def _connect(self, cursor: str) -> OpenStream:
        channel = self._channel
        url = URL(channel.url)
        if channel.filter_parameter is not None:
            url = url.update_query({channel.filter_parameter: self._filter_text})
        if channel.cursor_parameter is not None and cursor:
            url = url.update_query({channel.cursor_parameter: cursor})
        secret = await self._token.headers()
        return await self._client.open(url, self._headers, secret, channel.silence_seconds)

    def _read(self, lines: list[bytes], cursor: str, too_long: int) -> Iterator[Batch]:
        """Read lines that came at once; without any there is a batch that says so."""
        dropped = Counter({TOO_LONG: too_long} if too_long else {})
        now = self._clock()
        for start in range(0, len(lines) or 1, MOST_OF_BATCH):
            items: list[StreamItem] = []
            withdrawn: list[Withdrawn] = []
            for line in lines[start : start + MOST_OF_BATCH]:
                read = read_line(line, self._name, self._channel.fields, now)
                if read.item is not None:
                    items.append(read.item)
                if read.withdrawn is not None:
                    withdrawn.append(read.withdrawn)
                if read.dropped:
                    dropped[read.dropped] += 1
                cursor = read.cursor or cursor
            yield Batch(
                cursor=cursor, items=tuple(items), withdrawn=tuple(withdrawn), dropped=dict(dropped)
            )
            dropped.clear()
