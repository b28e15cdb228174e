"""The base class of executors, and the bounds of what one page may cost them (SPEC.md B7, B8, H5).

An executor reads a page where a rule does not. It declares its parameters as a struct and gives
records and links as it finds them; everything else (downloading, politeness, storage, following
links, leases) is not its business. What rules read inside of executors is bounded a second time, by
the rules' own bounds.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from time import thread_time
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urljoin

from crawlfleet.config.documents.rule import Rule
from crawlfleet.kernel.errors import ExtractError, Problem
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.urls import problem_with
from crawlfleet.kernel.validation import Document
from crawlfleet.requests.models import Link, Skipped

if TYPE_CHECKING:
    # Whoever asks where a spider begins reads no page, and has no parser.
    from crawlfleet.crawling.extract.extractor import RuleExtractor

#: Bytes of a body after it was unpacked; a sitemap may have 50 MiB by its standard.
UNPACKED_BYTES_MAX: Final = 67_108_864
#: Links of a page, repeats aside; a sitemap may have 50,000 by its standard.
LINKS_MAX: Final = 50_000
LINK_DEPTH_MAX: Final = 100  #: Links from where the crawl began; what lies deeper is not followed.
#: Entries that a page left out which are listed; the rest is counted.
SKIPPED_REPORTED: Final = 100
#: Bytes of a record as the page writes it: an element, a JSON value, a line.
RECORD_BYTES_MAX: Final = 2_000_000
RECORD_ELEMENTS_MAX: Final = 20_000  #: Elements of a record of XML.


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBounds:
    """Bound what one page may give, whoever reads it, and what it may cost."""

    records: int = 1_000_000
    links: int = LINKS_MAX
    skipped: int = 100_000  #: With more than this left out, the page is no such page.
    cpu_seconds: float = 60.0  #: CPU seconds a page may cost, whatever is done with what it gives.
    #: CPU seconds in which a page gives nothing; meanwhile a worker does nothing else.
    silent_seconds: float = 10.0


PAGE_BOUNDS: Final = PageBounds()


class Meter:
    """The CPU time of one reading, without that of whoever takes what it gives."""

    __slots__ = ("_bounds", "_since", "_spent")

    def __init__(self, bounds: PageBounds = PAGE_BOUNDS) -> None:
        self._bounds = bounds
        self._spent = 0.0
        self._since = thread_time()

    def resume(self) -> None:
        """Go on reading."""
        self._since = thread_time()

    def pause(self) -> None:
        """Stop the clock, as the reader has given something; raises as :meth:`tick`."""
        self._spent += self.tick()

    def tick(self) -> float:
        """Look at the clock; return the seconds since the reader went on.

        Raises ExtractError: the page has taken too long.
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
    """Read a W3C date (a year or a month alone, too) or an RFC 2822 one; None for what is none.

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


Found: TypeAlias = Mapping[str, object] | Link | Skipped  #: What an executor gives.
Owner: TypeAlias = tuple[str, str]  #: A tenant and its biz.


class Parameters(Document, frozen=True, kw_only=True):
    """The base of what executors declare: a parameter that is not declared is an error.

    Field types with ``msgspec.Meta`` say what a value may be; one without a default is required.
    """


class NoParameters(Parameters, frozen=True, kw_only=True):
    """The parameters of an executor that takes none."""


P = TypeVar("P", bound=Parameters)


class UsedRule(NamedTuple):
    """A rule that an executor applies, made of its parameters.

    ``places`` says where the parts of it stand in the parameters, where they stand elsewhere:
    ``{"fields.next_page": "next_page"}``.
    """

    rule: Rule
    places: Mapping[str, str] = {}


class Context:
    """The page's circumstances, as an executor knows them."""

    __slots__ = ("_meter", "depth", "meta", "now", "rule", "url")

    def __init__(
        self,
        url: str,
        rule: str,
        *,
        depth: int = 0,
        meta: Mapping[str, Any] | None = None,
        now: datetime | None = None,
        meter: Meter | None = None,
    ) -> None:
        self.url = url  #: Where redirects ended; what the page's links are relative to.
        self.rule = rule  #: Name of the spider: a link to it is read by the same executor.
        self.depth = depth  #: Links from where the crawl began.
        self.meta: Mapping[str, Any] = meta or {}  #: The request's own.
        self.now = now or datetime.now(UTC)  #: When the page is read, with its zone.
        self._meter = meter or Meter()

    def tick(self) -> None:
        """Look at the clock; called now and then by whoever works long without giving anything.

        Raises ExtractError: the page has taken too long.
        """
        self._meter.tick()

    def link(
        self, url: str, rule: str, *, deeper: int = 1, meta: Mapping[str, Any] | None = None
    ) -> Link | None:
        """Make a link of this page absolute; None where nothing could be requested by it.

        >>> Context("https://example.org/a/", "list").link("../b#top", "page").url
        'https://example.org/b'
        >>> Context("https://example.org/", "list").link("mailto:me@example.org", "page")
        """
        try:
            joined = urljoin(self.url, url.strip()).partition("#")[0]
        except ValueError:
            return None
        if problem_with(joined) is not None:
            return None
        return Link(url=joined, rule=rule, depth=self.depth + deeper, meta=dict(meta or {}))


class Executor(ABC, Generic[P]):
    """Reads the pages of spiders that name it. Constructed once for a spider, then kept.

    To add one, write a file such as ``executors/robots_lines.py``. This is a whole one; a spider
    uses it with ``executor: robots_lines`` and ``parameters: {agent: "*", follow: sitemap}``::

        from crawlfleet.errors import ExtractError
        from crawlfleet.executors import Context, Executor, Parameters


        class RobotsParameters(Parameters, frozen=True, kw_only=True):
            agent: str                  # no default: a spider has to say it
            follow: str | None = None   # name of the rule that is to read the sitemaps


        class RobotsLines(Executor[RobotsParameters]):
            name = "robots_lines"
            Parameters = RobotsParameters

            def read(self, page, context):
                agent = None
                for number, line in enumerate(page.body.decode("utf-8", "replace").splitlines(), 1):
                    key, colon, value = line.partition("#")[0].partition(":")
                    key, value = key.strip().lower(), value.strip()
                    if key and not colon:
                        raise ExtractError(f"line {number}", "is no 'key: value'")
                    if key == "user-agent":
                        agent = value
                    elif key == "sitemap" and self.parameters.follow:
                        if link := context.link(value, self.parameters.follow):
                            yield link
                    elif key in ("allow", "disallow") and agent == self.parameters.agent:
                        yield {"rule": key, "path": value, "line": number}

    ``read`` is a generator, so that a large page is never in memory as records. It gives mappings
    (a record's fields), links, and ``Skipped`` for what it leaves out. It raises ``ExtractError``
    with the place where the page cannot be read; then nothing of the page is stored. How many it
    gives and how long it takes is bounded by whoever runs it; where it works long without giving
    anything it calls ``context.tick()``. It keeps nothing between two pages and knows no network.

    What takes long to import, such as a parser, is imported inside ``read``.
    Selectors among the parameters are left to ``self.rules``, which applies rules: make a
    ``Rule`` of them in ``used_rules``, so that they are checked with the configuration, and
    ``self.rules.harvest(rule, page, context.depth)`` reads it.
    """

    #: Pages are read in a process that has no files to write, no network and no credentials; False
    #: has them read in the worker itself, for an operator's code that needs any of these.
    isolated: ClassVar[bool] = True
    #: The name that spiders give: a lower-case letter, then letters, digits and underscores.
    name: ClassVar[str]
    Parameters: ClassVar[type[Parameters]] = NoParameters  #: The struct of its parameters.

    def __init__(self, parameters: P, rules: RuleExtractor) -> None:
        self.parameters = parameters
        self.rules = rules

    @abstractmethod
    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Read the records and links of a page.

        Raises ExtractError: names what could not be read.
        """

    @classmethod
    def problems(cls, parameters: P) -> Iterable[Problem]:  # noqa: ARG003  for those who override
        """List what is wrong with parameters that are of the right types; places start at them."""
        return ()

    @classmethod
    def used_rules(cls, parameters: P) -> Iterable[UsedRule]:  # noqa: ARG003  as above
        """List the rules that it is going to apply."""
        return ()

    @classmethod
    def fields(cls, parameters: P) -> Iterable[str] | None:  # noqa: ARG003  as above
        """Name the fields that its records have; None where the page says it."""
        return None

    @classmethod
    def starts(cls, parameters: P) -> Iterable[str]:  # noqa: ARG003  as above
        """List the URLs that a crawl begins with, where parameters name any."""
        return ()
