"""Show and keep the results of a run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figures import FIGURES, flat, spread, verdict


def show(
    console: Console, found: Mapping[str, float], rounds: Mapping[str, Sequence[float]]
) -> None:
    """The table of figures, of the least and the most of their rounds, and of targets."""
    table = Table(title="Crawlfleet beside the floor and its peers")
    for column in ("figure", "what", "measured", "rounds", "target", ""):
        right = column in ("measured", "rounds", "target")
        table.add_column(column, justify="right" if right else "left", no_wrap=column != "what")
    for figure in FIGURES:
        if figure.key in found:
            value = found[figure.key]
            said = verdict(figure, value)
            style = {"reached": "green", "MISSED": "bold red"}.get(said, "")
            least_to_most = spread(rounds.get(figure.key, ()))
            table.add_row(
                *(figure.key, figure.meaning, f"{value:.3g}", least_to_most, figure.target, said),
                style=style,
            )
    console.print(table)


def keep(out: Path, name: str, found: Mapping[str, float], details: Mapping[str, object]) -> Path:
    """Write the figures as ``name``, what was not measured now as it stood; and the details."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / name
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(flat(found, before), indent=2) + "\n")
    beside = out / name.replace(".json", "-details.json")
    earlier = json.loads(beside.read_text()) if beside.exists() else {}
    beside.write_text(json.dumps(earlier | dict(details), indent=2) + "\n")
    return path
