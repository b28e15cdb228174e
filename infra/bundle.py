"""Builds what Lambda runs, code folders and layers, without Docker and on any processor.

In three steps. *Install*: pip fetches the pinned wheels for the functions' architecture into one
folder. *Divide*: each distribution goes, with what it requires, to the vendor group of ``fleet.py``
that asks for it, less what the group's base holds; what no group asks for stays behind. *Strip and
measure*: tests, stubs, C sources and caches go, and the rest is zipped to learn its size.

boto3 comes with the runtime and is left out. The result stays between runs and is rebuilt when the
requirements, the groups or this file change. Our own code is copied anew each time, which is cheap.

Run as ``python -m infra.bundle [--architecture arm64]``.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra import bytecode
from infra.fleet import FLEET, PYTHON_VERSION, Fleet, FunctionSpec
from infra.stages import Architecture

ROOT: Final = Path(__file__).resolve().parent.parent
#: Lambda's limit for a function with its layers, unpacked.
UNPACKED_LIMIT_BYTES: Final = 250 * 1024 * 1024
#: Our limit for a function with its layers, zipped; start-up time follows size.
ZIPPED_LIMIT_BYTES: Final = 50 * 1024 * 1024
#: Distributions that the Python runtime of Lambda carries itself.
IN_RUNTIME: Final = frozenset({"boto3", "botocore", "s3transfer"})

#: Plain Python of which no wheel is published; pip builds one from the pinned source.
_FROM_SOURCE: Final = frozenset({"jstyleson"})
#: Wheel tags that run on the runtime's Amazon Linux 2023 (glibc 2.34), newest first.
_PLATFORMS: Final = {
    Architecture.ARM64: ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014"),
    Architecture.X86_64: (
        *("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014"),
        *("manylinux_2_12", "manylinux2010", "manylinux_2_5", "manylinux1"),
    ),
}
_MACHINE: Final = {Architecture.ARM64: "aarch64", Architecture.X86_64: "x86_64"}
_DROPPED_FOLDERS: Final = frozenset({"tests", "test", "__pycache__", "docs", "examples", "bin"})
_DROPPED_SUFFIXES: Final = (".pyi", ".pyc", ".pyx", ".pxd", ".pxi", ".c", ".h", ".cpp", ".hpp")
#: The installer's notes; METADATA, entry points and licences stay.
_DROPPED_NOTES: Final = frozenset({"RECORD", "INSTALLER", "REQUESTED", "WHEEL", "direct_url.json"})
#: Parts of our package that only people run.
_NOT_FOR_LAMBDA: Final = frozenset({"cli", "sdk"})


class BundleError(Exception):
    """A bundle could not be built, or would be too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Bytes of a folder, as it lies and as Lambda receives it."""

    unpacked: int
    zipped: int

    def __add__(self, other: "Size") -> "Size":
        return Size(unpacked=self.unpacked + other.unpacked, zipped=self.zipped + other.zipped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What was built for one architecture; CDK's assets are exactly these folders.

    Attributes:
        package_layer: Folder of the layer that holds our package.
        vendor_layers: Folder of each vendor group's layer.
        functions: Folder of each function's own code.
        sizes: Size of every folder above.
    """

    package_layer: Path
    vendor_layers: Mapping[str, Path]
    functions: Mapping[str, Path]
    sizes: Mapping[Path, Size]

    def size_of(self, spec: FunctionSpec) -> Size:
        """A function's code with all its layers."""
        total = self.sizes[self.functions[spec.name]] + self.sizes[self.package_layer]
        for group in spec.vendor:
            total += self.sizes[self.vendor_layers[group]]
        return total


def build(
    architecture: Architecture = Architecture.ARM64, *, fleet: Fleet = FLEET, root: Path = ROOT
) -> Bundle:
    """Builds, or finds already built, everything the functions need.

    Raises:
        BundleError: A wheel is missing for the platform, or a function passes the size limits.
    """
    staged, lock = root / "build" / "lambda", root / "build" / "lambda.lock"
    package_layer = staged / "package"
    functions = {spec.name: staged / "functions" / spec.name for spec in fleet.functions}
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as held:
        # A second run waits for the first and finds its work done.
        fcntl.flock(held, fcntl.LOCK_EX)
        vendor = _build_vendor(architecture, fleet, root)
        _stage(_package_files(root), package_layer, "/opt")
        for spec in fleet.functions:
            _stage(_function_files(spec, root), functions[spec.name], "/var/task")
    sizes = _vendor_sizes(vendor)
    sizes |= {folder: measure(folder) for folder in (package_layer, *functions.values())}
    bundle = Bundle(
        package_layer=package_layer,
        vendor_layers={group.name: vendor / group.name for group in fleet.vendor_groups},
        functions=functions,
        sizes=sizes,
    )
    _check_limits(bundle, fleet)
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


def requirements(architecture: Architecture, root: Path = ROOT) -> str:
    """The pinned requirements as the functions' platform sees them, one a line with its hashes.

    What a marker excludes there is dropped here: pip would ask about the machine it runs on.
    """
    logical_lines = (root / "requirements" / "lambda.txt").read_text().replace("\\\n", " ")
    kept = []
    for line in logical_lines.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        written, *hashes = line.split("--hash=")
        wanted = Requirement(written.strip())
        if canonicalize_name(wanted.name) not in IN_RUNTIME and _holds(wanted, architecture):
            wanted.marker = None
            kept.append(" ".join([str(wanted), *(f"--hash={one.strip()}" for one in hashes)]))
    return "\n".join(kept) + "\n"


def _holds(requirement: Requirement, architecture: Architecture) -> bool:
    """Whether a requirement applies on the functions' platform, without any extra."""
    platform = {
        "extra": "",
        "implementation_name": "cpython",
        "implementation_version": f"{PYTHON_VERSION}.0",
        "os_name": "posix",
        "platform_machine": _MACHINE[architecture],
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{PYTHON_VERSION}.0",
        "python_version": PYTHON_VERSION,
        "sys_platform": "linux",
    }
    return requirement.marker is None or requirement.marker.evaluate(platform)


def _build_vendor(architecture: Architecture, fleet: Fleet, root: Path) -> Path:
    """The vendor layers of one architecture, built unless they stand already."""
    text = requirements(architecture, root)
    digest = _digest(text, architecture, fleet)
    vendor = root / "layers" / "vendor"
    target = vendor / architecture.value
    if _manifest(target).get("digest") == digest:
        return target
    vendor.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=vendor, prefix=".building-") as scratch:
        installed, made = Path(scratch, "installed"), Path(scratch, "made")
        made.mkdir()
        _install(text, architecture, installed)
        _divide(installed, made, architecture, fleet)
        for group in fleet.vendor_groups:
            _compile(made / group.name, "/opt")
        sizes = {group.name: measure(made / group.name) for group in fleet.vendor_groups}
        manifest = {
            "digest": digest,
            "sizes": {name: [size.unpacked, size.zipped] for name, size in sizes.items()},
        }
        (made / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
    return target


def _compile(folder: Path, placed_at: str) -> None:
    """Adds byte code where an interpreter of the runtime's version is at hand."""
    if interpreter := bytecode.compiler():
        bytecode.compile_missing(folder, placed_at, interpreter)


def _digest(text: str, architecture: Architecture, fleet: Fleet) -> str:
    code = Path(__file__).read_text() + Path(bytecode.__file__).read_text()
    compiled = "compiled" if bytecode.compiler() else "source alone"
    parts = (text, architecture, PYTHON_VERSION, repr(fleet.vendor_groups), code, compiled)
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


def _install(text: str, architecture: Architecture, target: Path) -> None:
    """Everything for the functions' platform, whatever this machine is."""
    lines = text.splitlines(keepends=True)
    sources = [line for line in lines if canonicalize_name(line.split("==")[0]) in _FROM_SOURCE]
    machine = _MACHINE[architecture]
    platforms = [f"--platform={tag}_{machine}" for tag in _PLATFORMS[architecture]]
    _pip(
        [line for line in lines if line not in sources],
        target,
        f"no wheels for {machine}",
        *("--only-binary=:all:", "--implementation=cp"),
        *(f"--python-version={PYTHON_VERSION}", *platforms),
    )
    if sources:
        _pip(sources, target, "no sources")
        for one in metadata.distributions(path=[str(target)]):
            pure = "Root-Is-Purelib: true" in (one.read_text("WHEEL") or "")
            if canonicalize_name(one.name) in _FROM_SOURCE and not pure:
                raise BundleError(f"{one.name} was built for this machine; it must be plain Python")


def _pip(lines: Sequence[str], target: Path, lacking: str, *arguments: str) -> None:
    listed = target.with_suffix(".txt")
    listed.write_text("".join(lines))
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps"),
        *("--disable-pip-version-check", "--require-hashes", *arguments),
        *(f"--target={target}", f"--requirement={listed}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own arguments
    if done.returncode:
        raise BundleError(f"pip found {lacking}:\n{done.stderr.strip()[-2000:]}")


def _divide(installed: Path, made: Path, architecture: Architecture, fleet: Fleet) -> None:
    """Copies each group's distributions, with what they require, below ``<group>/python``."""
    distributions = metadata.distributions(path=[str(installed)])
    found = {str(canonicalize_name(one.name)): one for one in distributions}
    closures = {
        group.name: set(_closure(group.packages, found, architecture))
        for group in fleet.vendor_groups
    }
    for group in fleet.vendor_groups:
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


def _closure(
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
        waiting += [canonicalize_name(one.name) for one in required if _holds(one, architecture)]


def _wanted(path: Path) -> bool:
    if _DROPPED_FOLDERS.intersection(path.parts[:-1]) or path.name.endswith(_DROPPED_SUFFIXES):
        return False
    return not (path.parts[0].endswith(".dist-info") and path.name in _DROPPED_NOTES)


def _stage(files: Mapping[str, Path], target: Path, placed_at: str) -> None:
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


def _function_files(spec: FunctionSpec, root: Path) -> dict[str, Path]:
    """A function's folder, under the module name that tests use for it too."""
    found = {path.relative_to(root): path for path in _files(root / spec.folder)}
    files = {str(relative): path for relative, path in found.items() if _wanted(relative)}
    if f"{spec.folder}/handler.py" not in files:
        raise BundleError(f"{spec.folder}/handler.py is missing")
    package = root / "functions" / "__init__.py"
    return files | ({"functions/__init__.py": package} if package.exists() else {})


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _check_limits(bundle: Bundle, fleet: Fleet) -> None:
    for spec in fleet.functions:
        size = bundle.size_of(spec)
        if size.zipped > ZIPPED_LIMIT_BYTES or size.unpacked > UNPACKED_LIMIT_BYTES:
            raise BundleError(
                f"{spec.name} with its layers is {_megabytes(size.zipped)} zipped and "
                f"{_megabytes(size.unpacked)} unpacked; the limits are "
                f"{_megabytes(ZIPPED_LIMIT_BYTES)} and {_megabytes(UNPACKED_LIMIT_BYTES)}"
            )


def _megabytes(size: int) -> str:
    return f"{size / 1024 / 1024:.1f} MB"


def report(bundle: Bundle, fleet: Fleet, out: IO[str]) -> None:
    """Prints every layer's and every function's size."""
    layers = {"crawlfleet (ours)": bundle.package_layer, **bundle.vendor_layers}
    for name, folder in layers.items():
        size = bundle.sizes[folder]
        print(f"layer     {name:<18} {_megabytes(size.zipped):>9} zipped", file=out)
    if bytecode.compiler() is None:
        print(f"source alone: no python{PYTHON_VERSION} here to compile it with", file=out)
    for spec in fleet.functions:
        size = bundle.size_of(spec)
        unpacked = _megabytes(size.unpacked)
        line = f"{spec.name:<18} {_megabytes(size.zipped):>9} zipped {unpacked:>9} unpacked"
        print(f"function  {line}, with its layers", file=out)


def main(arguments: list[str] | None = None) -> int:
    """Builds for one architecture and prints the sizes."""
    parser = argparse.ArgumentParser(prog="python -m infra.bundle", description="Build the layers.")
    parser.add_argument(
        "--architecture", type=Architecture, choices=list(Architecture), default=Architecture.ARM64
    )
    chosen = parser.parse_args(arguments)
    try:
        bundle = build(chosen.architecture)
    except BundleError as error:
        sys.stderr.write(f"{error}\n")
        return os.EX_DATAERR
    report(bundle, FLEET, sys.stdout)
    return os.EX_OK


if __name__ == "__main__":
    raise SystemExit(main())
