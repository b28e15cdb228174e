"""``crawlfleet up | down | demo``: the local cloud, run from the project's checkout."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from crawlfleet.cli.console import Exit, emit, json_option, note
from crawlfleet.kernel.names import ENV_STATE

_STATE: Final = ".crawlfleet"
_PACKAGE_ROOT: Final = "layers/crawlfleet/python"

_passes_on = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
_takes_all: Final = {"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]}
_state = click.option(
    "--state",
    envvar=ENV_STATE,
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Folder of its data; {ENV_STATE} names it too. "
    f"Default: {_STATE} of the checkout, or of the working directory.",
)


@click.command(context_settings=_takes_all)
@_state
@json_option
@_passes_on
def up(state: Path | None, as_json: bool, arguments: Sequence[str]) -> int:
    """Start the whole platform on this machine.

    Prints its addresses and keeps running; `crawlfleet down` stops it. The commands of this program
    and the SDK find it by themselves below the folder that holds its state. Further arguments go to
    `python -m infra.local up`: --port, --consumers, --scrapy, --extra, --foreground.
    """
    root = find_checkout("up")
    folder = state_folder(state, root)
    command = ["infra.local", "up", "--state", str(folder), *arguments]
    code = _run(root, command, quiet=as_json)
    if as_json and code == 0:
        emit(msgspec.json.decode((folder / "local.json").read_bytes()))
    return code


@click.command(context_settings=_takes_all)
@_state
@json_option
@_passes_on
def down(state: Path | None, as_json: bool, arguments: Sequence[str]) -> int:
    """Stop what `up` started; its data stays."""
    root = find_checkout("down")
    folder = state_folder(state, root)
    command = ["infra.local", "down", "--state", str(folder), *arguments]
    code = _run(root, command, quiet=as_json)
    if as_json and code == 0:
        emit({"running": False, "state": str(folder)})
    return code


@click.command(context_settings=_takes_all)
@click.option("--url", help="A site of yours to crawl; Python's own documentation without it.")
@click.option("--stream", is_flag=True, help="A stream that two subscribers share instead.")
@json_option
@_passes_on
def demo(url: str | None, stream: bool, as_json: bool, arguments: Sequence[str]) -> int:
    """Crawl a site from start to finish on this machine.

    Starts everything, submits 220 pages, crawls them, shows what came out and where the time went,
    and leaves nothing running. With --json the last line is a JSON object. Further arguments go to
    `python -m infra.local.demo`: --pages.
    """
    options = [
        *(["--url", url] if url else []),
        *(["--stream"] if stream else []),
        *(["--json"] if as_json else []),
    ]
    return _run(find_checkout("demo"), ["infra.local.demo", *options, *arguments])


def _run(root: Path, command: Sequence[str], *, quiet: bool = False) -> int:
    """Run a module of the checkout as if it had been typed there; its exit code.

    Ctrl-C reaches it by itself; a request to end is passed on. ``quiet`` turns its output to
    standard error.
    """
    paths = [str(root / _PACKAGE_ROOT), str(root), os.environ.get("PYTHONPATH", "")]
    with subprocess.Popen(  # noqa: S603  our own modules, started from our own checkout
        [sys.executable, "-m", *command],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=sys.stderr.fileno() if quiet else None,
    ) as child:

        def pass_on(number: int, _frame: Any) -> None:
            child.send_signal(number)

        before = {
            signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
            signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on),
        }
        try:
            code = child.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def state_folder(state: Path | None, root: Path) -> Path:
    """Return the state folder: the given one, the nearest there is, or a new one."""
    here = Path.cwd()
    if state is not None:
        return state.absolute()
    for folder in (here, *here.parents):
        if (folder / _STATE / "local.json").is_file():
            return folder / _STATE
    return (root if here.is_relative_to(root) else here) / _STATE


def find_checkout(command: str, starts: Sequence[Path] | None = None) -> Path:
    """Find the project's checkout: the working directory's, or the one that this package lies in.

    ``starts`` are other places to look from. Where there is none it is said where the ``command``
    is to be run.
    """
    for start in starts or (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            if (folder / "infra/local/__main__.py").is_file() and (
                folder / _PACKAGE_ROOT / "crawlfleet"
            ).is_dir():
                return folder
    note(
        "crawlfleet: the local cloud is part of the project's checkout, and there is none here.\n"
        f"In the folder that the project was cloned to, run `make {command}`.\n"
        "To use a Crawlfleet that runs elsewhere, set CRAWLFLEET_API_URL and CRAWLFLEET_API_KEY."
    )
    raise click.exceptions.Exit(Exit.NOT_FOUND)
