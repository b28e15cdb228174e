"""Byte code that travels with the source, because Lambda cannot keep any.

A function's file system is read-only, so without this every cold start compiles every module it
imports: measured with the core group, 0.70 s of processor time instead of 0.19 s. Byte code fits
one minor version of Python only; where that version is not at hand the bundle carries source
alone, which runs as well and starts more slowly.
"""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from infra.fleet import PYTHON_VERSION


@cache
def compiler() -> str | None:
    """An interpreter of the runtime's version: this one, or the first on PATH that answers."""
    wanted = f"cpython-{PYTHON_VERSION.replace('.', '')}"
    if sys.implementation.cache_tag == wanted:
        return sys.executable
    found = shutil.which(f"python{PYTHON_VERSION}")
    if found is None:
        return None
    command = [found, "-c", "import sys; print(sys.implementation.cache_tag)"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  a look at the version
    return found if answer.stdout.strip() == wanted else None


def compile_missing(folder: Path, placed_at: str, interpreter: str) -> None:
    """Compiles the sources that have no byte code beside them yet.

    The byte code is never compared with its source again, neither here nor on Lambda, so whoever
    replaces a source removes its byte code first. A file that does not compile stays source.

    Args:
        folder: What Lambda will unpack.
        placed_at: Where it will unpack it; no path of this machine enters the byte code.
        interpreter: A Python of the version that will run it.
    """
    sources = [path for path in sorted(folder.rglob("*.py")) if not _compiled(path)]
    if sources:
        command = [
            *(interpreter, "-I", "-m", "compileall", "-qq", "--invalidation-mode=unchecked-hash"),
            *("-s", str(folder), "-p", placed_at, "-i", "-"),
        ]
        listed = "\n".join(map(str, sources))
        subprocess.run(command, input=listed, text=True, check=False)  # noqa: S603  our own files


def forget(source: Path) -> None:
    """Removes the byte code of a source that is about to change or go."""
    for compiled in _compiled(source):
        compiled.unlink(missing_ok=True)


def _compiled(source: Path) -> list[Path]:
    return list((source.parent / "__pycache__").glob(f"{source.stem}.cpython-*.pyc"))
