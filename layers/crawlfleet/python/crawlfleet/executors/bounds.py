"""What one page may cost where a spider reads it (SPEC.md H5): every bound of the executors.

What rules read inside of executors is bounded a second time, by the rules' own.
"""

from time import thread_time
from typing import Final

from crawlfleet.errors import ExtractError

#: Bytes of a body after it was unpacked; a sitemap may have 50 MiB by its standard.
UNPACKED_BYTES_MAX: Final = 67_108_864
#: Records of a page.
RECORDS_MAX: Final = 1_000_000
#: Links of a page, repeats aside; a sitemap may have 50,000 by its standard.
LINKS_MAX: Final = 50_000
#: Links from where the crawl began; what lies deeper is not followed.
LINK_DEPTH_MAX: Final = 100
#: Told one by one of what a page left out; the rest is counted.
SKIPPED_TOLD: Final = 100
#: With more than this left out, the page is no such page.
SKIPPED_MAX: Final = 100_000
#: Bytes of a record as the page writes it: an element, a JSON value, a line.
RECORD_BYTES_MAX: Final = 2_000_000
#: Elements of a record of XML.
RECORD_ELEMENTS_MAX: Final = 20_000
#: CPU seconds a page may cost, whatever is done with what it gives.
CPU_SECONDS_MAX: Final = 60.0
#: CPU seconds in which a page gives nothing; meanwhile a worker does nothing else.
SILENT_SECONDS_MAX: Final = 10.0


class Meter:
    """CPU time of one reading, without that of whoever takes what it gives."""

    __slots__ = ("_limit", "_since", "_spent")

    def __init__(self, limit: float = CPU_SECONDS_MAX) -> None:
        self._limit = limit
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
        if self._spent + silent > self._limit:
            raise ExtractError("page", f"took more than {self._limit:g} CPU seconds")
        if silent > SILENT_SECONDS_MAX:
            message = f"gave nothing for more than {SILENT_SECONDS_MAX:g} CPU seconds"
            raise ExtractError("page", message)
        return silent
