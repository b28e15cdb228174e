"""Builds what Lambda runs, code folders and layers, without Docker and on any processor.

In three steps. *Install*: pip fetches the pinned wheels for the functions' architecture into one
folder. *Divide*: each distribution goes, with what it requires, to the vendor group of ``fleet.py``
that asks for it, less what the group's base holds; what no group asks for stays behind. *Strip and
measure*: tests, stubs, C sources and caches go, and the rest is zipped to learn its size.

Where a stage names packages with Scrapy spiders, the folders of the consumer and of the trials'
function have them, with Scrapy and what that requires; no layer has it, so that Python finds it
when asked to and not before.
Packages with executors and resolvers of its own are in the folder of each function that needs them.

boto3 comes with the runtime and is left out. The result stays between runs and is rebuilt when the
requirements, the groups or this file change. Our own code is copied anew each time, which is cheap.

Run as ``python -m infra.bundle [--architecture arm64] [--scrapy FOLDER] [--extra FOLDER]``; it
prints what all of it weighs and what its imports cost (``bundle_report.py``).
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra import bundle_report, bytecode, wheels
from infra.bundle_contents import Bundle, Size, megabytes
from infra.extra_packages import ExtraPackage, dist_infos, find_extras
from infra.fleet import FLEET, PYTHON_VERSION, SCRAPY, Fleet, FunctionSpec, VendorGroup
from infra.spiders import SpiderPackage, SpidersError, find_packages
from infra.stages import Architecture
from infra.wheels import IN_RUNTIME, BundleError, holds, requirements

ROOT: Final = Path(__file__).resolve().parent.parent
#: Lambda's limit for a function with its layers, unpacked.
UNPACKED_LIMIT_BYTES: Final = 250 * 1024 * 1024
#: Our limit for a function with its layers, zipped; start-up time follows size.
ZIPPED_LIMIT_BYTES: Final = 50 * 1024 * 1024
#: Where a function's own folder has Scrapy and what calls it; ``apps/readers.py`` looks there.
SCRAPY_FOLDER: Final = "scrapy"
#: Whose folder that is in, in every function that runs spiders.
_SPIDERS_OF: Final = "functions/consumer"
#: Where executors are dropped in; ``crawling/executors/registry.py`` looks there.
OWN_EXECUTORS: Final = "functions/consumer/executors"

_DROPPED_FOLDERS: Final = frozenset({"tests", "test", "__pycache__", "docs", "examples", "bin"})
_DROPPED_SUFFIXES: Final = (".pyi", ".pyc", ".pyx", ".pxd", ".pxi", ".c", ".h", ".cpp", ".hpp")
#: The installer's notes; METADATA, entry points and licences stay.
_DROPPED_NOTES: Final = frozenset({"RECORD", "INSTALLER", "REQUESTED", "WHEEL", "direct_url.json"})
#: Parts of our package that only people run.
_NOT_FOR_LAMBDA: Final = frozenset({"cli", "sdk"})


def build(
    architecture: Architecture = Architecture.ARM64,
    *,
    fleet: Fleet = FLEET,
    root: Path = ROOT,
    spiders: Sequence[SpiderPackage] = (),
    extras: Sequence[ExtraPackage] = (),
) -> Bundle:
    """Builds, or finds already built, everything the functions need.

    Args:
        architecture: Processor of the functions.
        fleet: What is built for.
        root: The checkout.
        spiders: Packages that the functions that run spiders carry, with Scrapy.
        extras: Packages of the operator's own executors and resolvers.

    Raises:
        BundleError: A wheel is missing for the platform, or a function passes the size limits.
    """
    name = f"lambda{'-scrapy' if spiders else ''}{'-extra' if extras else ''}"
    staged = root / "build" / name
    lock = root / "build" / "lambda.lock"
    package_layer = staged / "package"
    functions = {spec.name: staged / "functions" / spec.name for spec in fleet.functions}
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as held:
        # A second run waits for the first and finds its work done.
        fcntl.flock(held, fcntl.LOCK_EX)
        groups = (*fleet.vendor_groups, SCRAPY) if spiders else fleet.vendor_groups
        vendor = _build_vendor(architecture, groups, root)
        put_in_place(_package_files(root), package_layer, "/opt")
        for spec in fleet.functions:
            files = function_files(spec, root)
            if spec.runs_spiders and spiders:
                files |= spider_files(f"{_SPIDERS_OF}/{SCRAPY_FOLDER}", spiders, vendor)
            if spec.finds_extras:
                files |= own_executors(root) | extra_files(extras, vendor, staged / "extra")
            put_in_place(files, functions[spec.name], "/var/task")
    sizes = _vendor_sizes(vendor)
    sizes |= {folder: measure(folder) for folder in (package_layer, *functions.values())}
    bundle = Bundle(
        package_layer=package_layer,
        vendor_layers={group.name: vendor / group.name for group in fleet.vendor_groups},
        functions=functions,
        sizes=sizes,
    )
    check_limits(bundle, fleet)
    return bundle


def measure(folder: Path) -> Size:
    """Size of a folder, as it lies and zipped as CDK zips it."""
    unpacked = 0
    with tempfile.TemporaryFile() as sink:
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in _files(folder):
                unpacked += path.stat().st_size
                archive.write(path, path.relative_to(folder))
        zipped = sink.tell()
    return Size(unpacked=unpacked, zipped=zipped)


def _build_vendor(architecture: Architecture, groups: Sequence[VendorGroup], root: Path) -> Path:
    """The vendor groups of one architecture, built unless they stand already."""
    text = requirements(architecture, root / "requirements" / _pins(groups))
    digest = _digest(text, architecture, groups)
    vendor = root / "layers" / "vendor"
    target = vendor / (f"{architecture}-scrapy" if SCRAPY in groups else architecture.value)
    if _manifest(target).get("digest") == digest:
        return target
    vendor.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=vendor, prefix=".building-") as scratch:
        installed, made = Path(scratch, "installed"), Path(scratch, "made")
        made.mkdir()
        wheels.install(text, architecture, installed)
        _divide(installed, made, architecture, groups)
        for group in groups:
            _compile(made / group.name, "/opt")
        sizes = {group.name: measure(made / group.name) for group in groups}
        manifest = {
            "digest": digest,
            "sizes": {name: [size.unpacked, size.zipped] for name, size in sizes.items()},
        }
        (made / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
    return target


def _pins(groups: Sequence[VendorGroup]) -> str:
    """The file with the pins: that of Scrapy has the others, too."""
    return "scrapy.txt" if SCRAPY in groups else "lambda.txt"


def _compile(folder: Path, placed_at: str) -> None:
    """Adds byte code where an interpreter of the runtime's version is at hand."""
    if interpreter := bytecode.compiler():
        bytecode.compile_missing(folder, placed_at, interpreter)


def _digest(text: str, architecture: Architecture, groups: Sequence[VendorGroup]) -> str:
    code = "".join(
        Path(str(one)).read_text() for one in (__file__, wheels.__file__, bytecode.__file__)
    )
    compiled = "compiled" if bytecode.compiler() else "source alone"
    parts = (text, architecture, PYTHON_VERSION, repr(tuple(groups)), code, compiled)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _manifest(target: Path) -> dict[str, object]:
    try:
        loaded: dict[str, object] = json.loads((target / "manifest.json").read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return loaded


def _vendor_sizes(target: Path) -> dict[Path, Size]:
    sizes = _manifest(target)["sizes"]
    assert isinstance(sizes, dict)  # noqa: S101  our own file, for the type checker
    return {
        target / name: Size(unpacked=unpacked, zipped=zipped)
        for name, (unpacked, zipped) in sizes.items()
    }


def _divide(
    installed: Path, made: Path, architecture: Architecture, groups: Sequence[VendorGroup]
) -> None:
    """Copies each group's distributions, with what they require, below ``<group>/python``."""
    distributions = metadata.distributions(path=[str(installed)])
    found = {str(canonicalize_name(one.name)): one for one in distributions}
    closures = {group.name: set(closure(group.packages, found, architecture)) for group in groups}
    for group in groups:
        held = set[str]().union(*(closures[base] for base in group.base))
        python = made / group.name / "python"
        python.mkdir(parents=True)
        for name in sorted(closures[group.name] - held):
            for file in found[name].files or ():
                source = installed / file
                # What a wheel puts outside the packages' folder (scripts) serves no function.
                if ".." not in file.parts and source.is_file() and _wanted(Path(file)):
                    (python / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, python / file)


def closure(
    names: Iterable[str], found: Mapping[str, metadata.Distribution], architecture: Architecture
) -> Iterator[str]:
    """The distributions, with all that they require on the functions' platform."""
    waiting, seen = [canonicalize_name(name) for name in names], set(IN_RUNTIME)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in found:
            raise BundleError(f"{name} is needed by a vendor group but not pinned in lambda.txt")
        yield name
        required = map(Requirement, found[name].requires or ())
        waiting += [canonicalize_name(one.name) for one in required if holds(one, architecture)]


def _wanted(path: Path) -> bool:
    if _DROPPED_FOLDERS.intersection(path.parts[:-1]) or path.name.endswith(_DROPPED_SUFFIXES):
        return False
    return not (path.parts[0].endswith(".dist-info") and path.name in _DROPPED_NOTES)


def put_in_place(files: Mapping[str, Path], target: Path, placed_at: str) -> None:
    """Makes the target hold these files, their byte code, and no others.

    What is right already is left alone, so that a run which follows another over the same sources
    writes nothing while somebody reads.
    """
    for path in _files(target):
        if path.suffix != ".pyc" and str(path.relative_to(target)) not in files:
            bytecode.forget(path)
            path.unlink()
    for relative, source in files.items():
        content, placed = source.read_bytes(), target / relative
        if not placed.exists() or placed.read_bytes() != content:
            placed.parent.mkdir(parents=True, exist_ok=True)
            bytecode.forget(placed)
            placed.write_bytes(content)
    _compile(target, placed_at)


def _package_files(root: Path) -> dict[str, Path]:
    """Our package without what only people run."""
    package = root / "layers/crawlfleet/python/crawlfleet"
    found = {path.relative_to(package): path for path in _files(package)}
    return {
        f"python/crawlfleet/{relative}": path
        for relative, path in found.items()
        if _wanted(relative) and relative.parts[0] not in _NOT_FOR_LAMBDA
    }


def function_files(spec: FunctionSpec, root: Path) -> dict[str, Path]:
    """A function's folder, under the module name that tests use for it too."""
    found = {path.relative_to(root): path for path in _files(root / spec.folder)}
    files = {str(relative): path for relative, path in found.items() if _wanted(relative)}
    if f"{spec.folder}/handler.py" not in files:
        raise BundleError(f"{spec.folder}/handler.py is missing")
    package = root / "functions" / "__init__.py"
    return files | ({"functions/__init__.py": package} if package.exists() else {})


def spider_files(folder: str, spiders: Sequence[SpiderPackage], vendor: Path) -> dict[str, Path]:
    """Scrapy, what it requires, and the operator's packages beside it."""
    held = {path.name for path in vendor.glob("*/python/*")}
    files = {
        str(path.relative_to(vendor / SCRAPY.name / "python")): path
        for path in _files(vendor / SCRAPY.name / "python")
        if path.suffix != ".pyc"
    }
    for package in spiders:
        if held & {package.name, f"{package.name}.py"}:
            raise BundleError(f"{package.folder}: functions carry another package {package.name!r}")
        files |= package.files()
    return {f"{folder}/{relative}": path for relative, path in files.items()}


def own_executors(root: Path) -> dict[str, Path]:
    """The executors that were dropped beside the consumer's handler: others ask them, too."""
    folder = root / OWN_EXECUTORS
    return {f"{OWN_EXECUTORS}/{path.name}": path for path in sorted(folder.glob("*.py"))}


def extra_files(extras: Sequence[ExtraPackage], vendor: Path, made: Path) -> dict[str, Path]:
    """The operator's packages, and what an installer would write of their projects.

    That is written into the folder ``made`` first.
    """
    held = {path.name for path in vendor.glob("*/python/*")}
    files: dict[str, Path] = {}
    for extra in extras:
        package = extra.package
        if held & {package.name, f"{package.name}.py"}:
            raise BundleError(f"{package.folder}: functions carry another package {package.name!r}")
        files |= package.files()
    for place, text in dist_infos(extras).items():
        files[place] = made / place
        files[place].parent.mkdir(parents=True, exist_ok=True)
        files[place].write_text(text)
    return files


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def check_limits(bundle: Bundle, fleet: Fleet) -> None:
    """Raise BundleError where a function passes the size limits with its layers."""
    for spec in fleet.functions:
        size = bundle.size_of(spec)
        if size.zipped > ZIPPED_LIMIT_BYTES or size.unpacked > UNPACKED_LIMIT_BYTES:
            raise BundleError(
                f"{spec.name} with its layers is {megabytes(size.zipped)} zipped and "
                f"{megabytes(size.unpacked)} unpacked; the limits are "
                f"{megabytes(ZIPPED_LIMIT_BYTES)} and {megabytes(UNPACKED_LIMIT_BYTES)}"
            )


def main(arguments: list[str] | None = None) -> int:
    """Builds, and prints the table of sizes and import times."""
    parser = argparse.ArgumentParser(prog="python -m infra.bundle", description="Build the layers.")
    parser.add_argument(
        "--architecture",
        type=Architecture,
        choices=list(Architecture),
        action="append",
        help="of the functions; may be given twice (default: arm64)",
    )
    parser.add_argument(
        "--scrapy",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a package with Scrapy spiders, as scrapy_packages of a stage names it",
    )
    parser.add_argument(
        "--extra",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a package with code of your own, as extra_packages of a stage names it",
    )
    chosen = parser.parse_args(arguments)
    try:
        spiders = find_packages(chosen.scrapy, Path.cwd(), "--scrapy")
        extras = find_extras(chosen.extra, Path.cwd(), "--extra")
        reports = []
        for architecture in dict.fromkeys(chosen.architecture or [Architecture.ARM64]):
            bundle = build(architecture, spiders=spiders, extras=extras)
            report = bundle_report.report(bundle, FLEET, architecture)
            bundle_report.keep(report, bundle.package_layer.parent)
            reports.append(report)
    except (BundleError, SpidersError) as error:
        sys.stderr.write(f"{error}\n")
        return os.EX_DATAERR
    limits = Size(unpacked=UNPACKED_LIMIT_BYTES, zipped=ZIPPED_LIMIT_BYTES)
    bundle_report.show(reports, limits, sys.stdout)
    return os.EX_OK


if __name__ == "__main__":
    raise SystemExit(main())
