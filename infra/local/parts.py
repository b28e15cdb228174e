"""The base of every local part: a program, a free port, a guarded process, a bounded wait."""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Self

LOOPBACK: Final = "127.0.0.1"

#: How long a part may take until it answers, on a slow and busy machine.
START_SECONDS: Final = 60.0
#: How long a part may take to end by itself before it is killed.
GRACE_SECONDS: Final = 20.0
#: Pause between two looks at a part that is starting.
_LOOK_SECONDS: Final = 0.02
#: How much of a part's log an error quotes.
_LOG_TAIL_CHARACTERS: Final = 2_000

_GUARD: Final = Path(__file__).with_name("guard.py")


class PartError(RuntimeError):
    """A part of the local cloud is missing, did not start or did not stop; says what to do."""


def free_port() -> int:
    """Return a loopback TCP port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def port_is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        # As servers do: connections of the last one that are still winding down do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def packaged_program(package: str, path: str) -> Path | None:
    """Find an executable inside an installed package without importing that package.

    Also looks below ``servers`` of the environment, where `make` unpacks wheels that are built for
    another version of Python and carry a program that does not care.
    """
    roots = [Path(sys.prefix) / "servers" / package.replace(".", "/")]
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        found = None
    if found is not None and found.submodule_search_locations is not None:
        roots = [Path(root) for root in found.submodule_search_locations] + roots
    for root in roots:
        program = root / path
        if program.is_file():
            if not os.access(program, os.X_OK):
                program.chmod(program.stat().st_mode | 0o111)
            return program
    return None


def find_program(name: str, packaged: Sequence[tuple[str, str]], remedy: str) -> Path:
    """Find a server's program in packages, then on PATH; without one, refuse with the remedy."""
    for package, path in packaged:
        program = packaged_program(package, path)
        if program is not None:
            return program
    on_path = shutil.which(name)
    if on_path is None:
        message = f"there is no {name} on this machine. {remedy}"
        raise PartError(message)
    return Path(on_path)


def python_environment() -> dict[str, str]:
    """Environment of a Python child that imports what this process can import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


class GuardedProcess:
    """A server under `infra.local.guard`: it ends with its owner, however the owner ends."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path,
        environment: Mapping[str, str] | None = None,
        *,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        """Start ``command``; its output goes to ``log_path``."""
        self.name = name
        self._grace_seconds = grace_seconds
        self.log_path = log_path
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  our own guard
                [sys.executable, "-I", "-S", str(_GUARD), str(grace_seconds), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=None if environment is None else dict(environment),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id of the guard; ending it ends the server."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Return whether guard and server are there."""
        return self._process.poll() is None

    def wait_until(self, answers: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Wait until ``answers`` is true; a failed start ends in an error that quotes the log.

        Raises:
            PartError: the server ended, or the time is up.
        """
        deadline = time.monotonic() + seconds
        while not answers():
            if not self.is_running:
                message = f"{self.name} ended while starting (status {self._process.returncode})"
                raise PartError(message + self._quoted_log())
            if time.monotonic() > deadline:
                self.stop()
                message = f"{self.name} did not answer within {seconds:.0f} s"
                raise PartError(message + self._quoted_log())
            time.sleep(_LOOK_SECONDS)

    def ask_to_stop(self) -> None:
        """Tell the guard to end the server, without waiting."""
        pipe: IO[bytes] | None = self._process.stdin
        if pipe is not None and not pipe.closed:
            pipe.close()

    def stop(self) -> None:
        """End the server and wait for it; harmless when it is gone already."""
        self.ask_to_stop()
        try:
            self._process.wait(self._grace_seconds + 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """End the server as ``kill -9`` does, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)
        self._process.wait(self._grace_seconds)

    def _quoted_log(self) -> str:
        text = self.log_path.read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:]
        return f"; {self.log_path} ends with:\n{text}"

    def __enter__(self) -> Self:
        """Return the running process."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()
