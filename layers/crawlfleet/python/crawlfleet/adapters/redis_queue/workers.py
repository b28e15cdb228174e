"""Which workers live, on Redis: consumers beat, whoever wants more of them reserves the start."""

from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

import msgspec

from crawlfleet.adapters.redis_queue.clock import server_time
from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.keys import FleetKeys, fleet_keys
from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.model.times import to_ms
from crawlfleet.model.worker import Card
from crawlfleet.policy.liveness import WATCH_LAPSE, WINDOW
from crawlfleet.policy.presence import LIVENESS, MEMORY, WAKE_TERM, Presence

_BEAT: Final = Script("beat")
_BURY: Final = Script("bury")
_RESERVE_WAKE: Final = Script("reserve_wake")
_RETIRE: Final = Script("retire")

_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_CARD: Final = Card()
_encode: Final = msgspec.json.Encoder().encode


class RedisWorkers:
    """A :class:`~crawlfleet.ports.Workers`; :mod:`.watch` looks at the same ones.

    Args:
        connection: The stage's Redis.
        liveness: How long after its last beat a worker is taken to live.
        fleet: Keeps fleets apart that share a Redis.
        pool: Whose workers these are.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        liveness: timedelta = LIVENESS,
        fleet: str = "fleet",
        pool: str = MAIN_POOL,
    ) -> None:
        self._redis = connection
        self._liveness = liveness
        self._keys = fleet_keys(fleet, pool)

    def beat(self, worker: str, now: datetime, card: Card = _NO_CARD) -> bool:
        """The worker lives; True if it was known.

        Its first beat takes the place of one reserved wake-up. ``now`` is what :meth:`live` and
        :meth:`reserve_wake` count by, so that whoever asks them is of one mind with whoever beats;
        the watch goes by the server's clock, under which the beat is kept as well.
        """
        presence = Presence.at(now, self._liveness)
        keys = self._keys
        known = self._redis.once(
            _BEAT,
            (keys.workers, keys.wakes, keys.pulses, keys.intervals, keys.cards, keys.watch),
            *(worker, presence.now_ms, presence.live_after_ms, presence.forget_ms),
            *(_encode(card), WINDOW, MEMORY // _MILLISECOND, WATCH_LAPSE // _MILLISECOND),
        )
        return whole(known) == 1

    def leave(self, worker: str) -> None:
        """The worker ends of its own will; nothing is kept of it."""
        whole(self._redis.again(_BURY, mortal_keys(self._keys), worker))

    def retire(self, worker: str, now: datetime, least: int) -> bool:
        """The worker ends, unless fewer than ``least`` others live; whether it has.

        Repeated because the answer was lost, it finds itself gone: it has ended all the same.
        """
        live_after_ms = Presence.at(now, self._liveness).live_after_ms
        keys = mortal_keys(self._keys)
        return whole(self._redis.again(_RETIRE, keys, worker, live_after_ms, least)) == 1

    def live(self, now: datetime | None = None) -> list[str]:
        """Ids of the workers that live, then of wake-ups that have not become workers yet."""
        now = server_time(self._redis) if now is None else now
        presence = Presence.at(now, self._liveness)
        # In this order a wake-up that becomes a worker meanwhile is seen twice, and not overlooked.
        answers = self._redis.together(
            ("ZRANGEBYSCORE", self._keys.wakes, f"({presence.wakes_after_ms}", "+inf"),
            ("ZRANGEBYSCORE", self._keys.workers, f"({presence.live_after_ms}", "+inf"),
        )
        wakes, workers = several(answers, 2)
        with self._redis.translated():
            return [text(name).decode() for name in (*several(workers), *several(wakes))]

    def staying(self, now: datetime) -> list[str]:
        """Ids of the workers that live and are not told to leave; wake-ups are nobody yet."""
        live_after_ms = Presence.at(now, self._liveness).live_after_ms
        answers = self._redis.together(
            ("ZRANGEBYSCORE", self._keys.leaving, "-inf", "+inf"),
            ("ZRANGEBYSCORE", self._keys.workers, f"({live_after_ms}", "+inf"),
        )
        leaving, workers = several(answers, 2)
        with self._redis.translated():
            going = {text(name) for name in several(leaving)}
            return [text(name).decode() for name in several(workers) if text(name) not in going]

    def reserve_wake(self, now: datetime | None, wanted: int, most: int | None = None) -> int:
        """How many workers the caller shall start so that ``wanted`` live; atomic over callers.

        No more than ``most``, if that is said. Those that are told to leave (:mod:`.staffing`) are
        not counted.
        """
        spans = self._liveness, WAKE_TERM, max(MEMORY, self._liveness)
        return whole(
            self._redis.once(
                _RESERVE_WAKE,
                (self._keys.workers, self._keys.wakes, self._keys.leaving),
                *("" if now is None else to_ms(now), *(span // _MILLISECOND for span in spans)),
                *(wanted, f"wake:{uuid4().hex}"),
                wanted if most is None else most,
            )
        )


def mortal_keys(keys: FleetKeys) -> tuple[str, str, str, str, str]:
    """What is forgotten of a worker that ends; the KEYS of bury and retire."""
    return keys.workers, keys.pulses, keys.intervals, keys.cards, keys.leaving
