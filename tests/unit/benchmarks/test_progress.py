"""Without a terminal a long run still says how far it is."""

import io

from rich.console import Console

from benchmarks.progress import EVERY_SECONDS, part


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def lines_of(steps: list[tuple[float, int]], total: int) -> list[str]:
    """Say that after so many seconds so much is done; return the lines."""
    said, clock = io.StringIO(), Clock()
    with part(Console(file=said), "crawl", total, clock=clock) as report:
        for after, done in steps:
            clock.now = after
            report(done, "ours")
    return said.getvalue().splitlines()


def test_a_part_says_when_it_begins_and_when_it_is_done():
    assert lines_of([], 7) == ["crawl: begun, 7 steps", "crawl: done in 0 s"]


def test_a_line_comes_after_each_tenth():
    said = lines_of([(n / 100, n) for n in range(1, 101)], 100)

    assert len(said) == 12
    assert said[1] == "crawl: 10 of 100, 0 s, ours"


def test_a_line_comes_when_nothing_has_been_said_for_long():
    said = lines_of([(EVERY_SECONDS - 1, 1), (EVERY_SECONDS, 2), (EVERY_SECONDS + 1, 3)], 1_000)

    assert said[1:-1] == ["crawl: 2 of 1,000, 30 s, ours"]


def test_a_terminal_has_a_bar():
    said = io.StringIO()

    with part(Console(file=said, force_terminal=True, width=80), "crawl", 3) as report:
        report(3, "")

    assert "3/3" in said.getvalue()
    assert "begun" not in said.getvalue()
