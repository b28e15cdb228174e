"""LocalStack without Docker, by the scripts of a folder that somebody provides.

The folder has ``setup.sh``, which builds what is needed once, ``start.sh``, ``stop.sh``, and
``env.sh`` to be sourced. It is named by ``LOCALSTACK_TOOLS``.
"""

import fcntl
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from infra.fleet import PYTHON_VERSION
from infra.local.parts import LOOPBACK, free_port
from infra.localstack.commands import run
from infra.steps import StepError, wait_for

ENV_TOOLS: Final = "LOCALSTACK_TOOLS"

#: Built anew it takes about a minute on two idle cores; then nothing.
_SETUP_SECONDS: Final = 600.0
#: The journey of another run takes half of it.
_LOCK_SECONDS: Final = 600.0
_START_SECONDS: Final = 150.0
_STOP_SECONDS: Final = 60.0
_SCRIPTS: Final = ("setup.sh", "start.sh", "stop.sh", "env.sh")


def find_tools(environ: Mapping[str, str]) -> Path | None:
    """The folder that is named; None where none is.

    Raises:
        StepError: the folder that is named is not one.
    """
    named = environ.get(ENV_TOOLS)
    if not named:
        return None
    folder = Path(named)
    if all((folder / script).is_file() for script in _SCRIPTS):
        return folder.resolve()
    raise StepError(
        f"{ENV_TOOLS} is {named!r}, where there are not all of {', '.join(_SCRIPTS)}",
        f"Name the folder with these scripts, or unset {ENV_TOOLS} for Docker.",
    )


class Tools:
    """A LocalStack that the folder's scripts start and stop.

    Args:
        folder: The scripts.
        logs: Where they log.
        environ: What they are given.
        patience_seconds: How long another run may take to make room.
    """

    def __init__(
        self,
        folder: Path,
        logs: Path,
        environ: Mapping[str, str],
        patience_seconds: float = _LOCK_SECONDS,
    ) -> None:
        self._folder = folder
        self._patience = patience_seconds
        self._logs = logs
        self._environ = {
            **environ,
            "LS_PORT": str(free_port()),
            "LS_PYTHONS": PYTHON_VERSION,
            # Its namespaces are root's to make; without them functions see the machine's files.
            "LS_JAIL": environ.get("LS_JAIL", "1" if os.geteuid() == 0 else "0"),
        }
        self._started = False
        self._lock_file: IO[str] | None = None

    #: Where functions find what runs on this machine: they share its network.
    address = LOOPBACK
    #: Layers are what they are on AWS.
    folded = False

    def prepare(self) -> None:
        """Build what it needs, unless that stands already.

        Raises:
            StepError: it cannot be built.
        """
        self._run("setup.sh", _SETUP_SECONDS, "Mend what it says, and try again.")

    def start(self) -> None:
        """Start it, empty.

        Raises:
            StepError: it does not start, or one runs from the same folder already.
        """
        self._acquire_lock()
        if pid := self._running():
            raise StepError(
                f"a LocalStack of {self._home} runs already (process {pid})",
                f"If nobody uses it, `{self._folder / 'stop.sh'}`; or set LS_HOME to another"
                " folder, and a second one is built there.",
            )
        self._started = True
        self._run("start.sh", _START_SECONDS, f"Its own log is {self._home / 'log'}.")

    def stop(self) -> None:
        """Stop it and the functions that it runs; harmless when it was not started here."""
        if self._started:
            self._run("stop.sh", _STOP_SECONDS, f"End the process in {self._home / 'pid'}.")
            self._started = False
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def environment(self) -> dict[str, str]:
        """Return what ``env.sh`` makes of the environment: AWS's SDKs and CDK then find it."""
        answer = subprocess.run(  # noqa: S603  the folder's own script
            ["/bin/bash", "-c", '. "$1" && env -0', "bash", str(self._folder / "env.sh")],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=30,
        )
        pairs = answer.stdout.decode(errors="surrogateescape").split("\0")
        return dict(pair.split("=", 1) for pair in pairs if "=" in pair)

    @property
    def _home(self) -> Path:
        default = Path(self._environ.get("HOME", "/")) / ".cache" / "crawlfleet-localstack"
        return Path(self._environ.get("LS_HOME") or default)

    def _acquire_lock(self) -> None:
        """Wait until no other run of ours uses the same folder; the lock goes with its process."""
        self._home.mkdir(parents=True, exist_ok=True)
        lock_file = (self._home / "in-use.lock").open("w")

        def is_ours() -> bool:
            try:
                fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        try:
            wait_for(
                is_ours,
                self._patience,
                f"another run with {self._home} ends",
                "Try again, or set LS_HOME to another folder, and a second one is built there.",
            )
        except BaseException:
            lock_file.close()
            raise
        self._lock_file = lock_file

    def _running(self) -> int | None:
        try:
            pid = int((self._home / "pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if b"localstack" in command else None

    def _run(self, script: str, seconds: float, do: str) -> None:
        run(
            script,
            ["/bin/bash", str(self._folder / script)],
            self._logs / f"{script}.log",
            self._environ,
            self._logs,
            seconds=seconds,
            do=do,
        )
