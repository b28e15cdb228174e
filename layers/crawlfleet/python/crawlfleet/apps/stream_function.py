"""The function that reads streams: one reader an invocation, until its successor runs.

It starts nobody. An invocation ends in time for what an orderly end takes, earlier where its
successor has run for the overlap, and where nobody has needed it for a while. Who is cut off all
the same loses its holds after a lease, and nothing that was read.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from crawlfleet import __version__
from crawlfleet.apps.context import Parts
from crawlfleet.apps.health import health_of, is_health_check
from crawlfleet.apps.process import keep_memory
from crawlfleet.apps.stream_starts import StreamStarts
from crawlfleet.apps.streams import StreamReaders
from crawlfleet.config.documents.streams import ChannelKind
from crawlfleet.fleet.models import WorkerStatus
from crawlfleet.kernel import names
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.redis.clock import ServerClock
from crawlfleet.kernel.settings import Need, Settings
from crawlfleet.kernel.time import to_ms

#: An orderly end takes so long at most: a deliverer's slice and its last call, and what is kept.
END: Final = timedelta(seconds=40)
#: Between two looks whether it is still needed.
LOOK_SECONDS: Final = 5.0
#: Nobody has needed it for so long: deliveries come in between that are not due yet.
IDLE: Final = timedelta(seconds=30)


class Ending(StrEnum):
    """The reason for which a reader has left."""

    TIME = "time"
    SUCCEEDED = "succeeded"
    IDLE = "idle"


class _Term:
    """The term of one reader: it looks after a while whether it may leave."""

    def __init__(
        self, starts: StreamStarts, parts: Parts, worker: str, ends_at: datetime, clock: ServerClock
    ) -> None:
        self._starts, self._parts, self._worker = starts, parts, worker
        self._ends_at, self._clock = ends_at, clock
        self._needed_at = clock()
        self.ending: Ending | None = None

    def is_over(self) -> bool:
        if self.ending is None and self._clock() >= self._ends_at:
            self.ending = Ending.TIME
        return self.ending is not None

    async def watch(self) -> None:
        while self.ending is None:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self.ending = await asyncio.to_thread(self._look)
            except CrawlfleetError as error:
                warn("whether readers of streams are needed cannot be told", error)

    def _look(self) -> Ending | None:
        tree, now = self._parts.config.current(), self._clock()
        needed = self._starts.needed(tree, now)
        if needed:
            self._needed_at = now
            is_over = self._starts.may_leave(self._worker, needed, tree, now)
            return Ending.SUCCEEDED if is_over else None
        return Ending.IDLE if now - self._needed_at >= IDLE else None


class StreamFunction:
    """The reader's function of one environment, kept between its invocations."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._starts = StreamStarts(parts)
        self._clock = ServerClock(parts.redis)

    def answer(
        self, event: Mapping[str, Any], invocation: str, remaining: Callable[[], float]
    ) -> dict[str, object]:
        """Answer a health check, where the event asks for one; read otherwise."""
        if is_health_check(event):
            return health_of(names.STREAMS, self._parts, ChannelKind)
        return self.read(invocation, remaining)

    def read(self, worker: str, remaining: Callable[[], float]) -> dict[str, object]:
        """Read until somebody else does, nobody needs it, or the invocation is nearly over."""
        # A frozen environment's clocks may have stood still.
        self._clock.sync()
        now = self._clock()
        ends_at = now + timedelta(seconds=remaining()) - END
        term = _Term(self._starts, self._parts, worker, ends_at, self._clock)
        status = WorkerStatus(started_ms=to_ms(now), ends_ms=to_ms(ends_at), version=__version__)
        asyncio.run(_run(StreamReaders(self._parts, worker, status), term))
        seconds = round((self._clock() - now).total_seconds(), 1)
        done: dict[str, object] = {"ended": str(term.ending), "seconds": seconds}
        self._parts.log.info("read streams until the end", extra=done)
        return done


async def _run(readers: StreamReaders, term: _Term) -> None:
    watching = asyncio.ensure_future(term.watch())
    try:
        await readers.run(term.is_over)
    finally:
        watching.cancel()
        await asyncio.wait((watching,))


@lru_cache(maxsize=1)
def streams(open_parts: Callable[..., Parts] = Parts) -> StreamFunction:
    """Open the reader of this environment."""
    settings = Settings.from_environment(needs=(Need.REDIS, Need.NODES))
    made = StreamFunction(open_parts(settings, names.STREAMS))
    keep_memory()
    return made
