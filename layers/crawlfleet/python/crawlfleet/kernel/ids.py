"""Request ids: their kinds, how they are written, the time they carry (SPEC.md A2), and states.

A Snowflake or counter id is an ``int`` below 2^63; a UUID or ObjectId is lower-case hex. Clients
see every id as a string, because JSON numbers lose exactness above 2^53. The four kinds cannot be
mistaken for one another: integers below and above 2^50, 24 hex digits, 32 hex digits.
"""

import re
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Final, TypeAlias

import msgspec

from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.time import from_ms


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Ids to be used before ``expires_at``: runs of ``(first, how many)``, or single hex ids."""

    expires_at: datetime
    runs: tuple[tuple[int, int], ...] = ()
    ids: tuple[str, ...] = ()


RequestId: TypeAlias = int | str

#: 2025-01-01T00:00:00Z. 41 bits of milliseconds from here last until 2094.
SNOWFLAKE_EPOCH_MS: Final = 1_735_689_600_000
SEQUENCE_BITS: Final = 12
WORKER_BITS: Final = 10
TIME_SHIFT: Final = SEQUENCE_BITS + WORKER_BITS
#: Integers below are counters, from here on Snowflake ids.
COUNTER_LIMIT: Final = 1 << 50

_INTEGER = re.compile(r"[0-9]{1,19}\Z", re.ASCII)
_OBJECT_ID = re.compile(r"[0-9a-f]{24}\Z")
_UUID = re.compile(r"[0-9a-f]{32}\Z")
_LARGEST = 2**63 - 1
#: 9999-12-31, the last moment a datetime can hold: 48 bits of a made-up UUID reach further.
_LATEST_MS = 253_402_300_799_000


class IdKind(StrEnum):
    """The kinds of request ids, of which each biz has one."""

    SNOWFLAKE = "snowflake"
    UUID = "uuid"
    OBJECT_ID = "objectid"
    COUNTER = "counter"


def parse_id(text: str, field: str = "id") -> RequestId:
    """Read an id as a client writes it.

    >>> parse_id("123456789012345678")
    123456789012345678

    Raises:
        InvalidRequestError: the text is none of the four kinds.
    """
    if _INTEGER.match(text) and int(text) <= _LARGEST:
        return int(text)
    folded = text.lower().replace("-", "") if len(text) in (32, 36) else text.lower()
    if _UUID.match(folded) or _OBJECT_ID.match(folded):
        return folded
    raise InvalidRequestError.of(
        field, "is no request id: expected up to 19 digits, 24 hex digits or a UUID"
    )


def issued_at(request_id: RequestId) -> datetime | None:
    """Return the moment an id carries; None for a counter, which carries none.

    The kinds tell themselves apart: Snowflake ids passed 2^50 three days after their epoch, and a
    counter that counts a million a second takes 35 years to get there.
    """
    if isinstance(request_id, int):
        if request_id < COUNTER_LIMIT:
            return None
        return from_ms((request_id >> TIME_SHIFT) + SNOWFLAKE_EPOCH_MS)
    if len(request_id) == 24:
        return from_ms(int(request_id[:8], 16) * 1000)
    return from_ms(min(int(request_id[:12], 16), _LATEST_MS))


class State(IntEnum):
    """``flag`` on the wire. A biz may add states of its own (:data:`OWN`, :data:`OWN_FINAL`)."""

    PENDING = 0
    DONE = 1
    LEASED = 2
    WAITING = 3
    DEAD = 4
    CANCELLED = 5
    EXPIRED = 6

    @property
    def label(self) -> str:
        """Return the state as clients write it: ``pending``."""
        return self.name.lower()


#: States in which nothing more will happen to a request.
FINAL_STATES = frozenset({State.DONE, State.DEAD, State.CANCELLED, State.EXPIRED})
#: A biz's own states: a request in one from ``OWN`` on is open, in one from ``OWN_FINAL`` on it has
#: ended. The number alone says it, so that no change of a configuration changes what is counted.
OWN: Final = 100
OWN_FINAL: Final = 1_000


def is_final(flag: int) -> bool:
    """Tell whether a request in this state has ended; a biz's own states included.

    >>> is_final(State.DONE), is_final(State.LEASED), is_final(OWN), is_final(OWN_FINAL)
    (True, False, False, True)
    """
    return flag >= OWN_FINAL or flag in FINAL_STATES
