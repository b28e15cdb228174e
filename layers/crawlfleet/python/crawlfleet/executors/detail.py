"""``detail``: the page is one record."""

from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec import Meta

from crawlfleet.errors import Problem
from crawlfleet.executors.base import Context, Executor, Found, Parameters, UsedRule
from crawlfleet.executors.following import LinkField, of_harvest
from crawlfleet.model.rule import Field, Follow, Name, Rule, Source
from crawlfleet.page import Page


class DetailParameters(Parameters, frozen=True, kw_only=True):
    """``source``, ``fields`` and ``follow`` are as in a rule; ``link`` names a field with links."""

    source: Source = Source.HTML
    fields: Annotated[dict[Name, Field], Meta(min_length=1, max_length=200)]
    follow: Annotated[tuple[Follow, ...], Meta(max_length=20)] = ()
    link: LinkField | None = None

    def rule(self) -> Rule:
        """What reads the page."""
        return Rule(source=self.source, fields=self.fields, follow=self.follow)


class Detail(Executor[DetailParameters]):
    """One record of a page, as a rule without ``items`` gives it."""

    name = "detail"
    Parameters = DetailParameters

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """The record, and the links that it is to be followed by."""
        harvest = self.rules.harvest(self.parameters.rule(), page, context.depth, context.meta)
        yield from of_harvest(harvest, self.parameters.link, context)

    @classmethod
    def problems(cls, parameters: DetailParameters) -> Iterable[Problem]:
        """A field to follow has to be one."""
        return parameters.link.problems(parameters.fields) if parameters.link else ()

    @classmethod
    def used_rules(cls, parameters: DetailParameters) -> Iterable[UsedRule]:
        """The one that the parameters make."""
        return (UsedRule(parameters.rule()),)

    @classmethod
    def fields(cls, parameters: DetailParameters) -> Iterable[str]:
        """Those of the rule."""
        return parameters.fields
