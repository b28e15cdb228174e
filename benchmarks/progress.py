"""Progress of a part of a long run: a bar on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

#: Without a terminal a line comes after so many seconds at the latest, and after each such share.
EVERY_SECONDS: Final = 30.0
EVERY_SHARE: Final = 0.1


@contextmanager
def part(
    console: Console,
    name: str,
    total: int,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[int, str], None]]:
    """Show a part of ``total`` steps while it is done.

    Its value is called with how many steps are done, and what is done now, if that is known.
    """
    if console.is_terminal:
        columns = (TextColumn("{task.description:<16}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
            task = bar.add_task(name, total=total)
            yield lambda done, what: bar.update(task, completed=done, description=what or None)
        return
    began = told_at = clock()
    reported = 0

    def say(line: str) -> None:
        console.print(f"{name}: {line}", markup=False, highlight=False, soft_wrap=True)

    def report(done: int, what: str) -> None:
        nonlocal reported, told_at
        now = clock()
        if done - reported >= max(1, EVERY_SHARE * total) or now - told_at >= EVERY_SECONDS:
            reported, told_at = done, now
            say(f"{done:,} of {total:,}, {now - began:.0f} s{what and f', {what}'}")

    say(f"begun, {total:,} steps")
    yield report
    say(f"done in {clock() - began:.0f} s")
