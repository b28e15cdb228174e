"""The accrual failure detector's view of the workers, on Redis (SPEC.md C5, D1)."""

from datetime import timedelta
from typing import Final

import msgspec

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.keys import fleet_keys
from crawlfleet.adapters.redis_queue.workers import mortal_keys
from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.model.worker import Card, Pulse
from crawlfleet.policy.liveness import WATCH_LAPSE

_TAKE_TURN: Final = Script("take_turn")
_END_TURN: Final = Script("end_turn")
_PULSES: Final = Script("pulses")
_BURY: Final = Script("bury")

_MILLISECOND: Final = timedelta(milliseconds=1)
_FOR_EVER_MS: Final = 2**52
_decode: Final = msgspec.json.Decoder(Card).decode


class RedisWatch:
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
        lapse: timedelta = WATCH_LAPSE,
        fleet: str = "fleet",
    ) -> None:
        self._redis = connection
        self._lapse_ms = lapse // _MILLISECOND
        self._fleet = fleet
        self._keys = fleet_keys(fleet)

    def take_turn(self, name: str, holder: str, every: timedelta, term: timedelta) -> bool:
        """Whether the holder is to do ``name`` now.

        Not repeated when the answer is lost: a turn that nobody knows of ends after its term.
        """
        answer = self._redis.once(
            _TAKE_TURN,
            (self._keys.turns,),
            *(name, holder, every // _MILLISECOND, term // _MILLISECOND),
        )
        return whole(answer) == 1

    def end_turn(self, name: str, holder: str) -> None:
        """The holder is done; no effect if the turn is another's now."""
        whole(self._redis.again(_END_TURN, (self._keys.turns,), name, holder))

    def pulses(self, silent_for: timedelta | None = None) -> list[Pulse]:
        """Known workers, the longest silent first; nothing is read of those that are not asked for.

        A look costs by the workers it returns, not by the fleet.
        """
        keys = self._keys
        found = several(
            self._redis.again(
                _PULSES,
                (keys.pulses, keys.intervals, keys.cards, keys.watch),
                *((silent_for or timedelta()) // _MILLISECOND, self._lapse_ms),
            )
        )
        with self._redis.translated():
            _, *pulses = found
            return [_pulse(several(one, 5)) for one in pulses]

    def watched_for(self) -> timedelta:
        """How long the fleet has been watched without a lapse; nearly nothing after a flush."""
        keys = self._keys
        shape = (keys.pulses, keys.intervals, keys.cards, keys.watch)
        # Nobody is silent for longer than for ever: no worker is read.
        found = several(self._redis.again(_PULSES, shape, _FOR_EVER_MS, self._lapse_ms), 1)
        return whole(found[0]) * _MILLISECOND

    def bury(self, worker: str, pool: str = MAIN_POOL) -> bool:
        """The worker is dead, and counted as live no more; False if it was not known any more.

        Not repeated when the answer is lost: it says whether it was this call that buried it.
        """
        keys = mortal_keys(fleet_keys(self._fleet, pool))
        return whole(self._redis.once(_BURY, keys, worker)) == 1


def _pulse(answer: list[object]) -> Pulse:
    worker, silent_ms, intervals, card, beat_ms = answer
    return Pulse(
        worker=text(worker).decode(),
        silent_ms=whole(silent_ms),
        beat_ms=whole(beat_ms),
        intervals=tuple(int(interval) for interval in text(intervals).split()),
        card=_card(text(card)),
    )


def _card(found: bytes) -> Card:
    """What the worker says of itself; nothing if a version of ours wrote it that says it unlike."""
    try:
        return _decode(found)
    except msgspec.DecodeError:
        return Card()
