"""The packages of an operator's Scrapy projects, as a stage or the local cloud names them.

Each is a folder with an ``__init__.py``, the package that ``SPIDER_MODULES`` of the project begins
with. Consumers carry it as it is: configurations may name its spiders, and no others.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Top-level modules that a package would hide, or be hidden by, beside those of Python and of what
#: is carried.
_OURS: Final = frozenset({"crawlfleet", "functions", "infra", "tests", "benchmarks"})
#: Bytes of a package; projects are code, and data in them is a crawl's output more often than not.
MOST_BYTES: Final = 20 * 1024 * 1024


class SpidersError(ValueError):
    """A package that is named is none that can be carried; names the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpiderPackage:
    """A package and where it is."""

    name: str
    folder: Path

    def files(self) -> Mapping[str, Path]:
        """Return what is carried of it, by place: everything but caches and what is hidden."""
        found = {path.relative_to(self.folder): path for path in sorted(self.folder.rglob("*"))}
        return {
            f"{self.name}/{relative.as_posix()}": path
            for relative, path in found.items()
            if path.is_file() and not any(_left_out(part) for part in relative.parts)
        }


def find_packages(
    places: Sequence[str], root: Path, setting: str = "scrapy_packages"
) -> tuple[SpiderPackage, ...]:
    """The packages at these places, which are relative to ``root`` unless they are absolute.

    Raises:
        SpidersError: names every place that is none, by the setting and its number.
    """
    problems: list[str] = []
    found: dict[str, SpiderPackage] = {}
    if isinstance(places, str):
        # One character after the other would be refused otherwise.
        raise SpidersError(f"{setting}: is one text; write a tuple of folders: ({places!r},)")
    for number, place in enumerate(places):
        folder = (root / place).resolve()
        package = SpiderPackage(name=folder.name, folder=folder)
        problem = next(_problems(package), None)
        if problem is None and folder.name in found:
            problem = f"is a second package {folder.name!r}, beside {found[folder.name].folder}"
        if problem is None:
            found[folder.name] = package
        else:
            problems.append(f"{setting}[{number}]: {place!r} {problem}")
    if problems:
        raise SpidersError("\n".join(problems))
    return tuple(found.values())


def _problems(package: SpiderPackage) -> Iterator[str]:
    folder, name = package.folder, package.name
    if not folder.is_dir():
        yield "is no folder"
    if not (folder / "__init__.py").is_file():
        within = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
        meant = f"; in it there is {', '.join(within)}" if within else ""
        yield f"is no package: it has no __init__.py{meant}"
    if not (name.isidentifier() and name.isascii()):
        yield f"has a name that Python cannot import: {name!r}"
    if name in _OURS | sys.stdlib_module_names:
        yield f"has a name that is taken: {name!r}"
    size = sum(path.stat().st_size for path in package.files().values())
    if size > MOST_BYTES:
        yield f"has {size / 1024 / 1024:.1f} MB; {MOST_BYTES // 1024 // 1024} MB is the most"


def _left_out(part: str) -> bool:
    return part.startswith(".") or part == "__pycache__" or part.endswith(".pyc")
