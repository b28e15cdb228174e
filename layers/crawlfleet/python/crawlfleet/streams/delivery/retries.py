"""Retries of delivery: when a receiver, or one delivery of it, is tried again; pure.

A receiver that does not answer is waited for as a whole, by failures in a row, and its deliveries
stay as they are: a receiver that is away costs a write a try, however much waits for it. One that
takes some of a batch has the others tried again alone, by their own tries.
"""

from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

#: After the first failure; doubled with each more.
FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 300.0
#: The part of a wait that is spread, so that those who failed together do not come back so.
SPREAD: Final = 0.25
#: A delivery that its receiver said no to so often, while it answered, is a dead letter.
MOST_TRIES: Final = 8
#: So is what a receiver has not taken for a day.
LONGEST_WAIT: Final = timedelta(days=1)


def back_off_seconds(failures: int, name: bytes) -> float:
    """Return after how many seconds to try again, after so many failures in a row.

    ``name`` spreads the waits: it is of what is tried, so that the same call has the same answer.

    >>> [round(back_off_seconds(failures, b"a")) for failures in (1, 2, 3, 9, 10_000)]
    [1, 2, 3, 231, 265]
    """
    whole = min(FIRST_SECONDS * 2.0 ** min(failures - 1, 30), LONGEST_SECONDS)
    digest = blake2b(name + str(failures).encode(), digest_size=4).digest()
    return whole * (1 - SPREAD * int.from_bytes(digest) / 0xFFFF_FFFF)


def again_at(failures: int, name: bytes, now: datetime) -> datetime:
    """Return when to try again, after so many failures in a row."""
    return now + timedelta(seconds=back_off_seconds(failures, name))


def is_tried_out(tries: int) -> bool:
    """Tell whether a delivery that failed so often is given up."""
    return tries >= MOST_TRIES


def given_up_before(now: datetime) -> datetime:
    """Return the time before which whatever still waits for a receiver that fails is given up."""
    return now - LONGEST_WAIT
