"""Where a reader of a list of jobs has got to; opaque to the client."""

import base64
import binascii
import re
from datetime import datetime
from typing import Final

from crawlfleet.errors import InvalidRequestError
from crawlfleet.model.times import from_ms, to_ms

_POSITION: Final = re.compile(r"([0-9]{1,14}) ([A-Za-z0-9._-]{1,64})\Z")


def encode(created_at: datetime, name: str) -> str:
    """The position as a client carries it."""
    plain = f"{to_ms(created_at)} {name}".encode()
    return base64.urlsafe_b64encode(plain).decode().rstrip("=")


def decode(text: str) -> tuple[datetime, str]:
    """The position in a cursor.

    >>> decode(encode(from_ms(1767225600000), "june.4f2a91"))[1]
    'june.4f2a91'

    Raises:
        InvalidRequestError: it is none of ours.
    """
    try:
        plain = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
    except (ValueError, binascii.Error):
        plain = ""
    match = _POSITION.match(plain)
    if match is None:
        raise InvalidRequestError.of("cursor", "is no cursor of this list")
    return from_ms(int(match[1])), match[2]
