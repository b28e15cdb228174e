"""The latest tick of the scheduler, on Redis: whoever looks after the fleet reads it there."""

from collections.abc import Mapping
from typing import Final

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.keys import fleet_keys
from crawlfleet.model.tick import Ticked, TickPart

_TICK: Final = Script("tick")


class RedisTicks:
    """A :class:`~crawlfleet.ports.Ticks`.

    Args:
        connection: The stage's Redis.
        fleet: Keeps fleets apart that share a Redis.
    """

    def __init__(self, connection: RedisConnection, *, fleet: str = "fleet") -> None:
        self._redis = connection
        self._keys = (fleet_keys(fleet).tick,)

    def note(self, took_seconds: float, faults: Mapping[TickPart, int]) -> None:
        """See ports.Ticks.note."""
        told = [f"{took_seconds:.3f}", *(f"{part} {count}" for part, count in faults.items())]
        several(self._redis.again(_TICK, self._keys, " ".join(told)), 2)

    def last(self) -> Ticked:
        """See ports.Ticks.last."""
        now_ms, standing = several(self._redis.again(_TICK, self._keys, ""), 2)
        with self._redis.translated():
            at_ms, *words = text(standing).decode().split() or [""]
            ago = max(0, whole(now_ms) - int(at_ms)) / 1000
            if not words:
                return Ticked(awaited_seconds=ago)
            took, *rest = words
            return Ticked(
                seconds_ago=ago,
                took_seconds=float(took),
                faults={part: int(n) for part, n in zip(rest[::2], rest[1::2], strict=True)},
            )
