"""Cursors: the position of a reader of a list, ``(epoch ms, id)``, opaque to the client."""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Generic, TypeAlias, TypeVar

from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.time import from_ms, to_ms

Position: TypeAlias = tuple[int, str]

#: Writers' clocks and commits are this far apart at most. A reader that has caught up is sent back
#: to before it, so that what is stored late is not missed; it knows what it has seen by its id.
SETTLING: Final = timedelta(seconds=5)

_POSITION = re.compile(
    r"([0-9]{1,15})\.((?:[0-9]{1,19}|[0-9a-f]{24}|[0-9a-f]{32})(-[0-9]{1,9})?|([0-9a-f]{40}))\Z"
)
#: Before a position in a list of the newest first.
_NEWEST: Final = "-"
#: 9999-12-31, the last moment that a datetime holds, and the largest id.
_LATEST_MS: Final = 253_402_300_799_999
_LARGEST_ID: Final = 2**63 - 1
#: The id before all others, which stands for none.
_BEFORE_ALL: Final = "0"


#: After all others.
LAST: Final[Position] = (_LATEST_MS, _BEFORE_ALL)


def _opaque(plain: str) -> str:
    return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def _plain(text: str) -> str:
    """Return what stands in a cursor; nothing that matches, where it is none."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
    except (ValueError, binascii.Error):
        return ""


def encode(position: Position, *, newest: bool = False) -> str:
    """Return the position as a client carries it; one of a list of the ``newest`` first is marked.

    >>> decode(encode((1767225600000, "42-0")), records=True)
    (1767225600000, '42-0')
    """
    return _opaque(f"{_NEWEST if newest else ''}{position[0]}.{position[1]}")


def decode(text: str, *, records: bool = False, newest: bool = False) -> Position:
    """Read the position in a cursor of a list of requests or of ``records``.

    Raises:
        InvalidRequestError: it is none of ours, of another list, or of the other order.
    """
    position = _position(text, records=records, newest=newest)
    if position is None:
        raise InvalidRequestError.of("cursor", "is no cursor of this list")
    return position


def _position(text: str, *, records: bool, newest: bool) -> Position | None:
    plain = _plain(text)
    match = _POSITION.match(plain.removeprefix(_NEWEST))
    if match is None or plain.startswith(_NEWEST) != newest or int(match[1]) > _LATEST_MS:
        return None
    owner, _, _ = match[2].partition("-")
    if len(owner) < 20 and int(owner) > _LARGEST_ID:
        return None
    # A record's id ends in its index, or is its own key.
    fits = match[2] == _BEFORE_ALL or records == (match[3] is not None or match[4] is not None)
    return (int(match[1]), match[2]) if fits else None


def resume_from(last: Position | None, before: Position | None, now: datetime) -> Position | None:
    """Return where the next call starts, given the last position read now and the one before.

    Never later than the settling time allows, never earlier than where this call started.
    """
    horizon = (to_ms(now - SETTLING), _BEFORE_ALL)
    if last is None:
        return before
    settled = min(last, horizon)
    return settled if before is None else max(settled, before)


_JOB_POSITION: Final = re.compile(r"([0-9]{1,14}) ([A-Za-z0-9._-]{1,64})\Z")


def encode_job(created_at: datetime, name: str) -> str:
    """Return the position as a client carries it."""
    return _opaque(f"{to_ms(created_at)} {name}")


def decode_job(text: str) -> tuple[datetime, str]:
    """Read the position in a cursor of a list of jobs.

    >>> decode_job(encode_job(from_ms(1767225600000), "june.4f2a91"))[1]
    'june.4f2a91'

    Raises:
        InvalidRequestError: it is none of ours.
    """
    match = _JOB_POSITION.match(_plain(text))
    if match is None:
        raise InvalidRequestError.of("cursor", "is no cursor of this list")
    return from_ms(int(match[1])), match[2]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A page of a list. ``cursor`` is where to go on, now or later; ``more`` says there is more."""

    items: list[T]
    cursor: str | None
    more: bool
