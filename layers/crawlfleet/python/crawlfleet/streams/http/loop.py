"""Read a stream of lines: connect, read on, wait faults out, go on behind what was read last."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeVar

from crawlfleet.kernel.errors import FetchError, NoSecretError
from crawlfleet.streams.http.backoff import Backoff, End
from crawlfleet.streams.http.connection import OpenStream, StatusError, asked_of
from crawlfleet.streams.http.lines import Lines
from crawlfleet.streams.http.token import REFUSED
from crawlfleet.streams.items import Batch

#: A reader that may read no more has closed its connection after this, whatever it waits for. Less
#: than the part of a lease that is left for clocks.
CHECK_SECONDS: Final = 0.1
_LIMITED: Final = frozenset({420, 429})
T = TypeVar("T")


class Fault(NamedTuple):
    """A connection that ended, or was not made: how, in words, and the pause before the next."""

    end: End
    message: str
    pause_seconds: float


class _StoppedError(Exception):
    """The reader may read no more."""


class LineStream:
    """A stream of lines, as its kind is connected to and read.

    Args:
        connect: Connects, to go on behind a cursor.
        read: Reads lines that came at once, behind a cursor; gets how many were too long, too.
        is_mended: Tells whether a fault is mended, so that the next try is made at once.
        silent_seconds: A stream that says nothing for so long is connected to anew.
        max_line_bytes: What is longer is skipped.
        tell: Gets each fault.
        missed: Gives what was missed since a cursor, once there is a connection.
        tend: Is awaited after each piece, to do what is to be done meanwhile.
    """

    def __init__(
        self,
        connect: Callable[[str], Coroutine[Any, Any, OpenStream]],
        read: Callable[[list[bytes], str, int], Iterator[Batch]],
        is_mended: Callable[[FetchError], Awaitable[bool]],
        *,
        silent_seconds: float,
        max_line_bytes: int,
        tell: Callable[[Fault], None],
        missed: Callable[[str], AsyncGenerator[Batch, None]] | None = None,
        tend: Callable[[], Coroutine[Any, Any, None]] | None = None,
        pause: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect, self._read, self._is_mended = connect, read, is_mended
        self._silent_seconds, self._max_line_bytes = silent_seconds, max_line_bytes
        self._tell, self._pause, self._steady = tell, pause, steady
        self._missed, self._tend = missed, tend

    async def batches(
        self, cursor: str, may_read: Callable[[], bool]
    ) -> AsyncGenerator[Batch, None]:
        """Read on from a cursor, for as long as it may; who asks on has accepted what came."""
        backoff = Backoff()
        try:
            while True:
                stream, since = None, self._steady()
                try:
                    stream = await _while(may_read, self._connect(cursor))
                    backoff, since = backoff.answered(), self._steady()
                    async with aclosing(self._of_one(stream, cursor, may_read)) as batches:
                        async for batch in batches:
                            cursor = batch.cursor
                            yield batch
                    end, message, asked = End.ENDED, "the stream ended", 0.0
                except TimeoutError:
                    end, asked = End.SILENT, 0.0
                    message = f"nothing came for {self._silent_seconds:g} s"
                except FetchError as error:
                    end, message, asked = _end_of(error), str(error), asked_of(error)
                    if await self._is_mended(error):
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

    async def _of_one(
        self, stream: OpenStream, cursor: str, may_read: Callable[[], bool]
    ) -> AsyncGenerator[Batch, None]:
        """Read one connection, from what was missed before it to its end."""
        if self._missed is not None:
            async with aclosing(self._missed(cursor)) as missed:
                while (batch := await _while(may_read, _next(missed))) is not None:
                    cursor = batch.cursor
                    yield batch
        lines = Lines(self._max_line_bytes)
        piece = b"\n"
        while piece:
            piece = await _while(may_read, stream.read(self._silent_seconds))
            known = lines.too_long
            # What has begun when the stream ends is an object only if it is whole.
            found = lines.feed(piece) if piece else [line for line in (lines.end(),) if line]
            for batch in self._read(found, cursor, lines.too_long - known):
                cursor = batch.cursor
                yield batch
            if self._tend is not None:
                await _while(may_read, self._tend())


async def _next(batches: AsyncGenerator[Batch, None]) -> Batch | None:
    return await anext(batches, None)


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
    if error.status in REFUSED or isinstance(error, NoSecretError):
        return End.REFUSED
    if not isinstance(error, StatusError):
        return End.NETWORK if error.retryable else End.HTTP
    return End.LIMITED if error.status in _LIMITED else End.HTTP
