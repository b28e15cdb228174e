"""Run the program: find its commands, and turn errors into exit codes.

Commands live in modules of their own that are imported when they are called for, so that
``crawlfleet --help`` is quick. A command returns its exit code; errors reach :func:`run`, which
says on standard error what went wrong and what to do next.
"""

import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from crawlfleet import __version__
from crawlfleet.cli.console import Exit
from crawlfleet.cli.failures import NamingGroup, report
from crawlfleet.cli.terminal import say
from crawlfleet.kernel.errors import CrawlfleetError

_INTERRUPTED: Final = 130

_HELP: Final = """Collect web data with Crawlfleet.

Where the API is and its key come from --api-url and --api-key, then from CRAWLFLEET_API_URL and
CRAWLFLEET_API_KEY, then from the .crawlfleet/local.json that `crawlfleet up` writes.
CRAWLFLEET_STATE names its folder where `crawlfleet up --state` was given another one.

Every command has --json for scripts: one JSON document on standard output, or JSON lines where it
is a stream. Errors and progress go to standard error.
"""

_EPILOG: Final = """\b
Exit codes:
  0  fine
  1  failed, or something ended dead, cancelled or expired
  2  bad input or usage, or a key that the API does not know
  3  not reachable
  4  not found
  5  time-out: --timeout was not enough
"""


class Place(NamedTuple):
    """Place of a command, and its summary for `--help`, which imports none."""

    module: str
    attribute: str
    summary: str


COMMANDS: Final[Mapping[str, Place]] = {
    "init": Place("rules.init", "init", "Make a commented configuration in FOLDER."),
    "shell": Place(
        "rules.shell", "shell", "Try selectors, XPath, JSONPath and transforms on a page."
    ),
    "bizs": Place("requests", "bizs", "List your bizs, with their rules and spiders."),
    "submit": Place("submission", "submit", "Submit pages to be collected."),
    "status": Place("requests", "status", "Show everything about one request."),
    "cancel": Place("requests", "cancel", "Cancel a request that no worker has begun."),
    "transition": Place(
        "requests", "transition", "Change requests to a biz's own states, and back."
    ),
    "requests": Place("requests", "requests", "List the requests of a biz."),
    "explain": Place("requests", "explain", "Explain why a request, or a URL, is where it is."),
    "dead": Place("dead_letters", "dead", "Read, replay and purge dead letters."),
    "seeds": Place("seeds", "seeds", "Offer URLs once a segment; list, count, release, forget."),
    "records": Place("records.command", "records", "Read the records of a biz."),
    "stats": Place("requests", "stats", "Show totals, queue, rates and where the time goes."),
    "ledger": Place("requests", "ledger", "Tell where everything is that was ever submitted."),
    "workers": Place("fleet", "workers", "List the workers and what they hold of a biz."),
    "incidents": Place("incidents", "incidents", "Show what is wrong, and what to do next."),
    "incident": Place("incidents", "incident", "Acknowledge what is wrong, or silence it."),
    "hosts": Place("fleet", "hosts", "List the hosts that a biz is at or waits for."),
    "shares": Place("fleet", "shares", "Show what tenants have of workers and stores."),
    "fleet": Place("fleet", "fleet", "Show the whole fleet: workers, bizs, hosts, parts."),
    "overview": Place(
        "fleet", "overview", "Show rates, backlog, what is late, and the day's cost."
    ),
    "doctor": Place(
        "doctor.command", "doctor", "Examine a deployment from outside and say what is wrong."
    ),
    "visit": Place("visits", "visit", "Show what is known of a page since it was last read."),
    "spider": Place("spiders", "spider", "Keep spiders: a rule, what it crawls, what it needs."),
    "job": Place("jobs", "job", "Start jobs, follow them, cancel them, retry what failed."),
    "schedule": Place("schedules", "schedule", "Manage timed collections."),
    "subscription": Place(
        "streams.subscriptions", "subscription", "Subscribe to streams; try filters on saved items."
    ),
    "source": Place(
        "streams.sources", "source", "Show the channels and feeds that are read, and how they do."
    ),
    "delivery": Place(
        "streams.deliveries",
        "delivery",
        "Replay what was not delivered; read conversations.",
    ),
    "tenant": Place(
        "tenants.command",
        "tenant",
        "Add tenants, change, suspend and remove them, replace their keys.",
    ),
    "quota": Place("spending.quotas", "quota", "Show quotas and how much of each is used."),
    "cost": Place("spending.costs", "cost", "Show what work costs; by line, biz and day."),
    "demands": Place("demands", "demands", "Show what the runs of spiders take of a worker."),
    "config": Place(
        "config.command", "config", "Check, push, pull, compare and take back the configuration."
    ),
    "rule": Place("rules.command", "rule", "Try rules before they are in force."),
    "import": Place("scrapy_import", "import_", "Take over what another crawler has queued."),
    "up": Place("local", "up", "Start the whole platform on this machine."),
    "down": Place("local", "down", "Stop what `up` started; its data stays."),
    "demo": Place("local", "demo", "Crawl a site from start to finish on this machine."),
    "completion": Place("about", "completion", "Print what completes commands in your shell."),
    "version": Place("about", "version", "Show the versions of Crawlfleet and Python."),
}


class LazyGroup(NamingGroup):
    """A group that knows its commands by name and imports one when it is called for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the names of all commands, in the order in which one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command; None where there is none of that name."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module = importlib.import_module(f"crawlfleet.cli.{place.module}")
        command: click.Command = getattr(module, place.attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command from the table above, importing none."""
        found = [
            CompletionItem(name, help=place.summary)
            for name, place in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands from the table above, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.summary) for name, place in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    help=_HELP,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="crawlfleet %(version)s")
def program() -> None:
    """Hold the commands; the help is given above."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Commands keep in it what they were given: click forgets that before an error gets here.
    parameters: dict[str, Any] = {}
    try:
        code = program.main(
            args=given, prog_name="crawlfleet", standalone_mode=False, obj=parameters
        )
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        say(said.getvalue().removesuffix("\n"), err=True)
        return error.exit_code
    except CrawlfleetError as error:
        return report(error, "".join(given[:1]), parameters)
    except (click.Abort, KeyboardInterrupt):
        say("interrupted", err=True)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has seen enough; Python would complain while closing it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # A file that we were told to read or write; what the network does is no OSError by now.
        place = f"{error.filename}: " if error.filename else ""
        say(f"crawlfleet: {place}{error.strerror or error}", err=True)
        return Exit.BAD_INPUT if error.filename else Exit.FAILED
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of ``crawlfleet``."""
    sys.exit(run())
