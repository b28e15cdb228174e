"""``crawlfleet explain | ledger | workers``: why, whether everything is there, who works."""

from typing import TYPE_CHECKING

import click

from crawlfleet.cli.console import draw, emit, moment, note, printable, speaks_to_api, table
from crawlfleet.cli.failures import Exit, UnknownJobError
from crawlfleet.kernel.errors import NotFoundError

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Explanation, Ledger, UrlExplanation


@click.command()
@click.argument("biz")
@click.argument("what", metavar="ID|URL")
@click.option("--rule", help="Of a URL: only what is of this rule or spider.")
@speaks_to_api
def explain(fleet: "Client", biz: str, what: str, rule: str | None, as_json: bool) -> int:
    """Explain why a request, or a URL, is where it is.

    Every decision in the order of time, those about the whole biz among them, and where the request
    stands now. A URL is told by its seeds, the last one's request and what is known of its page,
    and what would become of it now.
    """
    found: Explanation | UrlExplanation
    if "://" in what:
        found = fleet.explain_url(biz, what, rule=rule)
        said = found.standing.sentence
    elif rule is not None:
        raise click.UsageError("--rule goes with a URL")
    else:
        found = fleet.explain(biz, what)
        said = f"{found.id} is {found.state}. {found.standing.sentence}"
    if as_json:
        emit(found)
        return Exit.FINE
    click.echo(printable(said))
    draw(
        table(
            ["when", "about", "state", "by", "why"],
            [
                (
                    moment(step.at),
                    f"all of {biz}" if step.kind == "lane" else f"this {step.kind}",
                    step.state,
                    step.by,
                    step.why,
                )
                for step in found.steps
            ],
        )
    )
    if found.missing:
        note(found.missing)
    return Exit.FINE


@click.command()
@click.argument("biz")
@click.option("--job", help="Only what was submitted under this job.")
@speaks_to_api
def ledger(fleet: "Client", biz: str, job: str | None, as_json: bool) -> int:
    """Tell where everything is that was ever submitted.

    The exit code is 1 where something is in no state at all.
    """
    try:
        found = fleet.ledger(biz, job=job)
    except NotFoundError as error:
        if job is None:
            raise
        raise UnknownJobError(str(error)) from error
    if as_json:
        emit(found)
    else:
        click.echo(equation(found))
        if not found.balanced:
            amount = abs(found.difference)
            what = "are in no state" if found.difference > 0 else "were never submitted"
            said = f"difference {found.difference:+,}: {amount:,} requests {what}"
            click.echo(click.style(said, fg="red", bold=True), err=True)
            note(
                "Ask again in a minute: recovery corrects what it finds. If it stays, keep this "
                'output and see "When the ledger does not balance" in docs/guides/trouble.md.'
            )
    return Exit.FINE if found.balanced else Exit.FAILED


@click.command()
@click.argument("biz")
@speaks_to_api
def workers(fleet: "Client", biz: str, as_json: bool) -> int:
    """List the workers and what they hold of a biz.

    phi is how sure the detector is that a worker is dead, as a power of ten. It counts silence that
    was watched: a worker that went silent while nobody watched is unwatched, until the workers or
    the minute's tick have looked for some seconds.
    """
    found = fleet.workers(biz)
    if as_json:
        emit({"workers": found})
        return Exit.FINE
    draw(
        table(
            ["worker", "pool", "health", "phi>", "silent>", "since", "held>"],
            [
                (
                    each.worker,
                    each.pool,
                    each.health,
                    f"{each.phi:.1f}",
                    f"{each.silent_seconds:.1f} s",
                    moment(each.since),
                    each.held,
                )
                for each in found
            ],
        )
    )
    if not found:
        note("no worker lives; one starts when there is work")
    return Exit.FINE


def equation(found: "Ledger") -> str:
    """The ledger as people check it.

    >>> from crawlfleet.sdk import Ledger
    >>> print(equation(Ledger(submitted=1_000, pending=10, done=990)))
    submitted 1,000 = pending 10 + leased 0 + waiting 0 + done 990 + dead 0 + cancelled 0 + ...
    """
    terms = {name: count for name, count in found.terms.items() if count or name != "others"}
    total = f"submitted {found.submitted:,}"
    sign = "=" if found.balanced else "\N{NOT EQUAL TO}"
    return f"{total} {sign} " + " + ".join(f"{name} {count:,}" for name, count in terms.items())
