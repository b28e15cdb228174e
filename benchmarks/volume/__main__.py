"""``python -m benchmarks.volume --requests N``: fill, look, drain, check, expire; then it is gone.

Exits with 1 where anything was lost, with 3 where the run could not be done. Figures, looks and
charts are left in the folder that ``--out`` names, and nothing else anywhere.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NoReturn

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from benchmarks.bench import BenchError
from benchmarks.volume.plan import Plan
from benchmarks.volume.report import document, page, sentence, tables
from benchmarks.volume.run import Result, run

#: Where a run leaves what it found.
OUT: Final = Path(__file__).resolve().parent.parent / "out"


def main() -> int:
    """Run; returns the exit code."""
    arguments = _arguments()
    console = Console(stderr=True)
    plan = Plan(
        requests=arguments.requests,
        submitters=arguments.submitters,
        workers=arguments.workers,
        hosts=arguments.hosts,
        shards=arguments.shards,
        cache_gb=arguments.cache_gb,
        expire=not arguments.no_expire,
        lose_redis=arguments.lose_redis,
    )
    console.print(
        f"{plan.requests:,} requests: up to {plan.disk_bytes / 1e9:.1f} GB of disk, "
        f"{plan.memory_bytes / 1e9:.1f} GB of memory; given up after {plan.seconds / 60:,.0f} min"
    )
    signal.signal(signal.SIGTERM, _end)
    try:
        with tempfile.TemporaryDirectory(
            prefix="crawlfleet-volume-", dir=arguments.folder
        ) as folder:
            result = _shown(plan, Path(folder), console)
    except BenchError as error:
        console.print(f"volume failed: {error}", style="red", markup=False)
        return 3
    _keep(arguments.out, result)
    for table in tables(result):
        Console().print(table)
    Console().print(sentence(result), markup=False, highlight=False)
    for problem in result.problems:
        console.print(problem, style="red", markup=False)
    return 1 if result.problems else 0


def _shown(plan: Plan, folder: Path, console: Console) -> Result:
    columns = (TextColumn("{task.description:<8}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        tasks: dict[str, TaskID] = {}
        tenths: dict[str, int] = {}

        def announce(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = progress.add_task(phase, total=total)
            progress.update(tasks[phase], completed=done, total=total)
            tenth = 10 * done // total
            if not console.is_terminal and tenth != tenths.get(phase):
                tenths[phase] = tenth
                console.print(f"{time.strftime('%H:%M:%S')} {phase}: {done:,} of {total:,}")

        return run(plan, folder, announce)


def _keep(out: Path, result: Result) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "volume.json").write_text(json.dumps(document(result), indent=2) + "\n")
    (out / "volume.md").write_text(page(result))


def _end(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)  # through every `with`, so that servers and files go


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.volume", description=__doc__)
    parser.add_argument("--requests", type=_count, default=1_000_000, help="default 1,000,000")
    parser.add_argument("--submitters", type=_count, default=2, help="processes; default 2")
    parser.add_argument("--workers", type=_count, default=2, help="processes; default 2")
    parser.add_argument("--hosts", type=_count, default=1_000, help="of the site; default 1,000")
    parser.add_argument("--shards", type=_count, default=1, help="of the biz; default 1")
    parser.add_argument(
        "--cache-gb", type=float, default=2.0, help="WiredTiger's cache; default 2, least 0.25"
    )
    parser.add_argument("--no-expire", action="store_true", help="leave the last phase out")
    parser.add_argument(
        "--lose-redis", action="store_true", help="empty Redis while full; recovery fills it again"
    )
    parser.add_argument("--folder", type=Path, help="where the servers' files lie for a while")
    parser.add_argument("--out", type=Path, default=OUT, help="where figures and charts are left")
    return parser.parse_args()


def _count(text: str) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is no count")
    return number


if __name__ == "__main__":
    sys.exit(main())
