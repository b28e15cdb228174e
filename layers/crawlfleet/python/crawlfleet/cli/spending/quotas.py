"""``crawlfleet quota``: what may be used, and what is."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli import console
from crawlfleet.cli.console import Exit
from crawlfleet.cli.failures import NamingGroup
from crawlfleet.cli.spending.costs import usd
from crawlfleet.cli.terminal import say

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, QuotaState

_QUOTA: Final = re.compile(
    r"(?:(requests|records|bytes|items)=([0-9_]{1,18})|(usd)=\$?([0-9]{1,7}(?:\.[0-9]{1,9})?))"
    r"(?:/(day|month|all))?\Z"
)


def quota_of(text: str) -> dict[str, Any]:
    """Read a job's quota: ``bytes=1_000_000/day``. Without a period what is open of the job ends.

    >>> quota_of("requests=1000")
    {'unit': 'requests', 'most': 1000, 'at_limit': 'end'}
    >>> quota_of("bytes=1_000_000/day")
    {'unit': 'bytes', 'most': 1000000, 'per': 'day'}
    >>> quota_of("records=5/all")
    {'unit': 'records', 'most': 5, 'per': 'all'}
    >>> quota_of("usd=2.50/month")
    {'unit': 'usd', 'most': 2.5, 'per': 'month'}
    >>> quota_of("items=500/day")
    {'unit': 'items', 'most': 500, 'per': 'day'}
    """
    found = _QUOTA.match(text)
    if found is None:
        said = "is requests, records, bytes or items=NUMBER, or usd=DOLLARS such as usd=2.50, with "
        raise click.BadParameter(
            f"{text}: {said}/day, /month, /all or nothing behind it", param_hint="--quota"
        )
    unit, most, money, dollars, per = found.groups()
    quota: dict[str, Any] = {"unit": money, "most": float(dollars or 0)}
    if money is None:
        quota = {"unit": unit, "most": int(most.replace("_", "") or 0)}
    return quota | ({"at_limit": "end"} if per is None else {"per": per})


def budget_of(text: str) -> dict[str, Any]:
    """Read a budget of a job in US dollars, at which what is open of it ends.

    >>> budget_of("5.00") == budget_of("$5") == quota_of("usd=5")
    True
    """
    try:
        return quota_of(f"usd={text}")
    except click.BadParameter:
        said = f"{text}: is an amount of US dollars, such as 5.00"
        raise click.BadParameter(said, param_hint="--budget") from None


@click.group(cls=NamingGroup)
def quota() -> None:
    """Show quotas and how much of each is used; set those of a job that runs."""


@quota.command()
@click.option("--biz", help="Only those that work of this biz is under.")
@click.option("--user", help="Also those of this user.")
@click.option("--job", help="Also those of this job of the biz.")
@console.with_api()
def show(fleet: "Client", biz: str | None, user: str | None, job: str | None, as_json: bool) -> int:
    """Show quotas: of the tenant, its users and its bizs; with options, those of such work.

    What workers hold is not used yet: it is their shares. What is in doubt was held by workers that
    died, and counts as used. They are set in the documents of the
    tenant and its bizs (quotas, user_quotas, users), and of a job where it is started.
    """
    if job is not None and biz is None:
        raise click.UsageError("--job is of a biz: give --biz too")
    found = fleet.quotas(biz=biz, user=user, job=job)
    if as_json:
        return console.emit({"quotas": found})
    if not found:
        console.note(
            "nothing is limited; `quotas` in the documents of a tenant and its bizs limit it, and "
            "`--quota` of `crawlfleet job start`"
        )
        return Exit.FINE
    titles = ["of", "unit", "per", "most>", "used>", "held>", "left>", "state", "field"]
    rows = [
        (
            *(one.owner, one.unit, one.per),
            *(_amount(one, count) for count in (one.most, one.used, one.held, one.left)),
            *(_state(one), one.field),
        )
        for one in found
    ]
    console.draw_table(titles, rows)
    return Exit.FINE


@quota.command("set")
@click.option(
    "--quota",
    "limits",
    multiple=True,
    metavar="UNIT=MOST[/PERIOD]",
    help="As of `job start`: requests=2000, bytes=1000000000/day, usd=5.00.",
)
@click.option("--unlimited", is_flag=True, help="It is to have none.")
@console.with_api("biz", "job")
def set_(
    fleet: "Client", biz: str, job: str, limits: Sequence[str], as_json: bool, *, unlimited: bool
) -> int:
    """Replace the quotas of a job that has not ended.

    What waits at a quota goes on within a minute after it is raised.
    """
    if bool(limits) is unlimited:
        raise click.UsageError("say what the quotas are to be: --quota, or --unlimited")
    found = fleet.set_job_quotas(biz, job, [quota_of(limit) for limit in limits])
    if as_json:
        return console.emit(found)
    say(f"{found.name} {found.state}, {console.counted(len(found.quotas), 'quota')}")
    return Exit.FINE


def quota_text(one: "QuotaState") -> str:
    """Write a quota, and how much of it is used."""
    per = "in all" if one.per == "all" else f"a {one.per}"
    unit = "" if one.unit == "usd" else f" {one.unit}"
    return f"{_amount(one, one.used)} of {_amount(one, one.most)}{unit} {per}"


def _amount(one: "QuotaState", count: float) -> str:
    return f"${usd(count)}" if one.unit == "usd" else f"{count:,}"


def _state(one: "QuotaState") -> str:
    """Write in words whether work goes on under a quota."""
    doubt = f", {_amount(one, one.in_doubt)} in doubt" if one.in_doubt else ""
    if not one.used_up:
        return f"open{doubt}"
    if one.at_limit == "end":
        return f"used up: ends{doubt}"
    until = "" if one.ends_at is None else f" until {console.moment(one.ends_at)}"
    return f"used up: waits{until}{doubt}"
