"""``crawlfleet visit``: what is known of pages since they were last read."""

from typing import TYPE_CHECKING

import click

from crawlfleet.cli.console import draw, emit, moment, note, speaks_to_api, table
from crawlfleet.cli.failures import Exit, UnknownPageError
from crawlfleet.kernel.errors import NotFoundError

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Visit, VisitTotals


@click.command()
@click.argument("biz")
@click.argument("url", required=False)
@speaks_to_api
def visit(fleet: "Client", biz: str, url: str | None, as_json: bool) -> int:
    """Show what is known of a page since it was last read.

    When it is read again, how often it was seen to change, and how many downloads were saved as its
    site said that nothing had changed. Without a URL: of all pages of the biz together.
    """
    if url is None:
        _show_totals(fleet.visits(biz), as_json)
    else:
        try:
            found = fleet.visit(biz, url)
        except NotFoundError as error:
            raise UnknownPageError(str(error)) from error
        _show_page(found, as_json)
    return Exit.FINE


def _show_page(found: "Visit", as_json: bool) -> None:
    if as_json:
        emit(found)
        return
    rows = [
        ("url", found.url),
        ("rule", f"{found.rule} ({found.rule_version})"),
        ("read", f"{moment(found.visited_at)}, {found.visits:,} times"),
        ("changed", f"{moment(found.changed_at)}, {found.changes:,} times"),
        ("saved downloads", part_of(found.saved, found.visits)),
        ("interval", span(found.interval_seconds)),
        ("next", moment(found.next_at) if found.next_at else "never by itself"),
        ("etag", found.etag),
        ("last modified", found.last_modified),
    ]
    drawn = table(["", ""], rows)
    drawn.show_header = False
    draw(drawn)


def _show_totals(found: "VisitTotals", as_json: bool) -> None:
    if as_json:
        emit(found)
        return
    if not found.pages:
        note("no page is known: none was read yet, or the biz has no recrawl")
        return
    rows = [
        ("pages", f"{found.pages:,}"),
        ("visits", f"{found.visits:,}"),
        ("changes", part_of(found.changes, found.visits)),
        ("saved downloads", part_of(found.saved, found.visits)),
        ("due now", f"{found.due:,}"),
    ]
    drawn = table(["", ">"], rows)
    drawn.show_header = False
    draw(drawn)


def part_of(count: int, whole: int) -> str:
    """How many, and how much of all that is.

    >>> part_of(1_234, 5_000), part_of(0, 0)
    ('1,234 (25 %)', '0')
    """
    return f"{count:,} ({count / whole:.0%})".replace("%", " %") if whole else f"{count:,}"


def span(seconds: float) -> str:
    """A span of time as people say it, in its largest unit.

    >>> span(90), span(5_400), span(86_400 * 3.14)
    ('1.5 minutes', '1.5 hours', '3.1 days')
    """
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"
