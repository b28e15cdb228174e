"""Report a bundle's weight and import costs: one table for people, one file for programs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final

from infra import bytecode, cold_start
from infra.bundle_contents import Bundle, Size, megabytes
from infra.fleet import PYTHON_VERSION, SCRAPY, Fleet
from infra.stages import Architecture

#: Our own layer, among those of the vendor groups.
OURS: Final = "crawlfleet"
#: What a bundle without byte code is, and costs; docs/guides/deploy.md says how much.
SOURCE_ALONE: Final = (
    f"source alone: no python{PYTHON_VERSION} here to compile it with, so cold starts take about"
    " three times as long"
)
_COLUMNS: Final = ("for", "what", "zipped", "of limit", "unpacked", "of limit", "import, CPU")


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionReport:
    """The bundle sizes and import times of a function.

    Attributes:
        code: Its own folder.
        together: That, with all its layers.
        with_scrapy: Whether its folder has Scrapy and spiders.
        import_cpu_ms: Of its handler; None where that was not measured.
    """

    code: Size
    together: Size
    with_scrapy: bool
    import_cpu_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report on the bundle of an architecture.

    Attributes:
        architecture: Of the functions.
        python: Version of the runtime.
        byte_code: Whether the bundle has any; without it cold starts take longer.
        unmeasured: Why imports were not measured; None where they were.
        layers: Each layer by its name.
        functions: Each function by its name.
    """

    architecture: str
    python: str
    byte_code: bool
    unmeasured: str | None
    layers: dict[str, Size]
    functions: dict[str, FunctionReport]


def report(bundle: Bundle, fleet: Fleet, architecture: Architecture) -> Report:
    """Looks at a bundle, and imports its handlers where that can be done here.

    Raises:
        BundleError: A handler cannot be imported from it.
    """
    layers = {OURS: bundle.package_layer, **bundle.vendor_layers}
    interpreter = bytecode.compiler()
    unmeasured = cold_start.unmeasured(architecture, interpreter)
    functions = {}
    for spec in fleet.functions:
        code = bundle.functions[spec.name]
        functions[spec.name] = FunctionReport(
            code=bundle.sizes[code],
            together=bundle.size_of(spec),
            with_scrapy=(code / spec.folder / SCRAPY.name).is_dir(),
            import_cpu_ms=None
            if unmeasured or interpreter is None
            else round(cold_start.import_ms(bundle, spec, interpreter), 1),
        )
    return Report(
        architecture=architecture.value,
        python=PYTHON_VERSION,
        byte_code=interpreter is not None,
        unmeasured=unmeasured,
        layers={name: bundle.sizes[folder] for name, folder in layers.items()},
        functions=functions,
    )


def keep(found: Report, folder: Path) -> Path:
    """Writes a report as JSON beside the bundle."""
    path = folder / f"report-{found.architecture}.json"
    path.write_text(json.dumps(asdict(found), indent=2) + "\n")
    return path


def show(reports: Sequence[Report], limits: Size, out: IO[str]) -> None:
    """Prints all in one table: drawn on a terminal, plain lines otherwise.

    Args:
        reports: One an architecture.
        limits: Of a function with its layers.
        out: Where to.
    """
    # Whoever synthesises prints no table.
    from rich.console import Console
    from rich.table import Table

    groups = [list(_rows(found, limits)) for found in reports]
    console = Console(file=out)
    if console.is_terminal:
        table = Table(title="what Lambda receives")
        for column in _COLUMNS:
            right = column not in _COLUMNS[:2]
            table.add_column(column, justify="right" if right else "left", no_wrap=True)
        for group in groups:
            for row in group:
                table.add_row(*row)
            table.add_section()
        console.print(table)
    else:
        out.write(_plain([_COLUMNS, *(row for group in groups for row in group)]))
    for line in _notes(reports, limits):
        out.write(f"{line}\n")


def _rows(found: Report, limits: Size) -> Iterator[tuple[str, ...]]:
    for name, layer in found.layers.items():
        sizes = (megabytes(layer.zipped), "", megabytes(layer.unpacked), "")
        yield (found.architecture, f"layer {name}", *sizes, "")
    for name, function in found.functions.items():
        if function.with_scrapy:
            sizes = (megabytes(function.code.zipped), "", megabytes(function.code.unpacked), "")
            yield (found.architecture, f"code of {name}, with Scrapy", *sizes, "")
    for name, function in found.functions.items():
        whole, ms = function.together, function.import_cpu_ms
        yield (
            found.architecture,
            f"{name}, with its layers",
            megabytes(whole.zipped),
            f"{whole.zipped / limits.zipped:.0%}",
            megabytes(whole.unpacked),
            f"{whole.unpacked / limits.unpacked:.0%}",
            "not measured" if ms is None else f"{ms:.0f} ms",
        )


def _notes(reports: Sequence[Report], limits: Size) -> Iterator[str]:
    yield (
        f"limits of a function with its layers: {megabytes(limits.zipped)} zipped (ours), "
        f"{megabytes(limits.unpacked)} unpacked (Lambda's)"
    )
    for found in reports:
        if not found.byte_code:
            yield SOURCE_ALONE
            break
    for found in reports:
        if found.unmeasured:
            yield f"imports for {found.architecture} were not measured: {found.unmeasured}"


def _plain(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)
