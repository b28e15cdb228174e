"""A list, as text, of all that a handler imports before its first call, by package.

The standard library is left out, and so are parts that a package keeps to itself (``_brotli``).
"""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Installed here and imported where they are found; no layer has them.
_NOT_IN_THE_LAYERS = ("cryptography", "OpenSSL")
#: Made by Cython in every extension's name.
_NOBODYS = frozenset({"cython_runtime"})
_PROGRAM = f"""
import sys
for name in {_NOT_IN_THE_LAYERS!r}:
    sys.modules[name] = None
before = set(sys.modules)
import functions.{{name}}.handler
print("\\n".join(sorted(set(sys.modules) - before)))
"""


def imported_by(package: str) -> frozenset[str]:
    """Modules of ours in full, others by their first name; in an interpreter of its own."""
    path = os.pathsep.join([str(ROOT / "layers/crawlfleet/python"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(name=package)],
        env={"PYTHONPATH": path, "AWS_DEFAULT_REGION": "eu-central-1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return frozenset(_counted(done.stdout.split()))


def _counted(modules: Iterable[str]) -> Iterable[str]:
    for module in modules:
        top = module.partition(".")[0]
        if top == "crawlfleet":
            yield module
        elif top not in sys.stdlib_module_names | _NOBODYS | {"functions"} and top[0] != "_":
            yield top


def written(modules: Iterable[str]) -> str:
    """The text: a package and its modules a paragraph."""
    paragraphs: dict[str, list[str]] = {}
    for module in sorted(modules):
        package, _, name = module.rpartition(".")
        paragraphs.setdefault(package or "others", [])
        if module != "crawlfleet" and package:
            paragraphs[package].append(name)
        elif not package and module != "crawlfleet":
            paragraphs["others"].append(module)
    return "".join(
        textwrap.fill(f"{package}: {' '.join(names)}", 98, subsequent_indent="  ") + "\n"
        for package, names in sorted(paragraphs.items())
        if names
    )


def read(text: str) -> frozenset[str]:
    """The modules of a text."""
    found = {"crawlfleet"}
    for paragraph in text.replace("\n  ", " ").splitlines():
        package, _, names = paragraph.partition(": ")
        within = "" if package == "others" else f"{package}."
        found.update(f"{within}{name}" for name in names.split())
    return frozenset(found)
