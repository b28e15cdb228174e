"""Who holds what of a lane, on Redis: recovery and people ask (SPEC.md C5, D1)."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    nonsense,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.entries import read, spell
from crawlfleet.adapters.redis_queue.keys import lane_keys
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry
from crawlfleet.model.times import to_ms
from crawlfleet.policy.tokens import is_of

#: Leases that one step looks at: about a millisecond of the server's time.
STEP: Final = 1_000

_LIST_LEASES: Final = Script("list_leases")
_RELIST: Final = Script("relist")


class RedisLeaseBook:
    """A :class:`~crawlfleet.ports.LeaseBook`.

    Leases are read in steps, between which others work: what is leased or finished meanwhile may
    be missing or there, what is leased throughout is there.

    Args:
        connection: The stage's Redis.
        step: Leases that one step looks at.
    """

    def __init__(self, connection: RedisConnection, *, step: int = STEP) -> None:
        self._redis = connection
        self._length = step

    def leases(self, lane: Lane, worker: str | None = None) -> list[tuple[str, Entry]]:
        """Leased entries with their tokens: of one worker, or of all."""
        pattern = "*" if worker is None else f"{_literally(worker)}.*"
        members: dict[bytes, None] = {}
        cursor, *found = self._step(lane, b"0", pattern)
        members.update(dict.fromkeys(found))
        while cursor != b"0":
            cursor, *found = self._step(lane, cursor, pattern)
            members.update(dict.fromkeys(found))
        return [
            held
            for held in map(self._read, members)
            if held is not None and (worker is None or is_of(held[0], worker))
        ]

    def relist(self, lane: Lane, token: str, entries: Sequence[Entry], until: datetime) -> None:
        """List as leased what the store says the token owns and the queue has forgotten.

        What is listed already is not shortened, and nothing is lost if this is called twice.

        Raises:
            ValueError: the token contains ``:{``, which separates it from its entry.
        """
        if ":{" in token:
            raise ValueError(f"a lease token must not contain ':{{': {token!r}")
        if entries:
            keys = (lane_keys(lane).leases,)
            whole(self._redis.again(_RELIST, keys, token, to_ms(until), spell(entries)))

    def _step(self, lane: Lane, cursor: bytes, pattern: str) -> list[bytes]:
        """The cursor of the next step, 0 after the last one, then what was found.

        Raises:
            StoreUnavailableError: the step leads nowhere, so what answers is no Redis.
        """
        keys = (lane_keys(lane).leases,)
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


def _literally(worker: str) -> str:
    """The worker's id in a glob pattern."""
    return re.sub(r"([\\*?\[\]^-])", r"\\\1", worker)
