"""``crawlfleet config history|show|changes|put|rollback``: the configuration by the API."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawlfleet.cli import console
from crawlfleet.cli.console import Exit, counted
from crawlfleet.cli.terminal import say

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, ConfigChanged, ConfigDifference

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_path = click.option("--path", help="One document: stage, tenants/TENANT or bizs/TENANT/BIZ.")
_revision = click.option(
    "--revision", help="Refuse the change unless the configuration is at this revision."
)
_why = click.option("--why", default="", help="A line for those who read the history.")
_dry_run = click.option("--dry-run", is_flag=True, help="Check and show all of it; write nothing.")


@click.command()
@_path
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, help="Most versions; 20 by default."
)
@console.with_api()
def history(fleet: "Client", as_json: bool, path: str | None, limit: int) -> int:
    """List versions of the configuration, the newest first: who, when, why and what."""
    found = [one for one, _ in zip(fleet.config_versions(path=path), range(limit), strict=False)]
    if as_json:
        for one in found:
            console.emit(one)
        return Exit.FINE
    rows = [
        (one.revision, one.by, _changed_documents(one.paths, one.changes), one.why) for one in found
    ]
    console.draw_table(["revision", "by", "documents", "why"], rows, least=["by", "why"])
    return Exit.FINE


@click.command()
@click.option("--revision", help="As it stood at this revision.")
@console.with_api("path")
def show(fleet: "Client", path: str, as_json: bool, revision: str | None) -> int:
    """Show a document, or a part of one: bizs/acme/shop/rules/page."""
    from crawlfleet.cli.config_folder import render

    found = fleet.config_document(path, revision=revision)
    if as_json:
        return console.emit(found)
    import msgspec

    say(render(msgspec.json.encode(found.content).decode()).rstrip("\n"))
    return Exit.FINE


@click.command()
@click.argument("before", metavar="FROM")
@click.argument("after", metavar="[TO]", required=False)
@_path
@console.with_api()
def changes(
    fleet: "Client", as_json: bool, before: str, after: str | None, path: str | None
) -> int:
    """Show what differs from revision FROM to revision TO, or to what stands."""
    found = fleet.config_diff(before, after, path=path)
    if as_json:
        return console.emit(found)
    _show(found.differences, cut=found.cut)
    return Exit.FINE


@click.command()
@click.argument("path", required=False)
@click.argument(
    "file", type=click.Path(path_type=Path, dir_okay=False, exists=True), required=False
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Put all documents of a folder, as `config push` does; others stay. No PATH then.",
)
@click.option("--remove", is_flag=True, help="Remove what is at PATH; there is no FILE then.")
@_revision
@_why
@_dry_run
@console.with_api()
def put(
    fleet: "Client",
    path: str | None,
    as_json: bool,
    file: Path | None,
    *,
    folder: Path | None,
    remove: bool,
    revision: str | None,
    why: str,
    dry_run: bool,
) -> int:
    """Put the YAML or JSON of FILE at PATH, a document or a part of one, by the API.

    A tenant's key changes rules, spiders and the like of its own bizs. Where functions may not
    write the configuration, `config push` does.
    """
    changes = _wanted(path, file, folder, remove=remove)
    found = fleet.change_config(changes, revision=revision, why=why, dry_run=dry_run)
    return console.answer(found, as_json, lambda one: _report(one, dry_run=dry_run))


@click.command()
@_path
@_revision
@_why
@_dry_run
@console.with_api("to")
def rollback(
    fleet: "Client",
    to: str,
    as_json: bool,
    *,
    path: str | None,
    revision: str | None,
    why: str,
    dry_run: bool,
) -> int:
    """Go back to the configuration as it was at revision TO: that makes a new version."""
    found = fleet.roll_back_config(to, path=path, revision=revision, why=why, dry_run=dry_run)
    return console.answer(found, as_json, lambda one: _report(one, dry_run=dry_run))


COMMANDS = (history, show, changes, put, rollback)


def _wanted(
    path: str | None, file: Path | None, folder: Path | None, *, remove: bool
) -> dict[str, Any]:
    """Read the contents that are to be put, by path."""
    if folder is not None:
        if path is not None or remove:
            raise click.UsageError("say --folder, or a PATH with what is to stand there")
        from crawlfleet.cli.config_folder import read_folder

        return {at: json.loads(text) for at, text in read_folder(folder).items()}
    if path is None or remove == (file is not None):
        raise click.UsageError("say a PATH, and the FILE with what is to stand there or --remove")
    if file is None:
        return {path: None}
    otherwise = "expected an object, such as fields: {title: {css: h1}}"
    return {path: console.document_in(file, called=str(file), otherwise=otherwise)}


def _changed_documents(paths: tuple[str, ...], count: int) -> str:
    first = paths[0] if paths else "none"
    return first if count <= 1 else f"{first} and {count - 1:,} more"


def _show(differences: "tuple[ConfigDifference, ...]", *, cut: bool) -> None:
    for one in differences:
        say(f"{one.path}: {one.change}")
        for line in one.diff.splitlines()[2:]:
            say(line, fg=_COLOURS.get(line[:1]))
    if cut:
        console.note("there is more than one answer can carry: name a document with --path")


def _report(found: "ConfigChanged", *, dry_run: bool) -> None:
    _show(found.differences, cut=found.cut)
    for one in found.touched:
        console.note(
            f"{one.tenant}/{one.biz} has {counted(one.requests, 'open request')}, "
            f"{counted(one.jobs, 'open job')}, {counted(one.schedules, 'schedule')}, "
            f"{counted(one.subscriptions, 'subscription')}"
        )
    if found.bizs > len(found.touched):
        console.note(f"{found.bizs - len(found.touched):,} more bizs change")
    if found.written:
        say(f"revision {found.revision}; in force within {found.in_force_seconds} seconds")
    elif dry_run and found.differences:
        say(f"nothing was written; the configuration is at revision {found.revision}")
    else:
        say(f"nothing to do; revision {found.revision}")
