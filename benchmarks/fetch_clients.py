"""Compare HTTP clients and event loops for the fetch loop, side by side.

Part of ``python -m benchmarks``, or ``python -m benchmarks.fetch_clients [--pages N] [--rounds N]``
alone, whose ``PEERS_PYTHON`` may name an interpreter that has the clients which ours has not; those
that neither has are left out there, with a line that says so. All download the same pages of the
same local site, which runs in a process of its own, one after another and in a process each; the
figure is pages per CPU second of the client.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.bench import ENV_PEERS, PEERS, Bench, BenchError, Found, answer_in, environment
from benchmarks.figures import ratio, rotated
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
#: Those that the product has; the others come with the peers.
OURS: Final = ("aiohttp", "ours")
#: Different pages of the site.
_SITE_PAGES: Final = 300
#: No client takes longer for one round.
_ROUND_SECONDS: Final = 300

#: Each client's rounds.
Rounds = dict[str, list[dict[str, float]]]


def clients_of(*, with_peers: bool) -> tuple[str, ...]:
    """Return the clients that a run of all benchmarks measures."""
    return CLIENTS if with_peers else OURS


def run(bench: Bench) -> Found:
    """Ours beside the client that it stands on, and that one beside what was not chosen.

    Raises:
        BenchError: a client is not there, or did not download what the others did.
    """
    clients = clients_of(with_peers=bench.peers is not None)
    with running_site(bench.scale.pages) as site:
        rounds = measure(
            site,
            bench.scale.client_pages,
            bench.scale.client_rounds,
            clients,
            lambda client: bench.tick(f"fetching, {client}"),
        )
    if absent := [client for client in clients if client not in rounds]:
        raise BenchError(f"these are not installed: {', '.join(absent)}")
    rates = {client: per_cpu(each) for client, each in rounds.items()}
    figures = {"fetch_vs_aiohttp": ratio(rates["ours"], rates["aiohttp"])}
    if bench.peers is not None:
        figures |= {
            "fetch_uvloop_gain": ratio(rates["ours, uvloop"], rates["ours"]),
            "aiohttp_vs_httpx": ratio(rates["aiohttp"], rates["httpx"]),
            "aiohttp_vs_pycurl": ratio(rates["aiohttp"], rates["pycurl"]),
            "aiohttp_vs_urllib3": ratio(rates["aiohttp"], rates["urllib3, threads"]),
        }
    return Found(figures=figures, details={"fetching, pages per CPU second": rates})


def measure(
    site: Site, pages: int, rounds: int, clients: Sequence[str], announce: Callable[[str], None]
) -> Rounds:
    """Measure every client in rounds, another client first each time; skip those that are missing.

    ``announce`` gets a line for each round, and why a client is left out.
    """
    urls = site.urls(pages)
    measured: Rounds = {}
    missing: set[str] = set()
    for number in range(rounds):
        for client in rotated(clients, number):
            if client in missing:
                continue
            found = _round(client, urls)
            if "missing" in found:
                missing.add(client)
                announce(f"{client}: left out, {found['missing']}")
                continue
            if found["pages"] != pages:
                raise BenchError(f"{client} downloaded {found['pages']} pages of {pages}")
            measured.setdefault(client, []).append(found)
            announce(client)
    sizes = {client: {one["bytes"] for one in each} for client, each in measured.items()}
    if len(set().union(*sizes.values())) != 1:
        raise BenchError(f"the clients did not all download the same: {sizes}")
    return measured


def per_cpu(rounds: list[dict[str, float]]) -> list[float]:
    """Get the pages per CPU second of each round."""
    return [one["pages"] / one["cpu"] for one in rounds]


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Get the medians of a client's runs."""
    rates = per_cpu(rounds)
    return {
        "pages_per_cpu_second": statistics.median(rates),
        "least": min(rates),
        "most": max(rates),
        "pages_per_second": statistics.median(one["pages"] / one["seconds"] for one in rounds),
    }


def _round(client: str, urls: list[str]) -> dict[str, Any]:
    """Run one round, on our own interpreter, or on the peers' where ours lacks the client."""
    found: dict[str, Any] = {}
    pythons = dict.fromkeys((sys.executable, os.environ.get(ENV_PEERS)))
    for python in filter(None, pythons):
        done = subprocess.run(
            [python, str(PEERS / "fetch_client.py"), client],
            env=environment({}),
            input="\n".join(urls),
            capture_output=True,
            text=True,
            timeout=_ROUND_SECONDS,
            check=False,
        )
        found = answer_in(done.stdout, done.stderr, client)
        if "missing" not in found:
            return found
    return found


def show(found: dict[str, dict[str, float]], console: Console) -> None:
    """The table, and the figures as JSON in the last line."""
    floor = found[CLIENTS[0]]["pages_per_cpu_second"]
    table = Table("client", "pages per CPU s", "least to most", "x aiohttp", "pages/s")
    for client, of in sorted(found.items(), key=lambda one: -one[1]["pages_per_cpu_second"]):
        table.add_row(
            client,
            f"{of['pages_per_cpu_second']:,.0f}",
            f"{of['least']:,.0f} to {of['most']:,.0f}",
            f"{of['pages_per_cpu_second'] / floor:.2f}",
            f"{of['pages_per_second']:,.0f}",
        )
    console.print(table)
    console.print_json(json.dumps(found))


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
        rounds = measure(site, given.pages, given.rounds, CLIENTS, console.print)
        show({client: medians(each) for client, each in rounds.items()}, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
