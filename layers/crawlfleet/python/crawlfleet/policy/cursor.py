"""Where a reader of a list has got to: a position ``(epoch ms, id)``, opaque to the client."""

import base64
import binascii
import re
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from crawlfleet.errors import InvalidRequestError
from crawlfleet.model.times import to_ms

Position: TypeAlias = tuple[int, str]

#: Writers' clocks and commits are this far apart at most. A reader that has caught up is sent back
#: to before it, so that what is stored late is not missed; it knows what it has seen by its id.
SETTLING: Final = timedelta(seconds=5)

_POSITION = re.compile(r"([0-9]{1,15})\.([0-9a-f]{1,32}(?:-[0-9]{1,9})?)\Z")


def encode(position: Position) -> str:
    """The position as a client carries it.

    >>> decode(encode((1767225600000, "42-0")))
    (1767225600000, '42-0')
    """
    return base64.urlsafe_b64encode(f"{position[0]}.{position[1]}".encode()).decode().rstrip("=")


def decode(text: str) -> Position:
    """The position in a cursor.

    Raises:
        InvalidRequestError: it is none of ours.
    """
    try:
        plain = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
    except (ValueError, binascii.Error) as error:
        raise InvalidRequestError.of("cursor", "is no cursor of this list") from error
    match = _POSITION.match(plain)
    if match is None:
        raise InvalidRequestError.of("cursor", "is no cursor of this list")
    return int(match[1]), match[2]


def resume_from(last: Position | None, before: Position | None, now: datetime) -> Position | None:
    """Where the next call starts, given the last position read now and the one before.

    Never later than the settling time allows, never earlier than where this call started.
    """
    horizon = (to_ms(now - SETTLING), "0")
    if last is None:
        return before
    settled = min(last, horizon)
    return settled if before is None else max(settled, before)
