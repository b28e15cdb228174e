"""The holds of channels in Redis; ``lua/hold.lua`` explains how they are granted."""

from collections.abc import Callable
from datetime import datetime
from hashlib import blake2b
from typing import Final, NamedTuple

from crawlfleet.kernel.redis.connection import RedisConnection, several, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import to_ms
from crawlfleet.streams.holds import LEASE_SECONDS, OFFER_SECONDS

_HOLD: Final = Script("streams/hold")
#: A channel that nobody asks for is forgotten after a day; it then is as a new one.
_KEPT_MS: Final = 86_400_000


def hold_key(channel: str) -> str:
    """Return the key of a channel's hold.

    >>> hold_key("x")
    'cf:{hold:442a44457137672b3218c1007dc8f76a}:hold'
    """
    digest = blake2b(channel.encode(), digest_size=16).hexdigest()
    return f"cf:{{hold:{digest}}}:hold"


class Taken(NamedTuple):
    """An offer, by its fence; or None, and after how many seconds to ask again."""

    fence: int | None
    again_seconds: float


class RedisHolds:
    """The holds of all channels. Calls are repeatable; the clock is the server's.

    A reader that is granted one reads for ``lease_seconds`` by its own clock, less their drift.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        clock: Callable[[], datetime] | None = None,
        lease_seconds: float = LEASE_SECONDS,
        offer_seconds: float = OFFER_SECONDS,
    ) -> None:
        self._redis = connection
        self._clock = clock
        self.lease_seconds = lease_seconds
        self._terms = round(offer_seconds * 1_000), round(lease_seconds * 1_000), _KEPT_MS

    def take(self, channel: str, worker: str) -> Taken:
        """Take a channel that nobody has; the offer is to be kept at once.

        An offer whose answer was lost ends by itself, and the channel is taken again after it.
        """
        is_done, fence, wait_ms = self._ask(channel, "take", worker, 0)
        return Taken(fence if is_done else None, wait_ms / 1_000)

    def keep(self, channel: str, worker: str, fence: int) -> bool:
        """Acknowledge an offer, or keep a hold for a lease more; False where it is over."""
        return self._ask(channel, "keep", worker, fence)[0] == 1

    def release(self, channel: str, worker: str, fence: int) -> None:
        """Give a hold back, after the reader has stopped; one that is over stays so."""
        self._ask(channel, "release", worker, fence)

    def _ask(self, channel: str, action: str, worker: str, fence: int) -> tuple[int, int, int]:
        now = "" if self._clock is None else to_ms(self._clock())
        said = now, action, worker, fence, *self._terms
        answer = self._redis.again(_HOLD, (hold_key(channel),), *said)
        is_done, given, wait_ms = map(whole, several(answer, 3))
        return is_done, given, wait_ms
