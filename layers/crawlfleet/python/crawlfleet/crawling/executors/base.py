"""What an executor is: a class in a file of its own (SPEC.md B7, B8).

An executor reads a page where a rule does not. It declares its parameters as a struct and gives
records and links as it finds them; everything else (downloading, politeness, storage, following
links, leases) is not its business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urljoin

from crawlfleet.config.documents.rule import Rule
from crawlfleet.crawling.executors.limits import Meter
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.urls import problem_with
from crawlfleet.kernel.validation import Document
from crawlfleet.requests.models import Link, Skipped
from crawlfleet.requests.ports import Extractor

#: What an executor gives.
Found: TypeAlias = Mapping[str, object] | Link | Skipped


class Parameters(Document, frozen=True, kw_only=True):
    """Base of what executors declare: a parameter that is not declared is a mistake.

    Field types with ``msgspec.Meta`` say what a value may be; one without a default is required.
    """


class NoParameters(Parameters, frozen=True, kw_only=True):
    """There is nothing to say."""


P = TypeVar("P", bound=Parameters)


class UsedRule(NamedTuple):
    """A rule that an executor applies, made of its parameters.

    ``places`` says where the parts of it stand in the parameters, where they stand elsewhere:
    ``{"fields.next_page": "next_page"}``.
    """

    rule: Rule
    places: Mapping[str, str] = {}


class Context:
    """What is known of the page beside itself.

    Attributes:
        url: Where redirects ended; what the page's links are relative to.
        rule: Name of the spider: a link to it is read by the same executor.
        depth: Links from where the crawl began.
        meta: The request's own.
        now: When the page is read, with its zone.
    """

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
        self.url = url
        self.rule = rule
        self.depth = depth
        self.meta: Mapping[str, Any] = meta or {}
        self.now = now or datetime.now(UTC)
        self._meter = meter or Meter()

    def tick(self) -> None:
        """To be called now and then by whoever works long without giving anything.

        Raises:
            ExtractError: the page has taken too long.
        """
        self._meter.tick()

    def link(
        self, url: str, rule: str, *, deeper: int = 1, meta: Mapping[str, Any] | None = None
    ) -> Link | None:
        """A link from this page, made absolute, or None where nothing could be requested by it.

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

    #: What spiders call it: a lower-case letter, then letters, digits and underscores.
    name: ClassVar[str]
    #: The struct of its parameters.
    Parameters: ClassVar[type[Parameters]] = NoParameters

    def __init__(self, parameters: P, rules: Extractor) -> None:
        self.parameters = parameters
        self.rules = rules

    @abstractmethod
    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """The records and links of a page.

        Raises:
            ExtractError: names what could not be read.
        """
        ...

    @classmethod
    def problems(cls, parameters: P) -> Iterable[Problem]:  # noqa: ARG003  for those who override
        """What is wrong with parameters that are of the right types; places start at them."""
        return ()

    @classmethod
    def used_rules(cls, parameters: P) -> Iterable[UsedRule]:  # noqa: ARG003  as above
        """The rules that it is going to apply."""
        return ()

    @classmethod
    def fields(cls, parameters: P) -> Iterable[str] | None:  # noqa: ARG003  as above
        """The names of the fields that its records have, or None where the page says it."""
        return None

    @classmethod
    def starts(cls, parameters: P) -> Iterable[str]:  # noqa: ARG003  as above
        """The URLs that a crawl begins with, where parameters name any."""
        return ()
