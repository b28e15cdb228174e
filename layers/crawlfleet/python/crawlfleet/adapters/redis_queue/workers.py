"""Which workers live, on Redis: consumers beat, whoever wants more of them reserves the start."""

from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.keys import fleet_keys
from crawlfleet.policy.presence import LIVENESS, Presence

_BEAT: Final = Script("beat")
_RESERVE_WAKE: Final = Script("reserve_wake")


class RedisWorkers:
    """A :class:`~crawlfleet.ports.Workers`.

    Args:
        connection: The stage's Redis.
        liveness: How long after its last beat a worker is taken to live.
        fleet: Keeps fleets apart that share a Redis.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        liveness: timedelta = LIVENESS,
        fleet: str = "fleet",
    ) -> None:
        self._redis = connection
        self._liveness = liveness
        self._keys = fleet_keys(fleet)

    def beat(self, worker: str, now: datetime) -> None:
        """The worker lives; its first beat takes the place of one reserved wake-up."""
        presence = Presence.at(now, self._liveness)
        self._redis.once(
            _BEAT,
            (self._keys.workers, self._keys.wakes),
            *(worker, presence.now_ms, presence.live_after_ms, presence.forget_ms),
        )

    def leave(self, worker: str) -> None:
        """The worker ends of its own will."""
        self._redis.together(("ZREM", self._keys.workers, worker))

    def live(self, now: datetime) -> list[str]:
        """Ids of the workers that live, then of wake-ups that have not become workers yet."""
        presence = Presence.at(now, self._liveness)
        answers = self._redis.together(
            ("ZRANGEBYSCORE", self._keys.workers, f"({presence.live_after_ms}", "+inf"),
            ("ZRANGEBYSCORE", self._keys.wakes, f"({presence.wakes_after_ms}", "+inf"),
        )
        workers, wakes = several(answers, 2)
        with self._redis.translated():
            return [text(name).decode() for name in (*several(workers), *several(wakes))]

    def reserve_wake(self, now: datetime, wanted: int) -> int:
        """How many workers the caller shall start so that ``wanted`` live; atomic over callers."""
        presence = Presence.at(now, self._liveness)
        return whole(
            self._redis.once(
                _RESERVE_WAKE,
                (self._keys.workers, self._keys.wakes),
                *(presence.now_ms, presence.live_after_ms, presence.wakes_after_ms),
                *(presence.forget_ms, wanted, f"wake:{uuid4().hex}"),
            )
        )
