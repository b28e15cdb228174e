"""``python -m infra.reference``: write the reference pages that are made from the code.

The command line's page is made from its commands, the API's from its OpenAPI document. A test
compares both with what stands in ``docs/reference``.
"""

import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from crawlfleet.api.openapi import document
from crawlfleet.api.responses import CONTENT_TYPE
from crawlfleet.cli.main import program

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "reference"
#: Options that nearly every command has, explained once.
_COMMON: Final = ("--api-url", "--api-key", "--json")
_MADE: Final = "This page is made by `make reference`; a test compares it with the code."
_API: Final = (
    "The schema of each body is in the OpenAPI document, which every deployment serves at"
    " `/openapi.json`. Calls carry the key of a tenant in the header `x-api-key`; only `/health`"
    " and `/openapi.json` need none. Errors are `application/problem+json`."
)


def pages() -> dict[str, str]:
    """Return the text of each generated page by its file name."""
    return {"cli.md": cli_page(), "api.md": api_page()}


def cli_page() -> str:
    """Return the reference of the command line: every command with its usage and options."""
    context = click.Context(program, info_name="crawlfleet")
    commands = list(_commands(context))
    options = [option for command in commands for option in _options(command)]
    common = [option for option in dict(options).items() if _is_common(option)]
    parts = [
        "# Command line",
        _MADE,
        *_paragraphs(program.help),
        *_paragraphs(program.epilog),
        "## Options of nearly every command",
        _table(("option", "meaning"), [(f"`{name}`", text) for name, text in common]),
        *(part for command in commands for part in _command(command)),
    ]
    return "\n\n".join(parts) + "\n"


def _commands(context: click.Context) -> Iterator[click.Context]:
    """Yield every command below a group, depth first, in the order of `--help`."""
    group = context.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            below = click.Context(command, info_name=name, parent=context)
            yield below
            yield from _commands(below)


def _command(context: click.Context) -> Iterator[str]:
    path, command = context.command_path, context.command
    yield f"{'#' * len(path.split(' '))} `{path}`"
    yield from _paragraphs(command.help)
    if isinstance(command, click.Group):
        return
    yield f"```console\n{' '.join((path, *command.collect_usage_pieces(context)))}\n```"
    rows = [(f"`{each[0]}`", each[1]) for each in _options(context) if not _is_common(each)]
    if rows:
        yield _table(("option", "meaning"), rows)


def _options(context: click.Context) -> list[tuple[str, str]]:
    records = (each.get_help_record(context) for each in context.command.params)
    return [record for record in records if record is not None and record[1]]


def _is_common(option: tuple[str, str]) -> bool:
    return option[0].split(" ")[0] in _COMMON


def _paragraphs(text: str | None) -> Iterator[str]:
    """Yield the paragraphs of a command's help; those that keep their lines become code."""
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield "```text\n" + paragraph.removeprefix("\b\n") + "\n```"
        elif paragraph:
            yield " ".join(paragraph.split())


def api_page() -> str:
    """Return the reference of the HTTP API: every call with its parameters, bodies and answers."""
    described = json.loads(document())
    calls = [
        (method.upper(), path, operation)
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    ]
    places, errors = _places(calls), _errors(calls)
    parts = [
        "# HTTP API",
        _MADE,
        _API,
        "## Calls",
        _table(
            ("call", "what it does"),
            [
                (f"[`{how} {path}`](#{_anchor(how, path)})", op["summary"])
                for how, path, op in calls
            ],
        ),
        "## Places in paths",
        _table(("place", "meaning", "value"), places),
        "## Errors",
        _table(("answer", "meaning"), errors),
        *(part for how, path, op in calls for part in _call(how, path, op)),
    ]
    return "\n\n".join(parts) + "\n"


def _places(calls: Sequence[tuple[str, str, Any]]) -> list[tuple[str, ...]]:
    """List what stands in paths in braces, once each."""
    found = {
        each["name"]: (f"`{{{each['name']}}}`", each["description"], _shape(each["schema"]))
        for *_, operation in calls
        for each in operation["parameters"]
        if each["in"] == "path"
    }
    return list(found.values())


def _errors(calls: Sequence[tuple[str, str, Any]]) -> list[tuple[str, ...]]:
    """List the answers that refuse a call, once each."""
    found = {
        status: answer["description"]
        for *_, operation in calls
        for status, answer in operation["responses"].items()
        if _refuses(answer)
    }
    return sorted(found.items())


def _refuses(answer: dict[str, Any]) -> bool:
    return set(answer.get("content", ())) == {CONTENT_TYPE}


def _call(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"## `{method} {path}`"
    yield operation["summary"]
    parameters = [
        (f"`{each['name']}`", each["in"], each["description"], _shape(each["schema"]))
        for each in operation["parameters"]
        if each["in"] != "path"
    ]
    if parameters:
        yield _table(("parameter", "in", "meaning", "value"), parameters)
    if "requestBody" in operation:
        yield f"Body: {_shapes(operation['requestBody'])}."
    answers = sorted(operation["responses"].items())
    taken = [
        f"{status} {_shapes(answer)}".strip() for status, answer in answers if not _refuses(answer)
    ]
    refused = [status for status, answer in answers if _refuses(answer)]
    yield f"Answers: {', '.join(taken)}. Errors: {', '.join(refused) or 'none'}."


def _shapes(holder: dict[str, Any]) -> str:
    """Name the schemas that a body may have."""
    schemas = [content["schema"] for content in holder.get("content", {}).values()]
    return " or ".join(dict.fromkeys(f"`{_shape(schema)}`" for schema in schemas))


def _shape(schema: dict[str, Any]) -> str:
    """Say in a few words what values a schema takes."""
    match schema:
        case {"$ref": str(reference)}:
            return reference.rpartition("/")[2]
        case {"anyOf": list(inner)}:
            return " or ".join(map(_shape, inner))
        case {"enum": list(values)}:
            return ", ".join(f"`{value}`" for value in values)
        case {"type": "integer", "minimum": least, "maximum": most}:
            return f"{least:,} to {most:,}"
        case {"pattern": str(pattern)}:
            return f"`{pattern}`"
        case {"type": str(kind)}:
            return kind
    return "any"


def _anchor(method: str, path: str) -> str:
    """Return the anchor of a call's heading, as GitHub makes it."""
    kept = "".join(one for one in f"{method} {path}" if one.isalnum() or one in " -_")
    return kept.lower().replace(" ", "-")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    cells = (
        " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) for row in lines
    )
    return "\n".join(f"| {row} |" for row in cells)


def main(folder: Path = FOLDER) -> int:
    """Write the pages."""
    for name, text in pages().items():
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
