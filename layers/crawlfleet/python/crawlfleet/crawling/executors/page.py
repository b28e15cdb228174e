"""``detail`` (the page is one record) and ``paginated_list`` (a list over several pages).

Other executors take from here the links to pages that records name, and to the next page of a list.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from crawlfleet.config.documents.rule import Field, Follow, Name, Rule, Selector, Source
from crawlfleet.crawling.executors.base import Context, Executor, Found, Parameters, UsedRule
from crawlfleet.crawling.extract.extractor import RuleExtractor
from crawlfleet.crawling.extract.links import PAGE_META, page_number
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.urls import problem_with
from crawlfleet.kernel.validation import Document, RuleName, named
from crawlfleet.requests.models import Harvest, Link, Skipped

MaxPages = Annotated[int, Meta(ge=1, le=100_000)]


class LinkField(Document, frozen=True, kw_only=True):
    """The field whose value is a link, and the rule or spider that is to read that page."""

    field: Name
    rule: RuleName

    def problems(self, fields: Iterable[str]) -> Iterator[Problem]:
        """List what is wrong where records have these fields."""
        there = list(fields)
        if self.field not in there:
            said = f"{self.field!r} is none of the fields; there are {named(there, self.field)}"
            yield Problem("link.field", said)


def with_links(found: Iterable[Found], link: LinkField | None, context: Context) -> Iterator[Found]:
    """Give what is found, each record followed by the link in it."""
    for item in found:
        yield item
        if link is None or not isinstance(item, Mapping):
            continue
        value = item.get(link.field)
        for url in value if isinstance(value, list | tuple) else (value,):
            if isinstance(url, str) and url and (to := context.link(url, link.rule)) is not None:
                yield to


def of_harvest(harvest: Harvest, link: LinkField | None, context: Context) -> Iterator[Found]:
    """Give what a rule gave; a link without a reader is read by this spider."""
    yield from with_links(harvest.records, link, context)
    for found in harvest.links:
        yield found if found.rule else replace(found, rule=context.rule)


def further_page(context: Context, url: object, max_pages: int) -> Link | Skipped | None:
    """Link the next page of the same list, as deep as this one; None at its end.

    A page that names itself as the next one is the last.
    """
    if not isinstance(url, str) or not url.strip() or page_number(context.meta) >= max_pages:
        return None
    meta = {**context.meta, PAGE_META: page_number(context.meta) + 1}
    link = context.link(url, context.rule, deeper=0, meta=meta)
    if link is None:
        return Skipped("next_page", f"{url[:200]!r} is no link to go on with")
    return None if link.url == context.url.partition("#")[0] else link


class DetailParameters(Parameters, frozen=True, kw_only=True):
    """``source``, ``fields`` and ``follow`` are as in a rule; ``link`` names a field with links."""

    source: Source = Source.HTML
    fields: Annotated[dict[Name, Field], Meta(min_length=1, max_length=200)]
    follow: Annotated[tuple[Follow, ...], Meta(max_length=20)] = ()
    link: LinkField | None = None

    def rule(self) -> Rule:
        """Make the rule that reads the page."""
        return Rule(source=self.source, fields=self.fields, follow=self.follow)


class Detail(Executor[DetailParameters]):
    """The executor that reads one record of a page, as a rule without ``items`` does."""

    name = "detail"
    Parameters = DetailParameters

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Read the record, and the links to follow."""
        harvest = self.rules.harvest(self.parameters.rule(), page, context.depth, context.meta)
        yield from of_harvest(harvest, self.parameters.link, context)

    @classmethod
    def problems(cls, parameters: DetailParameters) -> Iterable[Problem]:
        """Check that the field to follow is one of the fields."""
        return parameters.link.problems(parameters.fields) if parameters.link else ()

    @classmethod
    def used_rules(cls, parameters: DetailParameters) -> Iterable[UsedRule]:
        """List the rule that the parameters make."""
        return (UsedRule(parameters.rule()),)

    @classmethod
    def fields(cls, parameters: DetailParameters) -> Iterable[str]:
        """Name the rule's fields."""
        return parameters.fields


#: XPath that gives text and no element: an attribute or text at its end, or a function of strings.
_GIVES_TEXT: Final = re.compile(
    r"@[\w:.-]+\s*\)?\s*\Z|text\(\)\s*\Z|\A\s*(?:string|normalize-space|concat|translate|substring)",
    re.ASCII,
)
_NEXT: Final = "next_page"


class ListParameters(Parameters, frozen=True, kw_only=True):
    """``source``, ``items``, ``fields`` and ``follow`` are as in a rule.

    ``next_page`` finds the link to the next page: by ``css`` or ``xpath`` the element whose
    ``href`` it is, or by XPath the attribute or text itself, or by ``json`` the link. Where it
    finds nothing the list ends, or after ``max_pages`` pages. ``link`` names a field that holds the
    link to a record's own page.
    """

    start_url: str | None = None
    source: Source = Source.HTML
    items: Selector
    fields: Annotated[dict[Name, Field], Meta(min_length=1, max_length=200)]
    next_page: Selector | None = None
    max_pages: MaxPages = 100
    follow: Annotated[tuple[Follow, ...], Meta(max_length=20)] = ()
    link: LinkField | None = None

    def rule(self) -> Rule:
        """Make the rule that reads the records of a page."""
        return Rule(source=self.source, items=self.items, fields=self.fields, follow=self.follow)

    def next_rule(self) -> Rule | None:
        """Make the rule that reads the link to the next page."""
        by = self.next_page
        if by is None:
            return None
        element = by.css is not None or (by.xpath is not None and not _GIVES_TEXT.search(by.xpath))
        href = "href" if element else None
        field = Field(
            css=by.css, xpath=by.xpath, json=by.json, regex=by.regex, attribute=href, absolute=True
        )
        return Rule(source=self.source, fields={_NEXT: field})


class PaginatedList(Executor[ListParameters]):
    """The records of one page of a list, and the link to the next page."""

    name = "paginated_list"
    Parameters = ListParameters

    def __init__(self, parameters: ListParameters, rules: RuleExtractor) -> None:
        super().__init__(parameters, rules)
        self._rule = parameters.rule()
        self._next = parameters.next_rule()

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Read records first; the page's number goes along in the link's ``meta``."""
        harvest = self.rules.harvest(self._rule, page, context.depth, context.meta)
        yield from of_harvest(harvest, self.parameters.link, context)
        if self._next is None or page_number(context.meta) >= self.parameters.max_pages:
            return
        [found] = self.rules.harvest(self._next, page, context.depth, context.meta).records
        further = further_page(context, found[_NEXT], self.parameters.max_pages)
        if further is not None:
            yield further

    @classmethod
    def problems(cls, parameters: ListParameters) -> Iterable[Problem]:
        """Check that the start can be requested and the field to follow is one."""
        if parameters.start_url is not None and (why := problem_with(parameters.start_url)):
            yield Problem("start_url", why)
        if parameters.link is not None:
            yield from parameters.link.problems(parameters.fields)

    @classmethod
    def used_rules(cls, parameters: ListParameters) -> Iterable[UsedRule]:
        """List the rules of the records and of the next page."""
        yield UsedRule(parameters.rule())
        next_rule = parameters.next_rule()
        if next_rule is not None:
            yield UsedRule(next_rule, {f"fields.{_NEXT}": _NEXT})

    @classmethod
    def fields(cls, parameters: ListParameters) -> Iterable[str]:
        """Name the rule's fields."""
        return parameters.fields

    @classmethod
    def starts(cls, parameters: ListParameters) -> Iterable[str]:
        """Begin with the first page."""
        return (parameters.start_url,) if parameters.start_url is not None else ()
