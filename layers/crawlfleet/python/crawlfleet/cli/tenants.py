"""``crawlfleet tenant``: add tenants, show and change them, suspend them, replace their keys."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli import console
from crawlfleet.cli.console import Command, Exit
from crawlfleet.cli.failures import NamingGroup
from crawlfleet.cli.spending.quotas import quota_of
from crawlfleet.cli.terminal import say

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, TenantDetails, TenantWithKey

_DAY: Final = 86_400

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
    """Add tenants, change and suspend them, replace their keys. For operators' keys."""


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
