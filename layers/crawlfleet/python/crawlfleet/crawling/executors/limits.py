"""What one page may cost where a spider reads it (SPEC.md H5): every bound of the executors.

What rules read inside of executors is bounded a second time, by the rules' own.
"""

from dataclasses import dataclass
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
SKIPPED_TOLD: Final = 100
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
