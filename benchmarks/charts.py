"""A run's plots as text: Mermaid charts, which viewers of Markdown draw.

``python -m benchmarks.charts [FOLDER]`` prints those of ``latest-details.json`` in the folder, for
docs/performance.md. ``make bench`` draws the same rounds, and more of them, as pictures.
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
)
POLITENESS: Final = "politeness, requests done"
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
    """Which part of each was done at some moments, a line each, in the order that is told below."""
    told, lines = [], []
    for way, found in ways.items():
        for hosts, points in found.items():
            told.append(f"{hosts}, {way}")
            parts = ", ".join(f"{100 * part_at(points, moment):.0f}" for moment in SECONDS)
            lines.append(f"line [{parts}]")
    moments = ", ".join(f'"{moment}"' for moment in SECONDS)
    axes = f'x-axis "seconds" [{moments}]\n    y-axis "percent done" 0 --> 100'
    return f"{_chart(title, axes, lines)}\n\nLines: {'; '.join(told)}."


def part_at(points: Curve, moment: float) -> float:
    """What a curve of (seconds, part) has come to at a moment.

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


def _chart(title: str, axes: str, series: Sequence[str]) -> str:
    lines = "\n    ".join([f'title "{title}"', axes, *series])
    return f"```mermaid\nxychart-beta\n    {lines}\n```"


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0]) if arguments else ROOT / "benchmarks" / "out"
    found = msgspec.json.decode((folder / "latest-details.json").read_bytes())
    sys.stdout.write("\n\n".join(charts(found)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
