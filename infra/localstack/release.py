"""The next release: the same stacks with another version of our package in them.

A stack update replaces whatever holds the package and updates every function. What differs is one
line, ``__version__``, which ``/v1/health`` shows: so it can be seen which release answers.
"""

import re
import shutil
from pathlib import Path
from typing import Final

from infra.localstack.assembly import other_hash, rename_assets, rewrite_source

#: Where our package is: in the layer with it, or in a function that carries its layers.
_MODULES: Final = ("python/crawlfleet/__init__.py", "crawlfleet/__init__.py")
_VERSION: Final = re.compile(r'^__version__ = "(?P<version>[^"]+)"$', re.MULTILINE)


def next_release(assembly: Path, target: Path, version: str) -> None:
    """Copy a cloud assembly to ``target``, with our package's version changed.

    Raises:
        ValueError: no asset has our package, or it has no version.
    """
    shutil.copytree(assembly, target)
    names = {}
    for inside in _MODULES:
        for module in target.glob(f"asset.*/{inside}"):
            text, count = _VERSION.subn(f'__version__ = "{version}"', module.read_text())
            if count != 1:
                raise ValueError(f"{inside} has {count} lines with a version, not one")
            rewrite_source(module, text)
            known = module.relative_to(target).parts[0].removeprefix("asset.")
            names[known] = other_hash(known, version)
    if not names:
        raise ValueError("no asset holds our package")
    rename_assets(target, names)
