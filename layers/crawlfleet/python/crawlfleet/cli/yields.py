"""What a rule or spider yields of a page, drawn for reading."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from crawlfleet.cli.console import counted, draw, note, printable, table
from crawlfleet.errors import Problem
from crawlfleet.model.harvest import Trial

if TYPE_CHECKING:
    from rich.tree import Tree

#: Records, links, and characters of a value that a terminal shows; --json has all of them.
RECORDS: Final = 5
_LINKS: Final = 20
_VALUE_CHARACTERS: Final = 300


def show_yield(trial: Trial, name: str, records: int, *, follows: bool) -> None:
    """Draw records, coverage and links, and say what is none of them, and why."""
    fields, given = trial.coverage.fields, trial.coverage.records
    if fields and given:
        draw(_tree(trial.records[:records], f"{name}: {counted(len(trial.records), 'record')}"))
        if len(trial.records) > records:
            note(f"{records} of {len(trial.records)} are shown: --limit or --json show more")
        draw(_coverage(fields, given))
    elif fields:
        note(f"{name}: no record: `items` matched nothing on this page. Does it still fit?")
    if follows:
        _show_links(trial)
    _tell_of(trial.rejected, trial.rejected_count, "would not be stored")
    _tell_of(trial.left_out, trial.left_out_count, "left out")
    if not (given or fields or follows or trial.left_out_count):
        note(
            f"{name}: no record, no link: nothing on this page is what it looks for. Is it such a "
            "page, and do its selectors or parameters fit it?"
        )


def _tell_of(told: tuple[str, ...], count: int, what: str) -> None:
    for one in told:
        note(f"{what}: {one}")
    if count > len(told):
        note(f"{what}: {count - len(told):,} more")


def advice(problem: Problem) -> str:
    """What to change."""
    if "missing, and required" in problem.message:
        return "Correct where the field looks, or give up `required` for a `default`."
    if " is not a" in problem.message:
        return "Narrow the text with `regex`, or change it with `transforms`, before its `type`."
    return "Correct the field that is named, and try again."


def _tree(records: tuple[dict[str, object], ...], title: str) -> "Tree":
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree(Text(printable(title)), guide_style="dim")
    for number, record in enumerate(records):
        branch = tree.add(Text(f"record {number}"))
        _grow(branch, record)
    return tree


def _grow(branch: "Tree", values: Mapping[str, object] | list[Any]) -> None:
    from rich.text import Text

    pairs = (
        values.items()
        if isinstance(values, Mapping)
        else ((f"[{number}]", value) for number, value in enumerate(values))
    )
    for name, value in pairs:
        deep = isinstance(value, dict) or (
            isinstance(value, list) and any(isinstance(item, dict | list) for item in value)
        )
        if deep and isinstance(value, dict | list):
            _grow(branch.add(Text(printable(name), style="bold")), value)
            continue
        missing = value is None or value in ("", [], {})
        text = "nothing" if value is None else _short(value)
        line = Text.assemble((printable(name), "bold"), ": ", (text, "red" if missing else ""))
        branch.add(line)


def _short(value: object) -> str:
    text = printable(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    more = len(text) - _VALUE_CHARACTERS
    return f"{text[:_VALUE_CHARACTERS]}... ({more:,} more characters)" if more > 0 else text


def _coverage(fields: Mapping[str, int], records: int) -> Any:
    rows = [
        (name, f"{count} of {records}", "" if count else "never: does its selector still fit?")
        for name, count in sorted(fields.items(), key=lambda each: each[1])
    ]
    return table(["field", "has a value in>", ""], rows, title="coverage")


def _show_links(trial: Trial) -> None:
    rows = [(link.url, link.rule or "this one", link.depth) for link in trial.links[:_LINKS]]
    title = f"follows {counted(len(trial.links), 'link')}"
    draw(table(["url", "read by", "depth>"], rows, title=title))
    if len(trial.links) > _LINKS:
        note(f"{_LINKS} of {len(trial.links)} links are shown: --json has them all")
    if trial.refused:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(trial.refused.items()))
        note(f"not followed: {why}")
