"""Changing what CDK has synthesised: assets are known by their hash, in every file of an assembly.

An asset that is changed must have another name, or whoever has published the old one would be taken
at his word; and a template that names it is an asset itself, so it must too.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from infra import bytecode


def rename_assets(folder: Path, names: Mapping[str, str]) -> None:
    """Spell the hashes of changed assets anew, and of every template that has one of them.

    Args:
        folder: The assembly.
        names: What each was called, and what it is called now.
    """
    changed: set[str] = set()
    for before, after in names.items():
        (folder / f"asset.{before}").rename(folder / f"asset.{after}")
        changed |= _replace(folder, before, after)
    rename_templates(folder, changed, "".join(names.values()))


def rename_templates(folder: Path, changed: set[str], why: str) -> None:
    """Give changed templates other names; ``why`` is what tells them from others."""
    for manifest in folder.glob("*.assets.json"):
        for known, file in json.loads(manifest.read_text())["files"].items():
            if file["source"]["path"] in changed:
                _replace(folder, known, other_hash(known, why))


def other_hash(known: str, why: str) -> str:
    """Return another hash for a name; the same name and reason give the same one.

    >>> other_hash("a", "b") == other_hash("a", "b") != other_hash("a", "c")
    True
    """
    return hashlib.sha256(f"{known} {why}".encode()).hexdigest()


def rewrite_source(path: Path, text: str) -> None:
    """Write a module's source; byte code of the old one would be run in its place."""
    bytecode.forget(path)
    path.write_text(text)


def _replace(folder: Path, before: str, after: str) -> set[str]:
    """Replace a hash in every file; the names of those that had it."""
    changed = set()
    for file in folder.glob("*.json"):
        content = file.read_text()
        if before in content:
            file.write_text(content.replace(before, after))
            changed.add(file.name)
    return changed
