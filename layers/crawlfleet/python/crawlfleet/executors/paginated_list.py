"""``paginated_list``: a list over several pages, each with many records."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from msgspec import Meta

from crawlfleet.errors import Problem
from crawlfleet.executors.base import Context, Executor, Found, Parameters, UsedRule
from crawlfleet.executors.following import (
    LinkField,
    MaxPages,
    further_page,
    of_harvest,
)
from crawlfleet.model.rule import Field, Follow, Name, Rule, Selector, Source
from crawlfleet.page import Page
from crawlfleet.policy.following import page_number
from crawlfleet.policy.target import problem_with
from crawlfleet.ports.web import Extractor

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
        """What reads the records of a page."""
        return Rule(source=self.source, items=self.items, fields=self.fields, follow=self.follow)

    def next_rule(self) -> Rule | None:
        """What reads the link to the next page."""
        by = self.next_page
        if by is None:
            return None
        element = by.css is not None or (by.xpath is not None and not _GIVES_TEXT.search(by.xpath))
        field = Field(
            css=by.css,
            xpath=by.xpath,
            json=by.json,
            regex=by.regex,
            attribute="href" if element else None,
            absolute=True,
        )
        return Rule(source=self.source, fields={_NEXT: field})


class PaginatedList(Executor[ListParameters]):
    """The records of one page of a list, and the link to the next page."""

    name = "paginated_list"
    Parameters = ListParameters

    def __init__(self, parameters: ListParameters, rules: Extractor) -> None:
        super().__init__(parameters, rules)
        self._rule = parameters.rule()
        self._next = parameters.next_rule()

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Records first; the page's number goes along in the link's ``meta``."""
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
        """A start that can be requested, a field to follow that is one."""
        if parameters.start_url is not None and (why := problem_with(parameters.start_url)):
            yield Problem("start_url", why)
        if parameters.link is not None:
            yield from parameters.link.problems(parameters.fields)

    @classmethod
    def used_rules(cls, parameters: ListParameters) -> Iterable[UsedRule]:
        """The records' and the next page's."""
        yield UsedRule(parameters.rule())
        next_rule = parameters.next_rule()
        if next_rule is not None:
            yield UsedRule(next_rule, {f"fields.{_NEXT}": _NEXT})

    @classmethod
    def fields(cls, parameters: ListParameters) -> Iterable[str]:
        """Those of the rule."""
        return parameters.fields

    @classmethod
    def starts(cls, parameters: ListParameters) -> Iterable[str]:
        """The first page."""
        return (parameters.start_url,) if parameters.start_url is not None else ()
