"""Times as people write them at a terminal."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from crawlfleet.errors import InvalidRequestError

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment_from(text: str | None, field: str = "since") -> str | datetime | None:
    """A moment: an age such as ``15m``, or a time as the API takes it.

    >>> moment_from("2026-01-31T08:00:00Z")
    '2026-01-31T08:00:00Z'

    Raises:
        InvalidRequestError: it is neither.
    """
    if text is None:
        return None
    age = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if age is None:
        if not _is_time(text):
            message = "must be a time such as 2026-01-31T08:00:00Z, or an age: 15m, 2h, 7d"
            raise InvalidRequestError.of(field, message)
        return text
    return datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})


def _is_time(text: str) -> bool:
    if text.isascii() and text.isdigit():
        return True  # epoch milliseconds
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
