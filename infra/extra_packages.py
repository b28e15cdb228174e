"""The packages of an operator's own executors and resolvers, as stage or local cloud names them.

Each is a folder with an ``__init__.py``. The ``pyproject.toml`` of its project, beside or above it,
names by entry points what the product is to find in it. Functions carry the package as it is, and
beside it what an installer would write of the project: so Python finds the same entry points in a
function, in a process of the local cloud and in a command, as if the project were installed there.
"""

import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.spiders import SpiderPackage, SpidersError, find_packages

#: What the product looks for: executors, resolvers of seed keys, resolvers of segments.
GROUPS: Final = ("crawlfleet.executors", "crawlfleet.seed_keys", "crawlfleet.segments")
#: Folders above a package that its project's file may be in: beside it, or above ``src``.
_ABOVE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraPackage:
    """A package, its project, and the entry points of ours that are in it, by group and name."""

    package: SpiderPackage
    project: str
    points: Mapping[str, Mapping[str, str]]


def find_extras(
    places: Sequence[str], root: Path, setting: str = "extra_packages"
) -> tuple[ExtraPackage, ...]:
    """The packages at these places, which are relative to ``root`` unless they are absolute.

    Raises:
        SpidersError: names every place that is none, by the setting and its number.
    """
    packages = find_packages(places, root, setting)
    found: list[ExtraPackage] = []
    problems: list[str] = []
    for number, (place, package) in enumerate(zip(places, packages, strict=True)):
        try:
            found.append(_read(package))
        except ValueError as error:
            problems.append(f"{setting}[{number}]: {place!r} {error}")
    if problems:
        raise SpidersError("\n".join(problems))
    return tuple(found)


def dist_infos(extras: Sequence[ExtraPackage]) -> dict[str, str]:
    """Return what an installer would write of their projects, by place: a folder each."""
    points: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for extra in extras:
        for group, named in extra.points.items():
            points[extra.project][group].update(named)
    files: dict[str, str] = {}
    for project, groups in points.items():
        folder = f"{project.replace('-', '_')}-0.dist-info"
        files[f"{folder}/METADATA"] = f"Metadata-Version: 2.1\nName: {project}\nVersion: 0\n"
        files[f"{folder}/entry_points.txt"] = "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
            for group, named in groups.items()
        )
    return files


def _read(package: SpiderPackage) -> ExtraPackage:
    """Read what the project says of a package; ValueError says why it is none."""
    above = [package.folder.parents[number] for number in range(_ABOVE)]
    file = next((one for one in (up / "pyproject.toml" for up in above) if one.is_file()), None)
    if file is None:
        raise ValueError(f"has no pyproject.toml beside it: {' or '.join(map(str, above))}")
    try:
        project: Any = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        name, points = str(project["name"]), project.get("entry-points", {})
        found = {
            group: {
                point: value
                for point, value in points.get(group, {}).items()
                if value.partition(":")[0].partition(".")[0] == package.name
            }
            for group in GROUPS
        }
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"has a project that cannot be read: {file}: {error!r}") from error
    found = {group: named for group, named in found.items() if named}
    if not found:
        raise ValueError(f"has no entry point in {file}: {', '.join(GROUPS)}")
    return ExtraPackage(package=package, project=name, points=found)
