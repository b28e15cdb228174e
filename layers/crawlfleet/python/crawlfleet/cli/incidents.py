"""``crawlfleet incidents | incident``: see what is wrong; acknowledge it, silence it."""

from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

import click

from crawlfleet.cli import console
from crawlfleet.cli.console import Exit

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Incident, IncidentAcknowledgement, IncidentSilence

_UNITS: Final = {"m": 60, "h": 3_600, "d": 86_400}


class _Duration(click.ParamType[int]):
    """Minutes, hours or days, such as 30m, 4h and 2d."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the seconds.

        >>> _Duration().convert("4h", None, None)
        14400
        """
        text = str(value)
        number, unit = text[:-1], text[-1:]
        if not number.isdecimal() or unit not in _UNITS:
            self.fail(f"{text!r} is no time: write 30m, 4h or 2d", param, ctx)
        return int(number) * _UNITS[unit]


@click.command()
@click.option("--all", "ended", is_flag=True, help="Also what is over, for three months.")
@console.limit_option
@console.with_api()
def incidents(fleet: "Client", ended: bool, limit: int | None, as_json: bool) -> int:
    """Show what is wrong, and what to do next.

    Where, since when, how bad: of the key's own bizs; an operator's key shows everybody's and the
    platform's own. The exit code is 1 while anything is open. With --json a line of JSON for each.
    """
    rows = limit or (None if as_json else console.ROWS)
    found = fleet.incidents(ended=ended, page_size=console.page_size(limit, as_json))
    shown = list(islice(found, rows))
    code = Exit.FAILED if any(each.state == "open" for each in shown) else Exit.FINE
    if as_json:
        for each in shown:
            console.emit(each)
        return code
    if not shown:
        console.note("nothing has been wrong" if ended else "nothing is wrong")
        return code
    columns = ["state", "severity", "where", "what", "since", "until"]
    lines = [
        (
            *(each.state, each.severity, each.place, each.title, each.since),
            each.over_at if each.state == "over" else None,
        )
        for each in shown
    ]
    below = [
        (
            f"{each.said}{_counted(each.returns)}",
            f"What next: {each.do}" if each.state == "open" else None,
            _said("silenced until " + _minute(each.silenced.until), each.silenced)
            if each.silenced
            else None,
            _said("acknowledged", each.acknowledged) if each.acknowledged else None,
            f"id {each.id}" if each.state == "open" else None,
            f"people still have to be told: {each.owed}" if each.owed else None,
        )
        for each in shown
    ]
    console.listing(columns, lines, below, least=["until", "severity"])
    if len(shown) == rows and next(found, None) is not None:
        console.note(f"there are more than these {rows}: set --limit")
    return code


@click.group()
def incident() -> None:
    """Acknowledge what is wrong, or silence it; `crawlfleet incidents` lists it with its ids."""


_why = click.option("--why", default="", help="Kept and shown beside it.")


@incident.command()
@_why
@console.with_api("incident")
def acknowledge(fleet: "Client", incident: str, why: str, as_json: bool) -> int:
    """Say that somebody is at it: nobody is reminded any more.

    People and phones are told of its end, and anew if it comes back.
    """
    return _shown(fleet.acknowledge_incident(incident, why=why), as_json)


@incident.command()
@click.option(
    "--for",
    "seconds",
    type=_Duration(),
    required=True,
    help="Minutes, hours or days: 30m, 4h, 2d; 30 days at most.",
)
@_why
@console.with_api("incident")
def silence(fleet: "Client", incident: str, seconds: int, why: str, as_json: bool) -> int:
    """Tell people and phones nothing of it for a while; machines are told as ever.

    What is still wrong then is told at once; what began and ended meanwhile never is.
    """
    return _shown(fleet.silence_incident(incident, seconds=seconds, why=why), as_json)


@incident.command()
@console.with_api("incident")
def unsilence(fleet: "Client", incident: str, as_json: bool) -> int:
    """Take both back: people are told of what is open, and reminded of it."""
    return _shown(fleet.unsilence_incident(incident), as_json)


def _shown(found: "Incident", as_json: bool) -> int:
    if as_json:
        return console.emit(found)
    if found.silenced:
        told = f"{found.place}: nobody is told of it until {_minute(found.silenced.until)}"
    elif found.acknowledged:
        told = f"{found.place}: nobody is reminded of it any more"
    else:
        told = f"{found.place}: people are told of it, and reminded"
    console.note(told)
    return Exit.FINE


def _said(what: str, by: "IncidentAcknowledgement | IncidentSilence") -> str:
    """Write who did something, when and why."""
    why = f": {by.why}" if by.why else ""
    return f"{what} by {by.by}, {_minute(by.at)}{why}"


def _minute(at: datetime) -> str:
    """Write a moment to the minute.

    >>> _minute(datetime.fromisoformat("2026-03-01T12:09:30+01:00"))
    '2026-03-01 11:09Z'
    """
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}Z"


def _counted(returns: int) -> str:
    """Write how often an incident has come back, if it has.

    >>> _counted(0), _counted(2)
    ('', '; it has come back 2 times')
    """
    return f"; it has come back {returns:,} times" if returns else ""
