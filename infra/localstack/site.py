"""The site: the documentation of this Python's standard library, 500 pages and more."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

#: pydoc shows a module by importing it: these draw, print, open windows, or are tests.
_LEFT_OUT: Final = frozenset(
    {"__phello__", "antigravity", "idlelib", "lib2to3", "test", "this", "turtle", "turtledemo"}
)
_TESTS: Final = frozenset({"test", "tests", "__main__"})


def module_names(library: Path = Path(os.__file__).parent) -> list[str]:
    """Names of the modules that lie in a library as files, packages' inner ones included."""
    return sorted(set(_modules(library, "")) | _built_in())


def _modules(folder: Path, prefix: str) -> Iterator[str]:
    for path in folder.iterdir():
        name = path.stem
        if name in _LEFT_OUT | _TESTS or not name.isidentifier():
            continue
        if path.suffix == ".py" and name != "__init__":
            yield prefix + name
        elif path.is_dir() and (path / "__init__.py").is_file():
            yield prefix + name
            yield from _modules(path, f"{prefix}{name}.")


def _built_in() -> set[str]:
    return set(sys.builtin_module_names) - _LEFT_OUT - _TESTS


def urls(base: str, count: int) -> list[str]:
    """Addresses of that many pages of the documentation server at ``base``.

    Raises:
        ValueError: it has fewer.
    """
    names = module_names()
    if len(names) < count:
        raise ValueError(f"this Python has {len(names)} modules, {count} are asked for")
    return [f"{base.rstrip('/')}/{name}.html" for name in names[:count]]
