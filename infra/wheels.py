"""The pinned wheels for the functions' platform, fetched by pip on whatever machine builds."""

import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra.fleet import PYTHON_VERSION
from infra.stages import Architecture

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
#: The head of a binary that Lambda can load: 64 bits, little-endian; and its ``e_machine``.
_ELF: Final = b"\x7fELF\x02\x01"
_ELF_MACHINE: Final = {Architecture.ARM64: 183, Architecture.X86_64: 62}


class BundleError(Exception):
    """A bundle could not be built, or would be too large."""


def requirements(architecture: Architecture, pins: Path) -> str:
    """The pinned requirements as the functions' platform sees them, one a line with its hashes.

    What a marker excludes there is dropped here: pip would ask about the machine it runs on.
    """
    logical_lines = pins.read_text().replace("\\\n", " ")
    kept = []
    for line in logical_lines.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        written, *hashes = line.split("--hash=")
        wanted = Requirement(written.strip())
        if canonicalize_name(wanted.name) not in IN_RUNTIME and holds(wanted, architecture):
            wanted.marker = None
            kept.append(" ".join([str(wanted), *(f"--hash={one.strip()}" for one in hashes)]))
    return "\n".join(kept) + "\n"


def holds(requirement: Requirement, architecture: Architecture) -> bool:
    """Return whether a requirement applies on the functions' platform, without any extra."""
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


def install(text: str, architecture: Architecture, target: Path) -> None:
    """Install packages for the functions' platform, whatever this machine is.

    Raises:
        BundleError: pip did not find it, a source is not plain Python, or a wheel holds a binary
            of another processor.
    """
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
    check_machine(target, architecture)


def check_machine(folder: Path, architecture: Architecture) -> None:
    """Looks into every binary, because a wheel's tag is only its maker's word.

    Raises:
        BundleError: One is for another processor than the functions'.
    """
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            head = file.read(20)
        machine = int.from_bytes(head[18:20], "little")
        right = head.startswith(_ELF) and machine == _ELF_MACHINE[architecture]
        if head.startswith(_ELF[:4]) and not right:
            raise BundleError(f"{path.relative_to(folder)} is no binary for {architecture}")


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
