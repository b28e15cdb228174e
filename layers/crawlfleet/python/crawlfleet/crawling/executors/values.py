"""Dates as feeds and sitemaps write them, to ISO 8601."""

import re
from datetime import UTC, datetime
from typing import Final

_LONGEST: Final = 64
_RFC_2822: Final = re.compile(
    r"(?:[A-Za-z]{3,9},?\s*)?\d{1,2}\s+[A-Za-z]{3,9}\s+(?:\d{2}|\d{4})\s+\d{1,2}:\d{2}(?::\d{2})?"
    r"(?:\s*(?:[+-]\d{4}|UTC?|GMT|Z|[ECMP][SD]T))?(?:\s*\([^()]*\))?\Z",
    re.ASCII,
)
_YEAR_OR_MONTH: Final = re.compile(r"\d{4}(-\d{2})?\Z", re.ASCII)


def read_date(text: str | None) -> datetime | None:
    """A W3C date (a year or a month alone included) or an RFC 2822 one, or None for what is none.

    Without a zone it is taken for UTC.

    >>> read_date("2024-03").isoformat()
    '2024-03-01T00:00:00+00:00'
    >>> read_date("Tue, 05 Mar 2024 10:00:00 +0100").isoformat()
    '2024-03-05T10:00:00+01:00'
    >>> read_date("yesterday")
    """
    text = (text or "").strip()
    if not 4 <= len(text) <= _LONGEST:
        return None
    if _YEAR_OR_MONTH.match(text):
        text = f"{text}-01" if len(text) == 7 else f"{text}-01-01"
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        # What reads these reads nearly anything: 8:30 PM as half past eight in the morning.
        if not _RFC_2822.match(text):
            return None
        from email.utils import parsedate_to_datetime

        try:
            at = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    try:
        at.astimezone(UTC)  # the first and the last day there is have no other zone
    except (ValueError, OverflowError):
        return None
    return at
