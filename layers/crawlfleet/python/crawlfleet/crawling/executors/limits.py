"""What one page may cost where a spider reads it (SPEC.md H5): every bound of the executors.

What rules read inside of executors is bounded a second time, by the rules' own.

Dates as feeds and sitemaps write them, to ISO 8601.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from time import thread_time
from typing import Final

from crawlfleet.kernel.errors import ExtractError

#: Bytes of a body after it was unpacked; a sitemap may have 50 MiB by its standard.
UNPACKED_BYTES_MAX: Final = 67_108_864
#: Links of a page, repeats aside; a sitemap may have 50,000 by its standard.
LINKS_MAX: Final = 50_000
#: Links from where the crawl began; what lies deeper is not followed.
LINK_DEPTH_MAX: Final = 100
#: Told one by one of what a page left out; the rest is counted.
SKIPPED_REPORTED: Final = 100
#: Bytes of a record as the page writes it: an element, a JSON value, a line.
RECORD_BYTES_MAX: Final = 2_000_000
#: Elements of a record of XML.
RECORD_ELEMENTS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBounds:
    """Bound what one page may give, whoever reads it, and what it may cost."""

    records: int = 1_000_000
    links: int = LINKS_MAX
    #: With more than this left out, the page is no such page.
    skipped: int = 100_000
    #: CPU seconds a page may cost, whatever is done with what it gives.
    cpu_seconds: float = 60.0
    #: CPU seconds in which a page gives nothing; meanwhile a worker does nothing else.
    silent_seconds: float = 10.0


PAGE_BOUNDS: Final = PageBounds()


class Meter:
    """CPU time of one reading, without that of whoever takes what it gives."""

    __slots__ = ("_bounds", "_since", "_spent")

    def __init__(self, bounds: PageBounds = PAGE_BOUNDS) -> None:
        self._bounds = bounds
        self._spent = 0.0
        self._since = thread_time()

    def resume(self) -> None:
        """The reader goes on."""
        self._since = thread_time()

    def pause(self) -> None:
        """The reader has given something.

        Raises:
            ExtractError: the page has taken too long.
        """
        self._spent += self.tick()

    def tick(self) -> float:
        """Look at the clock; returns the seconds since the reader went on.

        Raises:
            ExtractError: the page has taken too long.
        """
        silent = thread_time() - self._since
        bounds = self._bounds
        if self._spent + silent > bounds.cpu_seconds:
            raise ExtractError("page", f"took more than {bounds.cpu_seconds:g} CPU seconds")
        if silent > bounds.silent_seconds:
            message = f"gave nothing for more than {bounds.silent_seconds:g} CPU seconds"
            raise ExtractError("page", message)
        return silent


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
