"""``--value PLACE=VALUE``: what goes into the places of a pattern, the same for every command.

Given again for a place, it adds a value. Names that commands had for it before go on working.
"""

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import click

from crawlfleet.cli import console

#: Values of one place, as the SDK takes them.
Values = str | range | list[str]

_VALUE: Final = re.compile(r"([a-z][a-z0-9_]{0,31})=(.+)\Z", re.DOTALL)
_RANGE: Final = re.compile(r"([0-9]{1,16})\.\.([0-9]{1,16})(?:/([0-9]{1,16}))?\Z")
#: What looks like a range: words with two dots between them.
_LIKE_RANGE: Final = re.compile(r"[\w-]*\.\.[\w-]*(?:/[\w-]*)?")
#: Values that the API takes for one place where they are not one range.
_MOST: Final = 1_000
#: Names of before, and what they are given.
_OLD: Final = {
    "--range": "PLACE=FIRST..LAST",
    "--values": "PLACE=VALUES",
    "--set": "PLACE=VALUE",
}


def value_option(old: str, help_text: str) -> Callable[[console.Command], console.Command]:
    """Add ``--value`` and the name that it had before; the command gets both as ``values``."""

    def decorated(command: console.Command) -> console.Command:
        @click.option(
            "--value",
            "values",
            multiple=True,
            metavar="PLACE=VALUE",
            help=f"{help_text} page=1..100 is a range, page=0..90/10 every tenth of one; for more "
            "values give it again.",
        )
        @click.option(old, "by_old_name", multiple=True, metavar=_OLD[old], hidden=True)
        @functools.wraps(command)
        def valued(
            *args: Any, values: tuple[str, ...], by_old_name: tuple[str, ...], **options: Any
        ) -> int:
            given = [_parsed(text, "--value") for text in values]
            if by_old_name:
                given += [_parsed(text, old) for text in by_old_name]
                console.note(f"{old} is called --value now: give it once for each value or range")
            return command(*args, values=gathered(given), **options)

        return valued

    return decorated


def pages_options(command: console.Command) -> console.Command:
    """Add the options that say a job's pages: a spider's, or a rule's with pages of its own."""
    options = (
        click.option("--spider", help="A spider that the biz keeps."),
        click.option(
            "--version", type=click.IntRange(min=1), help="Of the spider; else its newest."
        ),
        click.option("--rule", help="A rule, with pages of its own, instead of a spider."),
        console.url_option,
        console.url_file_option,
        click.option("--pattern", help="Pages with places in braces: https://shop.example/{page}."),
        value_option(
            "--range", "What goes into a place of the pattern, or one its spider leaves open."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def gathered(given: Iterable[tuple[str, Values]]) -> dict[str, Values]:
    """Gather the values of each place.

    >>> gathered([("page", range(1, 3)), ("zone", "a"), ("page", "7")])
    {'page': ['1', '2', '7'], 'zone': 'a'}
    """
    found: dict[str, Values] = {}
    for place, values in given:
        before = found.get(place)
        if before is None:
            found[place] = values
            continue
        number = sum(1 if isinstance(each, str) else len(each) for each in (before, values))
        if number > _MOST:
            raise click.UsageError(
                f"--value {place}: {number:,} values; a place takes {_MOST:,}, or one range"
            )
        found[place] = [*_listed(before), *_listed(values)]
    return found


def _listed(values: Values) -> list[str]:
    return [values] if isinstance(values, str) else [str(value) for value in values]


def _parsed(text: str, option: str) -> tuple[str, Values]:
    """Parse a place and what goes into it, as the option of that name writes it.

    >>> _parsed("page=1..100", "--value"), _parsed("page=0..90/10", "--value")
    (('page', range(1, 101)), ('page', range(0, 91, 10)))
    >>> _parsed("zone=north,south", "--value"), _parsed("zone=north,south", "--values")
    (('zone', 'north,south'), ('zone', ['north', 'south']))
    """
    match = _VALUE.match(text)
    if match is None:
        raise click.UsageError(f"{option} {text!r}: write page=7, page=1..100 or zone=north")
    place, value = match.groups()
    bounds = None if option == "--set" else _RANGE.match(value)
    if bounds is not None:
        first, last, step = (int(bound or 1) for bound in bounds.groups())
        if last < first or step == 0:
            raise click.UsageError(f"{option} {text!r}: there is nothing in it")
        return place, range(first, last + 1, step)
    if option == "--value" and _LIKE_RANGE.fullmatch(value):
        raise click.UsageError(
            f"--value {text!r}: is no range: write {place}=FIRST..LAST or "
            f"{place}=FIRST..LAST/STEP, in whole numbers, such as 1..100 or 0..90/10"
        )
    if option == "--range":
        raise click.UsageError(f"--range {text!r}: such as page=1..50")
    return place, value.split(",") if option == "--values" else value


def in_words(values: Any) -> str:
    """Write the values of a place.

    >>> in_words({"first": 1, "last": 9, "step": 2}), in_words(["a", "b"])
    ('1 to 9 by 2', 'a, b')
    """
    if isinstance(values, str):
        return values
    if not isinstance(values, dict):
        return ", ".join(values)
    step = values.get("step", 1)
    by = "" if step == 1 else f" by {step}"
    return f"{values.get('first', 1)} to {values['last']}{by}"
