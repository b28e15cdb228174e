"""Rebuild of a queue from MongoDB after Redis has lost some of it; leases by worker.

A rebuild takes many calls, and who does it may die or freeze in the middle. The nonce of the latest
:meth:`RedisQueueRebuild.clear` decides: an earlier one's entries are refused from then on (SPEC.md
A5, C5, D1, D12).
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.models import Entry, QueueEpoch
from crawlfleet.requests.queue.redis.keys import host_list, level_keys, redis_keys
from crawlfleet.requests.queue.redis.queue import check_token, read, spell
from crawlfleet.requests.tokens import is_of

_EPOCH: Final = Script("requests/queue/redis/epoch")
_CLEAR: Final = Script("requests/queue/redis/clear")
_DEFERS: Final = "requests/queue/deferral_prelude"
_LIST_DEFERRED: Final = Script("requests/queue/redis/list_deferred", _DEFERS)
_DROP_DEFERRED: Final = Script("requests/queue/redis/drop_deferred", _DEFERS)
_FILL: Final = Script("requests/queue/redis/fill", "requests/queue/levels_prelude")
_FILL_DELAYED: Final = Script("requests/queue/redis/fill_delayed")
_FILLED: Final = Script("requests/queue/redis/filled")
#: Hosts whose lists are dropped in one call.
_HOSTS: Final = 500


class RedisQueueRebuild:
    """Rebuild a queue from what MongoDB has."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def epoch(self, queue_key: QueueKey) -> QueueEpoch:
        """Return which server holds the queue now, and the nonce of its last rebuild.

        The server is the run of its process and the history it writes, so that one which was a
        replica for a while and is promoted again is another.
        """
        answer = self._redis.again(_EPOCH, (redis_keys(queue_key).filled,))
        with self._redis.translated():
            return _epoch(several(answer, 3))

    def epochs(self, queues: Sequence[QueueKey]) -> dict[QueueKey, QueueEpoch | None]:
        """Return :meth:`epoch` of many queues, many a round trip; None where a node is away."""
        each = [((redis_keys(queue_key).filled,), ()) for queue_key in queues]
        answers = self._redis.queue_by_queue(_EPOCH, each)
        with self._redis.translated():
            return {
                queue_key: None
                if isinstance(answer, StoreUnavailableError)
                else _epoch(several(answer, 3))
                for queue_key, answer in zip(queues, answers, strict=True)
            }

    def clear(self, queue_key: QueueKey, nonce: str) -> None:
        """Drop what is queued, deferred and delayed (not what is leased); begin a rebuild at 0.

        Each host has a list of its own, so those go first, some at a time. What is deferred
        meanwhile goes too: the rebuild begins when nothing is.
        """
        keys = redis_keys(queue_key)
        index = (keys.parked, keys.parked_due, keys.parked_low)
        several(self._redis.again(_LIST_DEFERRED, index, 0, 0))  # hosts missing in parked_due join
        everything = (
            *(keys.filled, keys.parked_due, keys.parked, keys.parked_low),
            *(keys.delayed, keys.ticks, *level_keys(queue_key)),
        )
        while not whole(self._redis.again(_CLEAR, everything, nonce)):
            (found,) = several(self._redis.together(("ZRANGE", keys.parked_due, 0, _HOSTS - 1)), 1)
            with self._redis.translated():
                hosts = [text(host).decode() for host in several(found)]
            lists = (host_list(queue_key, host) for host in hosts)
            whole(self._redis.again(_DROP_DEFERRED, (*index, *lists), *hosts))

    def fill(self, queue_key: QueueKey, nonce: str, entries: Sequence[Entry], reached: int) -> bool:
        """Append, oldest first of each priority, and note how far the rebuild has come.

        False: another has begun anew.
        """
        places = (redis_keys(queue_key).filled, *level_keys(queue_key))
        return whole(self._redis.once(_FILL, places, nonce, reached, spell(entries))) == 1

    def fill_delayed(
        self, queue_key: QueueKey, nonce: str, entries: Sequence[tuple[Entry, datetime]]
    ) -> bool:
        """Append what waits for its time; what a worker has delayed meanwhile stays."""
        keys, dues = redis_keys(queue_key), "\n".join(str(to_ms(due_at)) for _, due_at in entries)
        places, lines = (keys.delayed, keys.filled), spell([entry for entry, _ in entries])
        return whole(self._redis.again(_FILL_DELAYED, places, nonce, lines, dues)) == 1

    def filled(self, queue_key: QueueKey, nonce: str) -> bool:
        """Note that the queue is whole; True also if this nonce had noted it before."""
        return whole(self._redis.again(_FILLED, (redis_keys(queue_key).filled,), nonce)) == 1


def _epoch(answer: list[object]) -> QueueEpoch:
    run, history, found = answer
    server = f"{text(run).decode()}:{text(history).decode()}"
    if found is None:
        return QueueEpoch(server=server)
    reached, _, nonce = text(found).decode().partition(":")
    return QueueEpoch(server=server, nonce=nonce, reached=int(reached) if reached else None)


#: Leases that one step reads: about a millisecond of the server's time.
STEP: Final = 1_000

_LIST_LEASES: Final = Script("requests/queue/redis/list_leases")
_RELIST: Final = Script("requests/queue/redis/relist")


class RedisLeaseBook:
    """List leases by worker; costs grow with what is leased, not with what is queued.

    A token begins with its worker's id (requests.models). Leases are read in steps, between which
    others work: what is leased or finished meanwhile may be missing or there, what is leased
    throughout is there. ``step`` is how many one step reads.
    """

    def __init__(self, connection: RedisConnection, *, step: int = STEP) -> None:
        self._redis, self._length = connection, step

    def leases(self, queue_key: QueueKey, worker: str | None = None) -> list[tuple[str, Entry]]:
        """List leased entries with their tokens: of one worker, or of all."""
        # For a glob pattern the worker's id is escaped.
        literally = re.sub(r"([\\*?\[\]^-])", r"\\\1", worker or "")
        pattern = "*" if worker is None else f"{literally}.*"
        cursor, *found = self._step(queue_key, b"0", pattern)
        members = dict.fromkeys(found)
        while cursor != b"0":
            cursor, *found = self._step(queue_key, cursor, pattern)
            members.update(dict.fromkeys(found))
        return [
            held
            for held in map(self._read, members)
            if held is not None and (worker is None or is_of(held[0], worker))
        ]

    def relist(
        self, queue_key: QueueKey, token: str, entries: Sequence[Entry], until: datetime
    ) -> None:
        """List as leased what the store says the token owns and the queue has forgotten.

        What is listed already is not shortened, and nothing is lost if this is called twice.

        Raises:
            ValueError: the token contains ``:{``, which separates it from its entry.
        """
        check_token(token)
        if entries:
            keys = (redis_keys(queue_key).leases,)
            whole(self._redis.again(_RELIST, keys, token, to_ms(until), spell(entries)))

    def _step(self, queue_key: QueueKey, cursor: bytes, pattern: str) -> list[bytes]:
        """Return the cursor of the next step, 0 after the last one, then what was found.

        Raises:
            StoreUnavailableError: the step leads nowhere, so what answers is no Redis.
        """
        keys = (redis_keys(queue_key).leases,)
        answer = self._redis.again(_LIST_LEASES, keys, cursor, pattern, self._length)
        step = [text(value) for value in several(answer)]
        if not step or (step[0] == cursor != b"0"):
            raise nonsense()
        return step

    def _read(self, member: bytes) -> tuple[str, Entry] | None:
        token, separator, rest = member.partition(b":{")
        with suppress(msgspec.DecodeError, UnicodeDecodeError):  # the next lease drops it
            return token.decode(), read(separator[1:] + rest)
        return None
