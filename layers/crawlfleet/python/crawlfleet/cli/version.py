"""``crawlfleet version``."""

import platform

import click

from crawlfleet import __version__
from crawlfleet.cli.console import emit


@click.command()
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output, for scripts.")
def version(as_json: bool) -> int:
    """Show the versions of Crawlfleet and Python."""
    if as_json:
        emit({"crawlfleet": __version__, "python": platform.python_version()})
    else:
        click.echo(f"crawlfleet {__version__}, Python {platform.python_version()}")
    return 0
