"""``crawlfleet visit``: what is known of pages since they were last read."""

from typing import TYPE_CHECKING

import click

from crawlfleet.cli import console
from crawlfleet.cli.failures import UnknownPageError
from crawlfleet.kernel.errors import NotFoundError

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Visit, VisitTotals


@click.command()
@click.argument("biz")
@click.argument("url", required=False)
@console.with_api()
def visit(fleet: "Client", biz: str, url: str | None, as_json: bool) -> int:
    """Show what is known of a page since it was last read.

    When it is read again, how often it was seen to change, how many downloads were saved as its
    site said that nothing had changed, and how many segments did not fetch it, as it was not due.
    Without a URL: of all pages of the biz together.
    """
    if url is None:
        return console.answer(fleet.visits(biz), as_json, _show_totals)
    try:
        found = fleet.visit(biz, url)
    except NotFoundError as error:
        raise UnknownPageError(str(error)) from error
    return console.answer(found, as_json, _show_page)


def _show_page(found: "Visit") -> None:
    rows = [
        ("url", found.url),
        ("rule", f"{found.rule} ({found.rule_version})"),
        ("read", f"{console.moment(found.visited_at)}, {found.visits:,} times"),
        ("changed", f"{console.moment(found.changed_at)}, {found.changes:,} times"),
        ("saved downloads", part_of(found.saved, found.visits)),
        ("not fetched, as not due", f"{found.spared:,}"),
        ("interval", span(found.interval_seconds)),
        ("next", console.moment(found.next_at) if found.next_at else "never by itself"),
        ("etag", found.etag),
        ("last modified", found.last_modified),
    ]
    console.draw(console.facts(rows))


def _show_totals(found: "VisitTotals") -> None:
    if not found.pages:
        console.note("no page is known: none was read yet, or the biz has no recrawl")
        return
    rows = [
        ("pages", f"{found.pages:,}"),
        ("visits", f"{found.visits:,}"),
        ("changes", part_of(found.changes, found.visits)),
        ("saved downloads", part_of(found.saved, found.visits)),
        ("not fetched, as not due", f"{found.spared:,}"),
        ("due now", f"{found.due:,}"),
    ]
    console.draw(console.facts(rows, right=True))


def part_of(count: int, whole: int) -> str:
    """Write a count, and its share of the whole.

    >>> part_of(1_234, 5_000), part_of(0, 0)
    ('1,234 (25 %)', '0')
    """
    return f"{count:,} ({count / whole:.0%})".replace("%", " %") if whole else f"{count:,}"


def span(seconds: float) -> str:
    """Write a span of time in its largest unit.

    >>> span(90), span(5_400), span(86_400 * 3.14)
    ('1.5 minutes', '1.5 hours', '3.1 days')
    """
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"
