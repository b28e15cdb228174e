"""``crawlfleet tenant``: add tenants, show and change them, suspend and remove them, their keys."""

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli import console
from crawlfleet.cli.console import Command, Exit
from crawlfleet.cli.failures import NamingGroup
from crawlfleet.cli.spending.quotas import quota_of
from crawlfleet.cli.tenants.export import export
from crawlfleet.cli.terminal import say

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, StoreCount, TenantDetails, TenantRemoval, TenantWithKey

_DAY: Final = 86_400
_REMOVAL_PAUSE_SECONDS: Final = 5.0

_revision = click.option(
    "--revision", help="Refuse the change unless this is the tenant's revision (see `show`)."
)


def _settings(command: Command) -> Command:
    """Add the options that say settings."""
    for option in (
        click.option("--description", help="A line for people."),
        click.option("--share", type=int, help="Its share beside other tenants'; 1 by default."),
        click.option("--workers", type=int, help="Workers that are kept available for it."),
        click.option(
            "--ceiling",
            "ceilings",
            multiple=True,
            metavar="NAME=NUMBER",
            help="in_flight=500; in_flight= removes it. Each ceiling stands for itself.",
        ),
        click.option(
            "--quota",
            "quotas",
            multiple=True,
            metavar="UNIT=MOST[/PERIOD]",
            help="requests=100000/day. All quotas are replaced by these.",
        ),
        click.option("--unlimited", is_flag=True, help="Have no quotas."),
        click.option(
            "--file",
            "-f",
            "file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="YAML or JSON with any settings of a tenant's document; options go before it.",
        ),
    ):
        command = option(command)
    return command


def settings_of(
    *,
    description: str | None = None,
    share: int | None = None,
    workers: int | None = None,
    ceilings: Sequence[str] = (),
    quotas: Sequence[str] = (),
    unlimited: bool = False,
    file: Path | None = None,
) -> dict[str, Any]:
    """Gather what options and a file say of a tenant's settings.

    >>> settings_of(share=2, ceilings=["in_flight=500", "trials="], quotas=["requests=9/day"])
    {'share': 2, 'ceilings': {'in_flight': 500, 'trials': None}, 'quotas': [{'unit': 'requests', \
'most': 9, 'per': 'day'}]}
    """
    if quotas and unlimited:
        raise click.UsageError("--quota and --unlimited contradict each other")
    settings: dict[str, Any] = {}
    if file is not None:
        otherwise = "expected an object of settings, such as share: 2"
        settings = console.document_in(file, called=str(file), otherwise=otherwise)
    given: dict[str, Any] = {"description": description, "share": share}
    given["needs"] = None if workers is None else {"workers": workers, "requests_per_hour": None}
    given["ceilings"] = dict(map(_ceiling, ceilings)) or None
    given["quotas"] = [_quota(one) for one in quotas] or None
    settings |= {name: value for name, value in given.items() if value is not None}
    return settings | ({"quotas": []} if unlimited else {})


def _quota(text: str) -> dict[str, Any]:
    """Read a tenant's quota: what is at it waits, unless a file says otherwise."""
    return {name: value for name, value in quota_of(text).items() if name != "at_limit"}


def _ceiling(text: str) -> tuple[str, float | None]:
    name, equals, number = text.partition("=")
    plain = number.replace("_", "")
    if not (name and equals) or not (plain == "" or plain.replace(".", "", 1).isdecimal()):
        said = "is a ceiling's name and number: in_flight=500, or in_flight= to have none"
        raise click.BadParameter(f"{text}: {said}", param_hint="--ceiling")
    return name, None if not plain else float(plain) if "." in plain else int(plain)


@click.group(cls=NamingGroup)
def tenant() -> None:
    """Add tenants, change, suspend and remove them, replace their keys. For operators' keys."""


@tenant.command()
@_settings
@console.with_api("name")
def add(fleet: "Client", name: str, as_json: bool, **settings: Any) -> int:
    """Add a tenant and print its key, which nobody can read again.

    Where the answer was lost, `tenant rotate-key` gives it another one. Its bizs come with `config
    push`; the folder needs no document of the tenant.
    """
    return _with_key(fleet.add_tenant(name, settings_of(**settings)), as_json, "added")


@tenant.command("list")
@console.with_api()
def list_(fleet: "Client", as_json: bool) -> int:
    """List all tenants: what they may, and what they do now."""
    found = fleet.tenants()
    if as_json:
        return console.emit(found)
    rows = [
        (
            *(one.name, _standing(one), one.bizs, one.keys, one.share, one.workers),
            *(f"{one.ready:,}", f"{one.in_flight:,}"),
        )
        for one in found.tenants
    ]
    titles = ["tenant", "state", "bizs>", "keys>", "share>", "workers>", "ready>", "in flight>"]
    console.draw_table(titles, rows, least=["workers", "keys"])
    for left in found.leftovers:
        console.note(
            f"key {left.key} of {left.tenant} is in no document, and opens nothing: whoever made "
            f"it died; the next `crawlfleet tenant rotate-key {left.tenant}` removes it"
        )
    return Exit.FINE


@tenant.command()
@console.with_api("name")
def show(fleet: "Client", name: str, as_json: bool) -> int:
    """Show a tenant: its settings, keys and bizs, and how much of its limits is used."""
    return console.answer(fleet.tenant(name), as_json, _show)


@tenant.command("set")
@_settings
@_revision
@console.with_api("name")
def set_(fleet: "Client", name: str, as_json: bool, revision: str | None, **settings: Any) -> int:
    """Change settings of a tenant; what is not said stays."""
    wanted = settings_of(**settings)
    if not wanted:
        raise click.UsageError("say what is to change: an option, or --file")
    found = fleet.set_tenant(name, wanted, revision=revision)
    return console.answer(found, as_json, lambda one: _changed(one, "changed"))


@tenant.command()
@_revision
@console.with_api("name")
def suspend(fleet: "Client", name: str, as_json: bool, revision: str | None) -> int:
    """Suspend a tenant: nothing of it is taken, started or leased; it may only read."""
    found = fleet.suspend_tenant(name, revision=revision)
    return console.answer(found, as_json, lambda one: _changed(one, "suspended"))


@tenant.command()
@_revision
@console.with_api("name")
def resume(fleet: "Client", name: str, as_json: bool, revision: str | None) -> int:
    """Have a suspended tenant go on where it stood."""
    found = fleet.resume_tenant(name, revision=revision)
    return console.answer(found, as_json, lambda one: _changed(one, "resumed"))


@tenant.command("rotate-key")
@click.option(
    "--overlap",
    "overlap_seconds",
    type=click.IntRange(min=0),
    default=_DAY,
    metavar="SECONDS",
    help="How long its earlier keys stay valid; a day by default, 0 ends them at once.",
)
@_revision
@console.with_api("name")
def rotate_key(
    fleet: "Client", name: str, as_json: bool, overlap_seconds: int, revision: str | None
) -> int:
    """Give a tenant another key and print it; nobody can read it again."""
    found = fleet.rotate_tenant_key(name, overlap_seconds=overlap_seconds, revision=revision)
    return _with_key(found, as_json, "has another key")


@tenant.command()
@click.option(
    "--export",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Copy its settings and its bizs' documents, records, requests, dead letters, jobs, "
    "schedules, spiders, seeds, subscriptions and undelivered items into this folder first.",
)
@click.option("--no-export", is_flag=True, help="Delete everything without a copy.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--no-wait", is_flag=True, help="Take the steps that are due, and say what is next.")
@_revision
@console.with_api("name")
def remove(
    fleet: "Client",
    name: str,
    as_json: bool,
    *,
    folder: Path | None,
    no_export: bool,
    yes: bool,
    no_wait: bool,
    revision: str | None,
) -> int:
    """Remove a tenant: suspend it, wait for its work, delete all it has, look that nothing is left.

    That takes some minutes. Where it was cut off, the same command goes on; until something was
    deleted, `tenant resume` gives it up. An export that was cut off goes on with what is missing.
    """
    if no_export == (folder is not None):
        raise click.UsageError("say --export FOLDER, or --no-export to delete all without a copy")
    if not as_json:
        _draw_counts(fleet.tenant_inventory(name).counts)
    if not yes and not _is_meant(name):
        return Exit.FINE
    found = fleet.remove_tenant(name, delete=no_export, revision=revision)
    state = ""
    while found.state != "removed":
        if found.state != state and not as_json:
            state = found.state
            console.note(_how_far(found))
        if folder is not None and found.state == "settled":
            export(fleet, name, folder)
            found = fleet.remove_tenant(name, delete=True)
            continue
        if no_wait:
            break
        time.sleep(_REMOVAL_PAUSE_SECONDS if found.due_at or found.in_flight else 0)
        found = fleet.remove_tenant(name)
        if no_export and found.state == "settled":
            found = fleet.remove_tenant(name, delete=True)
    return console.answer(found, as_json, _draw_removal)


def _is_meant(name: str) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("all of it would be deleted: say --yes where nobody is asked")
    return bool(click.prompt("Its name, to delete all of this for ever", err=True) == name)


def _how_far(found: "TenantRemoval") -> str:
    """Write how far a removal is."""
    at = "" if found.due_at is None else f" until {console.moment(found.due_at)}"
    held = f", and for {found.in_flight:,} requests in flight" if found.in_flight else ""
    return {
        "settling": f"{found.tenant} is suspended; waiting{at}, as workers may be at it{held}",
        "settled": f"{found.tenant} is suspended, and nothing of it is worked on",
        "withdrawn": f"its bizs are out of the configuration; waiting{at}, as some go by the old",
        "deleting": f"deleting what {found.tenant} has",
    }.get(found.state, found.state)


def _draw_counts(counts: "Iterable[StoreCount]") -> None:
    rows = [(one.store, one.kind, f"{one.count:,}") for one in counts]
    console.draw_table(["store", "what", "count>"], rows)


def _draw_removal(found: "TenantRemoval") -> None:
    left = {(one.store, one.kind): one.count for one in found.left}
    before = {(one.store, one.kind): one.count for one in found.before} or left
    rows = [
        (*what, f"{before.get(what, 0):,}", f"{left.get(what, 0):,}")
        for what in dict.fromkeys((*before, *left))
    ]
    console.draw_table(["store", "what", "before>", "now>"], rows)
    if found.state != "removed":
        say(f"not removed yet: {_how_far(found)}; repeat the command to go on")
        return
    say(f"{found.tenant} is removed: every store was looked into again, and nothing was found")
    for one in found.remains:
        say(f"remains: {one}")


def _with_key(found: "TenantWithKey", as_json: bool, did: str) -> Exit:
    if as_json:
        return console.emit(found)
    _changed(found.tenant, did)
    for key in found.tenant.keys:
        if key.ends_at is not None:
            say(f"key {key.id} ends at {console.moment(key.ends_at)}")
    say(f"its key, which is shown once: {found.key}")
    return Exit.FINE


def _changed(one: "TenantDetails", did: str) -> None:
    say(
        f"{one.name} {did}; in force within seconds, {one.in_force_seconds} at most; "
        f"revision {one.revision}"
    )


def _standing(one: Any) -> str:
    words = ["suspended" if one.suspended else "active"]
    words += ["operator"] if one.operator else []
    words += [] if one.in_force else ["not in force yet"]
    return ", ".join(words)


def _show(one: "TenantDetails") -> None:
    rows = [
        ("tenant", one.name),
        ("state", _standing(one)),
        ("revision", one.revision),
        ("managed", one.managed),
        ("bizs", ", ".join(one.bizs)),
        ("part of workers", f"{one.part:.0%}"),
        ("ready", f"{one.ready:,}"),
        ("in flight", f"{one.in_flight:,}"),
        *((name, value) for name, value in one.settings.items()),
    ]
    console.draw(console.facts(rows))
    keys = [(key.id, "valid" if key.ends_at is None else key.ends_at) for key in one.keys]
    console.draw_table(["key", "until"], keys, apart=True)
    used = [(each.limit, each.used, each.allowed) for each in one.ceilings]
    console.draw_table(["ceiling", "used>", "allowed>"], used, apart=True)
    if one.quotas:
        quotas = [
            (each.owner, each.unit, each.per, f"{each.most:,}", f"{each.used:,}")
            for each in one.quotas
        ]
        console.draw_table(["quota of", "unit", "per", "most>", "used>"], quotas, apart=True)
