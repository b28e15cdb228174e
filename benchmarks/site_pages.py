"""Real pages from the standard library: every module's documentation, as pydoc writes it in HTML.

``python -m benchmarks.site_pages FOLDER COUNT``. pydoc's own layout is tables; here headings are
headings, and each page carries the index of all, as documentation sites do.
"""

import importlib
import inspect
import pkgutil
import pydoc
import sys
import warnings
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any, Final

#: Pages of mere tables, of tests, and modules that do something when they are imported.
_LEFT_OUT: Final = frozenset(
    {"antigravity", "encodings", "idlelib", "lib2to3", "test", "this", "turtledemo"}
)
#: Real sites have larger pages too; one of these would weigh as much as six others.
LARGEST_BYTES: Final = 300_000


class Pages(pydoc.HTMLDoc):
    """pydoc's pages with headings."""

    def heading(self, title: str, extras: str = "") -> str:
        return f"<h1>{title}</h1>\n<p>{extras}</p>\n"

    def section(self, title: str, cls: str, contents: str, *_: Any, **__: Any) -> str:
        return f'<section class="{cls}"><h2>{title}</h2>\n<div>{contents}</div></section>\n'


def names() -> Iterator[str]:
    """Every public module of the standard library, packages' own ones included."""
    for name in sorted(sys.stdlib_module_names - _LEFT_OUT):
        if name.startswith("_"):
            continue
        module = _imported(name)
        if module is None:
            continue
        yield name
        for inner in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
            if not inner.name.endswith(("__main__", ".test", ".tests")):
                yield inner.name


def bodies(wanted: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The documentation of each module that can be imported on this system."""
    # For what has no docstring pydoc would read the comments of the whole source file, each time.
    pydoc.getdoc = lambda object: inspect.getdoc(object) or ""  # noqa: A006  pydoc names it so
    pages = Pages()
    for name in wanted:
        module = _imported(name)
        if module is None:
            continue
        yield name, pages.page(pydoc.describe(module), pages.document(module, name))


def chosen(documents: Iterable[tuple[str, str]], count: int) -> dict[str, str]:
    """The ``count`` longest that are not too long, in order of their names."""
    fitting = [(n, text) for n, text in documents if len(text.encode()) <= LARGEST_BYTES]
    longest = sorted(fitting, key=lambda pair: len(pair[1]), reverse=True)[:count]
    return dict(sorted(longest))


def with_index(pages: dict[str, str]) -> dict[str, str]:
    """Add links to all pages to each page."""
    lines = "".join(f'<li><a href="{n}.html">{escape(n)}</a></li>\n' for n in pages)
    index = f"<nav><ul>\n{lines}</ul></nav>\n"
    return {name: text.replace("<body>", f"<body>{index}", 1) for name, text in pages.items()}


def write(folder: Path, count: int) -> None:
    """Write the pages as files."""
    warnings.simplefilter("ignore")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in with_index(chosen(bodies(names()), count)).items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")


def _imported(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001  a module of another system, or without its library here
        return None


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
