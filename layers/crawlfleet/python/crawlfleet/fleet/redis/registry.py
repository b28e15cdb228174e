"""The accrual failure detector's view of the workers, on Redis (SPEC.md C5, D1).

Which workers live, on Redis: consumers beat, whoever wants more of them reserves the start.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

import msgspec

from crawlfleet.fleet.failure_detector import (
    DETECTOR_LAPSE,
    LIVENESS,
    MEMORY,
    WAKE_TERM,
    WINDOW,
    Presence,
)
from crawlfleet.fleet.models import WorkerHeartbeats, WorkerStatus
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.redis.clock import server_time
from crawlfleet.kernel.redis.connection import RedisConnection, several, text, whole
from crawlfleet.kernel.redis.server import FleetKeys, Script, fleet_keys
from crawlfleet.kernel.time import to_ms

_BEAT: Final = Script("fleet/redis/beat")
_REAP: Final = Script("fleet/redis/bury")
_RESERVE_WAKE: Final = Script("fleet/redis/reserve_wake")
_RETIRE: Final = Script("fleet/redis/retire")

_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_STATUS: Final = WorkerStatus()
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

    def beat(self, worker: str, now: datetime, worker_status: WorkerStatus = _NO_STATUS) -> bool:
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
            *(
                _encode(worker_status),
                WINDOW,
                MEMORY // _MILLISECOND,
                DETECTOR_LAPSE // _MILLISECOND,
            ),
        )
        return whole(known) == 1

    def leave(self, worker: str) -> None:
        """The worker ends of its own will; nothing is kept of it."""
        whole(self._redis.again(_REAP, mortal_keys(self._keys), worker))

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


_ACQUIRE_LOCK: Final = Script("fleet/redis/take_turn")
_RELEASE_LOCK: Final = Script("fleet/redis/end_turn")
_HEARTBEATS: Final = Script("fleet/redis/pulses")
_FOR_EVER_MS: Final = 2**52
_decode: Final = msgspec.json.Decoder(WorkerStatus).decode


class RedisFailureDetector:
    """A :class:`~crawlfleet.ports.Watch` over the workers that beat on the same Redis.

    The fleet is watched as long as somebody looks or beats at least every ``lapse``: either shows
    that Redis answered, so that whoever was silent could have beaten. After a longer pause silence
    counts from the next look or beat on, and only a look after that one can find anybody dead.

    Args:
        connection: The stage's Redis.
        lapse: The longest pause within which the watch goes on.
        fleet: Keeps fleets apart that share a Redis.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        lapse: timedelta = DETECTOR_LAPSE,
        fleet: str = "fleet",
    ) -> None:
        self._redis = connection
        self._lapse_ms = lapse // _MILLISECOND
        self._fleet = fleet
        self._keys = fleet_keys(fleet)

    def acquire_lock(self, name: str, holder: str, every: timedelta, term: timedelta) -> bool:
        """Whether the holder is to do ``name`` now.

        Not repeated when the answer is lost: a turn that nobody knows of ends after its term.
        """
        answer = self._redis.once(
            _ACQUIRE_LOCK,
            (self._keys.turns,),
            *(name, holder, every // _MILLISECOND, term // _MILLISECOND),
        )
        return whole(answer) == 1

    def release_lock(self, name: str, holder: str) -> None:
        """The holder is done; no effect if the turn is another's now."""
        whole(self._redis.again(_RELEASE_LOCK, (self._keys.turns,), name, holder))

    def heartbeats(self, silent_for: timedelta | None = None) -> list[WorkerHeartbeats]:
        """Known workers, the longest silent first; nothing is read of those that are not asked for.

        A look costs by the workers it returns, not by the fleet.
        """
        keys = self._keys
        found = several(
            self._redis.again(
                _HEARTBEATS,
                (keys.pulses, keys.intervals, keys.cards, keys.watch),
                *((silent_for or timedelta()) // _MILLISECOND, self._lapse_ms),
            )
        )
        with self._redis.translated():
            _, *heartbeats = found
            return [_beats(several(one, 5)) for one in heartbeats]

    def observed_for(self) -> timedelta:
        """How long the fleet has been watched without a lapse; nearly nothing after a flush."""
        keys = self._keys
        shape = (keys.pulses, keys.intervals, keys.cards, keys.watch)
        # Nobody is silent for longer than for ever: no worker is read.
        found = several(self._redis.again(_HEARTBEATS, shape, _FOR_EVER_MS, self._lapse_ms), 1)
        return whole(found[0]) * _MILLISECOND

    def reap(self, worker: str, pool: str = MAIN_POOL) -> bool:
        """The worker is dead, and counted as live no more; False if it was not known any more.

        Not repeated when the answer is lost: it says whether it was this call that buried it.
        """
        keys = mortal_keys(fleet_keys(self._fleet, pool))
        return whole(self._redis.once(_REAP, keys, worker)) == 1


def _beats(answer: list[object]) -> WorkerHeartbeats:
    worker, silent_ms, intervals, worker_status, beat_ms = answer
    return WorkerHeartbeats(
        worker=text(worker).decode(),
        silent_ms=whole(silent_ms),
        beat_ms=whole(beat_ms),
        intervals=tuple(int(interval) for interval in text(intervals).split()),
        worker_status=_worker_status(text(worker_status)),
    )


def _worker_status(found: bytes) -> WorkerStatus:
    """What the worker says of itself; nothing if a version of ours wrote it that says it unlike."""
    try:
        return _decode(found)
    except msgspec.DecodeError:
        return WorkerStatus()
