"""The latest tick of the scheduler, on Redis: whoever looks after the fleet reads it there."""

from collections import Counter
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
from crawlfleet.model.tick import BETWEEN_SECONDS, MOST_BETWEEN, Ticked, TickPart

_TICK: Final = Script("tick")
_TELL_FAULT: Final = Script("tell_fault")


class RedisTicks:
    """A :class:`~crawlfleet.ports.Ticks`.

    Args:
        connection: The stage's Redis.
        fleet: Keeps fleets apart that share a Redis.
        between_seconds: For how long a fault between ticks is told.
        most_between: How many of them are.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        fleet: str = "fleet",
        between_seconds: float = BETWEEN_SECONDS,
        most_between: int = MOST_BETWEEN,
    ) -> None:
        self._redis = connection
        self._life_ms = int(between_seconds * 1000)
        self._most = most_between
        keys = fleet_keys(fleet)
        self._keys = (keys.tick, keys.between_ticks)

    def note(self, took_seconds: float, faults: Mapping[TickPart, int]) -> None:
        """See ports.Ticks.note."""
        told = [f"{took_seconds:.3f}", *(f"{part} {count}" for part, count in faults.items())]
        several(self._redis.again(_TICK, self._keys, " ".join(told), self._life_ms), 3)

    def tell_fault(self, part: TickPart, what: str) -> None:
        """See ports.Ticks.tell_fault."""
        whole(
            self._redis.again(
                _TELL_FAULT, self._keys[1:], f"{part} {what}", self._life_ms, self._most
            )
        )

    def last(self) -> Ticked:
        """See ports.Ticks.last."""
        answer = self._redis.again(_TICK, self._keys, "", self._life_ms)
        now_ms, standing, between = several(answer, 3)
        with self._redis.translated():
            at_ms, *words = text(standing).decode().split() or [""]
            ago = max(0, whole(now_ms) - int(at_ms)) / 1000
            if not words:
                return Ticked(awaited_seconds=ago)
            took, *rest = words
            faults = Counter({part: int(n) for part, n in zip(rest[::2], rest[1::2], strict=True)})
            faults.update(text(each).decode().split()[0] for each in several(between))
            return Ticked(
                seconds_ago=ago,
                took_seconds=float(took),
                faults=dict(faults),
            )
