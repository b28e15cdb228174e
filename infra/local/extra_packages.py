"""Packages of one's own in processes of this machine: the local cloud's functions, and commands."""

import atexit
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from infra.extra_packages import ExtraPackage, dist_infos, find_extras
from infra.local.parts import PartError
from infra.spiders import SpidersError


def link_extras(
    places: Sequence[str], root: Path, folder: Path, setting: str = "--extra"
) -> tuple[ExtraPackage, ...]:
    """Make a folder hold the packages with their entry points, and nothing else.

    Raises:
        PartError: a place is no package, or its project names none of our entry points in it.
    """
    try:
        extras = find_extras(places, root, setting)
    except SpidersError as error:
        raise PartError(str(error)) from error
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for extra in extras:
        name, source = extra.package.name, extra.package.folder
        (folder / name).symlink_to(source, target_is_directory=True)
    for place, text in dist_infos(extras).items():
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text(text)
    return extras


def carry_extras(places: Sequence[str], setting: str) -> None:
    """Let this process find what the packages bring; places are relative to where it runs.

    Raises PartError as :func:`link_extras`.
    """
    folder = Path(tempfile.mkdtemp(prefix="crawlfleet-extra-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    link_extras(places, Path.cwd(), folder, setting)
    sys.path.append(str(folder))
