"""``detail``: the page is one record."""

from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec import Meta

from crawlfleet.errors import Problem
from crawlfleet.executors.base import Context, Executor, Found, Parameters, UsedRule
from crawlfleet.executors.following import Follow, with_followed
from crawlfleet.model.outcome import Page
from crawlfleet.model.rule import Field, Name, Rule, Source


class DetailParameters(Parameters, frozen=True, kw_only=True):
    """``source`` and ``fields`` are as in a rule. ``follow`` names a field that holds links."""

    source: Source = Source.HTML
    fields: Annotated[dict[Name, Field], Meta(min_length=1, max_length=200)]
    follow: Follow | None = None

    def rule(self) -> Rule:
        """What reads the page."""
        return Rule(source=self.source, fields=self.fields)


class Detail(Executor[DetailParameters]):
    """One record of a page, as a rule without ``items`` gives it."""

    name = "detail"
    Parameters = DetailParameters

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """The record, and the links that it is to be followed by."""
        harvest = self.rules.harvest(self.parameters.rule(), page, context.depth)
        yield from with_followed(harvest.records, self.parameters.follow, context)
        yield from harvest.links

    @classmethod
    def problems(cls, parameters: DetailParameters) -> Iterable[Problem]:
        """A field to follow has to be one."""
        return parameters.follow.problems(parameters.fields) if parameters.follow else ()

    @classmethod
    def used_rules(cls, parameters: DetailParameters) -> Iterable[UsedRule]:
        """The one that the parameters make."""
        return (UsedRule(parameters.rule()),)

    @classmethod
    def fields(cls, parameters: DetailParameters) -> Iterable[str]:
        """Those of the rule."""
        return parameters.fields
