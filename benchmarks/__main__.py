"""``python -m benchmarks [--only NAME ...] [--quick]``; exits with 1 where a target was missed."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks import (
    ageing,
    assignment_rounds,
    crawl,
    dedupe,
    expansion,
    extraction,
    feeds,
    fetch_clients,
    fleet_load,
    forecast,
    imports,
    ingest,
    isolation,
    leasing,
    lookup,
    many_bizs,
    matching,
    metering,
    placement,
    politeness,
    queue_memory,
    quotas,
    recovery,
    scaling,
    streams,
    tracing,
    workers,
)
from benchmarks.bench import ENV_PEERS, Addresses, Bench, BenchError, Found, ask, peer
from benchmarks.figures import FIGURES
from benchmarks.progress import part
from benchmarks.scale import FULL, QUICK, Scale
from benchmarks.summary import keep, show
from infra.local.mongo_server import ENV_URI, MongoServer
from infra.local.redis_server import ENV_URL, RedisServer

BENCHMARKS: Final[dict[str, Callable[[Bench], Found]]] = {
    "imports": imports.run,
    "ingest": ingest.run,
    "queue_memory": queue_memory.run,
    "leasing": leasing.run,
    "dedupe": dedupe.run,
    "extraction": extraction.run,
    "fetch_clients": fetch_clients.run,
    "crawl": crawl.run,
    "tracing": tracing.run,
    "metering": metering.run,
    "forecast": forecast.run,
    "workers": workers.run,
    "many_bizs": many_bizs.run,
    "fleet_load": fleet_load.run,
    "politeness": politeness.run,
    "ageing": ageing.run,
    "placement": placement.run,
    "lookup": lookup.run,
    "expansion": expansion.run,
    "recovery": recovery.run_recovery,
    "scaling": scaling.run,
    "assignment": assignment_rounds.run,
    "quotas": quotas.run,
    "matching": matching.run,
    "feeds": feeds.run,
    "streams": streams.run,
    "isolation": isolation.run,
}
#: Where a run leaves what it found.
OUT: Final = Path(__file__).resolve().parent / "out"
#: Set to ``yes``, it lets a run empty the servers that REDIS_URL and MONGODB_URI name.
ENV_EMPTY: Final = "BENCH_MAY_EMPTY"
#: Those that have peers beside the floor.
_COMPARED: Final = ("ingest", "fetch_clients", "crawl")
_WITHOUT_PEERS: Final = (
    f"The peers are missing: run `make bench`, which installs them into an environment of their "
    f"own, or name a Python that has requirements/bench.txt in {ENV_PEERS}. "
    "--quick runs without them."
)


def main() -> int:
    arguments = _arguments()
    console = Console(stderr=True)
    peers = peers_python()
    chosen = arguments.only or list(BENCHMARKS)
    if peers is None and not arguments.quick and set(chosen) & set(_COMPARED):
        console.print(_WITHOUT_PEERS, style="red")
        return 2
    named = [name for name in (ENV_URL, ENV_URI) if os.environ.get(name)]
    if named and os.environ.get(ENV_EMPTY) != "yes":
        console.print(
            f"{' and '.join(named)} would be emptied again and again: unset it, and servers of the "
            f"run's own are started, or set {ENV_EMPTY}=yes.",
            style="red",
        )
        return 2
    scale = QUICK if arguments.quick else FULL
    try:
        found = _run(chosen, scale, peers, arguments.out, console)
    except BenchError as error:
        console.print(f"benchmark failed: {error}", style="red", markup=False)
        return 3
    show(Console(), found.figures, found.rounds)
    for said in found.notes:
        console.print(said, markup=False, soft_wrap=True)
    name = "quick.json" if arguments.quick else "latest.json"
    details = found.details | ({"rounds": found.rounds} if found.rounds else {})
    path = keep(arguments.out, name, found.figures, details)
    console.print(f"kept in {path.parent.name}/{path.name}")
    if peers is not None:
        _draw(path, peers, console)
    missed = [f.key for f in FIGURES if f.reached(found.figures.get(f.key, 0)) is False]
    # The smoke run is too short to judge speeds by: it shows that every step works.
    return 1 if not arguments.quick and set(missed) & found.figures.keys() else 0


def _run(chosen: list[str], scale: Scale, peers: Path | None, out: Path, console: Console) -> Found:
    together = Found()
    with RedisServer() as redis_server, MongoServer() as mongo_server:
        addresses = Addresses(redis=redis_server.url, mongo=mongo_server.uri)
        for name in chosen:
            with part(console, name, steps(name, scale, with_peers=peers is not None)) as report:
                done = count(1)

                def tick(
                    what: str,
                    report: Callable[[int, str], None] = report,
                    done: Iterator[int] = done,
                ) -> None:
                    report(next(done), what)

                found = BENCHMARKS[name](
                    Bench(addresses=addresses, scale=scale, out=out, peers=peers, tick=tick)
                )
            if not console.is_terminal:
                for key, value in found.figures.items():
                    console.print(f"{name}: {key} = {value:.6g}", markup=False, highlight=False)
            together.figures.update(found.figures)
            together.rounds.update(found.rounds)
            together.details.update(found.details)
            together.notes += found.notes
    return together


def steps(name: str, scale: Scale, *, with_peers: bool) -> int:
    """Print that a benchmark goes on, now and then."""
    more = 1 if with_peers else 0
    return {
        "imports": scale.import_runs,
        "ingest": scale.rounds * (3 + more),
        "dedupe": 2,
        "expansion": 2,
        "queue_memory": 1,
        "leasing": len(leasing.KINDS) * len(leasing.lengths(scale)),
        "extraction": len(extraction.SIZES),
        "fetch_clients": scale.client_rounds * len(fetch_clients.clients_of(with_peers=with_peers)),
        "crawl": scale.crawl_rounds * (2 + 2 * more),
        "tracing": scale.crawl_rounds * len(tracing.SHARES),
        "metering": scale.metering_rounds * len(metering.SIDES),
        "forecast": len(forecast.SIZES),
        "workers": scale.crawl_rounds * 4,
        "many_bizs": scale.crawl_rounds * 2,
        "fleet_load": 6,
        "politeness": 2,
        "ageing": ageing.STEPS,
        "placement": scale.placement_rounds * 2,
        "recovery": scale.halvings + 3 * scale.losses + 1,
        "scaling": scaling.STEPS,
        "quotas": 3,
        "matching": matching.STEPS,
        "feeds": feeds.STEPS,
        "streams": streams.STEPS,
        "isolation": 2 * len(isolation.ways(scale)),
        "assignment": len(assignment_rounds.TRACES)
        * len(assignment_rounds.POLICIES)
        * scale.assignment_seeds,
        "lookup": -(-scale.stored_requests // lookup.BATCH),
    }[name]


def peers_python() -> Path | None:
    given = os.environ.get(ENV_PEERS)
    return Path(given) if given and Path(given).exists() else None


def _draw(details: Path, peers: Path, console: Console) -> None:
    beside = details.with_name(details.name.replace(".json", "-details.json"))
    try:
        drawn = ask([*peer(peers, "plots.py"), str(beside), str(beside.parent)], {})
    except BenchError as error:
        console.print(f"no plots: {error}", style="yellow", markup=False)
        return
    console.print(f"drew {len(drawn['drawn'])} plots beside it")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",  # several times is all of them, not the last
        choices=list(BENCHMARKS),
        metavar="NAME",
        help=", ".join(BENCHMARKS),
    )
    parser.add_argument(
        "--quick", action="store_true", help="some two minutes, without peers: is all in order?"
    )
    parser.add_argument(
        "--out", type=Path, default=OUT, help="the folder for figures, rounds and plots"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
