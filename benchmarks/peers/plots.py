"""Draw a run's rounds as bars: ``plots.py latest-details.json folder``. Needs matplotlib."""

import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

TITLES = (
    "batched submissions per second",
    "single submissions per second",
    "pages per CPU second",
    "pages per second by number of workers",
    "imports, CPU milliseconds",
    "assignment, seconds from arrival to end, steady",
    "assignment, seconds from arrival to end, bursts",
    "assignment, seconds from arrival to end, day",
)
#: The key of the rounds of benchmarks/recovery.py.
RECOVERY = "recovery, requests outstanding"
#: The key of the curves of benchmarks/politeness.py.
POLITENESS = "politeness, requests done (simulated)"
#: Curves over time by side: how the value is called, and ours.
CURVES = {
    "ageing, longest wait by time": ("seconds that priority 0 had waited", "ageing"),
    "assignment, jobs that wait for a worker, steady": ("jobs, median of seeds", "bidding"),
    "assignment, jobs that wait for a worker, bursts": ("jobs, median of seeds", "bidding"),
    "assignment, jobs that wait for a worker, day": ("jobs, median of seeds", "bidding"),
}


def draw(title: str, sides: dict[str, list[float]], folder: Path) -> None:
    sides = {name: values for name, values in sides.items() if values}
    figure, axes = plt.subplots(figsize=(7, 1 + 0.6 * len(sides)))
    for place, (name, values) in enumerate(reversed(sides.items())):
        middle = statistics.median(values)
        ours = name in {"ours", "bidding"} or "imports" in title or "workers" in title
        colour = "tab:blue" if ours else "tab:gray"
        axes.barh(place, middle, color=colour)
        axes.plot(values, [place] * len(values), "k|")
        axes.annotate(f" {middle:,.0f}", (max(values), place), va="center")
    axes.set_yticks(range(len(sides)), [name.replace("_", "-") for name in reversed(sides)])
    axes.set_title(f"{title} (median, each round a tick)")
    axes.margins(x=0.15)
    figure.tight_layout()
    figure.savefig(folder / f"{re.sub(r'[^a-z]+', '-', title.lower())}.png", dpi=120)
    plt.close(figure)


def draw_recovery(rounds: list[dict[str, Any]], folder: Path) -> None:
    """Draw the requests of the dead over time, until they are nobody's and until they are done."""
    figure, axes = plt.subplots(figsize=(7, 3.5))
    for place, one in enumerate(rounds):
        seconds, theirs, undone = zip(*one["series"], strict=True)
        labels = ("leased by the dead", "not done yet") if place == 0 else (None, None)
        axes.step(seconds, theirs, "tab:red", where="post", alpha=0.6, label=labels[0])
        axes.step(seconds, undone, "tab:blue", where="post", alpha=0.6, label=labels[1])
    axes.set_xlabel("seconds after half of the workers were killed")
    axes.set_ylabel("requests")
    axes.set_title(RECOVERY)
    axes.legend()
    figure.tight_layout()
    figure.savefig(folder / "recovery-requests-outstanding.png", dpi=120)
    plt.close(figure)


def draw_politeness(ways: dict[str, dict[str, list[list[float]]]], folder: Path) -> None:
    """Draw the part of the small hosts' requests, and of the large one's, done over time."""
    figure, axes = plt.subplots(figsize=(7, 3.5))
    # All but the first lie nearly upon each other.
    styles = iter(
        (
            ("tab:blue", "-", 2.5),
            ("tab:orange", "--", 2.0),
            ("silver", "-", 5.0),
            ("black", ":", 1.5),
        )
    )
    for way, curves in ways.items():
        for hosts, points in curves.items():
            colour, line, width = next(styles)
            seconds, parts = zip(*points, strict=True)
            order = 10 - width  # thin ones in front
            axes.plot(
                seconds,
                parts,
                line,
                color=colour,
                linewidth=width,
                zorder=order,
                label=f"{hosts}, {way}",
            )
    axes.set_xscale("log")
    axes.set_xlabel("seconds (simulated)")
    axes.set_ylabel("part that is done")
    axes.set_title(POLITENESS)
    axes.legend()
    figure.tight_layout()
    figure.savefig(folder / "politeness-requests-done.png", dpi=120)
    plt.close(figure)


def draw_curves(title: str, sides: dict[str, list[list[float]]], folder: Path) -> None:
    """A line for each side over the simulation's time."""
    value, ours = CURVES[title]
    figure, axes = plt.subplots(figsize=(7, 3.5))
    for name, points in sides.items():
        moments, values = zip(*points, strict=True)
        width, front = (2.5, 3) if name == ours else (1.3, 2)
        axes.plot(moments, values, linewidth=width, zorder=front, label=name)
    axes.set_xlabel("seconds (simulated)")
    axes.set_ylabel(value)
    axes.set_title(title)
    axes.legend()
    figure.tight_layout()
    figure.savefig(folder / f"{re.sub(r'[^a-z]+', '-', title.lower())}.png", dpi=120)
    plt.close(figure)


found = json.loads(Path(sys.argv[1]).read_text())
for wanted in TITLES:
    if wanted in found:
        draw(wanted, found[wanted], Path(sys.argv[2]))
if RECOVERY in found:
    draw_recovery(found[RECOVERY], Path(sys.argv[2]))
if POLITENESS in found:
    draw_politeness(found[POLITENESS], Path(sys.argv[2]))
for wanted in CURVES:
    if wanted in found:
        draw_curves(wanted, found[wanted], Path(sys.argv[2]))
everything = (*TITLES, RECOVERY, POLITENESS, *CURVES)
print(json.dumps({"drawn": [wanted for wanted in everything if wanted in found]}))
