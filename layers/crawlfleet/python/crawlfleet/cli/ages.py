"""Times as people write them at a terminal."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment_from(text: str | None) -> str | datetime | None:
    """A moment from an age such as ``15m``; anything else is for the API to judge.

    >>> moment_from("2026-01-31T08:00:00Z")
    '2026-01-31T08:00:00Z'
    """
    age = re.fullmatch(r"(\d{1,6})([smhd])", text or "")
    if age is None:
        return text
    return datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
