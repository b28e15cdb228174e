"""The fleet's clock: the time of its Redis server.

A lease is judged by whoever looks at it. A worker whose clock runs five minutes ahead would take
every other worker's leases for ended, and do their work a second time. So workers go by the time of
the server, and between two looks at it by their own steady clock, which nobody sets.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, whole

#: How long a look at the server's clock is good for; steady clocks drift by microseconds in that.
GOOD_SECONDS: Final = 5.0
#: A silent server is asked again no sooner than after this.
AGAIN_SECONDS: Final = 1.0
#: 2020: no server's clock shows less, but what the driver reads out of some other answer does.
EARLIEST: Final = 1_577_836_800
_MILLION: Final = 1_000_000
_wall: Final = partial(datetime.now, UTC)


class ServerClock:
    """The clock of the fleet; threads share it.

    While Redis has never answered it is the machine's own clock; when Redis stops to answer it goes
    on from the last answer. An event loop never waits for the server here: a Redis that hangs would
    hold all its downloads. The worker's other threads, the heartbeat first, ask often enough.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        wall: Callable[[], datetime] = _wall,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._redis, self._wall, self._steady = connection, wall, steady
        # (epoch seconds at the last answer, the steady clock then); None before the first one.
        self._known: tuple[float, float] | None = None
        self._ask_at = float("-inf")

    def __call__(self) -> datetime:
        """Now, by the server's clock as far as it is known."""
        if self._steady() >= self._ask_at and not _in_event_loop():
            self.sync()
        known = self._known
        if known is None:
            return self._wall()
        server, then = known
        return datetime.fromtimestamp(server + self._steady() - then, UTC)

    def sync(self) -> None:
        """Look at the server's clock: also after a pause in which the steady one may have stood."""
        before = self._steady()
        try:
            server = _epoch_seconds(self._redis)
        except StoreUnavailableError:
            self._ask_at = self._steady() + AGAIN_SECONDS
            return
        after = self._steady()
        self._ask_at = after + GOOD_SECONDS
        # The answer was true somewhere between the question and its arrival.
        self._known = server, (before + after) / 2


def server_time(connection: RedisConnection) -> datetime:
    """Return the server's time, for whoever asks once.

    Raises:
        StoreUnavailableError: the server does not tell it.
    """
    return datetime.fromtimestamp(_epoch_seconds(connection), UTC)


def _epoch_seconds(connection: RedisConnection) -> float:
    (answer,) = several(connection.together(("TIME",)), 1)
    parts = several(list(answer) if isinstance(answer, tuple) else answer, 2)
    seconds, microseconds = map(whole, parts)
    if seconds < EARLIEST:
        raise nonsense()
    return seconds + microseconds / _MILLION


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
