"""Which HTTP client the fetch loop stands on, and on which event loop: measured side by side.

``python -m benchmarks.fetch_clients [--pages N] [--rounds N]``. All download the same pages of the
same local site, which runs in a process of its own, by turns and in a process each; what counts is
pages per CPU second of the client. ``PEERS_PYTHON`` may name an interpreter that has the clients
which ours has not; those that neither has are left out, with a line that says so.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.bench import ENV_PEERS, PEERS, BenchError, answer_in, environment
from benchmarks.site import Site, running_site

#: In the order of the table; the first is what the others are compared with.
CLIENTS: Final = (
    "aiohttp",
    "aiohttp, uvloop",
    "ours",
    "ours, uvloop",
    "pycurl",
    "httpx",
    "httpx, uvloop",
    "urllib3, threads",
)
#: Different pages of the site.
_SITE_PAGES: Final = 300
#: No client takes longer for one turn.
_TURN_SECONDS: Final = 300


def measure(site: Site, pages: int, rounds: int, console: Console) -> dict[str, dict[str, float]]:
    """The medians of each client's turns; every client that is there takes one in each round."""
    urls = site.urls(pages)
    turns: dict[str, list[dict[str, float]]] = {}
    missing: set[str] = set()
    for number in range(rounds):
        for client in CLIENTS:
            if client in missing:
                continue
            found = _turn(client, urls)
            if "missing" in found:
                missing.add(client)
                console.print(f"{client}: left out, {found['missing']}")
                continue
            if found["pages"] != pages:
                raise BenchError(f"{client} downloaded {found['pages']} pages of {pages}")
            turns.setdefault(client, []).append(found)
        console.print(f"round {number + 1} of {rounds}")
    sizes = {client: {turn["bytes"] for turn in each} for client, each in turns.items()}
    if len(set().union(*sizes.values())) != 1:
        raise BenchError(f"the clients did not all download the same: {sizes}")
    return {client: _medians(each) for client, each in turns.items()}


def _medians(turns: list[dict[str, float]]) -> dict[str, float]:
    per_cpu = [turn["pages"] / turn["cpu"] for turn in turns]
    return {
        "pages_per_cpu_second": statistics.median(per_cpu),
        "least": min(per_cpu),
        "most": max(per_cpu),
        "pages_per_second": statistics.median(turn["pages"] / turn["seconds"] for turn in turns),
    }


def _turn(client: str, urls: list[str]) -> dict[str, Any]:
    """One turn, on our own interpreter, or on the peers' where ours has not got the client."""
    found: dict[str, Any] = {}
    pythons = dict.fromkeys((sys.executable, os.environ.get(ENV_PEERS)))
    for python in filter(None, pythons):
        done = subprocess.run(
            [python, str(PEERS / "fetch_client.py"), client],
            env=environment({}),
            input="\n".join(urls),
            capture_output=True,
            text=True,
            timeout=_TURN_SECONDS,
            check=False,
        )
        found = answer_in(done.stdout, done.stderr, client)
        if "missing" not in found:
            return found
    return found


def show(medians: dict[str, dict[str, float]], console: Console) -> None:
    """The table, and the figures as JSON in the last line."""
    floor = medians[CLIENTS[0]]["pages_per_cpu_second"]
    table = Table("client", "pages per CPU s", "least to most", "x aiohttp", "pages/s")
    for client, of in sorted(medians.items(), key=lambda one: -one[1]["pages_per_cpu_second"]):
        table.add_row(
            client,
            f"{of['pages_per_cpu_second']:,.0f}",
            f"{of['least']:,.0f} to {of['most']:,.0f}",
            f"{of['pages_per_cpu_second'] / floor:.2f}",
            f"{of['pages_per_second']:,.0f}",
        )
    console.print(table)
    console.print_json(json.dumps(medians))


def main() -> int:
    """Measure and show."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fetch_clients")
    parser.add_argument("--pages", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    console = Console()
    with running_site(_SITE_PAGES) as site:
        console.print(
            f"{given.pages:,} pages of {site.mean_bytes / 1_000:.0f} KB, {given.rounds} rounds; "
            f"the site alone answers {site.pages_per_second(given.pages):,.0f} a second"
        )
        show(measure(site, given.pages, given.rounds, console), console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
