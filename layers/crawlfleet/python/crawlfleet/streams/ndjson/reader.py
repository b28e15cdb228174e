"""Read a channel of JSON lines: connect, read on, wait faults out, go on behind the last object."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeVar

from yarl import URL

from crawlfleet.config.documents.streams import Channel
from crawlfleet.crawling.fetching.secrets import SecretTexts
from crawlfleet.kernel.errors import FetchError
from crawlfleet.kernel.time import Clock
from crawlfleet.streams.http.backoff import Backoff, End
from crawlfleet.streams.http.connection import OpenStream, StatusError, StreamClient, asked_of
from crawlfleet.streams.http.lines import Lines
from crawlfleet.streams.items import Batch, StreamItem, Withdrawn
from crawlfleet.streams.ndjson.mapping import TOO_LONG, read_line

#: Objects of a batch: what comes at once is handed on in such pieces.
MOST_OF_BATCH: Final = 500
#: A reader that may read no more has closed its connection after this, whatever it waits for. Less
#: than the part of a lease that is left for clocks.
CHECK_SECONDS: Final = 0.1
_HEADERS: Final = {
    "Accept": "application/x-ndjson, application/json",
    "Accept-Encoding": "identity",
    "Cache-Control": "no-store",
}
_LIMITED: Final = frozenset({420, 429})
_REFUSED: Final = frozenset({401, 403})
#: The owner of the secrets of channels: the stage, which is no tenant.
STAGE: Final = ""
T = TypeVar("T")


class Fault(NamedTuple):
    """A connection that ended, or was not made: how, in words, and the pause before the next."""

    end: End
    message: str
    pause_seconds: float


class _StoppedError(Exception):
    """The reader may read no more."""


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
        self._client, self._secrets = client, secrets
        self._clock, self._steady = clock, steady
        self._headers = {**_HEADERS, "User-Agent": user_agent}
        self._filter_text = filter_text
        self._tell, self._pause = tell, pause

    async def read(self, cursor: str, may_read: Callable[[], bool]) -> AsyncGenerator[Batch, None]:
        """Read on from a cursor, for as long as it may; who asks on has accepted what came."""
        backoff = Backoff()
        try:
            while True:
                stream, since = None, self._steady()
                try:
                    stream = await _while(may_read, self._connect(cursor))
                    backoff, since = backoff.answered(), self._steady()
                    async with aclosing(self._batches(stream, cursor, may_read)) as batches:
                        async for batch in batches:
                            cursor = batch.cursor
                            yield batch
                    end, message, asked = End.ENDED, "the stream ended", 0.0
                except TimeoutError:
                    seconds = self._channel.silent_seconds
                    end, message, asked = End.SILENT, f"nothing came for {seconds:g} s", 0.0
                except FetchError as error:
                    end, message, asked = _end_of(error), str(error), asked_of(error)
                    if error.status in _REFUSED and await self._is_secret_new():
                        # The first try with it is at once.
                        end = End.ENDED
                finally:
                    if stream is not None:
                        stream.close()
                stood_seconds = self._steady() - since if stream is not None else 0.0
                backoff, pause = backoff.after(end, stood_seconds, asked)
                self._tell(Fault(end, message, pause))
                await _while(may_read, self._pause(pause))
        except _StoppedError:
            return

    async def _connect(self, cursor: str) -> OpenStream:
        channel = self._channel
        url = URL(channel.url)
        if channel.filter_parameter is not None:
            url = url.update_query({channel.filter_parameter: self._filter_text})
        if channel.cursor_parameter is not None and cursor:
            url = url.update_query({channel.cursor_parameter: cursor})
        secret = {}
        if channel.secret is not None:
            texts = await self._secrets.headers(STAGE, [channel.secret])
            secret = {"Authorization": f"Bearer {texts[channel.secret]}"}
        return await self._client.open(url, self._headers, secret, channel.silent_seconds)

    async def _is_secret_new(self) -> bool:
        """Tell whether the secret that was refused has another text by now."""
        if (name := self._channel.secret) is None:
            return False
        try:
            used = await self._secrets.headers(STAGE, [name])
        except FetchError:
            return False
        return await self._secrets.renewed(STAGE, used)

    async def _batches(
        self, stream: OpenStream, cursor: str, may_read: Callable[[], bool]
    ) -> AsyncGenerator[Batch, None]:
        lines = Lines(self._channel.max_line_bytes)
        piece = b"\n"
        while piece:
            piece = await _while(may_read, stream.read(self._channel.silent_seconds))
            known = lines.too_long
            # What has begun when the stream ends is an object only if it is whole.
            found = lines.feed(piece) if piece else [line for line in (lines.end(),) if line]
            for batch in self._read(found, cursor, lines.too_long - known):
                cursor = batch.cursor
                yield batch

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


async def _while(may_read: Callable[[], bool], work: Coroutine[Any, Any, T]) -> T:
    """Do some work while the channel may be read; give it up at once when it may not."""
    if not may_read():
        work.close()
        raise _StoppedError
    task = asyncio.ensure_future(work)
    try:
        while True:
            await asyncio.wait((task,), timeout=CHECK_SECONDS)
            if task.done():
                return task.result()
            if not may_read():
                raise _StoppedError
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # somebody has looked at it


def _end_of(error: FetchError) -> End:
    if not isinstance(error, StatusError):
        return End.NETWORK if error.retryable else End.HTTP
    return End.LIMITED if error.status in _LIMITED else End.HTTP
