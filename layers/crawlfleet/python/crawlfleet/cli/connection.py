"""What every command that speaks to the API shares: where it is, the key, ``--json``."""

import functools
from collections.abc import Callable
from typing import Any

import click


def speaks_to_api(command: Callable[..., int]) -> Callable[..., int]:
    """Open a client for the command, its first argument, and add the options that all share."""

    @click.option("--api-url", metavar="URL", help="Address of the API.")
    @click.option(
        "--api-key",
        metavar="KEY",
        help="Key of the tenant. Others on this machine can see arguments: prefer the environment.",
    )
    @click.option("--json", "as_json", is_flag=True, help="JSON on standard output, for scripts.")
    @functools.wraps(command)
    def opened(*args: Any, api_url: str | None, api_key: str | None, **options: Any) -> int:
        from crawlfleet.sdk import Client

        with Client(api_url, api_key) as fleet:
            return command(fleet, *args, **options)

    return opened
