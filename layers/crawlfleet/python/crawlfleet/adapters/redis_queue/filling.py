"""Filling a lane's queue from the truth after Redis has lost some or all of it (SPEC.md A5, D12).

A fill goes on for many calls, and whoever does it may die or freeze in the middle. The nonce of the
latest :meth:`RedisFilling.clear` decides: an earlier one's fills are refused from then on.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.entries import spell
from crawlfleet.adapters.redis_queue.keys import lane_keys
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry, Mark
from crawlfleet.model.times import to_ms

_MARK: Final = Script("mark")
_CLEAR: Final = Script("clear")
_FILL: Final = Script("fill")
_FILL_DELAYED: Final = Script("fill_delayed")
_FILLED: Final = Script("filled")


class RedisFilling:
    """A :class:`~crawlfleet.ports.QueueFilling`."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def mark(self, lane: Lane) -> Mark:
        """Which server holds the queue now, and what was written there when it was filled.

        The server is the run of its process and the history it writes, so that one which was a
        replica for a while and is promoted again is another.
        """
        answer = several(self._redis.again(_MARK, (lane_keys(lane).filled,)), 3)
        run, history, found = answer
        server = f"{text(run).decode()}:{text(history).decode()}"
        if found is None:
            return Mark(server=server)
        with self._redis.translated():
            reached, _, nonce = text(found).decode().partition(":")
            return Mark(server=server, nonce=nonce, reached=int(reached) if reached else None)

    def clear(self, lane: Lane, nonce: str) -> None:
        """Drop what is queued and delayed (not what is leased), and begin a filling at 0."""
        keys = lane_keys(lane)
        whole(self._redis.again(_CLEAR, (keys.queue, keys.delayed, keys.filled), nonce))

    def fill(self, lane: Lane, nonce: str, entries: Sequence[Entry], reached: int) -> bool:
        """Append, oldest first, and note how far this has come. False: another has begun anew."""
        keys = lane_keys(lane)
        answer = self._redis.once(_FILL, (keys.queue, keys.filled), nonce, reached, spell(entries))
        return whole(answer) == 1

    def fill_delayed(
        self, lane: Lane, nonce: str, entries: Sequence[tuple[Entry, datetime]]
    ) -> bool:
        """The same for what waits for its time; what a worker has delayed meanwhile stays."""
        keys = lane_keys(lane)
        answer = self._redis.again(
            _FILL_DELAYED,
            (keys.delayed, keys.filled),
            nonce,
            spell([entry for entry, _ in entries]),
            "\n".join(str(to_ms(due_at)) for _, due_at in entries),
        )
        return whole(answer) == 1

    def filled(self, lane: Lane, nonce: str) -> bool:
        """The queue is complete; True also if this nonce had completed it before."""
        return whole(self._redis.again(_FILLED, (lane_keys(lane).filled,), nonce)) == 1
