"""``crawlfleet spider``: what is crawled again and again, kept with its versions."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawlfleet.cli import console
from crawlfleet.cli.console import Exit
from crawlfleet.cli.failures import NamingGroup
from crawlfleet.cli.place_values import Values, in_words, value_option

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Spider


@click.group(cls=NamingGroup)
def spider() -> None:
    """Keep spiders: a rule, what it crawls, what it needs."""


@spider.command("list")
@console.with_api("biz")
def list_all(fleet: "Client", biz: str, as_json: bool) -> int:
    """List what the biz document has, then the spiders that are kept.

    With --json a line of JSON for each.
    """
    found = fleet.spiders(biz)
    if as_json:
        for each in found:
            console.emit(each)
    elif shown := list(found):
        _show(shown)
    else:
        console.note(
            "there are none: the biz's document has no rule and no spider, and none is kept; "
            "`crawlfleet spider put --help` says how one is"
        )
    return Exit.FINE


@spider.command()
@click.option("--version", type=click.IntRange(min=1), help="Default: the newest.")
@console.with_api("biz", "name")
def show(fleet: "Client", biz: str, name: str, version: int | None, as_json: bool) -> int:
    """Show one spider with its start."""
    found = fleet.spider(biz, name, version=version)
    if as_json:
        return console.emit(found)
    _show([found])
    start = found.start or {}
    facts = [
        ("pattern", start.get("pattern")),
        *((f"  {place}", in_words(values)) for place, values in start.get("values", {}).items()),
        *((f"  {place}", "given by whoever starts a job") for place in found.places),
        *(("url", url) for url in start.get("urls", ())),
        *((name, value) for name, value in (found.link or {}).items()),
        ("description", found.description),
    ]
    rest = [fact for fact in facts if fact[1] not in (None, "")]
    console.draw_table(["field", "value"], rest, apart=True)
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
@console.url_option
@click.option("--pattern", help="A URL with places in braces: https://shop.example/{page}")
@value_option("--values", "What goes into a place of the pattern.")
@click.option("--priority", type=click.IntRange(0, 10), help="Of its jobs. Default: 5.")
@click.option("--pool", help="Workers that its jobs are for. Default: any.")
@click.option("--description", default="", help="For people.")
@console.with_api("biz", "name")
def put(
    fleet: "Client",
    biz: str,
    name: str,
    *,
    source: Path | None,
    urls: Sequence[str],
    values: dict[str, Values],
    as_json: bool,
    **plan: Any,
) -> int:
    """Keep a spider. What says something else than the newest version is the next one.

    A place of the pattern without values is filled by whoever starts a job. Without --url and
    --pattern its jobs begin with what the rule's own parameters name, as start_url of a list.
    """
    if source is not None:
        if urls or values or any(value not in (None, "") for value in plan.values()):
            raise click.UsageError("--file says all of the spider: leave the other options out")
        otherwise = "is no spider: it begins with no field, such as rule:"
        document = console.document_in(source, called=str(source), otherwise=otherwise)
        found = fleet.put_spider_plan(biz, name, document)
    else:
        if plan["rule"] is None:
            raise click.UsageError("a spider needs --rule, or all of it in --file")
        found = fleet.put_spider(biz, name, urls=list(urls) or None, values=values, **plan)
    return console.answer(found, as_json, lambda one: _show([one]))


@spider.command()
@console.with_api("biz", "name")
def versions(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """List the versions of a spider, the newest first."""
    found = fleet.spider_versions(biz, name)
    rows = [
        (each.version, each.rule, each.tasks, each.priority, each.pool, each.put_at)
        for each in found
    ]
    columns = ["version>", "rule", "tasks>", "priority>", "pool", "put"]
    known = {"name": name, "versions": found}
    return console.answer(known, as_json, lambda _: console.draw_table(columns, rows))


@spider.command()
@console.with_api("biz", "name")
def delete(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Delete a spider; its jobs go on. One that schedules start is not deleted."""
    fleet.delete_spider(biz, name)
    return console.deleted(name, as_json)


def _show(found: "Sequence[Spider]") -> None:
    columns = ["name", "from", "version>", "reads", "tasks>", "open", "priority>", "pool", "put"]
    rows = [
        (
            *(each.name, each.origin, each.version, each.rule or each.executor or "rule"),
            *(each.tasks, ", ".join(each.places), each.priority, each.pool, each.put_at),
        )
        for each in found
    ]
    console.draw_table(columns, rows)
