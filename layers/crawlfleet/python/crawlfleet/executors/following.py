"""Links that executors give: to pages that records name, and to the further pages of a list."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from crawlfleet.errors import Problem
from crawlfleet.executors.base import Context, Found
from crawlfleet.model.document import Document, RuleName
from crawlfleet.model.harvest import Harvest, Link, Skipped
from crawlfleet.model.rule import Name
from crawlfleet.policy.following import PAGE_META, page_number
from crawlfleet.policy.mistakes import named

MaxPages = Annotated[int, Meta(ge=1, le=100_000)]


class LinkField(Document, frozen=True, kw_only=True):
    """The field whose value is a link, and the rule or spider that is to read that page."""

    field: Name
    rule: RuleName

    def problems(self, fields: Iterable[str]) -> Iterator[Problem]:
        """What is wrong where records have these fields."""
        there = list(fields)
        if self.field not in there:
            said = f"{self.field!r} is none of the fields; there are {named(there, self.field)}"
            yield Problem("link.field", said)


def with_links(found: Iterable[Found], link: LinkField | None, context: Context) -> Iterator[Found]:
    """The same, each record followed by the link in it."""
    for item in found:
        yield item
        if link is not None and isinstance(item, Mapping):
            yield from _links(item.get(link.field), link.rule, context)


def _links(value: object, rule: str, context: Context) -> Iterator[Link]:
    for url in value if isinstance(value, list | tuple) else (value,):
        found = context.link(url, rule) if isinstance(url, str) and url else None
        if found is not None:
            yield found


def of_harvest(harvest: Harvest, link: LinkField | None, context: Context) -> Iterator[Found]:
    """What a rule gave; a link that it does not say the reader of is read by this spider."""
    yield from with_links(harvest.records, link, context)
    for found in harvest.links:
        yield found if found.rule else replace(found, rule=context.rule)


def further_page(context: Context, url: object, max_pages: int) -> Link | Skipped | None:
    """The next page of the same list, as deep as this one; None at its end.

    A page that names itself as the next one is the last.
    """
    if not isinstance(url, str) or not url.strip() or page_number(context.meta) >= max_pages:
        return None
    meta = {**context.meta, PAGE_META: page_number(context.meta) + 1}
    link = context.link(url, context.rule, deeper=0, meta=meta)
    if link is None:
        return Skipped("next_page", f"{url[:200]!r} is no link to go on with")
    return None if link.url == context.url.partition("#")[0] else link
