"""Follow a job until its end: a bar at a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from crawlfleet.cli import console

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Job

#: Where there is no terminal a line is written so often; what ends before that writes none.
LINE_SECONDS: Final = 10.0


def followed(fleet: "Client", biz: str, name: str, timeout: float, *, hidden: bool) -> "Job":
    """Wait for a job, and for what its pages lead to, telling how far it is unless hidden."""
    with _reporter(hidden=hidden) as reported:
        return fleet.wait_job(biz, name, timeout, progress=reported)


def how_many(counts: dict[str, int]) -> str:
    """Write how many have ended in which way.

    >>> how_many({"done": 1200, "dead": 2, "expired": 0})
    '1200 done, 2 dead'
    """
    return ", ".join(f"{count} {how}" for how, count in counts.items() if count)


def how_far(found: "Job") -> str:
    """Write how far a job is, and when that was counted."""
    if found.counted_at is None:
        return f"{found.name} {found.state}"
    so_far = how_many(found.counts) or "none ended"
    records = sum(one.records for one in found.coverage)
    known = f", {console.counted(records, 'record')}" if records else ""
    at = console.moment(console.to_second(found.counted_at))
    left = found.open or 0
    said = f"{found.name} {found.state}: {so_far}, {left} open{known}, at {at}"
    if left or not found.counts or found.ended:
        return said
    return f"{said}; it ends when the next look, within a minute, finds no more"


@contextmanager
def pages_reporter(*, hidden: bool) -> Iterator[console.Advance]:
    """Show how many of some pages have finished: a bar, or lines unless hidden."""
    with console.progress("finished") as advance:
        if hidden or sys.stderr.isatty():
            yield advance
            return
        is_due = _line_times()
        yield lambda done, of: console.note(f"finished {done} of {of}") if is_due() else None


def _line_times() -> Callable[[], bool]:
    """Make a question to which the answer is yes once in ``LINE_SECONDS``."""
    last = time.monotonic()

    def is_due() -> bool:
        nonlocal last
        now = time.monotonic()
        if now - last < LINE_SECONDS:
            return False
        last = now
        return True

    return is_due


@contextmanager
def _reporter(*, hidden: bool) -> Iterator[Callable[["Job"], None]]:
    """Show a bar of the tasks that have ended and the time that the others take, or lines of it."""
    reported: set[str] = set()

    def trouble(found: "Job") -> None:
        if found.trouble and found.trouble not in reported and not hidden:
            reported.add(found.trouble)
            console.note(found.trouble)

    if hidden:
        yield trouble
        return
    if not sys.stderr.isatty():
        is_due = _line_times()

        def line(found: "Job") -> None:
            trouble(found)
            if not found.ended and is_due():
                console.note(how_far(found))

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task("", total=None, left="")

        def advance(found: "Job") -> None:
            trouble(found)
            progress = found.progress
            at = None if progress is None else progress.ends_at
            seconds = 0.0 if at is None else (at - datetime.now(UTC)).total_seconds()
            bar.update(
                task,
                description=found.state,
                completed=0 if progress is None else progress.ended,
                total=found.size if progress is None else progress.tasks,
                left="" if at is None else f"about {_in_words(seconds)} left",
            )

        yield advance


def _in_words(seconds: float) -> str:
    """Write a remaining time.

    >>> [_in_words(each) for each in (3, 125, 7_300)]
    ['3 s', '2 min', '2.0 h']
    """
    if seconds < 90:
        return f"{max(0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3600:.1f} h"
