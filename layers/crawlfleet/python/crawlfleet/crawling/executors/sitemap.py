"""``sitemap`` and ``url_list``: the pages that a site lists (sitemaps.org), or a text file does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from crawlfleet.config.documents.rule import Expression
from crawlfleet.crawling.executors import base, bodies
from crawlfleet.crawling.executors.base import Context, Executor, Found, Parameters, read_date
from crawlfleet.crawling.executors.runner import BadRecords
from crawlfleet.crawling.executors.xml import elements, local_name, text_of
from crawlfleet.crawling.extract.extractor import RuleExtractor
from crawlfleet.crawling.extract.regex import RegexQuery, Ticking
from crawlfleet.kernel.errors import ExtractError, Problem
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.urls import MAX_URL_LENGTH
from crawlfleet.kernel.validation import RuleName
from crawlfleet.requests.models import Skipped

if TYPE_CHECKING:
    from lxml.etree import _Element


class Patterns:
    """A URL is taken where one of ``include`` matches (or there is none) and none of ``exclude``.

    >>> Patterns([r"/news/"], [r"[.]pdf$"]).take("https://example.org/news/1.pdf")
    False
    """

    __slots__ = ("_exclude", "_include")

    def __init__(self, include: Iterable[str], exclude: Iterable[str]) -> None:
        self._include = [RegexQuery(pattern) for pattern in include]
        self._exclude = [RegexQuery(pattern) for pattern in exclude]

    def take(self, url: str, clock: Ticking | None = None) -> bool:
        """Tell whether the URL is taken; a long search asks ``clock`` first if there is time."""
        included = not self._include or any(one.found_in(url, clock) for one in self._include)
        return included and not any(one.found_in(url, clock) for one in self._exclude)


def pattern_problems(place: str, patterns: Iterable[str]) -> Iterator[Problem]:
    """List the patterns that RE2 cannot read."""
    for index, pattern in enumerate(patterns):
        try:
            RegexQuery(pattern)
        except ValueError as error:
            yield Problem(f"{place}[{index}]", str(error))


#: The key of a link's ``meta`` that says how many indexes lie above a sitemap.
LEVEL_META: Final = "sitemap_level"
LEVELS_MAX: Final = 3  #: An index of indexes is against the standard, and met.

_LISTS: Final = {"urlset": "url", "sitemapindex": "sitemap"}
_PLAIN: Final = frozenset({"lastmod", "changefreq", "priority"})


class SitemapParameters(Parameters, frozen=True, kw_only=True):
    """``rule``, or ``records``, or both.

    With ``rule`` each page listed becomes a link for that rule or spider, with ``records`` a
    record. What has not changed since ``changed_since``, or within the last
    ``changed_within_days``, is left out, further sitemaps too; what says nothing about its last
    change is taken. A page is taken where its URL has a match of ``include``, if there is any, and
    none of ``exclude`` (RE2).
    """

    rule: RuleName | None = None
    records: bool = False
    changed_since: datetime | None = None
    changed_within_days: Annotated[float, Meta(gt=0, le=36_500)] | None = None
    include: Annotated[tuple[Expression, ...], Meta(max_length=50)] = ()
    exclude: Annotated[tuple[Expression, ...], Meta(max_length=50)] = ()
    max_urls: Annotated[int, Meta(ge=1, le=base.LINKS_MAX)] = base.LINKS_MAX


class Sitemap(Executor[SitemapParameters]):
    """Links and records of a sitemap, links to the sitemaps of an index.

    Records have ``url``, ``lastmod`` (ISO 8601), ``changefreq``, ``priority``, ``news`` and
    ``images``. Alternates in other languages are left out: the sitemap lists those pages itself.
    """

    name = "sitemap"
    Parameters = SitemapParameters

    def __init__(self, parameters: SitemapParameters, rules: RuleExtractor) -> None:
        super().__init__(parameters, rules)
        self._patterns = Patterns(parameters.include, parameters.exclude)

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Read the links and records in the sitemap's order."""
        root = ""

        def wanted(names: list[str]) -> bool:
            nonlocal root
            root = root or names[0]
            if root not in _LISTS:
                raise ExtractError("page", f"is no sitemap: its root is {root[:60]!r}")
            return len(names) == 2 and names[1] == _LISTS[root]

        for count, element in enumerate(elements(page, wanted, context, mend=True), 1):
            if count > self.parameters.max_urls:
                yield Skipped(f"url {count}", f"follows {self.parameters.max_urls:,} URLs")
                return
            if local_name(element) == "sitemap":
                yield from self._sitemap(element, count, context)
            else:
                yield from self._url(element, count, context)

    def _sitemap(self, element: _Element, count: int, context: Context) -> Iterator[Found]:
        plain = {local_name(child): text_of(child) for child in element}
        if not self._is_fresh(plain.get("lastmod"), context):
            return
        level = context.meta.get(LEVEL_META, 0)
        level = level + 1 if isinstance(level, int) else 1
        if level > LEVELS_MAX:
            yield Skipped(f"sitemap {count}", f"lies below {LEVELS_MAX} other indexes")
            return
        meta = {**context.meta, LEVEL_META: level}
        link = context.link(plain.get("loc", ""), context.rule, deeper=0, meta=meta)
        yield link or Skipped(f"sitemap {count}", "has no URL to go on with")

    def _url(self, element: _Element, count: int, context: Context) -> Iterator[Found]:
        record = read_url(element)
        url = record["url"]
        link = context.link(url, self.parameters.rule or "") if isinstance(url, str) else None
        if link is None:
            yield Skipped(f"url {count}", "has no URL to go on with")
            return
        lastmod = record["lastmod"]
        fresh = self._is_fresh(lastmod if isinstance(lastmod, str) else None, context)
        if self.parameters.include or self.parameters.exclude:
            context.tick()  # a hundred searches are long together, though each is short
        if not fresh or not self._patterns.take(link.url, context):
            return
        if self.parameters.records:
            yield {**record, "url": link.url}
        if self.parameters.rule is not None:
            yield link

    def _is_fresh(self, lastmod: str | None, context: Context) -> bool:
        since, days = self.parameters.changed_since, self.parameters.changed_within_days
        if since is None and days is None:
            return True
        changed = read_date(lastmod)
        if changed is None:
            return True
        if since is not None and changed < since:
            return False
        return days is None or changed >= context.now - timedelta(days=days)

    @classmethod
    def problems(cls, parameters: SitemapParameters) -> Iterable[Problem]:
        """Check that it gives something, its patterns compile and its date has a zone."""
        if parameters.rule is None and not parameters.records:
            yield Problem("rule", "is missing, and records is false: nothing would come of it")
        if parameters.changed_since is not None and parameters.changed_since.tzinfo is None:
            yield Problem("changed_since", "has no time zone: end it with Z or an offset")
        yield from pattern_problems("include", parameters.include)
        yield from pattern_problems("exclude", parameters.exclude)

    @classmethod
    def fields(cls, parameters: SitemapParameters) -> Iterable[str]:  # noqa: ARG003  the same for all
        """Name what a sitemap says of a page."""
        return ("url", "lastmod", "changefreq", "priority", "news", "images")


def read_url(element: _Element) -> dict[str, object]:
    """Read all that a ``<url>`` says."""
    record: dict[str, object] = {"url": None, "lastmod": None, "changefreq": None, "priority": None}
    images: list[dict[str, object]] = []
    news: dict[str, object] | None = None
    for child in element:
        name = local_name(child)
        if name == "loc":
            record["url"] = text_of(child)
        elif name in _PLAIN:
            record[name] = text_of(child) or None
        elif name == "image":
            images.append(_flat(child))
        elif name == "news":
            news = _flat(child)
    changed = read_date(str(record["lastmod"] or ""))
    record["lastmod"] = changed.isoformat() if changed else None
    return {**record, "priority": _priority(record["priority"]), "news": news, "images": images}


def _flat(element: _Element) -> dict[str, object]:
    """Collect the leaves of an element by name: ``<news:publication><news:name>`` is ``name``."""
    found: dict[str, object] = {}
    for leaf in element.iter():
        if leaf is not element and not len(leaf):
            name, text = local_name(leaf), text_of(leaf)
            if name == "publication_date" and (at := read_date(text)) is not None:
                text = at.isoformat()
            found.setdefault(name, text)
    return found


def _priority(text: object) -> float | None:
    try:
        number = float(str(text))
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


#: Longer lines are no URLs; so much of one is read at a time.
_LINE: Final = MAX_URL_LENGTH + 1_000
#: What stands in no URL, relative or not (RFC 3986), but on each line of what is no list of them,
#: such as XML.
_NO_URL: Final = re.compile(r'[\s<>"]')


class UrlListParameters(Parameters, frozen=True, kw_only=True):
    """``rule`` is to read the pages.

    A ``comment``, at the start of a line or after white space, goes on to the line's end.
    ``bad_rows`` says what becomes of lines that are no URL.
    """

    rule: RuleName
    comment: Annotated[str, Meta(min_length=1, max_length=8)] = "#"
    max_urls: Annotated[int, Meta(ge=1, le=base.LINKS_MAX)] = base.LINKS_MAX
    bad_rows: BadRecords = BadRecords.SKIP


class UrlList(Executor[UrlListParameters]):
    """A link from each line."""

    name = "url_list"
    Parameters = UrlListParameters

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Read links in the file's order, relative ones joined with the file's own URL."""
        given = 0
        for number, line in self._lines(page, context):
            text = self._without_comment(line)
            if not text:
                continue
            link = None
            if len(line) <= _LINE and not _NO_URL.search(text):
                link = context.link(text, self.parameters.rule)
            if link is None:
                why = f"is no URL to go on with: {text[:80]!r}"
                yield self.parameters.bad_rows.left_out(f"line {number}", why)
                continue
            given += 1
            if given > self.parameters.max_urls:
                yield Skipped(f"line {number}", f"follows {self.parameters.max_urls:,} URLs")
                return
            yield link

    def _without_comment(self, line: str) -> str:
        mark = self.parameters.comment
        words = line.split()
        for at, word in enumerate(words):
            if word.startswith(mark):
                return " ".join(words[:at])
        return " ".join(words)

    def _lines(self, page: Page, context: Context) -> Iterator[tuple[int, str]]:
        text = bodies.open_text(page)
        number = 0
        while line := text.readline(_LINE + 1):
            number += 1
            if number % 1_000 == 1:
                context.tick()
            rest = line
            while len(rest) > _LINE and not rest.endswith(("\n", "\r")):
                rest = text.readline(_LINE + 1)
                context.tick()
            yield number, line
