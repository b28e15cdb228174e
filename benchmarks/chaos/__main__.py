"""``python -m benchmarks.chaos``, the long form.

Exits with 1 where something was lost, doubled or wasted.
"""

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.chaos.kinds import MEANING, Kind
from benchmarks.chaos.runs import Plan, Report, Servers, run, servers
from benchmarks.progress import part

#: One harm to so many requests, unless set otherwise: as in the tests.
REQUESTS_A_HARM: Final = 350
#: Requests of one round when the time decides: each round has servers that others have used.
ROUND_REQUESTS: Final = 20_000


def main() -> int:
    """Run until the requests are done, or rounds until the time is up."""
    arguments = _arguments()
    console = Console(stderr=True)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    console.print(f"seed {seed}")
    end = time.monotonic() + (arguments.seconds or 0)
    requests = arguments.requests or ROUND_REQUESTS
    reports: list[Report] = []
    with servers() as used:
        while not reports or (arguments.seconds and time.monotonic() < end):
            plan = Plan(
                requests=requests,
                harms=arguments.harms or max(1, requests // REQUESTS_A_HARM),
                seed=seed + len(reports),
                kinds=tuple(arguments.kinds or Kind),
                consumers=arguments.consumers,
            )
            reports.append(_shown(plan, used, console, arguments.log))
            if reports[-1].problems:
                break
    for report in reports:
        Console().print(_table(report))
    for problem in reports[-1].problems:
        console.print(problem, style="red", markup=False)
    if not reports[-1].problems:
        console.print(
            "held: nothing was lost or stored twice, and the ledger is exact", style="green"
        )
    else:
        console.print(f"repeat it with: {reports[-1].again}", markup=False)
    return 1 if reports[-1].problems else 0


def _shown(plan: Plan, used: Servers, console: Console, log: Path | None) -> Report:
    with part(console, f"seed {plan.seed}", plan.requests) as announce:
        return run(plan, used, progress=announce, log=log)


def _table(report: Report) -> Table:
    table = Table(title=f"chaos, seed {report.seed}", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    facts: dict[str, object] = {
        "requests": f"{report.requests:,}",
        "done": f"{report.done:,}",
        "lost": report.lost,
        "stored twice": report.stored_twice,
        "downloaded again": report.repeated,
        "of these in the hands of the killed": report.repeated_in_hand,
        "ratio of the others": f"{report.refetched_ratio:.3%}",
        "seconds": report.seconds,
        "invocations": report.invocations,
        "killed": report.killed,
        "batches refused and repeated": report.batches_repeated,
        "pages and items of a Scrapy crawl": report.scrapy_pages,
        "its processes": report.scrapy_processes,
    }
    for name, value in facts.items():
        table.add_row(name, str(value))
    table.add_section()
    for kind in Kind:
        if count := report.harms.get(kind):
            table.add_row(MEANING[kind], str(count))
    return table


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--requests", type=int, help=f"of a round; default {ROUND_REQUESTS}")
    parser.add_argument("--seconds", type=float, help="begin rounds for so long")
    parser.add_argument("--seed", type=int, help="decides on all harm; default: a random one")
    parser.add_argument("--harms", type=int, help=f"default: one to {REQUESTS_A_HARM} requests")
    parser.add_argument("--kinds", nargs="+", type=Kind, metavar="KIND", help=", ".join(Kind))
    parser.add_argument("--consumers", type=int, default=4, help="kept alive; default 4")
    parser.add_argument("--log", type=Path, help="a file for all that goes wrong on the way")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
