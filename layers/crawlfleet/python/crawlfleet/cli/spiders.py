"""``crawlfleet spider``: what is crawled again and again, kept with its versions."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli.console import (
    Exit,
    answer,
    deleted,
    document_in,
    draw,
    emit,
    moment,
    table,
    url_option,
    with_api,
)

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Spider


_VALUES: Final = re.compile(r"([a-z][a-z0-9_]{0,31})=(.+)\Z", re.DOTALL)
_RANGE: Final = re.compile(r"([0-9]{1,16})\.\.([0-9]{1,16})(?:/([0-9]{1,16}))?\Z")


@click.group()
def spider() -> None:
    """Keep spiders: a rule, what it crawls, what it needs."""


@spider.command("list")
@with_api("biz")
def list_all(fleet: "Client", biz: str, as_json: bool) -> int:
    """List what the biz document has, then the spiders that are kept.

    With --json a line of JSON for each.
    """
    found = fleet.spiders(biz)
    if as_json:
        for each in found:
            emit(each)
    else:
        _show(list(found))
    return Exit.FINE


@spider.command()
@click.option("--version", type=click.IntRange(min=1), help="Default: the newest.")
@with_api("biz", "name")
def show(fleet: "Client", biz: str, name: str, version: int | None, as_json: bool) -> int:
    """Show one spider with its start."""
    found = fleet.spider(biz, name, version=version)
    if as_json:
        return emit(found)
    _show([found])
    start = found.start or {}
    facts = [
        ("pattern", start.get("pattern")),
        *((f"  {place}", _in_words(values)) for place, values in start.get("values", {}).items()),
        *((f"  {place}", "given by whoever starts a job") for place in found.places),
        *(("url", url) for url in start.get("urls", ())),
        *((name, value) for name, value in (found.link or {}).items()),
        ("description", found.description),
    ]
    draw(table(["field", "value"], [fact for fact in facts if fact[1] not in (None, "")]))
    return Exit.FINE


@spider.command()
@click.option(
    "--file",
    "-f",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The whole spider as YAML or JSON; nothing else is given then.",
)
@click.option("--rule", help="Rule, or spider of an executor, that reads the pages.")
@url_option
@click.option("--pattern", help="A URL with places in braces: https://shop.example/{page}")
@click.option(
    "--values",
    multiple=True,
    metavar="PLACE=VALUES",
    help="What goes into a place: page=1..100, page=0..90/10 or zone=north,south.",
)
@click.option("--priority", type=click.IntRange(0, 10), help="Of its jobs. Default: 5.")
@click.option("--pool", help="Workers that its jobs are for. Default: any.")
@click.option("--description", default="", help="For people.")
@with_api("biz", "name")
def put(
    fleet: "Client",
    biz: str,
    name: str,
    source: Path | None,
    rule: str | None,
    urls: Sequence[str],
    pattern: str | None,
    values: Sequence[str],
    priority: int | None,
    pool: str | None,
    description: str,
    as_json: bool,
) -> int:
    """Keep a spider. What says something else than the newest version is the next one.

    A place of the pattern without values is filled by whoever starts a job.
    """
    if source is not None:
        if any((rule, urls, pattern, values, priority is not None, pool, description)):
            raise click.UsageError("--file says all of the spider: leave the other options out")
        found = fleet.put_spider_plan(biz, name, _plan_in(source))
    else:
        if rule is None:
            raise click.UsageError("a spider needs --rule, or all of it in --file")
        if not urls and pattern is None:
            raise click.UsageError("a spider needs pages: give --url, or --pattern and --values")
        found = fleet.put_spider(
            biz,
            name,
            rule=rule,
            urls=list(urls) or None,
            pattern=pattern,
            values=dict(map(_values_in, values)),
            priority=priority,
            pool=pool,
            description=description,
        )
    return answer(found, as_json, lambda one: _show([one]))


@spider.command()
@with_api("biz", "name")
def versions(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """List the versions of a spider, the newest first."""
    found = fleet.spider_versions(biz, name)
    if as_json:
        return emit({"name": name, "versions": found})
    rows = [
        (each.version, each.rule, each.tasks, each.priority, each.pool, moment(each.put_at))
        for each in found
    ]
    draw(table(["version>", "rule", "tasks>", "priority>", "pool", "put"], rows))
    return Exit.FINE


@spider.command()
@with_api("biz", "name")
def delete(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Delete a spider; its jobs go on. One that schedules start is not deleted."""
    fleet.delete_spider(biz, name)
    return deleted(name, as_json)


def _plan_in(source: Path) -> dict[str, Any]:
    otherwise = "is no spider: it begins with no field, such as rule:"
    return document_in(source, called=str(source), otherwise=otherwise)


def _values_in(text: str) -> tuple[str, range | list[str]]:
    """Parse a place and its values.

    >>> _values_in("page=1..100"), _values_in("page=0..90/10")
    (('page', range(1, 101)), ('page', range(0, 91, 10)))
    >>> _values_in("zone=north,south")
    ('zone', ['north', 'south'])
    """
    match = _VALUES.match(text)
    if match is None:
        raise click.UsageError(f"--values {text!r}: write page=1..100 or zone=north,south")
    bounds = _RANGE.match(match[2])
    if bounds is None:
        return match[1], match[2].split(",")
    first, last, step = (int(bound or 1) for bound in bounds.groups())
    if last < first or step == 0:
        raise click.UsageError(f"--values {text!r}: there is nothing in it")
    return match[1], range(first, last + 1, step)


def _in_words(values: Any) -> str:
    """Write the values of a place.

    >>> _in_words({"first": 1, "last": 9, "step": 2}), _in_words(["a", "b"])
    ('1 to 9 by 2', 'a, b')
    """
    if not isinstance(values, dict):
        return ", ".join(values)
    step = values.get("step", 1)
    by = "" if step == 1 else f" by {step}"
    return f"{values.get('first', 1)} to {values['last']}{by}"


def _show(found: "Sequence[Spider]") -> None:
    columns = ["name", "from", "version>", "reads", "tasks>", "open", "priority>", "pool", "put"]
    draw(
        table(
            columns,
            [
                (
                    each.name,
                    each.origin,
                    each.version,
                    each.rule or each.executor or "rule",
                    each.tasks,
                    ", ".join(each.places),
                    each.priority,
                    each.pool,
                    moment(each.put_at),
                )
                for each in found
            ],
        )
    )
