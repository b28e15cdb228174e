"""The command of the CDK: its package, fetched once by npm, by version and by hash.

It deploys with the credentials of an administrator, so it is run only if it is, byte for byte, the
package that this version was tested with, whoever the registry is that npm asks. It has no further
packages. ``python -m infra.cdk_command`` takes the arguments of ``cdk``.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

VERSION: Final = "2.1148.1"
#: npm's ``dist.integrity`` of that version; a new version comes with its own.
INTEGRITY: Final = (
    "sha512-K3d02L17IwmAuiBWNuX1DzYhKUs9GrKYI7bZnGJf"
    "J1bKz9ymXFxfudBOL3rUb8JAusDNSULiQU2fsJH7kyY2XA=="
)
#: In the environment, which is made anew as a whole.
FOLDER: Final = Path(__file__).resolve().parents[1] / ".venv" / "cdk"
#: Eight megabytes, from a registry that may be slow.
FETCH_SECONDS: Final = 300.0


class CommandError(Exception):
    """The command cannot be had, or is not what it was; nothing of it was run."""


def fetched(folder: Path = FOLDER, integrity: str = INTEGRITY) -> Path:
    """Return the program, fetched and unpacked unless it is there already.

    Raises:
        CommandError: npm has no such package, or gives another one.
    """
    there = folder / hashlib.sha256(integrity.encode()).hexdigest()[:16]
    program = there / "package" / "bin" / "cdk"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        archive = _pack(Path(place))
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if f"sha512-{found}" != integrity:
            raise CommandError(
                f"aws-cdk@{VERSION} is not the package that was tested: its hash is "
                f"sha512-{found}, not {integrity}; it was not run"
            )
        part = Path(place) / "unpacked"
        with tarfile.open(archive) as packed:
            packed.extractall(part, filter="data")
        try:
            part.rename(there)
        except OSError:  # another run was first
            if not program.exists():
                raise
    return program


def _pack(place: Path) -> Path:
    """Have npm fetch the package as it is; nothing of it is run."""
    asked = ["npm", "pack", f"aws-cdk@{VERSION}", "--silent", "--ignore-scripts"]
    try:
        subprocess.run(  # noqa: S603  constants, and a folder of ours
            [*asked, "--pack-destination", str(place)],
            check=True,
            timeout=FETCH_SECONDS,
            stdout=subprocess.DEVNULL,
        )
        [archive] = place.glob("*.tgz")
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise CommandError(f"npm does not give aws-cdk@{VERSION}: {error}") from error
    return archive


def main() -> None:
    """Run the command in the place of this process."""
    try:
        program = fetched()
    except CommandError as error:
        sys.exit(str(error))
    node = shutil.which("node")
    if node is None:
        sys.exit("there is no command `node`, by which the CDK runs")
    os.execv(node, [node, str(program), *sys.argv[1:]])  # noqa: S606  no shell has any part in it


if __name__ == "__main__":
    main()
