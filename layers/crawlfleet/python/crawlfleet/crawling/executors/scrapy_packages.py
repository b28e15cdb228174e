"""The packages of Scrapy spiders that an operator allows, and the folder they lie in."""

import sys
from pathlib import Path
from typing import Final

#: What configurations may name wherever nothing else is said: it is what the sample is called.
DEFAULT: Final = "spiders"

_packages: set[str] = {DEFAULT}
_folders: list[Path] = []


def allow_spiders(*packages: str, folder: Path | None = None) -> None:
    """Let configurations name spiders of these packages, beside those that they may name already.

    Args:
        packages: Names of packages, without dots.
        folder: Where they are, with Scrapy and what it requires, when they are not where Python
            looks anyway. It is looked into only when the first spider is made: drivers import more
            than they need where they find it, and Scrapy brings what they would find.
    """
    _packages.update(packages)
    if folder is not None and folder not in _folders:
        _folders.append(folder)


def allowed() -> tuple[str, ...]:
    """The packages, sorted."""
    return tuple(sorted(_packages))


def is_allowed(module: str) -> bool:
    """Whether a module is one of these packages, or within one.

    >>> is_allowed("spiders.tools"), is_allowed("spiders_of_others"), is_allowed("os")
    (True, False, False)
    """
    return module.partition(".")[0] in _packages


def look_into_folders() -> None:
    """Let Python find what the folders hold, after everything that it finds already."""
    for folder in _folders:
        place = str(folder.absolute())
        if folder.is_dir() and place not in sys.path:
            sys.path.append(place)
