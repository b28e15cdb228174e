"""Show of how many records each field has a value: of a rule's versions, and of a job.

A selector that does not fit its pages fails nothing: records are stored, without what they are for.
So whoever follows a job is told at its end which fields next to no record has.
"""

import shlex
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from crawlfleet.cli.console import counted, draw, draw_table, moment, note, table
from crawlfleet.cli.terminal import say

if TYPE_CHECKING:
    from crawlfleet.sdk import JobCoverage, Record, RuleCoverage

#: Characters of a whole bar.
_BAR: Final = 20
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def show_job(covered: "Iterable[JobCoverage]") -> None:
    """Draw the coverage of the rules that have read a job's pages."""
    rows = [
        (one.rule, field.name, bar(field.share), f"{field.share:.1%}", f"{field.count:,}")
        for one in covered
        for field in one.fields
    ]
    if rows:
        draw_table(["rule", "field", "has a value", "share>", "records>"], rows)


def page_without(records: "Iterable[Record]", fields: "Collection[str]") -> str:
    """Name a page whose record lacks one of these fields; empty where none is known."""
    lacking = (one.url for one in records if any(not one.fields.get(name) for name in fields))
    return next(lacking, "")


def warn_of_empty(biz: str, covered: "Iterable[JobCoverage]", page: str = "") -> None:
    """Tell which fields next to no record of a job has, by number, and what to do.

    ``page`` is one of those that have no value, if any is known.
    """
    url = shlex.quote(page) if page else "URL"
    for one in covered:
        if not one.empty:
            continue
        numbers = {field.name: field.count for field in one.fields}
        fields = ", ".join(f"{name} {numbers.get(name, 0):,}" for name in one.empty)
        of = counted(one.records, "record")
        said = f"rule {one.rule}: of {of} have a value: {fields}"
        if one.mostly_empty:
            said = f"its fields are mostly empty, so this is hardly what was wanted. {said}"
        note(said)
        note(f"why, on a page: crawlfleet rule try {one.rule} {url} --remote --biz {biz}")


def covered_by_records(records: "Iterable[Record]") -> "JobCoverage":
    """Count the fields of records as the platform counts a job's."""
    from crawlfleet.crawling.records.falls import empties, mostly_empty
    from crawlfleet.requests.models import Coverage
    from crawlfleet.sdk import FieldCoverage, JobCoverage

    given = [record.fields for record in records]
    names = {name: 0 for fields in given for name in fields}
    for fields in given:
        for name, value in fields.items():
            names[name] += value not in (None, "", [], {})
    read = Coverage(records=len(given), fields=names)
    return JobCoverage(
        rule="",
        records=read.records,
        fields=tuple(FieldCoverage(name=name, count=count) for name, count in names.items()),
        empty=tuple(empties(read, names)),
        mostly_empty=mostly_empty(read, names),
    )


def show_version(one: "RuleCoverage", *, hours: bool) -> None:
    """Draw the coverage of one version of a rule, or with ``hours`` that of each hour."""
    state = "in force" if one.current else "not in force any more"
    amount = f"{counted(one.records, 'record')} of {counted(one.pages, 'page')}"
    if one.rejected:
        amount += f"; {one.rejected:,} of them rejected, not stored: `status` of a request says why"
    # Not as the table's title: that would be as narrow as the table.
    say(f"{one.rule} {one.version} ({state}): {amount}")
    if hours:
        names = [field.name for field in one.fields]
        lines = []
        for hour in one.hours:
            shares = {field.name: f"{field.share:.1%}" for field in hour.fields}
            each = (shares.get(name, f"{0:.1%}") for name in names)
            lines.append((moment(hour.started_at), f"{hour.records:,}", *each))
        draw(table(["hour", "records>", *(f"{name}>" for name in names)], lines))
        return
    rows = [
        (field.name, bar(field.share), f"{field.share:.1%}", f"{field.count:,}")
        for field in one.fields
    ]
    draw(table(["field", "has a value", "share>", "records>"], rows))


def bar(share: float) -> str:
    """Draw a bar of that share of a whole one.

    >>> bar(0.5)
    '██████████          '
    """
    eighths = round(min(1.0, max(0.0, share)) * _BAR * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(_BAR)
