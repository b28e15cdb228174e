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
from crawlfleet.adapters.redis_queue.keys import host_list, lane_keys, level_keys
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry, Mark
from crawlfleet.model.times import to_ms

_MARK: Final = Script("mark")
_CLEAR: Final = Script("clear")
_LIST_PARKED: Final = Script("list_parked", "parking_prelude")
_DROP_PARKED: Final = Script("drop_parked", "parking_prelude")
_FILL: Final = Script("fill", "levels_prelude")
_FILL_DELAYED: Final = Script("fill_delayed")
_FILLED: Final = Script("filled")


#: Hosts whose lists are dropped in one call.
_HOSTS: Final = 500


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
        """Drop what is queued, parked and delayed (not what is leased), begin a filling at 0.

        Each host has a list of its own, so those go first, some at a time. What is parked meanwhile
        goes too: the filling begins when nothing is.
        """
        keys = lane_keys(lane)
        index = (keys.parked, keys.parked_due, keys.parked_low)
        several(self._redis.again(_LIST_PARKED, index, 0, 0))  # hosts missing in parked_due join
        everything = (
            *(keys.filled, keys.parked_due, keys.parked, keys.parked_low),
            *(keys.delayed, keys.ticks, *level_keys(lane)),
        )
        while not whole(self._redis.again(_CLEAR, everything, nonce)):
            (found,) = several(self._redis.together(("ZRANGE", keys.parked_due, 0, _HOSTS - 1)), 1)
            with self._redis.translated():
                hosts = [text(host).decode() for host in several(found)]
            lists = (host_list(lane, host) for host in hosts)
            whole(self._redis.again(_DROP_PARKED, (*index, *lists), *hosts))

    def fill(self, lane: Lane, nonce: str, entries: Sequence[Entry], reached: int) -> bool:
        """Append, oldest first, and note how far this has come. False: another has begun anew."""
        keys = lane_keys(lane)
        places = (keys.filled, *level_keys(lane))
        answer = self._redis.once(_FILL, places, nonce, reached, spell(entries))
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
