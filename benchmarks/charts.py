"""A run's plots as text: Mermaid charts, which viewers of Markdown draw.

``python -m benchmarks.charts [FOLDER]`` prints those of ``latest-details.json`` in the folder, for
docs/how-it-works/performance.md. ``make bench`` draws the same rounds, and more of them, as
pictures.
"""

import statistics
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.bench import ROOT

#: Rounds of several sides, by the name that the benchmarks give them.
BARS: Final = (
    "batched submissions per second",
    "single submissions per second",
    "pages per CPU second",
    "pages per second by number of workers",
    "assignment, seconds from arrival to end, steady",
    "assignment, seconds from arrival to end, bursts",
    "assignment, seconds from arrival to end, day",
)
POLITENESS: Final = "politeness, requests done (simulated)"
SCALING: Final = "scaling, a burst"
AGEING: Final = "ageing, longest wait by time"
#: How many jobs wait, at moments of each of these.
WAITING: Final = tuple(
    f"assignment, jobs that wait for a worker, {trace}" for trace in ("steady", "bursts", "day")
)
#: Moments of a trace that are shown.
MOMENTS: Final = 24
#: Of the curves, so many moments are shown.
SECONDS: Final = (25, 50, 100, 150, 200, 300, 500, 1_000, 2_000, 5_000, 10_000)

Curve = Sequence[Sequence[float]]


def bars(title: str, sides: Mapping[str, Sequence[float]]) -> str:
    """The medians of some sides, the largest first."""
    medians = {name: statistics.median(values) for name, values in sides.items() if values}
    ordered = sorted(medians, key=lambda name: -medians[name])
    names = ", ".join(f'"{name.replace("_", "-")}"' for name in ordered)
    values = ", ".join(f"{medians[name]:.0f}" for name in ordered)
    return _chart(title, f"x-axis [{names}]", [f"bar [{values}]"])


def curves(title: str, ways: Mapping[str, Mapping[str, Curve]]) -> str:
    """Draw which part of each was done at some moments, a line each, in the order given below."""
    reported, lines = [], []
    for way, found in ways.items():
        for hosts, points in found.items():
            reported.append(f"{hosts}, {way}")
            parts = ", ".join(f"{100 * part_at(points, moment):.0f}" for moment in SECONDS)
            lines.append(f"line [{parts}]")
    moments = ", ".join(f'"{moment}"' for moment in SECONDS)
    axes = f'x-axis "seconds" [{moments}]\n    y-axis "percent done" 0 --> 100'
    return f"{_chart(title, axes, lines)}\n\nLines: {'; '.join(reported)}."


def timeline(title: str, moments: Sequence[float], series: Mapping[str, Sequence[float]]) -> str:
    """Lines over minutes, each with a value at each of the moments, which lie at equal distances.

    Values are shown to three figures.
    """
    first, last = moments[0] / 60, moments[-1] / 60
    top = max(max(values) for values in series.values()) or 1
    axes = f'x-axis "minutes" {first:.3g} --> {last:.3g}\n    y-axis 0 --> {_short(1.05 * top)}'
    lines = [f"line [{', '.join(_short(value) for value in row)}]" for row in series.values()]
    return f"{_chart(title, axes, lines)}\n\nLines: {'; '.join(series)}."


def _short(value: float) -> str:
    return f"{float(f'{value:.3g}'):g}" if value < 1_000 else f"{float(f'{value:.3g}'):.0f}"


def traces(burst: Mapping[str, Any]) -> Iterator[str]:
    """Draw the open requests, the workers and their speed over time."""
    points: list[Mapping[str, float]] = burst["points"]
    last = points[-1]["at"]
    moments = [last * n / MOMENTS for n in range(MOMENTS + 1)]
    times = [point["at"] for point in points]
    shown = [points[max(0, bisect_right(times, moment) - 1)] for moment in moments]
    for title, axis, values in (
        (
            f"{burst['requests']:,} requests with a plan of {burst['plan']:,.0f} s: to be done",
            "requests",
            [point["submitted"] - point["done"] for point in shown],
        ),
        ("the workers that are there", "workers", [point["workers"] for point in shown]),
        ("pages per second, over five seconds", "pages", [point["rate"] for point in shown]),
    ):
        axes = (
            f'x-axis "seconds" 0 --> {last:.0f}\n    y-axis "{axis}" 0 --> {max(1.0, *values):.0f}'
        )
        line = ", ".join(f"{value:.0f}" for value in values)
        yield _chart(title, axes, [f"line [{line}]"])


def waiting(title: str, orders: Mapping[str, Curve]) -> str:
    """A line for each order of service, or policy, over all of its time."""
    last = max(points[-1][0] for points in orders.values())
    moments = [last * n / MOMENTS for n in range(MOMENTS + 1)]
    found = {
        name: [part_at(points, moment) for moment in moments] for name, points in orders.items()
    }
    return timeline(title, moments, found)


def part_at(points: Curve, moment: float) -> float:
    """Get the value of a curve of (seconds, part) at a moment.

    >>> part_at([(0, 0.0), (10, 0.5), (20, 1.0)], 15)
    0.5
    """
    place = bisect_right([seconds for seconds, _ in points], moment)
    return points[place - 1][1] if place else 0.0


def charts(found: Mapping[str, Any]) -> Iterator[str]:
    """Every chart that a run's details have the rounds for."""
    yield from (bars(title, found[title]) for title in BARS if title in found)
    if POLITENESS in found:
        yield curves(POLITENESS, found[POLITENESS])
    if SCALING in found:
        yield from traces(found[SCALING])
    if AGEING in found:
        title = "how long the lowest priority's task served then had waited, in seconds"
        yield waiting(title, found[AGEING])
    yield from (waiting(title, found[title]) for title in WAITING if title in found)


def _chart(title: str, axes: str, series: Sequence[str]) -> str:
    lines = "\n    ".join([f'title "{title}"', axes, *series])
    return f"```mermaid\nxychart-beta\n    {lines}\n```"


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0]) if arguments else ROOT / "benchmarks" / "out"
    found = msgspec.json.decode((folder / "latest-details.json").read_bytes())
    sys.stdout.write("\n\n".join(charts(found)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
